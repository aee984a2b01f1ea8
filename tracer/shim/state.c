/* What all parts of the library know: whether it is in use, and the memory shared with ditrace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "tracer/shim/shim.h"

/* SHIM_STATE */
struct shim_state ditrace_shim_state = {.version = SHIM_VERSION};

static struct shim_share *_Atomic share;
static _Atomic bool forked;
static _Atomic unsigned epoch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wake_sock = -1;

struct shim_share *shim_share(void)
{
	return share;
}

void shim_begin(struct shim_share *s, int sock)
{
	ditrace_shim_state.share = s;
	wake_sock = sock;
	epoch++;
	share = s;
}

void shim_end(void)
{
	share = NULL;
}

void shim_forked(void)
{
	share = NULL;
	ditrace_shim_state.share = NULL;
	wake_sock = -1;
	epoch++;
	forked = true;
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
	send(wake_sock, &(const char){SHIM_WAKE}, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool shim_is_stopped(void)
{
	return answer_is_stopped(wake_sock);
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
