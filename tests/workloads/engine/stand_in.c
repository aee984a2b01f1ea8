/* Stands in for CUPTI (libcupti.so.13) and CUDA's driver (with -DDRIVER: libcuda.so.1), with what
 * ditrace calls of them and with launches to order, so that it can be tested without a device.
 * Layouts and numbers: cupti_activity.h, cupti_runtime_cbid.h of CUDA 13.0. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef DRIVER

static int used;

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	*flags = 0;
	*active = used;
	return !used ? 3 /* CUDA_ERROR_NOT_INITIALIZED */ : device ? 101 : 0;
}

void stand_in_use(void);
void stand_in_use(void)
{
	used = 1;
}

#else

enum { KINDS = 64, CALLS = 500, GET_DEVICE = 17, MEMCPY_ASYNC = 41, LAUNCH = 211, GRAPH = 311 };
enum { RUNTIME = 5, DRIVER_CALLS = 4, CONTEXT = 304, DRIVER_LAUNCH = 307 };

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*now)(void);
static bool kind_on[KINDS], call_on[2][CALLS], initialised;
static uint8_t *buffer;
static size_t size, used;
static uint32_t correlation, dropped;
static int blind; /* how often kernels were recorded and their launches not */

/* Held while records are made or handed over, as CUPTI may be flushed by any thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void send_all(void)
{
	if (buffer)
		complete(NULL, 0, buffer, size, used);
	buffer = NULL;
	used = 0;
}

/* Room for a record of so many bytes; NULL: it is dropped. */
static uint8_t *record(uint32_t kind, size_t n)
{
	size_t most;
	if (buffer && used + n > size)
		send_all();
	if (!buffer)
		request(&buffer, &size, &most);
	if (!buffer) {
		dropped++;
		return NULL;
	}
	uint8_t *r = buffer + used;
	used += n;
	memset(r, 0, n);
	memcpy(r, &kind, 4);
	memcpy(r + n - 8, &n, sizeof(n)); /* for cuptiActivityGetNextRecord */
	return r;
}

static void put(uint8_t *r, size_t at, uint64_t v, size_t n)
{
	memcpy(r + at, &v, n);
}

int cuptiActivityRegisterCallbacks(void (*r)(uint8_t **, size_t *, size_t *),
				   void (*c)(void *, uint32_t, uint8_t *, size_t, size_t))
{
	request = r;
	complete = c;
	return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*fn)(void))
{
	now = fn;
	return 0;
}

static int set(int kind, bool on)
{
	if (kind < 0 || kind >= KINDS)
		return 1;
	kind_on[kind] = on;
	if (kind == RUNTIME || kind == DRIVER_CALLS)
		memset(call_on[kind == RUNTIME], on, sizeof(call_on[0]));
	blind += kind_on[10] && !call_on[1][LAUNCH];
	return 0;
}

int cuptiActivityEnable(int kind)
{
	return set(kind, true);
}

int cuptiActivityDisable(int kind)
{
	return set(kind, false);
}

/* Once CUDA is initialised, calls can only be taken out. */
static int set_call(bool runtime, uint32_t call, uint8_t on)
{
	if (call >= CALLS)
		abort();
	if (!on || !initialised)
		call_on[runtime][call] = on;
	return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on)
{
	return set_call(true, call, on);
}

int cuptiActivityEnableDriverApi(uint32_t call, uint8_t on)
{
	return set_call(false, call, on);
}

int cuptiGetCallbackName(int domain, uint32_t call, const char **name)
{
	*name = "";
	return domain < 1 || domain > 2 || !call || call >= CALLS;
}

int cuptiActivityFlushAll(uint32_t flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	send_all();
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, uint8_t **r)
{
	uint8_t *at = b;
	if (*r) {
		uint32_t kind;
		memcpy(&kind, *r, 4);
		at = *r + (kind == 10 ? 216 : kind == 1 ? 96 : 48);
	}
	if (at >= b + valid)
		return 1;
	*r = at;
	return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
	(void)context, (void)stream;
	*n = dropped;
	dropped = 0;
	return 0;
}

static void call(uint32_t kind, uint32_t number, uint64_t start, uint64_t end)
{
	uint8_t *r = call_on[kind == RUNTIME][number] ? record(kind, 48) : NULL;
	if (!r)
		return;
	put(r, 4, number, 4);
	put(r, 8, start, 8);
	put(r, 16, end, 8);
	put(r, 28, (uint32_t)(uintptr_t)__builtin_thread_pointer(), 4);
	put(r, 32, correlation, 4);
}

static void kernel(const char *name, uint64_t start, uint64_t ns, uint32_t stream, bool graph)
{
	uint8_t *r = kind_on[10] ? record(10, 216) : NULL;
	if (!r)
		return;
	put(r, 16, start, 8);
	put(r, 24, start + ns, 8);
	put(r, 48, stream, 4);
	put(r, 92, correlation, 4);
	put(r, 104, (uintptr_t)name, 8);
	put(r, 156, graph, 4);
}

/* A call and that of a launch, of calls of that kind. */
static void launch(uint32_t kind, uint32_t before, uint32_t number, const char *name,
		   uint64_t delay, uint64_t ns, uint32_t stream)
{
	if (!now)
		return;
	pthread_mutex_lock(&lock);
	uint64_t start = now();
	correlation++;
	call(kind, before, start, start);
	correlation++;
	uint64_t end = now();
	kernel(name, end + delay, ns, stream, false);
	call(kind, number, start, end);
	pthread_mutex_unlock(&lock);
}

/* A kernel of `ns`, which the device begins `delay` after the launch. */
void stand_in_launch(const char *name, uint64_t delay, uint64_t ns, uint32_t stream)
{
	launch(RUNTIME, GET_DEVICE, LAUNCH, name, delay, ns, stream);
}

/* The same through the driver, as cuBLAS does it. */
void stand_in_launch_driver(const char *name, uint64_t delay, uint64_t ns, uint32_t stream)
{
	launch(DRIVER_CALLS, CONTEXT, DRIVER_LAUNCH, name, delay, ns, stream);
}

/* A kernel of which CUPTI says that it began long ago. */
void stand_in_wrong(const char *name)
{
	if (!now)
		return;
	pthread_mutex_lock(&lock);
	correlation++;
	kernel(name, now() - 30000000000, 1000, 7, false);
	call(RUNTIME, LAUNCH, now(), now());
	pthread_mutex_unlock(&lock);
}

/* `n` kernels, each of `ns`, launched at once. */
void stand_in_graph(const char *name, unsigned n, uint64_t ns, uint32_t stream)
{
	if (!now)
		return;
	pthread_mutex_lock(&lock);
	uint64_t start = now();
	correlation++;
	call(RUNTIME, GRAPH, start, now());
	for (unsigned i = 0; i < n; i++)
		kernel(name, start + 1000 + i * ns, ns, stream, true);
	pthread_mutex_unlock(&lock);
}

/* A copy from pageable memory to the device. */
static void copy(uint64_t bytes, uint64_t ns, uint32_t stream)
{
	uint64_t start = now();
	correlation++;
	call(RUNTIME, MEMCPY_ASYNC, start, now());
	uint8_t *r = kind_on[1] ? record(1, 96) : NULL;
	if (!r)
		return;
	r[4] = 1;
	r[5] = 1;
	r[6] = 3;
	put(r, 8, bytes, 8);
	put(r, 16, start + 500, 8);
	put(r, 24, start + 500 + ns, 8);
	put(r, 40, stream, 4);
	put(r, 44, correlation, 4);
}

void stand_in_copy(uint64_t bytes, uint64_t ns, uint32_t stream)
{
	if (!now)
		return;
	pthread_mutex_lock(&lock);
	copy(bytes, ns, stream);
	pthread_mutex_unlock(&lock);
}

/* From now on as after cuInit. */
void stand_in_initialise(void)
{
	initialised = true;
}

/* Whether all is on that a test launches. */
int stand_in_is_on(void)
{
	return kind_on[10] && kind_on[1] && call_on[1][LAUNCH] && call_on[0][DRIVER_LAUNCH];
}

int stand_in_blind(void)
{
	return blind;
}

/* How many kinds of records are on: none, once nobody wants any. */
int stand_in_kinds(void)
{
	int n = 0;
	for (int i = 0; i < KINDS; i++)
		n += kind_on[i];
	for (int i = 0; i < CALLS; i++)
		n += call_on[0][i] + call_on[1][i];
	return n;
}

#endif
