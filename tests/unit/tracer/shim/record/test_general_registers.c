/* What runs at the exit of an op, in the library as it is built: it must use general registers
 * alone, and call nothing of other libraries but through saved_call. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <capstone/capstone.h>

#include "symbolizer/target/elf.h"

extern const uint8_t _binary_libditrace_shim_so_start[], _binary_libditrace_shim_so_end[];

enum { PIECES = 256 };

/* Pieces of functions found so far; those before `done` have been looked through. */
struct walk {
	struct elf_file *f;
	csh cs;
	uint64_t start[PIECES], size[PIECES];
	unsigned n, done;
	uint64_t saved_call;
};

static bool in_section(const struct walk *w, const char *name, uint64_t at)
{
	uint64_t start;
	size_t size;
	return elf_section(w->f, name, &start, &size) && at >= start && at - start < size;
}

static void add(struct walk *w, uint64_t at)
{
	uint64_t start, size = elf_piece_at(w->f, at, &start);
	if (at == w->saved_call)
		return;
	if (in_section(w, ".plt", at) || in_section(w, ".plt.sec", at) ||
	    in_section(w, ".plt.got", at))
		fail_msg("a function of another library is called, by way of 0x%lx", at);
	assert_int_not_equal(size, 0);
	for (unsigned i = 0; i < w->n; i++)
		if (w->start[i] == start)
			return;
	assert_true(w->n < PIECES);
	w->start[w->n] = start;
	w->size[w->n++] = size;
}

static bool is_vector(const struct walk *w, uint16_t reg)
{
	static const char *const prefixes[] = {"xmm", "ymm", "zmm", "mm", "st", "k"};
	const char *name = cs_reg_name(w->cs, reg);
	for (size_t i = 0; name && i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);
		if (!strncmp(name, prefixes[i], n) &&
		    (name[n] == '(' || (name[n] >= '0' && name[n] <= '9')))
			return true;
	}
	return false;
}

static void check_insn(struct walk *w, const cs_insn *i)
{
	cs_regs read, write;
	uint8_t nread, nwrite;
	assert_int_equal(cs_regs_access(w->cs, i, read, &nread, write, &nwrite), 0);
	for (unsigned k = 0; k < nread + nwrite; k++)
		if (is_vector(w, k < nread ? read[k] : write[k - nread]))
			fail_msg("0x%lx: %s %s", i->address, i->mnemonic, i->op_str);
	const cs_x86_op *op = i->detail->x86.operands;
	bool branches =
	    cs_insn_group(w->cs, i, CS_GRP_CALL) || cs_insn_group(w->cs, i, CS_GRP_JUMP);
	if (branches && op->type == X86_OP_IMM)
		add(w, (uint64_t)op->imm);
}

static void check_piece(struct walk *w, uint64_t start, uint64_t size)
{
	const uint8_t *code = elf_bytes(w->f, start, size);
	cs_insn *i = cs_malloc(w->cs);
	size_t left = size;
	assert_non_null(code);
	while (left && cs_disasm_iter(w->cs, &code, &left, &start, i))
		check_insn(w, i);
	assert_int_equal(left, 0);
	cs_free(i, 1);
}

static void test_exit(void **state)
{
	/* thread_place and thread_sink are called by their addresses. */
	static const char *const roots[] = {"jump_left", "thread_place", "thread_sink"};
	size_t size = (size_t)(_binary_libditrace_shim_so_end - _binary_libditrace_shim_so_start);
	void *copy = malloc(size);
	struct walk w = {0};
	(void)state;
	assert_non_null(copy);
	memcpy(copy, _binary_libditrace_shim_so_start, size);
	assert_int_equal(elf_file_open_memory(copy, size, &w.f), 0);
	assert_int_equal(cs_open(CS_ARCH_X86, CS_MODE_64, &w.cs), 0);
	cs_option(w.cs, CS_OPT_DETAIL, CS_OPT_ON);
	w.saved_call = elf_find(w.f, "saved_call", NULL);
	assert_int_not_equal(w.saved_call, 0);
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		add(&w, elf_find(w.f, roots[i], NULL));
	for (; w.done < w.n; w.done++)
		check_piece(&w, w.start[w.done], w.size[w.done]);
	print_message("# %u pieces of functions\n", w.n);
	assert_true(w.n > 10);
	cs_close(&w.cs);
	elf_file_close(w.f);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit)};

	return unit_run(tests, NULL, NULL);
}
