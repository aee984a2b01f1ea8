/* What ditrace and the process that traces for it share: records, sums, news. */
#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tracer/proc/spawn.h"

int share_put(struct share *s, const struct hit *h)
{
	return ring_put(&s->records, s->ring, s->ring_bytes, h);
}

unsigned share_fill(const struct share *s)
{
	return (unsigned)((s->records.head - s->records.tail) * 16 / s->ring_bytes);
}

struct share_sums *share_take_sums(struct share *s, uint16_t proc)
{
	for (uint32_t i = 0; i < SHARE_SUMS; i++) {
		struct share_sums *x = &s->sums[i];
		if (atomic_load_explicit(&x->taken, memory_order_acquire))
			continue;
		x->taken = true;
		x->proc = proc;
		if (i >= s->nsums)
			s->nsums = i + 1;
		return x;
	}
	return NULL;
}

const struct hit *share_next(struct share *s)
{
	return ring_next(&s->records, s->ring, s->ring_bytes, NULL);
}

void share_drop(struct share *s, const struct hit *h)
{
	ring_drop(&s->records, h);
}

struct sums_call {
	engine_hit_fn *fn;
	void *arg;
	int n;
};

static void give(struct hit *h, void *arg)
{
	struct sums_call *to = arg;
	to->n++;
	to->fn(h, to->arg);
}

int share_read_sums(struct share *s, struct share_reader *r, unsigned which, engine_hit_fn *fn,
		    void *arg)
{
	struct sums_call to = {.fn = fn, .arg = arg};
	for (uint32_t i = 0; i < s->nsums; i++) {
		struct share_sums *x = &s->sums[i];
		const bool ended = atomic_load_explicit(&x->ended, memory_order_acquire);
		if (sums_changed(&x->sums) && !r->of[i])
			r->of[i] = calloc(1, sizeof(*r->of[i]));
		if (sums_changed(&x->sums) && r->of[i])
			sums_read(&x->sums, r->of[i], x->proc, which, give, &to);
		if (!ended || sums_changed(&x->sums))
			continue;
		free(r->of[i]);
		r->of[i] = NULL;
		x->ended = false;
		atomic_store_explicit(&x->taken, false, memory_order_release);
	}
	return to.n;
}

void share_reader_free(struct share_reader *r)
{
	for (unsigned i = 0; i < SHARE_SUMS; i++)
		free(r->of[i]);
}

bool share_tell(struct share *s, const struct news *n)
{
	uint32_t head = atomic_load_explicit(&s->news_head, memory_order_relaxed);
	if (head - atomic_load_explicit(&s->news_tail, memory_order_acquire) >= SHARE_NEWS)
		return false;
	s->news[head % SHARE_NEWS] = *n;
	atomic_store_explicit(&s->news_head, head + 1, memory_order_release);
	return true;
}

void share_wake(struct share *s)
{
	eventfd_write(s->wake, 1);
}

/* "/proc/PID/mem" without stdio, which is not async-signal-safe. */
static void mem_path(char *out, int32_t pid)
{
	char digits[12];
	int n = 0;
	memcpy(out, "/proc/", 6);
	out += 6;
	do
		digits[n++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (n)
		*out++ = digits[--n];
	memcpy(out, "/mem", 5);
}

void share_repair(struct share *s)
{
	char path[32];
	int32_t pid = 0;
	int fd = -1;
	uint32_t n = atomic_load(&s->nbytes);
	for (uint32_t i = 0; i < n && i < SHARE_BYTES; i++) {
		const struct changed_byte *b = &s->bytes[i];
		if (!b->in_use)
			continue;
		if (b->pid != pid) {
			if (fd >= 0)
				close(fd);
			pid = b->pid;
			mem_path(path, pid);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		if (fd >= 0 && pwrite(fd, &b->was, 1, (off_t)b->addr) != 1) {
			close(fd);
			fd = -1;
		}
	}
	if (fd >= 0)
		close(fd);
}

/* It does not depend on ditrace: both may be killed. Nothing is sent on the socket, whose other end
 * is the tracing process's alone. */
static void keep_share(struct share *share, int sock)
{
	char none;
	helper_begin("ditrace-keeper", sock);
	helper_receive(sock, &none, sizeof(none));
	share_repair(share);
}

pid_t keeper_start(struct share *share, int sock, const int *others, unsigned n)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (unsigned i = 0; i < n; i++)
		close(others[i]);
	keep_share(share, sock);
	_exit(0);
}

/* Where the tracing process puts the records of hits: into the ring or, where that is full, calls
 * into sums. */

/* From such sixteenths of the ring on records are lean, and calls that begin are summed up: the
 * rest is for the ends of those that were recorded. In the last one freed code is only told of. */
enum { TIGHT = 12, FULL = 14, LAST = 15 };

static void *place(void *arg)
{
	struct tracer *t = arg;
	struct share *s = t->share;
	const unsigned fill = share_fill(s);
	t->out.tight = fill >= TIGHT;
	if (t->out.sums && fill >= FULL)
		return NULL;
	return ring_room(&s->records, s->ring, s->ring_bytes, HIT_BUF_MAX + HIT_BUF_SLACK);
}

static bool take_sums(struct tracer *t, struct tracee *x, uint16_t proc)
{
	struct sums_writer *w = calloc(1, sizeof(*w));
	struct share_sums *s = w ? share_take_sums(t->share, proc) : NULL;
	if (!s) {
		free(w);
		return false;
	}
	sums_begin(&s->sums, w, &t->share->code);
	x->sums = s;
	x->ops->sums = &s->sums;
	x->ops->sums_writer = w;
	return true;
}

/* A call begins. Its row; NULL: there is no room. */
static struct sum_row *sum_up(struct tracer *t, struct tracee *x, struct hit *h)
{
	const bool may_name = !x->ops->py.nmet || share_fill(t->share) < LAST;
	if (!x->sums && !take_sums(t, x, h->proc))
		return NULL;
	return x->sums->proc == h->proc ? sums_enter(x->ops->sums, x->ops->sums_writer, h, may_name)
					: NULL;
}

static int put_without_place(struct tracer *t, struct hit *h)
{
	const bool is_last = share_fill(t->share) >= LAST;
	if (t->out.ends && !is_last && !(h->flags & (HIT_MORE | HIT_CONT))) {
		h->flags |= HIT_LEAN;
		if (!share_put(t->share, h))
			return 0;
		h->flags &= (uint8_t)~HIT_LEAN;
	}
	if (h->kind == HIT_ENTRY && !(h->flags & HIT_CONT)) {
		t->out.row = sum_up(t, t->hit, h);
		return t->out.row ? 0 : -1;
	}
	if (h->kind == HIT_CODE_FREED && is_last)
		h->size = sizeof(*h);
	if (h->kind == HIT_ENTRY)
		h->flags |= HIT_LEAN;
	return share_put(t->share, h);
}

static int sink(void *arg, const struct hit *h)
{
	struct tracer *t = arg;
	struct share *s = t->share;
	int r = 0;
	if (t->out.sums && h->kind == HIT_CODE_MET && share_fill(s) >= LAST) {
		pyframes_unsent(h->sp);
		return -1;
	}
	if (t->out.placed)
		ring_done(&s->records, s->ring, s->ring_bytes, h);
	else
		r = t->out.sums ? put_without_place(t, (struct hit *)t->out.own) : share_put(s, h);
	if (r)
		atomic_fetch_add_explicit(&s->lost, 1, memory_order_relaxed);
	return r;
}

void tracer_records_begin(struct tracer *t)
{
	t->out.sums = t->share->may_sum;
	t->out.place = place;
	t->out.sink = sink;
	t->out.arg = t;
}
