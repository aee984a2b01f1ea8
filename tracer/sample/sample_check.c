#include "tracer/sample/internal.h"

#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

/* What a callee saves next to its caller's frame: the return address and six registers (System V
 * ABI for AMD64, figure 3.4). */
enum { SAVED = 7 * 8, INTERPRETER_MOST = 4096 };

static bool word_at(const struct sample_stack *s, uint64_t at, uint64_t *out)
{
	if (at < s->start || at - s->start > s->len || s->len - (at - s->start) < sizeof(*out))
		return false;
	memcpy(out, s->then + (at - s->start), sizeof(*out));
	return true;
}

/* The interpreter's C frame and the registers that its callee saved. */
struct region {
	uint64_t from, own, to; /* saved registers; the frame itself */
};

static bool find_region(const struct sample_check *c, struct region *r)
{
	const unsigned i = (unsigned)c->interpreter;
	r->own = i ? c->places[i].sp : c->regs[ARCH_SP];
	r->to = i + 1 < c->nplaces ? c->places[i + 1].sp : 0;
	uint64_t inner = i ? (i > 1 ? c->places[i - 1].sp : c->regs[ARCH_SP]) : r->own;
	r->from = i && r->own - inner > SAVED ? r->own - SAVED : inner;
	return r->own >= c->stack.start && r->to > r->own && r->to - r->own <= INTERPRETER_MOST &&
	       r->from >= c->stack.start && r->to - c->stack.start <= c->stack.len;
}

static bool unchanged(const struct sample_check *c, const struct region *r)
{
	size_t at = r->from - c->stack.start;
	if (c->at_once)
		return true;
	return c->interpreter > 0 && c->stack.now &&
	       !memcmp(c->stack.then + at, c->stack.now + at, r->to - r->from);
}

static bool has_word(const struct sample_check *c, const struct region *r, uint64_t wanted)
{
	uint64_t word;
	for (uint64_t at = r->from; at < r->to; at += sizeof(word))
		if (word_at(&c->stack, at, &word) && word == wanted)
			return true;
	/* A callee-saved register that a callee has not saved still belongs to its caller. */
	uint32_t own = c->interpreter == 0 ? ~0U : c->at_once ? ~arch_call_clobbers : 0;
	for (unsigned i = 0; i < ARCH_REGS; i++)
		if (own >> i & 1 && c->regs[i] == wanted)
			return true;
	return false;
}

static bool same_frame(const struct sample_check *c, const struct region *r)
{
	uint64_t frame;
	if (c->walk->cframe_frame != PY_NO_OFFSET)
		return c->top->cframe >= r->own && c->top->cframe < r->to &&
		       word_at(&c->stack, c->top->cframe + c->walk->cframe_frame, &frame) &&
		       frame == c->top->frame;
	if (c->walk->instr_size == 4 && (!c->whole || c->interpreters != (unsigned)c->n))
		return false;
	return has_word(c, r, c->top->frame);
}

/* Consider a word that may point to the next instruction; false: there are two candidates. */
static bool consider(const struct sample_check *c, uint64_t word, uint64_t *found)
{
	if (word <= c->code_start || word > c->code_end || word & 1)
		return true;
	if (*found && *found != word)
		return false;
	*found = word;
	return true;
}

/* The end of the interpreter's current instruction; 0: not known. */
static uint64_t next_instruction(const struct sample_check *c, const struct region *r)
{
	uint64_t found = 0, word;
	for (unsigned i = 0; c->interpreter == 0 && i < ARCH_REGS; i++)
		if (!consider(c, c->regs[i], &found))
			return 0;
	for (uint64_t at = r->from; at < r->own; at += sizeof(word))
		if (word_at(&c->stack, at, &word) && !consider(c, word, &found))
			return 0;
	for (uint64_t at = r->own; !found && at < r->to; at += sizeof(word))
		if (word_at(&c->stack, at, &word) && !consider(c, word, &found))
			return 0;
	return found;
}

enum sample_python sample_check(const struct sample_check *c)
{
	struct region r;
	if (c->interpreter < 0 && (c->n <= 0 || c->whole))
		return SAMPLE_NO_PYTHON;
	if (c->interpreter < 0)
		return c->at_once ? SAMPLE_PYTHON : SAMPLE_MOVED;
	if (c->n <= 0 || !find_region(c, &r) || !same_frame(c, &r))
		return SAMPLE_MOVED;
	if (unchanged(c, &r))
		return SAMPLE_PYTHON;
	uint64_t next = c->code_end && c->codes_stay ? next_instruction(c, &r) : 0;
	if (!next)
		return SAMPLE_MOVED;
	c->pairs[0][1] = next - 2;
	return SAMPLE_PYTHON;
}
