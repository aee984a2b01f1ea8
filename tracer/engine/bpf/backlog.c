#define _GNU_SOURCE
#include "tracer/engine/bpf/internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

/* Beyond BLOCKS_MOST records stay in the ring: ditrace may share its memory limit with the target.
 */
enum { BLOCK_BYTES = 1 << 20, BLOCKS_MOST = 256, SPARE_MOST = 4, ALIGNMENT = 8, EVERY_MS = 10 };

struct block {
	struct block *next;
	size_t used;
	_Alignas(ALIGNMENT) uint8_t data[];
};

enum { ROOM = BLOCK_BYTES - sizeof(struct block) };

struct backlog {
	backlog_move_fn *move;
	void *arg;
	pthread_t thread;
	atomic_bool ending;
	atomic_uint_fast64_t lost;
	pthread_mutex_t lock; /* of all below, and held during `move` */
	struct block *first, *last;
	struct block *spare;
	unsigned blocks, spares; /* `blocks`: those not spare, also the ones being consumed */
};

static struct block *block_take(struct backlog *b)
{
	struct block *x = b->spare;
	if (x) {
		b->spare = x->next;
		b->spares--;
	} else {
		x = malloc(BLOCK_BYTES);
	}
	if (x)
		*x = (struct block){0};
	b->blocks += x ? 1 : 0;
	return x;
}

static void block_give(struct backlog *b, struct block *x)
{
	b->blocks--;
	if (b->spares >= SPARE_MOST) {
		free(x);
		return;
	}
	x->next = b->spare;
	b->spare = x;
	b->spares++;
}

/* The last block, if it has that much room, or a new one. NULL without memory. */
static struct block *block_with_room(struct backlog *b, size_t size)
{
	struct block *last = b->last;
	if (last && ROOM - last->used >= size)
		return last;
	struct block *x = block_take(b);
	if (!x)
		return NULL;
	*(last ? &last->next : &b->first) = x;
	b->last = x;
	return x;
}

static size_t aligned(size_t size)
{
	return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

void backlog_put(struct backlog *b, const void *record, size_t size)
{
	const struct hit *h = record;
	if (size < sizeof(*h) || h->size < sizeof(*h) || h->size > size)
		return;
	size_t n = aligned(h->size);
	struct block *x = n <= ROOM ? block_with_room(b, n) : NULL;
	if (!x) {
		b->lost++;
		return;
	}
	memcpy(x->data + x->used, h, h->size);
	x->used += n;
}

static int move(struct backlog *b)
{
	return b->blocks < BLOCKS_MOST ? b->move(b->arg) : 0;
}

static void *mover(void *arg)
{
	struct backlog *b = arg;
	thread_hurry(true);
	while (!b->ending) {
		poll(NULL, 0, EVERY_MS);
		pthread_mutex_lock(&b->lock);
		move(b);
		pthread_mutex_unlock(&b->lock);
	}
	return NULL;
}

/* The thread that consumes may have a lower priority than the one that moves. */
static int lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	int r = pthread_mutex_init(lock, &a);
	pthread_mutexattr_destroy(&a);
	return -r;
}

int backlog_open(backlog_move_fn *move_fn, void *arg, struct backlog **out)
{
	struct backlog *b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->move = move_fn;
	b->arg = arg;
	*out = b; /* before the thread calls move_fn */
	int r = lock_init(&b->lock);
	r = r ? r : thread_start(&b->thread, mover, b);
	if (r) {
		*out = NULL;
		free(b);
	}
	return r;
}

static int block_consume(const struct block *x, engine_hit_fn *fn, void *arg)
{
	int n = 0;
	for (size_t at = 0; at < x->used; n++) {
		const struct hit *h = (const struct hit *)(x->data + at);
		fn(h, arg);
		at += aligned(h->size);
	}
	return n;
}

int backlog_consume(struct backlog *b, engine_hit_fn *fn, void *arg)
{
	pthread_mutex_lock(&b->lock);
	int r = move(b), n = 0;
	struct block *x = b->first, *next;
	b->first = b->last = NULL;
	pthread_mutex_unlock(&b->lock);
	for (; x; x = next) {
		n += block_consume(x, fn, arg);
		next = x->next;
		pthread_mutex_lock(&b->lock);
		block_give(b, x);
		pthread_mutex_unlock(&b->lock);
	}
	return n || r >= 0 ? n : r;
}

uint64_t backlog_lost(const struct backlog *b)
{
	return b->lost;
}

static void blocks_free(struct block *x)
{
	while (x) {
		struct block *next = x->next;
		free(x);
		x = next;
	}
}

void backlog_close(struct backlog *b)
{
	if (!b)
		return;
	b->ending = true;
	pthread_join(b->thread, NULL);
	pthread_mutex_destroy(&b->lock);
	blocks_free(b->first);
	blocks_free(b->spare);
	free(b);
}
