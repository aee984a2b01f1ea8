#define _GNU_SOURCE
#include "tracer/shim/record/internal.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/shim/shim.h"

enum { NO_CONF = 1 /* odd: never a finished one */ };

static __thread unsigned refused; /* epoch in which there was no free ring; 0: never */

static void *thread_place(void *arg)
{
	struct recorder_thread *t = arg;
	return chunks_room(&thread_slot(t)->records, &t->ring, t->share->ring[t->index],
			   HIT_BUF_MAX + HIT_BUF_SLACK);
}

static int thread_sink(void *arg, const struct hit *h)
{
	struct recorder_thread *t = arg;
	if ((const uint8_t *)h == t->out.own) {
		thread_count(&thread_slot(t)->lost, 1);
		return -1;
	}
	if (h->flags & HIT_STOPPED) {
		_Atomic uint32_t *stand = &thread_slot(t)->stand;
		uint32_t next = shim_stand_word(shim_stand_number(*stand) + 1, SHIM_STANDS);
		((struct hit *)h)->stop = shim_stand_number(next);
		atomic_store(stand, next);
	}
	chunks_done(&thread_slot(t)->records, h);
	return 0;
}

void recorder_thread_ends(void *memory)
{
	struct recorder_thread *t = memory;
	if (t->epoch == shim_epoch() && shim_share() == t->share)
		atomic_store(&t->share->thread[t->index].ended, 1);
}

static bool claim(struct recorder_thread *t, struct shim_share *s)
{
	int32_t tid = (int32_t)syscall(SYS_gettid);
	for (unsigned i = 0; i < SHIM_THREADS; i++) {
		int32_t none = 0;
		if (!atomic_compare_exchange_strong(&s->thread[i].tid, &none, tid))
			continue;
		t->share = s;
		t->index = i;
		t->epoch = shim_epoch();
		chunks_begin(&s->thread[i].records, &t->ring);
		t->conf_seq = NO_CONF;
		memset(&t->ops, 0, sizeof(t->ops));
		t->ops.tid = (uint32_t)tid;
		return true;
	}
	return false;
}

struct recorder_thread *thread_here(struct shim_share *s)
{
	struct recorder_thread *t = inside_memory_had();
	unsigned epoch = shim_epoch();
	if (t && t->share == s && t->epoch == epoch)
		return t;
	if (refused == epoch) {
		atomic_fetch_add_explicit(&s->lost, 1, memory_order_relaxed);
		return NULL;
	}
	t = inside_memory(sizeof(*t));
	if (!t)
		return NULL;
	t->out.place = thread_place;
	t->out.sink = thread_sink;
	t->out.arg = t;
	if (claim(t, s))
		return t;
	refused = epoch;
	return NULL;
}

bool thread_update(struct recorder_thread *t)
{
	struct shim_share *s = t->share;
	struct proc_conf conf;
	uint32_t seq = atomic_load_explicit(&s->conf_seq, memory_order_acquire);
	if (seq == t->conf_seq || seq & 1)
		return t->conf_seq != NO_CONF;
	memcpy(&conf, &s->conf, sizeof(conf));
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&s->conf_seq, memory_order_relaxed) == seq) {
		t->conf = conf;
		t->conf_seq = seq;
	}
	return t->conf_seq != NO_CONF;
}
