/* How the library comes into use and leaves again: a thread of its own talks to ditrace, waits for
 * the end of the connection, and then undoes everything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracer/shim/shim.h"

enum { STACK = 1 << 20 }; /* also holds the thread-local data of all libraries */

/* SHIM_STATE */
struct shim_state ditrace_shim_state = {.version = SHIM_VERSION};

static struct shim_share *_Atomic share;
static _Atomic bool forked;
static _Atomic unsigned epoch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char socket_path[SHIM_PATH];
static bool entered; /* injected by way of a thread, not preloaded */
static int sock = -1;
/* The thread's stack is static: libc would cache, and so keep, one that it allocates. */
static _Alignas(4096) char stack[STACK];
static pthread_t thread;
static bool started;

struct shim_share *shim_share(void)
{
	return share;
}

bool shim_take_forked(void)
{
	return forked && atomic_exchange(&forked, false);
}

unsigned shim_epoch(void)
{
	return epoch;
}

void shim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void shim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* If the socket's buffer is full, ditrace has wake-ups to read already. */
void shim_wake(void)
{
	send(sock, &(const char){SHIM_WAKE}, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void shim_go(void)
{
	ditrace_shim_state.go = 1;
}

static int is_torch(struct dl_phdr_info *i, size_t size, void *out)
{
	(void)size;
	const char *slash = strrchr(i->dlpi_name, '/'), *name = slash ? slash + 1 : i->dlpi_name;
	if (strncmp(name, "libtorch_cpu.so", strlen("libtorch_cpu.so")))
		return 0;
	*(const char **)out = i->dlpi_name;
	return 1;
}

void *shim_find_torch(void)
{
	const char *path = NULL;
	dl_iterate_phdr(is_torch, &path);
	return path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static void enter_phase(enum shim_phase phase)
{
	ditrace_shim_state.since_ns = clock_ns(CLOCK_MONOTONIC);
	ditrace_shim_state.phase = phase;
}

/* The rings and the thread belong to the parent. */
static void in_child(void)
{
	struct shim_share *was = share;
	share = NULL;
	ditrace_shim_state.share = NULL;
	epoch++;
	forked = true;
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
	ditrace_shim_state.share = at;
	epoch++;
	share = at;
	return true;
}

/* This thread has nothing else to do, so ditrace may take any time. */
static void await_answer(void)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	while (!ditrace_shim_state.go && !poll(&p, 1, SHIM_LOOK_MS))
		;
}

static int connect_to_ditrace(bool waits)
{
	const struct shim_hello hello = {.version = SHIM_VERSION,
					 .bytes = sizeof(struct shim_share)};
	struct ucred who = {0};
	socklen_t len = sizeof(who);
	int memory = -1, r = -ECONNREFUSED;
	sock = answer_dial(socket_path);
	if (sock < 0)
		return -errno;
	getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len);
	ditrace_shim_state.tracer = who.pid;
	if ((!who.uid || who.uid == geteuid()) &&
	    send(sock, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello)) {
		if (waits)
			await_answer();
		memory = ditrace_shim_state.go ? -1 : answer_receive(sock);
	}
	if (memory >= 0)
		r = share_map(memory) ? 0 : -ENOMEM;
	if (r) {
		close(sock);
		sock = -1;
	}
	return r;
}

/* Remove a socket that a killed ditrace left behind. */
static void tidy(void)
{
	int fd = entered ? answer_dial(socket_path) : -1;
	char *slash = strrchr(socket_path, '/');
	if (fd >= 0)
		close(fd);
	else if (entered && errno == ECONNREFUSED && slash && !unlink(socket_path)) {
		*slash = '\0';
		rmdir(socket_path);
	}
}

/* Within an op the memory is in use: leave it mapped. */
static void leave(bool within_op)
{
	struct shim_share *was = share;
	enter_phase(SHIM_GOING);
	recorder_stop();
	share = NULL;
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
	while (!ditrace_shim_state.go)
		if (poll(&p, 1, SHIM_LOOK_MS) > 0)
			break;
	leave(false);
}

static bool come(void *torch, bool waits)
{
	static bool watching;
	if (!watching)
		watching = !pthread_atfork(shim_lock, shim_unlock, in_child);
	int r = !watching || !inside_prepare() ? -ENOMEM
		: torch			       ? connect_to_ditrace(waits)
					       : -ENOENT;
	ditrace_shim_state.failed = -r;
	if (r) {
		tidy();
		ditrace_shim_state.go = 0;
		enter_phase(SHIM_OUT);
		return false;
	}
	ditrace_shim_state.came++;
	recorder_start(torch);
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

bool shim_come_forked(void *torch)
{
	return shim_come(socket_path, torch);
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
