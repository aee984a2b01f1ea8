#include <stddef.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/plan_reader.h"

/* Words of the thread's own stack alone are read, so that a wrong row does no harm. */
static bool read_word(void *arg, uint64_t addr, uint64_t *word)
{
	const struct op_hit *h = arg;
	const struct native_walk *w = h->native;
	if (addr < w->low || addr > w->high - sizeof(*word) || addr % sizeof(*word))
		return false;
	return !remote_live(h->mem, addr, word, sizeof(*word));
}

/* The stack of the last frame, of which the walk must go on elsewhere. */
static void put_slice(const struct op_hit *h, const struct unwind_frame *f)
{
	const struct native_walk *w = h->native;
	uint64_t n = w->high - f->sp;
	struct item *it = hit_buf_item(h->out, ITEM_SLICE, ITEM_NO_READ, 0);
	n = n > NATIVE_SLICE ? NATIVE_SLICE : n & ~UINT64_C(7);
	hit_buf_word(h->out, f->sp);
	hit_buf_word(h->out, f->bp);
	remote_live(h->mem, f->sp, hit_buf_room(h->out, (uint32_t)n), n);
	hit_buf_grow(h->out, (uint32_t)n);
	it->len = (uint16_t)(n + 2 * sizeof(uint64_t));
}

/* At the entry of a function the return address is on top of the stack. */
static bool first_frame(const struct op_hit *h, struct unwind_frame *f)
{
	struct native_walk *w = h->native;
	const uint64_t sp = w->from.pc ? w->from.sp : h->regs[ARCH_SP];
	if (!(sp >= w->low && sp < w->high) && !w->find(w, sp))
		return false;
	*f = w->from;
	if (f->pc)
		return true;
	f->sp = sp + sizeof(uint64_t);
	f->bp = h->regs[ARCH_BP];
	return !h->plan->entry_sp && read_word((void *)h, sp, &f->pc);
}

void native_walk_put(const struct op_hit *h, bool to_python)
{
	struct unwind_frame f;
	struct unwind_rule rule = {.kind = UNWIND_NONE};
	uint32_t n = 0;
	if (!first_frame(h, &f))
		return;
	struct item *it = hit_buf_item(h->out, ITEM_NATIVE, ITEM_NO_READ, 0);
	uint64_t *to = (uint64_t *)(it + 1);
	for (bool more = true; more && n < NATIVE_DEPTH;) {
		to[n++] = f.pc;
		rule = unwind_find(h->native->table, f.pc);
		if (to_python && rule.of_python)
			rule.kind = UNWIND_END;
		more = rule.kind != UNWIND_NONE && rule.kind < UNWIND_END &&
		       unwind_step(&f, rule, read_word, (void *)h);
	}
	hit_buf_grow(h->out, n * (uint32_t)sizeof(*to));
	it->len = (uint16_t)(n * sizeof(*to));
	it->aux = (rule.kind == UNWIND_END ? 0 : NATIVE_CUT) | (to_python ? NATIVE_TO_PYTHON : 0);
	if (rule.kind != UNWIND_NONE)
		return;
	it->aux |= NATIVE_MISSED;
	if (!h->out->lean && !h->out->dry)
		put_slice(h, &f);
}
