#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "base/arena.h"

/* As much of a stack is looked at. */
enum { STACK_MOST = 256 << 10, STACKS = 4 };

struct clearing {
	const struct jump_work *w;
	const struct pool *p;
	struct jump_plan *plan;
	uint64_t begin, end; /* of all sites */
	uint64_t *words;     /* of a stack */
};

/* The site to be written whose jump has `addr` inside: behind its first byte. A thread that is
 * further behind, in what is left of the window, is not concerned: those bytes stay. */
static int64_t site_around(const struct clearing *c, uint64_t addr)
{
	const struct jump_site *s = c->w->sites;
	if (addr <= c->begin || addr >= c->end)
		return -ENOENT;
	size_t i = array_up_to(s, c->w->n, sizeof(*s), addr - 1);
	if (!i || addr - s[i - 1].addr >= ARCH_JUMP_LEN || !c->plan[i - 1].write)
		return -ENOENT;
	return (int64_t)i - 1;
}

/* No word but the saved rip of a signal frame is such an address, as a window has no call in it;
 * should one be by chance, a site is left alone. *other: the stack that a frame on this one was
 * made from. */
static void look_at_stack(struct clearing *c, uint64_t sp, uint64_t *other)
{
	ssize_t n = pread(c->w->mem, c->words, STACK_MOST, (off_t)sp);
	size_t words = n > 0 ? (size_t)n / sizeof(*c->words) : 0;
	for (size_t i = 0; i < words; i++) {
		int64_t site = site_around(c, c->words[i]);
		uint64_t saved;
		if (site >= 0)
			c->plan[site].busy = true;
		/* A handler with a stack of its own (sigaltstack(2)). */
		if (jump_is_signal_frame(c->words, i, &saved) && saved - sp >= STACK_MOST)
			*other = saved;
	}
}

static void look_at_stacks(struct clearing *c, uint64_t sp)
{
	for (unsigned n = 0; sp && n < STACKS; n++) {
		uint64_t other = 0;
		look_at_stack(c, sp & ~UINT64_C(7), &other);
		sp = other;
	}
}

static int look_at_threads(struct clearing *c, const struct stop_all *stopped, uint64_t *ip)
{
	for (size_t i = 0; i < stopped->n; i++) {
		union regs r;
		if (ptrace(PTRACE_GETREGS, stopped->thread[i].tid, NULL, &r.user)) {
			if (errno == ESRCH)
				continue; /* killed */
			return -errno;
		}
		ip[i] = r.word[ARCH_IP];
		look_at_stacks(c, r.word[ARCH_SP]);
	}
	return 0;
}

/* To the same instruction in the stub. That is as good as where it is, so nothing is lost if this
 * process is killed before the jump is written. */
static int move_threads(const struct clearing *c, const struct stop_all *stopped,
			const uint64_t *ip)
{
	int r = 0;
	for (size_t i = 0; i < stopped->n && !r; i++) {
		int64_t at = site_around(c, ip[i]);
		if (at < 0 || c->plan[at].busy)
			continue;
		const struct jump_site *s = &c->w->sites[at];
		r = jump_move_thread(stopped->thread[i].tid, pool_stub_at(c->p, c->plan[at].stub) +
								 jump_stub_copy(s) +
								 (ip[i] - s->addr));
		r = r == -ESRCH ? 0 : r;
	}
	return r;
}

int jump_threads_clear(const struct jump_work *w, const struct pool *p, struct jump_plan *plan,
		       const struct stop_all *stopped)
{
	struct clearing c = {.w = w, .p = p, .plan = plan};
	c.begin = w->sites[0].addr;
	c.end = w->sites[w->n - 1].addr + ARCH_JUMP_LEN;
	c.words = malloc(STACK_MOST);
	uint64_t *ip = calloc(stopped->n + 1, sizeof(*ip));
	int r = c.words && ip ? 0 : -ENOMEM;
	r = r ? r : look_at_threads(&c, stopped, ip);
	r = r ? r : move_threads(&c, stopped, ip);
	free(c.words);
	free(ip);
	return r;
}
