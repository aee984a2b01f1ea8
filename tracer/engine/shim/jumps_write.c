#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/process.h"

/* Sites lie close together, many to a page: they are read by the span. */
enum { PAGE = 4096, SPAN_MOST = 256 << 10, SPAN_GAP = 8 << 10 };

/* Of an address space that is gone nothing can be read or written, and no error is reported. */
static int transferred(ssize_t n, size_t len)
{
	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? -errno : n ? -EFAULT : -ESRCH;
}

int jump_mem_read(int mem, uint64_t addr, void *buf, size_t len)
{
	return transferred(pread(mem, buf, len, (off_t)addr), len);
}

int jump_mem_write(int mem, uint64_t addr, const void *buf, size_t len)
{
	return transferred(pwrite(mem, buf, len, (off_t)addr), len);
}

struct writing {
	const struct jump_work *w;
	struct jump_round *round;
	struct pool pool;
	struct jump_plan *plan;
	struct stop_all stopped;
	uint64_t stood_since; /* 0: it runs */
	uint8_t *span;	      /* what is at span_at */
	uint64_t span_at, span_len;
	uint32_t nwrite, nrenew, nbusy;
};

/* The kernel writes a page at a time, and may be killed in between. */
static bool is_split(const struct jump_site *s)
{
	return s->addr % PAGE + ARCH_JUMP_LEN > PAGE;
}

enum there {
	THERE_FILE,
	THERE_JUMP, /* to the stub `stub` */
	THERE_OTHER,
};

/* Read what is at site `s` and at those that follow closely. */
static void span_read(struct writing *x, const struct jump_site *s)
{
	const struct jump_site *end = x->w->sites + x->w->n;
	x->span_at = s->addr;
	x->span_len = s->len;
	for (; s < end && s->addr - x->span_at <= x->span_len + SPAN_GAP &&
	       s->addr + s->len - x->span_at <= SPAN_MOST;
	     s++)
		x->span_len = s->addr + s->len - x->span_at;
	ssize_t n = pread(x->w->mem, x->span, x->span_len, (off_t)x->span_at);
	x->span_len = n > 0 ? (uint64_t)n : 0;
}

/* What is at a site; NULL: it cannot be read. */
static const uint8_t *span_of(struct writing *x, const struct jump_site *s)
{
	if (s->addr < x->span_at || s->addr + s->len - x->span_at > x->span_len)
		span_read(x, s);
	return x->span_len >= s->len ? x->span + (s->addr - x->span_at) : NULL;
}

/* Begin to look at all of them once more. */
static void span_forget(struct writing *x)
{
	x->span_len = 0;
}

static enum there look_at(struct writing *x, const struct jump_site *s, uint32_t *stub)
{
	const uint8_t *now = span_of(x, s);
	if (!now)
		return THERE_OTHER;
	if (!memcmp(now, s->bytes, s->len))
		return THERE_FILE;
	int64_t i = pool_of_address(&x->pool, jump_target(now, s->addr));
	if (i < 0 || jump_stub_window(pool_stub(&x->pool, (uint32_t)i)) != s->addr ||
	    memcmp(now + ARCH_JUMP_LEN, s->bytes + ARCH_JUMP_LEN, s->len - ARCH_JUMP_LEN))
		return THERE_OTHER;
	*stub = (uint32_t)i;
	return THERE_JUMP;
}

/* The stub that it has is the one that it gets, with another number perhaps. */
static int plan_known_stub(struct writing *x, const struct jump_site *s, struct jump_plan *p,
			   bool *is_its)
{
	uint8_t wanted[JUMP_STUB];
	const uint8_t *stub = pool_stub(&x->pool, p->stub);
	int r = pool_contents(&x->pool, p->stub, s, wanted);
	*is_its = !r && jump_stub_is_like(stub, wanted);
	p->renew = *is_its && memcmp(stub, wanted, JUMP_STUB) != 0;
	x->nrenew += p->renew;
	return r;
}

static int plan_fresh(struct writing *x, const struct jump_site *s, struct jump_plan *p)
{
	bool is_its = false;
	int64_t stub = pool_of_window(&x->pool, s->addr);
	if (stub >= 0 && pool_reaches(&x->pool, (uint32_t)stub, s)) {
		p->stub = (uint32_t)stub;
		int r = plan_known_stub(x, s, p, &is_its);
		if (r)
			return r;
	}
	if (!is_its) {
		stub = pool_add(&x->pool, s);
		if (stub == -ENOSPC)
			x->round->state[s - x->w->sites] = JUMP_NO_ROOM;
		if (stub < 0)
			return stub == -ENOSPC ? 0 : (int)stub;
	}
	p->stub = (uint32_t)stub;
	p->write = true;
	x->nwrite++;
	return 0;
}

static int plan_site(struct writing *x, uint32_t i)
{
	const struct jump_site *s = &x->w->sites[i];
	struct jump_plan *p = &x->plan[i];
	uint8_t *state = &x->round->state[i];
	bool is_its = true;
	int r = 0;
	*state = JUMP_NONE;
	switch (is_split(s) ? THERE_OTHER : look_at(x, s, &p->stub)) {
	case THERE_FILE:
		return plan_fresh(x, s, p);
	case THERE_JUMP:
		r = plan_known_stub(x, s, p, &is_its);
		*state = is_its ? JUMP_WRITTEN : JUMP_FOREIGN;
		return r;
	default:
		*state = is_split(s) ? JUMP_SPLIT : JUMP_FOREIGN;
		return 0;
	}
}

static int plan_all(struct writing *x)
{
	int r = pool_read(&x->pool, x->w->mem, &x->w->pool, &x->round->e);
	if (r)
		return r;
	for (uint32_t i = 0; i < x->w->n && !r; i++)
		r = x->w->sites[i].first ? plan_site(x, i) : 0;
	for (uint32_t i = 0; i < x->w->n && !r; i++)
		r = x->w->sites[i].first ? 0 : plan_site(x, i);
	return r ? err_set(&x->round->e, r, "cannot plan jumps into process %d: %s", x->w->pid,
			   strerror(-r))
		 : 0;
}

static int refused(const struct writing *x, int r)
{
	if (r == -ESRCH)
		return r;
	if (r == -ENOMEM)
		return err_set(&x->round->e, r, "no memory");
	err_set(&x->round->e, r, "the kernel refuses to write into the code of process %d: %s",
		x->w->pid, strerror(-r));
	return err_hint(&x->round->e, "the kernel's parameter proc_mem.force_override must not be "
				      "\"never\"; or trace with: --engine bpf, as root");
}

static int stop(struct writing *x, unsigned timeout_ms)
{
	int r = stop_all_is_likely(&x->stopped, timeout_ms) ? 0 : -ETIMEDOUT;
	if (!r) {
		x->stood_since = clock_ns(CLOCK_MONOTONIC);
		r = stop_all(&x->stopped, timeout_ms, &x->round->e);
	}
	if (r == -ETIMEDOUT)
		err_set(&x->round->e, r, "threads of process %d do not stop", x->w->pid);
	return r;
}

static void go_on(struct writing *x)
{
	stop_all_end(&x->stopped);
	if (x->stood_since)
		x->round->stood_ns += clock_ns(CLOCK_MONOTONIC) - x->stood_since;
}

/* What has changed since it was looked at, before the threads stood. */
static void look_again(struct writing *x)
{
	span_forget(x);
	for (uint32_t i = 0; i < x->w->n; i++) {
		uint32_t stub;
		struct jump_plan *p = &x->plan[i];
		if (p->write && look_at(x, &x->w->sites[i], &stub) != THERE_FILE) {
			p->write = false;
			x->round->state[i] = JUMP_FOREIGN;
		}
	}
}

/* Its threads stand, even those that are in it. */
static int renew_stubs(struct writing *x)
{
	int r = 0;
	for (uint32_t i = 0; i < x->w->n && !r; i++) {
		const struct jump_plan *p = &x->plan[i];
		uint8_t *stub = pool_stub(&x->pool, p->stub);
		if (!p->renew)
			continue;
		r = pool_contents(&x->pool, p->stub, &x->w->sites[i], stub);
		r = r ? r
		      : jump_mem_write(x->w->mem, pool_stub_at(&x->pool, p->stub), stub, JUMP_STUB);
	}
	return r;
}

/* Site by site: a whole page could bring back what others have just taken out of it (a uprobe). */
static int write_jumps(struct writing *x)
{
	uint8_t jump[ARCH_JUMP_LEN];
	for (uint32_t i = 0; i < x->w->n; i++) {
		const struct jump_plan *p = &x->plan[i];
		const uint64_t at = x->w->sites[i].addr;
		uint8_t *state = &x->round->state[i];
		if (!p->write)
			continue;
		if (p->busy) {
			*state = JUMP_BUSY;
			x->nbusy++;
			continue;
		}
		jump_contents(jump, at, pool_stub_at(&x->pool, p->stub));
		int r = jump_mem_write(x->w->mem, at, jump, sizeof(jump));
		if (r)
			return r;
		*state = JUMP_WRITTEN;
	}
	return 0;
}

/* Whatever this process is killed after, what has been written until then is as good as before. */
static int write_all(struct writing *x, unsigned timeout_ms)
{
	int r = pool_write(&x->pool, x->w->mem);
	if (r)
		return refused(x, r);
	r = stop(x, timeout_ms);
	if (r)
		return r;
	look_again(x);
	r = renew_stubs(x);
	r = r ? r : jump_threads_clear(x->w, &x->pool, x->plan, &x->stopped);
	r = r ? r : write_jumps(x);
	return r ? refused(x, r) : 0;
}

/* Only one process can seize another's threads, so no other ditrace writes there meanwhile. With
 * proc_mem.force_override=ptrace the kernel lets only the process write that has seized them. */
static int writing_begin(struct writing *x, const struct jump_work *w)
{
	*x = (struct writing){.w = w, .round = w->round, .span = malloc(SPAN_MOST)};
	x->plan = calloc(w->n, sizeof(*x->plan));
	if (!x->span || !x->plan)
		return err_set(&w->round->e, -ENOMEM, "no memory");
	return stop_all_begin(&x->stopped, w->pid, &w->round->e);
}

static void writing_end(struct writing *x)
{
	go_on(x);
	pool_free(&x->pool);
	free(x->plan);
	free(x->span);
}

void jump_round_add(const struct jump_work *w, unsigned timeout_ms)
{
	struct writing x;
	int r = writing_begin(&x, w);
	r = r ? r : plan_all(&x);
	if (!r && (x.nwrite || x.nrenew))
		r = write_all(&x, timeout_ms);
	writing_end(&x);
	w->round->result = !r && x.nbusy ? -EAGAIN : r;
}

/* Which sites have a jump of ours; how many. */
static uint32_t find_jumps(struct writing *x)
{
	uint32_t stub, n = 0;
	span_forget(x);
	for (uint32_t i = 0; i < x->w->n; i++) {
		x->plan[i].write = look_at(x, &x->w->sites[i], &stub) == THERE_JUMP;
		n += x->plan[i].write;
	}
	return n;
}

/* No thread is in the middle of a jump, and those in stubs and handlers come back to behind their
 * windows, where nothing has ever changed. */
static int take_out(struct writing *x, unsigned timeout_ms)
{
	int r = stop(x, timeout_ms);
	if (r)
		return r;
	find_jumps(x);
	for (uint32_t i = 0; i < x->w->n && !r; i++) {
		const struct jump_site *s = &x->w->sites[i];
		if (x->plan[i].write)
			r = jump_mem_write(x->w->mem, s->addr, s->bytes, ARCH_JUMP_LEN);
	}
	return r ? refused(x, r) : 0;
}

void jump_round_remove(const struct jump_work *w, unsigned timeout_ms)
{
	struct writing x;
	int r = writing_begin(&x, w);
	r = r ? r : pool_read(&x.pool, w->mem, &w->pool, &w->round->e);
	if (!r && find_jumps(&x))
		r = take_out(&x, timeout_ms);
	writing_end(&x);
	w->round->result = r;
}
