/* Functions written by hand, and a search that follows every instruction of a function, to check
 * what an analysis says of its paths. */
#ifndef TESTS_UNIT_CODE_SEARCH_H
#define TESTS_UNIT_CODE_SEARCH_H

#include "tests/unit/unit.h"

#include "symbolizer/code/arch_x86_64.h"

/* Aligned, as no window may lie in two pages. */
#define CODE(name, text)                                                                           \
	asm(".pushsection .text\n.p2align 6\n.intel_syntax noprefix\n" #name ":\n" text "\n" #name \
	    "_end:\n.att_syntax\n.popsection");                                                    \
	extern const uint8_t name[], name##_end[];

/* A place in a function, named by a label in its code. */
#define PLACE(label) extern const uint8_t label[];

/* Whether a return or a tail jump can be reached from `from` without passing a return site, and
 * whether the site `again` can. Follows every instruction, but no jump tables. */
struct code_search {
	struct arch_decoder *d;
	const uint8_t *code;
	size_t len;
	uint64_t vaddr;
	const uint32_t *exits;
	unsigned nexits;
	uint8_t *seen;
	uint32_t *stack;
	size_t n;
	bool escaped, again;
};

static inline void code_search_visit(struct code_search *s, uint64_t off)
{
	if (off >= s->len || s->seen[off])
		return;
	s->seen[off] = 1;
	s->stack[s->n++] = (uint32_t)off;
}

static inline bool code_search_is_exit(const struct code_search *s, uint32_t off)
{
	for (unsigned i = 0; i < s->nexits; i++)
		if (s->exits[i] == off)
			return true;
	return false;
}

static inline void code_search_expand(struct code_search *s, uint32_t off)
{
	struct arch_insn i;
	if (arch_decode(s->d, s->code, s->len, s->vaddr, off, &i))
		return;
	if (i.flow == ARCH_FLOW_RET)
		s->escaped = true;
	if (i.flow == ARCH_FLOW_COND || i.flow == ARCH_FLOW_JUMP)
		code_search_visit(s, i.target - s->vaddr);
	if (i.flow == ARCH_FLOW_NEXT || i.flow == ARCH_FLOW_COND || i.flow == ARCH_FLOW_CALL ||
	    i.flow == ARCH_FLOW_CALL_IND)
		code_search_visit(s, off + i.len);
}

static inline void code_search_run(struct code_search *s, uint32_t from, bool behind)
{
	memset(s->seen, 0, s->len);
	s->n = 0;
	if (behind)
		code_search_expand(s, from);
	else
		code_search_visit(s, from);
	s->escaped = s->again = false;
	while (s->n) {
		uint32_t off = s->stack[--s->n];
		if (code_search_is_exit(s, off))
			s->again = true;
		else
			code_search_expand(s, off);
	}
}

/* Every path passes one of the places `exits`, and no path passes two, or one twice. */
static inline void code_search_check(struct arch_decoder *d, const uint8_t *code, size_t len,
				     uint64_t vaddr, const uint32_t *exits, unsigned nexits,
				     const char *name)
{
	struct code_search s = {
	    .d = d, .code = code, .len = len, .vaddr = vaddr, .exits = exits, .nexits = nexits};
	s.seen = malloc(len);
	s.stack = malloc(len * sizeof(*s.stack));
	assert_true(s.seen && s.stack);
	code_search_run(&s, 0, false);
	if (s.escaped)
		fail_msg("%s returns without passing an exit", name);
	for (unsigned i = 0; i < nexits; i++) {
		assert_true(exits[i] < len);
		code_search_run(&s, exits[i], true);
		if (s.again)
			fail_msg("%s passes two exits", name);
	}
	free(s.seen);
	free(s.stack);
}

#endif
