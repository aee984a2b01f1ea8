/* How the library comes into use and leaves again: a thread of its own talks to ditrace, waits for
 * the end of the connection, and then undoes everything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"
#include "tracer/shim/shim.h"

enum { STACK = 1 << 20 }; /* also holds the thread-local data of all libraries */

static char socket_path[SHIM_PATH];
static bool entered; /* injected by way of a thread, not preloaded */
static int sock = -1;
/* The thread's stack is static: libc would cache, and so keep, one that it allocates. */
static _Alignas(4096) char stack[STACK];
static pthread_t thread;
static bool started;

static void enter_phase(enum shim_phase phase)
{
	ditrace_shim_state.since_ns = clock_ns(CLOCK_MONOTONIC);
	ditrace_shim_state.phase = phase;
}

/* The rings and the thread belong to the parent. */
static void in_child(void)
{
	struct shim_share *was = shim_share();
	activities_forked();
	shim_forked();
	if (was)
		munmap(was, sizeof(*was));
	if (sock >= 0)
		close(sock);
	sock = -1;
	inside_fork();
	started = false;
	ditrace_shim_state.go = 0;
	enter_phase(SHIM_OUT);
	shim_unlock();
}

static bool share_map(int memory)
{
	void *at = mmap(NULL, sizeof(struct shim_share), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, memory, 0);
	close(memory);
	if (at == MAP_FAILED)
		return false;
	madvise(at, sizeof(struct shim_share), MADV_DONTDUMP);
	shim_begin(at, sock);
	return true;
}

/* Whether there is one. Where the thread has nothing else to do (`waits`), ditrace may take any
 * time. */
static bool await_answer(bool waits)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	for (int ms = 0; !ditrace_shim_state.go; ms += SHIM_LOOK_MS) {
		if (poll(&p, 1, SHIM_LOOK_MS))
			return true;
		if (!waits && (ms >= SHIM_PATIENCE_S * 1000 || answer_is_stopped(sock)))
			break;
	}
	return false;
}

static int connect_to_ditrace(void *torch, bool waits)
{
	struct shim_hello hello = {.version = SHIM_VERSION,
				   .bytes = sizeof(struct shim_share),
				   .jumps = jump_memory(torch)};
	hello.nnear = jump_memory_near(hello.near);
	int memory = -1, r = -ECONNREFUSED;
	sock = answer_dial(socket_path);
	if (sock < 0)
		return -errno;
	answer_is_trusted(sock, &ditrace_shim_state.tracer);
	if (send(sock, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello)) {
		memory = await_answer(waits) ? answer_receive(sock) : -1;
	}
	if (memory >= 0)
		r = share_map(memory) ? 0 : -ENOMEM;
	if (r) {
		close(sock);
		sock = -1;
	}
	return r;
}

static void tidy(void)
{
	if (entered)
		answer_tidy(socket_path);
}

/* Within an op the memory is in use: leave it mapped. */
static void leave(bool within_op)
{
	struct shim_share *was = shim_share();
	enter_phase(SHIM_GOING);
	recorder_stop();
	activities_stop();
	jump_memory_hide();
	shim_end();
	if (!within_op)
		inside_await_nobody();
	ditrace_shim_state.share = NULL;
	const struct shim_counts counts = shim_count(was->lost, was->thread);
	ditrace_shim_state.hits += counts.hits;
	ditrace_shim_state.lost += counts.lost;
	if (!within_op)
		munmap(was, sizeof(*was));
	tidy();
	int fd = sock;
	sock = -1;
	ditrace_shim_state.go = 0;
	enter_phase(SHIM_OUT);
	close(fd); /* ditrace notices */
}

/* ditrace sends nothing more: readable means end of file. */
static void watch(void)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	while (!ditrace_shim_state.go) {
		if (poll(&p, 1, SHIM_LOOK_MS) > 0)
			break;
		recorder_look();
		activities_look();
		jump_memory_look();
	}
	leave(false);
}

static bool come_forked(void *torch)
{
	return shim_come(socket_path, torch);
}

static bool come(void *torch, bool waits)
{
	static bool watching;
	if (!watching)
		watching = !pthread_atfork(shim_lock, shim_unlock, in_child);
	int r = !watching || !inside_prepare(recorder_thread_ends) ? -ENOMEM
		: torch ? connect_to_ditrace(torch, waits)
			: -ENOENT;
	ditrace_shim_state.failed = -r;
	if (r) {
		tidy();
		ditrace_shim_state.go = 0;
		enter_phase(SHIM_OUT);
		return false;
	}
	jump_memory_show();
	ditrace_shim_state.came++;
	recorder_start(torch, come_forked);
	enter_phase(SHIM_IN);
	return true;
}

static void *watch_main(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, SHIM_THREAD);
	watch();
	return NULL;
}

static void *come_main(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, SHIM_THREAD);
	if (come(shim_find_torch(), true))
		watch();
	return NULL;
}

/* With all signals blocked: those of the program are for its own threads. Any earlier thread is
 * about to end. */
static int start_thread(void *(*fn)(void *))
{
	pthread_attr_t how;
	sigset_t all, was;
	sigfillset(&all);
	if (started)
		pthread_join(thread, NULL);
	pthread_attr_init(&how);
	pthread_attr_setstack(&how, stack, sizeof(stack));
	pthread_sigmask(SIG_SETMASK, &all, &was);
	int r = pthread_create(&thread, &how, fn, NULL);
	started = !r;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&how);
	return r;
}

static bool may_come(const char *path)
{
	int32_t out = SHIM_OUT;
	if (!path || strlen(path) >= sizeof(socket_path) ||
	    !atomic_compare_exchange_strong(&ditrace_shim_state.phase, &out, SHIM_COMING))
		return false;
	if (path != socket_path)
		strcpy(socket_path, path);
	return true;
}

bool shim_come(const char *path, void *torch)
{
	int saved = errno;
	bool in = may_come(path) && come(torch, false);
	if (in && start_thread(watch_main)) {
		leave(true);
		in = false;
	}
	errno = saved;
	return in;
}

/* SHIM_COME */
__attribute__((visibility("default"))) void ditrace_shim_come(const char *path);

void ditrace_shim_come(const char *path)
{
	int saved = errno;
	if (may_come(path)) {
		entered = true;
		int r = start_thread(come_main);
		ditrace_shim_state.failed = r;
		if (r)
			enter_phase(SHIM_OUT);
	}
	errno = saved;
}

/* Notices when the process loads libtorch: preloaded, this library precedes the C library in symbol
 * lookup, and each shared object calls __cxa_atexit for its static objects while it is initialised
 * (Itanium C++ ABI, 3.3.6.3). By then all that is needed is mapped and none of its ops has run. A
 * program without libtorch is not affected. */

typedef int atexit_fn(void (*f)(void *), void *arg, void *dso);

__attribute__((visibility("default"))) int __cxa_atexit(void (*f)(void *), void *arg, void *dso);

int __cxa_atexit(void (*f)(void *), void *arg, void *dso)
{
	static atexit_fn *libc;
	static bool found, looking;
	if (!libc)
		libc = (atexit_fn *)dlsym(RTLD_NEXT, "__cxa_atexit");
	int r = libc(f, arg, dso);
	if (found || looking || (!getenv(SHIM_SOCKET) && !getenv(MODES_SOCKET)))
		return r;
	looking = true; /* the loader may re-enter here */
	void *torch = shim_find_torch();
	looking = false;
	if (!torch)
		return r;
	found = true;
	if (getenv(SHIM_SOCKET))
		shim_come(getenv(SHIM_SOCKET), torch);
	modes_start(getenv(MODES_SOCKET));
	return r;
}
