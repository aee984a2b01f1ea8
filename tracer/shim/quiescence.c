/* Which threads are at work in the library: its resources are freed once there is none. A thread
 * marks that in a slot of its own, without lock or fence; whoever waits for all of them uses
 * membarrier(2) (Linux 4.14) to make his earlier writes visible to each. */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/shim/shim.h"

enum { PLACES = 1024 };

static struct shim_place places[PLACES];
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool keyed;
static void (*own_ends)(void *memory);
__thread struct shim_place *shim_place;

static void give_back(void *own)
{
	if (own)
		munmap(own, *(size_t *)own);
}

static void thread_ends(void *arg)
{
	struct shim_place *p = arg;
	p->depth++;
	atomic_signal_fence(memory_order_seq_cst);
	if (shim_share() && p->own)
		own_ends((char *)p->own + SHIM_OWN_HEAD);
	give_back(atomic_exchange(&p->own, NULL));
	shim_place = NULL;
	atomic_store(&p->depth, 0);
	atomic_store(&p->taken, 0);
}

static void make_key(void)
{
	keyed = !pthread_key_create(&key, thread_ends);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

bool inside_prepare(void (*ends)(void *memory))
{
	own_ends = ends;
	pthread_once(&once, make_key);
	return keyed;
}

struct shim_place *inside_claim(void)
{
	for (unsigned i = 0; i < PLACES; i++) {
		uint32_t none = 0;
		if (!atomic_compare_exchange_strong(&places[i].taken, &none, 1))
			continue;
		shim_place = &places[i];
		pthread_setspecific(key, shim_place);
		return shim_place;
	}
	return NULL;
}

void *inside_memory(size_t size)
{
	size_t all = size + SHIM_OWN_HEAD;
	if (!shim_place->own) {
		size_t *own =
		    mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (own == MAP_FAILED)
			return NULL;
		*own = all;
		shim_place->own = own;
	}
	return (char *)shim_place->own + SHIM_OWN_HEAD;
}

void inside_await_nobody(void)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	nanosleep(&pause, NULL);
	for (unsigned i = 0; i < PLACES; i++)
		while (places[i].depth)
			nanosleep(&pause, NULL);
	for (unsigned i = 0; i < PLACES; i++)
		give_back(atomic_exchange(&places[i].own, NULL));
}

/* In the child the other threads are gone, but their memory is there. */
void inside_fork(void)
{
	for (unsigned i = 0; i < PLACES; i++) {
		struct shim_place *p = &places[i];
		if (!p->taken || p == shim_place)
			continue;
		give_back(p->own);
		p->own = NULL;
		p->depth = 0;
		p->taken = 0;
	}
}
