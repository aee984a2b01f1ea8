#define _GNU_SOURCE

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/elf.h"
#include "tests/unit/libtorch.h"

static void assert_same(const struct arch_insn *a, const struct arch_insn *b)
{
	assert_int_equal(a->off, b->off);
	assert_int_equal(a->len, b->len);
	assert_int_equal(a->flow, b->flow);
	assert_int_equal(a->effect, b->effect);
	assert_int_equal(a->dst, b->dst);
	assert_int_equal(a->src, b->src);
	assert_int_equal(a->base, b->base);
	assert_int_equal(a->fp_src, b->fp_src);
	assert_int_equal(a->fp_writes, b->fp_writes);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->atomic, b->atomic);
	assert_int_equal(a->above, b->above);
	assert_int_equal(a->emulated, b->emulated);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->movable, b->movable);
	assert_int_equal(a->width, b->width);
	assert_int_equal(a->disp, b->disp);
	assert_int_equal(a->writes, b->writes);
	assert_int_equal(a->target, b->target);
}

/* A decoder with a warm cache must decode like a fresh one. */
static void check_at(struct arch_decoder *warm, const uint8_t *code, size_t len, uint64_t at,
		     uint32_t off)
{
	struct arch_decoder *fresh = arch_decoder_new();
	struct arch_insn a, b;
	assert_non_null(fresh);
	int r = arch_decode(warm, code, len, at, off, &a);
	assert_int_equal(r, arch_decode(fresh, code, len, at, off, &b));
	if (!r)
		assert_same(&a, &b);
	arch_decoder_free(fresh);
}

static void test_distances(void **state)
{
	/* Each twice with different displacements; then truncated. */
	static const struct {
		uint8_t len, code[2][10];
	} all[] = {
	    {2, {{0x74, 0x10}, {0x74, 0xf0}}},					      /* je */
	    {2, {{0xeb, 0x01}, {0xeb, 0x80}}},					      /* jmp */
	    {5, {{0xe8, 1, 2, 3, 4}, {0xe8, 0xff, 0xff, 0xff, 0xff}}},		      /* call */
	    {6, {{0x0f, 0x87, 1, 2, 0, 0}, {0x0f, 0x87, 0, 0, 0, 0x80}}},	      /* ja */
	    {6, {{0xff, 0x15, 1, 2, 3, 4}, {0xff, 0x15, 4, 3, 2, 0xf1}}},	      /* call *m */
	    {7, {{0x48, 0x8d, 0x05, 1, 2, 3, 4}, {0x48, 0x8d, 0x05, 9, 9, 9, 0xf9}}}, /* lea */
	    {7, {{0x48, 0x8b, 0x05, 1, 2, 3, 4}, {0x48, 0x8b, 0x05, 9, 9, 9, 0xf9}}}, /* load */
	    {7, {{0x48, 0x89, 0x05, 1, 2, 3, 4}, {0x48, 0x89, 0x05, 9, 9, 9, 0xf9}}}, /* store */
	    {7, {{0x48, 0x3b, 0x05, 1, 2, 3, 4}, {0x48, 0x3b, 0x05, 9, 9, 9, 0xf9}}}, /* cmp */
	    {7, {{0x80, 0x3d, 1, 2, 3, 4, 5}, {0x80, 0x3d, 9, 9, 9, 9, 6}}}, /* cmp m, imm */
	    {10, {{0xc7, 0x05, 1, 2, 3, 4, 5, 6, 7, 8}, {0xc7, 0x05, 4, 3, 2, 1, 8, 7, 6, 5}}},
	    {7, {{0x48, 0x8d, 0x85, 1, 2, 3, 4}, {0x48, 0x8d, 0x85, 9, 9, 9, 0xf9}}}, /* lea bp */
	    {6, {{0x48, 0x3d, 1, 2, 3, 4}, {0x48, 0x3d, 9, 9, 9, 0x09}}},	      /* cmp ax */
	    {5, {{0xb8, 1, 2, 3, 4}, {0xb8, 9, 9, 9, 9}}},			      /* mov imm */
	};
	struct arch_decoder *d = arch_decoder_new();
	(void)state;
	assert_non_null(d);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			for (int k = 0; k < 2; k++)
				check_at(d, all[i].code[k], all[i].len, 0x1000 * (k + 1 + round),
					 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (uint8_t n = 1; n < all[i].len; n++)
			check_at(d, all[i].code[0], n, 0x7000, 0);
	arch_decoder_free(d);
}

static void check_library(const struct libtorch *l)
{
	enum { EVERY = 61 };
	struct arch_decoder *d = arch_decoder_new();
	struct elf_file *elf;
	unsigned n = 0;
	assert_non_null(d);
	assert_int_equal(elf_file_open(l->path, &elf, NULL), 0);
	for (size_t i = 0; i < l->ncalls; i += 2) {
		uint64_t size = 0, at = elf_find_dynamic(elf, l->calls[i], &size);
		const uint8_t *code = at ? elf_bytes(elf, at, size) : NULL;
		struct arch_insn insn;
		for (uint32_t off = 0; code && off < size; off += insn.len) {
			if (++n % EVERY == 0)
				check_at(d, code, size, at, off);
			if (arch_decode(d, code, size, at, off, &insn))
				break;
		}
	}
	print_message("# %u instructions, every %uth compared\n", n, EVERY);
	assert_true(n > 10 * EVERY);
	elf_file_close(elf);
	arch_decoder_free(d);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_distances),
	    cmocka_unit_test(test_libraries),
	};

	return unit_run(tests, NULL, NULL);
}
