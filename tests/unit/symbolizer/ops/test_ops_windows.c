/* The windows of every op and backward node of the real libraries, against a linear disassembly. */
#define _GNU_SOURCE
#include "tests/unit/code_search.h"

#include <capstone/capstone.h>
#include <time.h>

#include "symbolizer/code/return_sites.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/target_files.h"
#include "tests/unit/libtorch.h"

/* Everything that has not both windows, in any version. NULL: it has that one. */
static const struct exception {
	const char *op, *entry, *exit;
} exceptions[] = {
    /* 1.13: what it jumps to jumps by a table */
    {"aten::_cudnn_rnn_backward.out", "part of it jumps to an address that it computes",
     "it ends in a jump to another function"},
    /* in both versions it only throws, for which 2.13 calls the second */
    {"torch::autograd::Error", NULL, "it never returns"},
    {"torch::autograd::Error", "its first five bytes cannot all be moved",
     "no five bytes that can be moved are on all ways out, behind all calls"},
};

struct census {
	struct op_table *t;
	struct elf_file *elf;
	struct func_windows *windows; /* by op */
	struct arch_decoder *d;
	struct windows_ops beyond;
	csh cs;
	unsigned n[2], fit[2], several; /* of ops, of nodes */
	double analysis;
};

/* A function as a linear disassembly sees it. */
struct linear {
	cs_insn *insn;
	size_t n;
	uint64_t start;
	size_t size;
	uint8_t *target; /* by offset: a branch leads there */
};

static bool in_group(const cs_insn *i, unsigned group)
{
	for (unsigned k = 0; k < i->detail->groups_count; k++)
		if (i->detail->groups[k] == group)
			return true;
	return false;
}

static bool branches(const cs_insn *i)
{
	return in_group(i, CS_GRP_JUMP) || in_group(i, CS_GRP_CALL);
}

static struct linear disassemble(struct census *c, const uint8_t *code, uint64_t start, size_t size)
{
	struct linear l = {.start = start, .size = size, .target = calloc(1, size)};
	l.n = cs_disasm(c->cs, code, size, start, 0, &l.insn);
	assert_true(l.target && l.n);
	assert_int_equal(l.insn[l.n - 1].address + l.insn[l.n - 1].size, start + size);
	for (size_t k = 0; k < l.n; k++) {
		const cs_x86 *x = &l.insn[k].detail->x86;
		if (!branches(&l.insn[k]) || x->operands[0].type != X86_OP_IMM)
			continue;
		uint64_t at = (uint64_t)x->operands[0].imm - start;
		if (at < size)
			l.target[at] = 1;
	}
	return l;
}

static int add_pad(uint64_t vaddr, void *arg)
{
	struct linear *l = arg;
	assert_true(vaddr - l->start < l->size);
	l->target[vaddr - l->start] = 1;
	return 0;
}

static void linear_free(struct linear *l)
{
	cs_free(l->insn, l->n);
	free(l->target);
}

static size_t linear_find(const struct linear *l, uint32_t off)
{
	size_t low = 0;
	for (size_t high = l->n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (l->insn[mid].address < l->start + off)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void check_movable(const cs_insn *i, const char *name)
{
	const cs_x86 *x = &i->detail->x86;
	if (branches(i) || in_group(i, CS_GRP_RET) || in_group(i, CS_GRP_INT))
		fail_msg("%s: %s is in a window", name, i->mnemonic);
	for (unsigned k = 0; k < x->op_count; k++)
		if (x->operands[k].type == X86_OP_MEM && x->operands[k].mem.base == X86_REG_RIP)
			fail_msg("%s: %s %s is in a window", name, i->mnemonic, i->op_str);
}

/* It is whole instructions, as many as a jump needs, that may be elsewhere, and no branch and no
 * exception leads to any but the first. */
static void check_window(const struct linear *l, const struct code_window *w, const char *name)
{
	uint32_t n = 0;
	for (size_t k = linear_find(l, w->off); n < w->len; k++) {
		assert_true(k < l->n && n < ARCH_JUMP_LEN);
		assert_int_equal(l->insn[k].address, l->start + w->off + n);
		check_movable(&l->insn[k], name);
		n += l->insn[k].size;
	}
	assert_int_equal(n, w->len);
	assert_true((l->start + w->off) % 4096 <= 4096 - ARCH_JUMP_LEN);
	for (uint32_t k = 1; k < w->len; k++)
		if (l->target[w->off + k])
			fail_msg("%s: a branch leads into a window", name);
}

/* No way from the window to a return calls anything: the next branch of any kind is a return, or
 * is no call. */
static void check_behind(const struct linear *l, const struct code_window *w, const char *name)
{
	for (size_t k = linear_find(l, w->off); k < l->n; k++) {
		if (in_group(&l->insn[k], CS_GRP_CALL))
			fail_msg("%s: something is called behind its window", name);
		if (branches(&l->insn[k]) || in_group(&l->insn[k], CS_GRP_RET))
			return;
	}
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void check_exception(const char *name, const struct func_windows *w)
{
	for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
		if (!strcmp(exceptions[i].op, name) && same(exceptions[i].entry, w->entry_reason) &&
		    same(exceptions[i].exit, w->exit_reason))
			return;
	fail_msg("%s: entry: %s; exit: %s", name, w->entry_reason ? w->entry_reason : "fits",
		 w->exit_reason ? w->exit_reason : "fits");
}

static void check_all(struct census *c, const struct linear *l, const uint8_t *code,
		      const struct func_windows *w, const char *name)
{
	uint32_t exits[EXITS_MAX];

	assert_int_equal(w->entry.off, arch_landing_pad(code, l->size));
	assert_false(l->target[w->entry.off]);
	check_window(l, &w->entry, name);
	for (unsigned i = 0; i < w->nexits; i++) {
		assert_true(w->exit[i].off >= w->entry.off + w->entry.len);
		check_window(l, &w->exit[i], name);
		check_behind(l, &w->exit[i], name);
		exits[i] = w->exit[i].off;
	}
	code_search_check(c->d, code, l->size, l->start, exits, w->nexits, name);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check_op(struct census *c, const struct op_probe *o, const struct func_windows *w)
{
	size_t size = elf_function_size(c->elf, o->vaddr);
	const uint8_t *code = elf_bytes(c->elf, o->vaddr, size);
	const bool node = o->role == ROLE_NODE;

	assert_true(size && code);
	assert_int_equal(!w->entry.len, w->entry_reason != NULL);
	assert_int_equal(!w->nexits, w->exit_reason != NULL);
	c->n[node]++;
	if (!w->entry.len || !w->nexits) {
		check_exception(o->desc.name, w);
		print_message("# %s: entry: %s; exit: %s\n", o->desc.name,
			      w->entry_reason ? w->entry_reason : "fits",
			      w->exit_reason ? w->exit_reason : "fits");
		return;
	}
	struct linear l = disassemble(c, code, o->vaddr, size);
	assert_int_equal(elf_each_landing_pad(c->elf, o->vaddr, add_pad, &l), 0);
	check_all(c, &l, code, w, o->desc.name);
	linear_free(&l);
	c->fit[node]++;
	c->several += w->nexits > 1;
}

static void census_open(struct census *c, const struct libtorch *l)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};

	*c = (struct census){.d = arch_decoder_new()};
	assert_int_equal(op_table_load(files, OPS_PROBES, -1, &c->t, NULL), 0);
	close(files[0].fd);
	c->elf = c->t->elf[OPS_CPU];
	c->windows = calloc(c->t->n, sizeof(*c->windows));
	assert_true(c->windows && c->d);
	double from = now();
	assert_int_equal(op_table_windows(c->t, c->windows), 0);
	c->analysis = now() - from;
	c->beyond = callees_windows_ops(c->t->callees);
	assert_int_equal(cs_open(CS_ARCH_X86, CS_MODE_64, &c->cs), CS_ERR_OK);
	cs_option(c->cs, CS_OPT_DETAIL, CS_OPT_ON);
}

static unsigned known_values(const struct op_probe *o)
{
	unsigned n = 0;
	for (unsigned i = 0; i < o->abi.nargs; i++)
		n += o->abi.args[i].how != ABI_UNKNOWN;
	for (unsigned i = 0; i < o->abi.nresults; i++)
		n += o->abi.results[i].how != ABI_UNKNOWN;
	return n;
}

/* A table for jumps has the windows as sites, and knows of each op what one for probes does. */
static void check_table(const struct census *c, const struct libtorch *l)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct op_table *t;

	assert_int_equal(op_table_load(files, OPS_JUMPS, -1, &t, NULL), 0);
	close(files[0].fd);
	assert_int_equal(t->n, c->t->n);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct func_windows *w = &c->windows[i];
		const struct op_probe *o = &t->ops[i], *probed = &c->t->ops[i];
		const struct probe_site *s = &t->sites[o->first_site];
		if ((o->role != ROLE_CALL && o->role != ROLE_NODE) || !w->entry.len || !w->nexits)
			continue;
		assert_int_equal(o->nsites, 1 + w->nexits);
		assert_int_equal(s[0].offset, elf_offset(t->elf[OPS_CPU], o->vaddr + w->entry.off));
		assert_int_equal(elf_address(t->elf[OPS_CPU], s[0].offset),
				 o->vaddr + w->entry.off);
		assert_int_equal(s[0].len, w->entry.len);
		for (unsigned k = 0; k < w->nexits; k++)
			assert_int_equal(s[1 + k].len, w->exit[k].len);
		if (known_values(o) < known_values(probed) ||
		    o->values_known < probed->values_known)
			fail_msg("%s: a value is not known", o->desc.name);
	}
	for (unsigned i = 0; i < SHIM_STEPS; i++)
		assert_true(t->step[i].len >= ARCH_JUMP_LEN);
	op_table_free(t);
}

/* The libc10 beside a libtorch_cpu. */
static void c10_path(const struct libtorch *l, char *out, size_t size)
{
	static const char cpu[] = "libtorch_cpu";
	const char *name = strstr(l->path, cpu);
	assert_non_null(name);
	snprintf(out, size, "%.*slibc10%s", (int)(name - l->path), l->path, name + sizeof(cpu) - 1);
}

/* The functions of libc10 that are told of memory have windows, too. */
static void check_memory(const struct libtorch *l)
{
	char c10[sizeof(l->path) + 8];
	struct op_table *t;

	c10_path(l, c10, sizeof(c10));
	struct ops_file files[OPS_FILES] = {
	    {regular_open(l->path), l->path}, [OPS_C10] = {regular_open(c10), c10}};
	assert_int_equal(op_table_load(files, OPS_JUMPS, -1, &t, NULL), 0);
	close(files[OPS_CPU].fd);
	close(files[OPS_C10].fd);
	for (unsigned i = 0; i < SHIM_MEMORIES; i++) {
		assert_int_equal(t->memory[i].op, i);
		assert_true(t->memory[i].len >= ARCH_JUMP_LEN);
	}
	op_table_free(t);
}

static void census_close(struct census *c)
{
	cs_close(&c->cs);
	arch_decoder_free(c->d);
	free(c->windows);
	op_table_free(c->t);
}

static void check_library(const struct libtorch *l)
{
	struct census c;

	census_open(&c, l);
	for (uint32_t i = 0; i < c.t->n; i++) {
		const struct op_probe *o = &c.t->ops[i];
		if (o->role == ROLE_CALL || o->role == ROLE_NODE)
			check_op(&c, o, &c.windows[i]);
		else if (o->role == ROLE_BOXED)
			assert_string_equal(c.windows[i].entry_reason,
					    "its code is not in libtorch_cpu");
	}
	print_message("# %s: a jump fits %u of %u ops, and %u of %u nodes, %u of them with several "
		      "returns; found in %.0f ms\n",
		      l->path, c.fit[0], c.n[0], c.fit[1], c.n[1], c.several, c.analysis * 1e3);
	assert_int_equal(c.n[0], c.t->ncalls);
	assert_int_equal(c.n[1], c.t->nnodes);
	assert_true(c.n[0] > 1000 && c.n[0] - c.fit[0] <= 1);
	assert_true(c.n[1] > 300 && c.n[1] - c.fit[1] <= 2);
	check_table(&c, l);
	check_memory(l);
	census_close(&c);
}

/* A function is taken for shared when it is not the only one in its place. */
static void check_shared(const struct libtorch *l)
{
	struct census c;

	census_open(&c, l);
	for (uint32_t i = 0; i < c.t->n; i++) {
		const struct op_probe *o = &c.t->ops[i];
		if (o->role != ROLE_CALL)
			continue;
		size_t size = elf_function_size(c.elf, o->vaddr);
		void *arg = c.beyond.arg;
		assert_false(c.beyond.is_shared(arg, o->vaddr, size));
		/* it begins before, or ends behind, as its unwind entry does not */
		assert_true(c.beyond.is_shared(arg, o->vaddr + 1, size - 1));
		assert_true(c.beyond.is_shared(arg, o->vaddr, size - 1));
		assert_true(c.beyond.is_shared(arg, o->vaddr, size + 64));
	}
	census_close(&c);
}

static void test_shared(void **state)
{
	(void)state;
	libtorch_each(check_shared);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_shared),
	    cmocka_unit_test(test_libraries),
	};

	return unit_run(tests, NULL, NULL);
}
