/* Dispatches that the compiler has inlined into a function which is no operator's own: those of
 * c10d::ProcessGroup and of DTensor, for example. Each asks for observers once
 * (Dispatcher::call and callBoxed, ATen/core/dispatch/Dispatcher.h), keeps the answer, an
 * std::optional, in its frame, and looks whether there is one twice: at once, and when the kernel
 * has returned, as the optional goes out of scope.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"

/* A piece of a function. */
struct code_piece {
	struct arch_decoder *d;
	const uint8_t *code;
	uint64_t start, size;
};

/* cmpb $0, disp(register): the register, ARCH_NOREG for another instruction. 80 /7 ib. */
static uint8_t tested(const uint8_t *p, unsigned len)
{
	const unsigned rex = (p[0] & 0xf0) == 0x40 ? p[0] : 0;
	p += rex != 0;
	len -= rex != 0;
	if (len < 4 || p[0] != 0x80 || (p[1] & 0x38) != 0x38 || p[1] >> 6 == 3 || p[len - 1])
		return ARCH_NOREG;
	const unsigned rm = p[1] & 7;
	if ((!(p[1] >> 6) && rm == 5) || (rm == 4 && p[2] != 0x24))
		return ARCH_NOREG;
	return arch_numbered_reg[rm | (rex & 1) << 3];
}

static bool decode_at(const struct code_piece *c, uint64_t at, struct arch_insn *i)
{
	return at < c->size && !arch_decode(c->d, c->code, c->size, c->start, (uint32_t)at, i);
}

/* What leads to an OperatorDef: a register, or an address in the file, and so many loads. */
struct def_source {
	uint64_t vaddr;
	uint8_t reg; /* ARCH_NOREG: the address */
	uint8_t loads;
	bool known;
};

/* What the instruction at `at` loads, if that is known, from what registers hold before it. */
static struct def_source load_of(const struct code_piece *c, uint64_t at, const struct arch_insn *i,
				 const struct def_source *held)
{
	struct def_source v = {0};
	if (i->effect != ARCH_EFF_LOAD || i->width != 8 || i->index)
		return v;
	/* rip-relative ones have no base and end in their displacement */
	if (i->base == ARCH_NOREG && i->relative)
		return (struct def_source){.reg = ARCH_NOREG,
					   .loads = 1,
					   .vaddr =
					       c->start + at + i->len + (uint64_t)(int64_t)i->disp,
					   .known = true};
	if (i->base != ARCH_NOREG && !i->disp && held[i->base].known &&
	    held[i->base].reg == ARCH_NOREG) {
		v = held[i->base];
		v.loads++;
	}
	return v;
}

/* With an observer the operator is asked whether it is observed: a byte of its OperatorDef. What
 * registers hold there is what they held at the call, for those that it preserves. */
static struct def_source def_of(const struct code_piece *c, uint64_t at)
{
	enum { INSNS = 8 };
	struct def_source r[ARCH_REGS] = {0}, none = {0};
	struct arch_insn i;
	for (unsigned k = 0; k < ARCH_REGS; k++)
		r[k] = (struct def_source){.reg = (uint8_t)k,
					   .known = !(arch_call_clobbers >> k & 1) &&
						    k != ARCH_SP && k != ARCH_BP};
	for (unsigned n = 0; n < INSNS && decode_at(c, at, &i); at += i.len, n++) {
		const uint8_t base = tested(c->code + at, i.len);
		if (base != ARCH_NOREG)
			return r[base];
		if (i.flow != ARCH_FLOW_NEXT)
			return none;
		const struct def_source v = load_of(c, at, &i, r);
		for (unsigned k = 0; k < ARCH_REGS; k++)
			if (i.writes >> k & 1)
				r[k] = none;
		if (i.dst < ARCH_REGS && v.known)
			r[i.dst] = v;
	}
	return none;
}

struct exits_walk {
	const struct code_piece *c;
	uint8_t *met; /* by offset */
	uint32_t *todo;
	size_t n;
	const uint8_t *test;
	unsigned test_len;
	uint32_t exits[EXITS_MAX];
	unsigned nexits;
};

static void go_to(struct exits_walk *w, uint64_t at)
{
	if (at >= w->c->size || w->met[at])
		return;
	w->met[at] = 1;
	w->todo[w->n++] = (uint32_t)at;
}

/* All ways from the first look to the second ones. False: there are too many of these. */
static bool walk_to_exits(struct exits_walk *w)
{
	while (w->n) {
		const uint32_t at = w->todo[--w->n];
		struct arch_insn i;
		if (!decode_at(w->c, at, &i))
			continue;
		if (i.len == w->test_len && !memcmp(w->c->code + at, w->test, i.len)) {
			if (w->nexits == EXITS_MAX)
				return false;
			w->exits[w->nexits++] = at;
			continue;
		}
		if (i.flow == ARCH_FLOW_COND || i.flow == ARCH_FLOW_JUMP)
			go_to(w, i.target - w->c->start);
		if (i.flow == ARCH_FLOW_NEXT || i.flow == ARCH_FLOW_COND ||
		    i.flow == ARCH_FLOW_CALL || i.flow == ARCH_FLOW_CALL_IND)
			go_to(w, at + i.len);
	}
	return w->nexits;
}

static bool find_exits(struct exits_walk *w, uint64_t from)
{
	w->met = calloc(w->c->size, 1);
	w->todo = calloc(w->c->size, sizeof(*w->todo));
	bool found = false;
	if (w->met && w->todo) {
		go_to(w, from);
		found = walk_to_exits(w);
	}
	free(w->met);
	free(w->todo);
	return found;
}

/* The scope, the second argument, is FUNCTION, 0: xor %esi,%esi shortly before the call. */
static bool is_of_function(const struct code_piece *c, uint64_t call)
{
	enum { BEFORE = 32 };
	static const uint8_t clear[] = {0x31, 0xf6};
	const uint64_t from = call > BEFORE ? call - BEFORE : 0;
	return memmem(c->code + from, call - from, clear, sizeof(clear));
}

/* Where the branch at `at` leads if there is an observer: jne's target, or what follows je. */
static uint64_t observed_at(const struct code_piece *c, uint64_t at, const struct arch_insn *i)
{
	const uint8_t *p = c->code + at;
	const uint8_t op = p[0] == 0x0f ? p[1] & 0xf : p[0] & 0xf;
	return op == 5 ? i->target - c->start : op == 4 ? at + i->len : c->size;
}

/* Look at the call that ends at `behind`. False: it is no dispatch, or its end is not found. */
static bool inlined_call_find(struct elf_file *f, uint64_t behind, struct inlined_call *out)
{
	enum { INSNS = 6, CALL = 5, LONGEST = 1 << 20 };
	struct code_piece c = {0};
	c.size = elf_piece_at(f, behind - 1, &c.start);
	c.code = c.size && c.size < LONGEST ? elf_bytes(f, c.start, c.size) : NULL;
	uint64_t at = behind - c.start, branch = 0;
	if (!c.code || at < CALL || c.code[at - CALL] != 0xe8 || !is_of_function(&c, at - CALL))
		return false;
	struct exits_walk w = {.c = &c};
	struct arch_insn i;
	c.d = arch_decoder_new();
	for (unsigned n = 0; c.d && n < INSNS && !branch && decode_at(&c, at, &i); n++) {
		if (!w.test && tested(c.code + at, i.len) != ARCH_NOREG) {
			w.test = c.code + at;
			w.test_len = i.len;
		} else if (w.test && i.flow == ARCH_FLOW_COND) {
			branch = at;
		} else if (i.flow != ARCH_FLOW_NEXT) {
			break;
		}
		at += branch ? 0 : i.len;
	}
	bool found = branch && find_exits(&w, branch);
	if (found) {
		const struct def_source s = def_of(&c, observed_at(&c, branch, &i));
		*out = (struct inlined_call){.call = behind - CALL,
					     .nexits = w.nexits,
					     .named = s.known,
					     .reg = s.reg,
					     .loads = s.loads,
					     .vaddr = s.vaddr};
		for (unsigned k = 0; k < w.nexits; k++)
			out->exits[k] = c.start + w.exits[k];
	}
	arch_decoder_free(c.d);
	return found;
}

/* The OperatorDef is what the first word of a handle points to, and begins with its name. A static
 * handle is at an address as far from the call in each process. */
static void plan_static(struct op_plan *p, const struct inlined_call *c, bool cow_strings)
{
	const int64_t near = (int64_t)(c->vaddr - c->call);
	if (near != (int32_t)near || c->loads > 1 + PLAN_LOADS)
		return;
	p->flags |= PLAN_MOVED;
	memset(p->arg_reg, ARCH_IP, sizeof(p->arg_reg));
	p->near = (int32_t)near;
	p->loads = c->loads - 1;
	plan_operator(p, cow_strings);
}

static void inlined_plan(struct op_plan *p, const struct inlined_call *c, bool cow_strings)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	if (!c->named)
		return;
	if (c->reg == ARCH_NOREG) {
		plan_static(p, c, cow_strings);
		return;
	}
	p->flags |= PLAN_MOVED;
	memset(p->arg_reg, c->reg, sizeof(p->arg_reg));
	p->read[BOXED_DATA] = (struct probe_read){.kind = READ_WORD, .a = 0};
	p->read[BOXED_HANDLE] = (struct probe_read){.kind = READ_MEM, .a = 0, .size = 16};
	p->nentry = 2;
	p->identity = 1 << BOXED_DATA | 1 << BOXED_HANDLE;
}

static int inlined_add(struct op_table *t, unsigned file, const struct inlined_call *c)
{
	struct op_inlined *all = &t->inlined;
	if (array_grow(&all->sites, &all->room, all->n + 1 + c->nexits, sizeof(*all->sites)))
		return -ENOMEM;
	const uint32_t op = t->n;
	t->ops[op] = (struct op_probe){
	    .role = ROLE_INLINED,
	    .file = (uint8_t)file,
	    .exit_kind = EXIT_RET,
	    .why = "this engine does not see the values of a call that was inlined",
	    .vaddr = c->call,
	    .desc = {.id = op,
		     .kind = OP_DISPATCHED,
		     .schema = "",
		     .name = "c10::Dispatcher::call"},
	};
	inlined_plan(&t->plans[op], c, t->cow_strings);
	const int64_t at = elf_offset(t->elf[file], c->call);
	all->sites[all->n++] =
	    (struct probe_site){.offset = (uint64_t)at, .op = op, .kind = SITE_ENTRY};
	for (unsigned i = 0; i < c->nexits; i++)
		all->sites[all->n++] =
		    (struct probe_site){.offset = (uint64_t)elf_offset(t->elf[file], c->exits[i]),
					.op = op,
					.kind = SITE_EXIT};
	t->nplans = ++t->n;
	return 0;
}

/* Those functions have probes of their own: of operators, and boxed calls. */
static bool is_announced(const struct op_table *t, unsigned file, uint64_t start)
{
	if (start == ops_call_boxed(t->elf[file]))
		return true;
	if (file != OPS_CPU)
		return false;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->ops[i].role == ROLE_CALL && t->ops[i].vaddr == start &&
		    t->ops[i].exit_kind != EXIT_NONE)
			return true;
	for (size_t i = 0; i < t->nboxed_copies; i++)
		if (t->boxed_copies[i] == start)
			return true;
	return start == t->boxed_known || start == t->boxed_of;
}

struct found_calls {
	struct op_table *t;
	unsigned file;
	int r;
};

static int on_call(uint64_t behind, void *arg)
{
	struct found_calls *f = arg;
	struct op_table *t = f->t;
	struct inlined_call c;
	uint64_t start;
	if (!elf_piece_at(t->elf[f->file], behind - 1, &start) || is_announced(t, f->file, start))
		return 0;
	if (inlined_call_find(t->elf[f->file], behind, &c))
		f->r = t->inlined.nops++ == INLINED_MAX ? -E2BIG : inlined_add(t, f->file, &c);
	return f->r;
}

/* The stub by which the file calls the function that asks for observers. */
static uint64_t asks_of(struct elf_file *f)
{
	struct callees *c;
	if (callees_open(f, &c))
		return 0;
	const uint64_t stub = callees_stub_for(c, ops_dispatched);
	callees_close(c);
	return stub;
}

static void find_in(struct op_table *t, unsigned file)
{
	uint64_t at;
	size_t size;
	struct found_calls f = {.t = t, .file = file};
	struct elf_file *e = t->elf[file];
	const uint8_t *text = e ? elf_section(e, ".text", &at, &size) : NULL;
	const uint64_t asks = text ? asks_of(e) : 0;
	if (file == OPS_CPU && t->nasked)
		for (size_t i = 0; i < t->nasked && !f.r; i++)
			on_call(t->asked[i], &f);
	else if (asks)
		ops_each_displacement(text, size, at, asks, on_call, &f);
	if (e)
		elf_file_drop(e);
}

const struct op_inlined *op_table_inlined(struct op_table *t)
{
	if (!t->inlined.searched) {
		t->inlined.searched = true;
		t->inlined.first = t->n;
		find_in(t, OPS_CPU);
		t->inlined.cpu = t->inlined.n;
		find_in(t, OPS_PYTHON);
		t->inlined.nops = t->n - t->inlined.first;
	}
	return &t->inlined;
}
