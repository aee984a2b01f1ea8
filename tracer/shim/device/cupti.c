/* Records of CUPTI. The layouts are those of cupti_activity.h in CUDA 11.8, 12.1, 12.4, 12.8 and
 * 13.0, where what is read here is at the same offsets: newer structs only append. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "symbolizer/event/event.h"
#include "tracer/engine/engine.h"
#include "tracer/shim/device/internal.h"
#include "tracer/shim/shim.h"

enum { CUDA = 1 }; /* c10::DeviceType */

enum { BUFFER = 1 << 20, BUFFERS = 64 }; /* bytes; in CUPTI's hands at a time, at most */

/* CUpti_ActivityKind */
enum {
	KIND_MEMCPY = 1,
	KIND_MEMSET = 2,
	KIND_KERNEL = 3,
	KIND_DRIVER = 4,
	KIND_RUNTIME = 5,
	KIND_CONCURRENT_KERNEL = 10,
	KIND_MEMCPY_PEER = 22,
};

/* Calls that launch work, as ranges of CUPTI's numbers (cupti_runtime_cbid.h, cupti_driver_cbid.h
 * of CUDA 13.0; a number is never used again): cudaLaunchKernel..., cudaMemcpy..., cudaMemset...,
 * cudaGraphLaunch, and the same of the driver, which cuBLAS and Triton call. */
struct calls {
	uint16_t first, last;
};
static const struct calls runtime_calls[] = {
    {13, 13},	{31, 52},   {142, 145}, {160, 163}, {211, 236}, {243, 250},
    {269, 272}, {311, 312}, {430, 431}, {482, 485}, {509, 512},
};
static const struct calls driver_calls[] = {
    {43, 81},	{115, 117}, {216, 226}, {248, 254}, {276, 293}, {305, 307}, {318, 321},
    {397, 433}, {442, 442}, {477, 480}, {514, 515}, {652, 653}, {776, 779}, {796, 799},
};

static struct {
	int (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *),
				  void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
	int (*enable)(int kind), (*disable)(int kind);
	int (*flush)(uint32_t flags);
	int (*next)(uint8_t *buffer, size_t valid, uint8_t **record);
	int (*dropped)(void *context, uint32_t stream, size_t *n);
	int (*set_clock)(uint64_t (*)(void));
	int (*call_name)(int domain, uint32_t call, const char **name);
	/* From CUPTI 12.8 and 13.0 on; NULL: not there. */
	int (*driver_call)(uint32_t call, uint8_t enable), (*runtime_call)(uint32_t, uint8_t);
} cupti;

static _Atomic int outstanding;
static bool by_call; /* calls of the host are recorded one by one, not as a kind */

static uint64_t monotonic(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t realtime(void)
{
	return clock_ns(CLOCK_REALTIME);
}

/* Times of devices are converted by interpolation, and some of the first ones, of a device that was
 * at work when records began, are wrong by any amount (seen with CUPTI 13.0): what lies outside of
 * the time of recording. */
static uint64_t begun, now;

static bool is_timed(uint64_t start, uint64_t end)
{
	enum { LATE_NS = 1000 * 1000 };
	return start >= begun && end >= start && end <= now + LATE_NS;
}

static void take_ran(const struct shim_activity *a)
{
	if (is_timed(a->start_ns, a->end_ns))
		activities_take(a, NULL);
	else
		activities_lose(1);
}

/* Words of a record, which are aligned. */
static uint32_t word(const uint8_t *r, unsigned offset)
{
	return *(const uint32_t *)(r + offset);
}

static uint64_t wide(const uint8_t *r, unsigned offset)
{
	return *(const uint64_t *)(r + offset);
}

enum { NAMES = 1 << 14, PROBES = 64 }; /* a power of two */
static uintptr_t names[NAMES];

/* Send the name, which CUPTI keeps for the life of the process, when it is met for the first time;
 * also when there is no more room to remember that. */
static void tell_name(const char *name)
{
	const uintptr_t v = (uintptr_t)name;
	const struct shim_activity n = {.kind = RECORD_NAME, .name = v};
	uintptr_t *slot = NULL;
	for (size_t i = (v >> 4) * 0x9e3779b97f4a7c15 >> 50, k = 0; k < PROBES && !slot; k++) {
		uintptr_t *at = &names[(i + k) % NAMES];
		if (*at == v)
			return;
		slot = *at ? NULL : at;
	}
	if (activities_take(&n, name) && slot)
		*slot = v;
}

static void take_kernel(const uint8_t *r)
{
	const char *name = (const char *)(uintptr_t)wide(r, 104);
	struct shim_activity a = {
	    .kind = RECORD_RAN,
	    .activity = ACTIVITY_KERNEL,
	    .device_type = CUDA,
	    .device_index = (int8_t)word(r, 40),
	    .stream = word(r, 48),
	    .correlation = word(r, 92),
	    .in_graph = word(r, 156) != 0,
	    .start_ns = wide(r, 16),
	    .end_ns = wide(r, 24),
	    .name = (uintptr_t)name,
	};
	if (name)
		tell_name(name);
	take_ran(&a);
}

/* The kinds of memory are bytes 5 and 6 of CUpti_ActivityMemcpy and CUpti_ActivityMemcpyPtoP, and
 * the 16 bits at 50 of CUpti_ActivityMemset. */
static void take_copy(const uint8_t *r, bool is_set, unsigned correlation, unsigned graph)
{
	const struct shim_activity a = {
	    .kind = RECORD_RAN,
	    .activity = is_set ? ACTIVITY_SET : ACTIVITY_COPY,
	    .from = is_set ? 0 : r[5],
	    .to = is_set ? r[50] : r[6],
	    .device_type = CUDA,
	    .device_index = (int8_t)word(r, 32),
	    .stream = word(r, 40),
	    .correlation = word(r, correlation),
	    .in_graph = graph && word(r, graph),
	    .start_ns = wide(r, 16),
	    .end_ns = wide(r, 24),
	    .bytes = wide(r, 8),
	    .name = is_set ? 0 : r[4],
	};
	take_ran(&a);
}

static void take_call(const uint8_t *r)
{
	const struct shim_activity a = {
	    .kind = RECORD_LAUNCH,
	    .correlation = word(r, 32),
	    .thread = word(r, 28),
	    .start_ns = wide(r, 8),
	    .end_ns = wide(r, 16),
	};
	activities_take(&a, NULL);
}

static bool is_one_of(const struct calls *c, size_t n, uint32_t call)
{
	for (size_t i = 0; i < n; i++)
		if (call >= c[i].first && call <= c[i].last)
			return true;
	return false;
}

#define IS_ONE_OF(list, call) is_one_of(list, sizeof(list) / sizeof((list)[0]), call)

static void take_record(const uint8_t *r)
{
	switch (word(r, 0)) {
	case KIND_KERNEL:
	case KIND_CONCURRENT_KERNEL:
		take_kernel(r);
		break;
	case KIND_MEMCPY:
		take_copy(r, false, 44, 72);
		break;
	case KIND_MEMCPY_PEER:
		take_copy(r, false, 60, 0);
		break;
	case KIND_MEMSET:
		take_copy(r, true, 44, 72);
		break;
	case KIND_RUNTIME:
		if (IS_ONE_OF(runtime_calls, word(r, 4)))
			take_call(r);
		break;
	case KIND_DRIVER:
		if (IS_ONE_OF(driver_calls, word(r, 4)))
			take_call(r);
		break;
	default:
		break;
	}
}

/* NULL: what would go there is lost. In a child of a fork, nobody would ever read it. */
static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	bool may = activities_are_on() && outstanding < BUFFERS;
	*buffer = may ? aligned_alloc(8, BUFFER) : NULL;
	*size = *buffer ? BUFFER : 0;
	*records = 0;
	outstanding += *buffer != NULL;
}

static pthread_mutex_t completing = PTHREAD_MUTEX_INITIALIZER;

/* Called by a thread of CUPTI's, or within cuptiActivityFlushAll; in the child of a fork the mutex
 * may be locked for ever. */
static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint8_t *record = NULL;
	size_t dropped = 0;
	(void)size;
	if (!buffer)
		return;
	if (activities_are_on()) {
		pthread_mutex_lock(&completing);
		now = monotonic();
		while (valid && !cupti.next(buffer, valid, &record))
			take_record(record);
		if (!cupti.dropped(context, stream, &dropped) && dropped)
			activities_lose(dropped);
		pthread_mutex_unlock(&completing);
	}
	free(buffer);
	outstanding--;
}

static int is_cupti(struct dl_phdr_info *i, size_t size, void *out)
{
	static const char prefix[] = "libcupti.so";
	(void)size;
	const char *slash = strrchr(i->dlpi_name, '/'), *name = slash ? slash + 1 : i->dlpi_name;
	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return 0;
	*(const char **)out = i->dlpi_name;
	return 1;
}

static bool find_functions(void)
{
	const char *path = NULL;
	dl_iterate_phdr(is_cupti, &path);
	void *h = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!h)
		return false;
#define FIND(member, symbol) *(void **)&cupti.member = dlsym(h, symbol)
	FIND(register_callbacks, "cuptiActivityRegisterCallbacks");
	FIND(enable, "cuptiActivityEnable");
	FIND(disable, "cuptiActivityDisable");
	FIND(flush, "cuptiActivityFlushAll");
	FIND(next, "cuptiActivityGetNextRecord");
	FIND(dropped, "cuptiActivityGetNumDroppedRecords");
	FIND(set_clock, "cuptiActivityRegisterTimestampCallback");
	FIND(call_name, "cuptiGetCallbackName");
	FIND(driver_call, "cuptiActivityEnableDriverApi");
	FIND(runtime_call, "cuptiActivityEnableRuntimeApi");
	return cupti.register_callbacks && cupti.enable && cupti.disable && cupti.flush &&
	       cupti.next && cupti.dropped && cupti.set_clock && cupti.call_name;
}

/* Whether there is CUDA's driver, whether it has been initialised, and has a context, which PyTorch
 * makes with its first use of the device. cuDevicePrimaryCtxGetState (CUDA driver API) initialises
 * nothing: it returns CUDA_ERROR_NOT_INITIALIZED before cuInit. */
static bool look_at_cuda(bool *initialised, bool *used)
{
	enum { DEVICES = 64 };
	void *h = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int (*state)(int device, unsigned *flags, int *active) = NULL;
	*initialised = *used = false;
	if (!h)
		return false;
	*(void **)&state = dlsym(h, "cuDevicePrimaryCtxGetState");
	for (int d = 0; state && d < DEVICES && !*used; d++) {
		unsigned flags;
		int active = 0;
		if (state(d, &flags, &active))
			break;
		*initialised = true;
		*used = active;
	}
	dlclose(h);
	return true;
}

enum cupti_found cupti_find(void)
{
	static bool has;
	bool initialised, used;
	if (!look_at_cuda(&initialised, &used))
		return CUPTI_NONE;
	has = has || find_functions();
	if (!has)
		return used ? CUPTI_ABSENT : CUPTI_NONE;
	return initialised ? CUPTI_LATE : CUPTI_EARLY;
}

enum { DOMAIN_DRIVER = 1, DOMAIN_RUNTIME = 2 }; /* CUpti_CallbackDomain */

/* Only numbers that this CUPTI has: it need not check them. */
static void set_calls(int domain, int (*set)(uint32_t, uint8_t), const struct calls *c, size_t n,
		      bool on)
{
	const char *name;
	for (size_t i = 0; i < n && set; i++)
		for (uint32_t call = c[i].first; call <= c[i].last; call++)
			if (!cupti.call_name(domain, call, &name))
				set(call, on);
}

#define SET_CALLS(domain, set, list, on)                                                           \
	set_calls(domain, set, list, sizeof(list) / sizeof((list)[0]), on)

static const int kinds[] = {KIND_CONCURRENT_KERNEL, KIND_MEMCPY, KIND_MEMSET, KIND_MEMCPY_PEER};

enum { NKINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const int call_kinds[] = {KIND_RUNTIME, KIND_DRIVER};

enum { NCALL_KINDS = sizeof(call_kinds) / sizeof(call_kinds[0]) };

/* Calls can be recorded one by one only if that is said before CUDA is initialised (CUPTI 13.0:
 * later there are none). So all those of a process in which CUDA is in use are, as torch.profiler
 * does it. */
static int start_calls(bool early)
{
	int r = 0;
	by_call = early && cupti.runtime_call;
	for (int i = 0; i < NCALL_KINDS && !by_call && !r; i++)
		r = cupti.enable(call_kinds[i]);
	if (!by_call)
		return r;
	SET_CALLS(DOMAIN_RUNTIME, cupti.runtime_call, runtime_calls, true);
	SET_CALLS(DOMAIN_DRIVER, cupti.driver_call, driver_calls, true);
	return 0;
}

static void stop_calls(void)
{
	for (int i = 0; i < NCALL_KINDS && !by_call; i++)
		cupti.disable(call_kinds[i]);
	if (!by_call)
		return;
	SET_CALLS(DOMAIN_RUNTIME, cupti.runtime_call, runtime_calls, false);
	SET_CALLS(DOMAIN_DRIVER, cupti.driver_call, driver_calls, false);
}

int cupti_start(bool early)
{
	memset(names, 0, sizeof(names));
	begun = monotonic();
	int r = cupti.set_clock(monotonic);
	r = r ? r : cupti.register_callbacks(request, complete);
	/* Calls first: the program launches meanwhile, and the op of what ran is that of its call.
	 */
	r = r ? r : start_calls(early);
	for (int i = 0; i < NKINDS && !r; i++)
		r = cupti.enable(kinds[i]);
	if (r)
		cupti_stop();
	return r;
}

void cupti_flush(bool all)
{
	enum { FORCED = 1 }; /* CUPTI_ACTIVITY_FLAG_FLUSH_FORCED */
	cupti.flush(all ? FORCED : 0);
}

void cupti_stop(void)
{
	for (int i = 0; i < NKINDS; i++)
		cupti.disable(kinds[i]);
	stop_calls();
	cupti_flush(true);
	cupti.set_clock(realtime);
}
