/* Copies of c10::Dispatcher::callBoxed: compilers make one for each file that does not inline it.
 */
#include <errno.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"

/* The registers that hold each, as masks. */
struct head_regs {
	uint32_t handle, def, stack;
};

static bool has(uint32_t mask, uint8_t reg)
{
	return reg != ARCH_NOREG && mask >> reg & 1;
}

/* A register that is written holds something else. */
static void follow(struct head_regs *r, const struct arch_insn *i)
{
	const struct head_regs old = *r;
	const bool whole = i->width == sizeof(uint64_t) && i->dst != ARCH_NOREG;
	const uint32_t dst = whole ? 1u << i->dst : 0;
	r->handle &= ~i->writes;
	r->def &= ~i->writes;
	r->stack &= ~i->writes;
	if (i->effect == ARCH_EFF_COPY) {
		r->handle |= has(old.handle, i->src) ? dst : 0;
		r->def |= has(old.def, i->src) ? dst : 0;
		r->stack |= has(old.stack, i->src) ? dst : 0;
	} else if (i->effect == ARCH_EFF_LOAD && has(old.handle, i->base) && !i->disp) {
		r->def |= dst;
	}
}

/* How callBoxed(handle, stack) begins: it loads the definition from the handle; from that, at the
 * offset that this returns, which of the operator's arguments are tensors; and looks for these from
 * the end of the stack (DispatchKeyExtractor::getDispatchKeySetBoxed). 0: it does not begin so. */
static int32_t head_of(struct arch_decoder *d, const uint8_t *code, uint64_t size, uint64_t vaddr)
{
	enum { INSNS = 64, STACK_END = 8 };
	struct head_regs r = {.handle = 1u << arch_int_arg[0], .stack = 1u << arch_int_arg[1]};
	struct arch_insn i;
	int32_t arguments = 0;
	for (uint32_t off = 0, n = 0; n < INSNS && off < size; off += i.len, n++) {
		if (arch_decode(d, code, size, vaddr, off, &i) || i.flow >= ARCH_FLOW_JUMP)
			return 0;
		if (i.effect == ARCH_EFF_LOAD && !arguments && has(r.def, i.base))
			arguments = i.disp;
		else if (i.effect == ARCH_EFF_LOAD && arguments && has(r.stack, i.base))
			return i.disp == STACK_END ? arguments : 0;
		follow(&r, &i);
	}
	return 0;
}

enum { WORD = sizeof(uint32_t), BLOCK = 4096 };

/* Several at a time. */
typedef uint32_t words __attribute__((vector_size(16)));

/* Whether a word in the block, wherever it begins, is `want` less how far it is into the block. */
static bool block_has(const uint8_t *code, uint32_t want)
{
	words wanted[WORD], found = {0}, w;
	for (uint32_t i = 0; i < WORD; i++)
		wanted[i] = want - i - (words){0, WORD, 2 * WORD, 3 * WORD};
	for (uint32_t at = 0; at < BLOCK; at += sizeof(words))
#pragma GCC unroll 4
		for (uint32_t i = 0; i < WORD; i++) {
			memcpy(&w, code + at + i, sizeof(w));
			found |= (words)(w == wanted[i]);
			wanted[i] -= (uint32_t)sizeof(words);
		}
	return found[0] | found[1] | found[2] | found[3];
}

void ops_each_displacement(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t target,
			   elf_address_fn *fn, void *arg)
{
	for (size_t at = 0; at + WORD <= size; at += BLOCK) {
		const uint32_t want = (uint32_t)(target - (vaddr + at + WORD));
		const bool whole = size - at >= BLOCK + WORD;
		const size_t n = whole ? BLOCK : size - at - WORD + 1;
		if (whole && !block_has(code + at, want))
			continue;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t word;
			memcpy(&word, code + at + i, sizeof(word));
			if (word == want - i && fn(vaddr + at + i + WORD, arg))
				return;
		}
	}
}

struct copies {
	struct op_table *t;
	struct arch_decoder *d;
	uint64_t known;
	int32_t head;
};

static int on_call(uint64_t behind, void *arg)
{
	struct copies *c = arg;
	uint64_t start;
	struct op_table *t = c->t;
	if (array_grow(&t->asked, &t->asked_room, t->nasked + 1, sizeof(*t->asked)))
		return -ENOMEM;
	t->asked[t->nasked++] = behind;
	const uint64_t size = elf_piece_at(c->t->elf[OPS_CPU], behind - 1, &start);
	const uint8_t *code = size ? elf_bytes(c->t->elf[OPS_CPU], start, size) : NULL;
	if (!code || start == c->known || head_of(c->d, code, size, start) != c->head)
		return 0;
	for (size_t i = 0; i < c->t->nboxed_copies; i++)
		if (c->t->boxed_copies[i] == start) /* it asks in several places */
			return 0;
	if (t->nboxed_copies < BOXED_COPIES_MAX)
		t->boxed_copies[t->nboxed_copies++] = start;
	return 0;
}

/* How the known one begins, and the address by which it calls the function that asks for observers,
 * once for each dispatch; 0: it is none. */
static uint64_t learn(struct copies *c)
{
	struct elf_file *f = c->t->elf[OPS_CPU];
	const uint64_t asked = elf_find_dynamic(f, ops_dispatched, NULL);
	const uint64_t size = elf_function_size(f, c->known);
	const uint8_t *code = size ? elf_bytes(f, c->known, size) : NULL;
	struct arch_insn i;
	c->head = code && asked ? head_of(c->d, code, size, c->known) : 0;
	for (uint32_t off = 0;
	     c->head && off < size && !arch_decode(c->d, code, size, c->known, off, &i);
	     off += i.len)
		if (i.flow == ARCH_FLOW_CALL &&
		    (i.target == asked || callees_of_stub(c->t->callees, i.target) == asked))
			return i.target;
	return 0;
}

static void find_copies(struct op_table *t, uint64_t vaddr)
{
	struct elf_file *f = t->elf[OPS_CPU];
	struct copies c = {.t = t, .d = arch_decoder_new(), .known = vaddr};
	uint64_t asks = c.d ? learn(&c) : 0, text_at;
	size_t size;
	if (c.d && !asks && (c.known = ops_tail_target(f, vaddr)))
		asks = learn(&c);
	t->boxed_known = c.known;
	const uint8_t *text = elf_section(f, ".text", &text_at, &size);
	if (asks && text)
		ops_each_displacement(text, size, text_at, asks, on_call, &c);
	arch_decoder_free(c.d);
	elf_file_drop(f);
}

const uint64_t *op_table_boxed_copies(struct op_table *t, uint64_t vaddr, size_t *n)
{
	if (t->boxed_of != vaddr) {
		t->nboxed_copies = t->nasked = 0;
		find_copies(t, vaddr);
		t->boxed_of = vaddr;
	}
	*n = t->nboxed_copies;
	return t->boxed_copies;
}
