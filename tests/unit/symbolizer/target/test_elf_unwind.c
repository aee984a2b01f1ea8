#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/target/elf.h"
#include "tests/unit/libtorch.h"

/* A function whose unwind entry has the table of exceptions `lsda`. */
#define THROWS(name, entry, lsda)                                                                  \
	asm(".pushsection .text\n" #name ": .cfi_startproc\n" entry "\nnop; nop; " #name           \
	    "_1: nop; " #name "_2: nop; ret\n.cfi_endproc\n.popsection\n"                          \
	    ".pushsection .gcc_except_table, \"a\", @progbits\n" lsda "\n.popsection")

#define HANDLED(name) ".cfi_personality 0x1b, unwind_personality; .cfi_lsda 0x1b, " #name "_lsda"

asm(".pushsection .text\nunwind_personality: ret\n.popsection");

THROWS(none, "", "");
/* a place where another unwind entry has none */
THROWS(unhandled, ".cfi_personality 0x1b, unwind_personality", "");
/* two pads, one of them twice, and a call without one */
THROWS(plain, HANDLED(plain),
       "plain_lsda: .byte 0xff, 0xff, 1; .uleb128 2f - 1f; 1:"
       ".uleb128 0, 1, plain_1 - plain, 0; .uleb128 1, 1, 0, 0;"
       ".uleb128 2, 1, plain_2 - plain, 1; .uleb128 3, 1, plain_1 - plain, 0; 2:");
/* of 4 bytes each, from a place of their own, with types */
THROWS(based, HANDLED(based),
       "based_lsda: .byte 0x1b; .long unwind_personality - .; .byte 0x9b; .uleb128 20; .byte 3;"
       ".uleb128 2f - 1f; 1: .long 0, 1, based_2 - unwind_personality; .uleb128 0; 2:");
/* a form that nobody writes; longer than the section */
THROWS(odd, HANDLED(odd), "odd_lsda: .byte 0xff, 0xff, 2; .uleb128 7; .short 0, 1, 2; .byte 0");
THROWS(cut, HANDLED(cut), "cut_lsda: .byte 0xff, 0xff, 1; .uleb128 100000000; .uleb128 0, 1, 2, 0");

struct pads {
	uint64_t at[8];
	unsigned n;
};

static int add(uint64_t vaddr, void *arg)
{
	struct pads *p = arg;
	assert_true(p->n < 8);
	p->at[p->n++] = vaddr;
	return 0;
}

static int stop(uint64_t vaddr, void *arg)
{
	(void)vaddr;
	(void)arg;
	return 7;
}

static struct elf_file *own(void)
{
	struct elf_file *f;
	assert_int_equal(elf_file_open("/proc/self/exe", &f, NULL), 0);
	return f;
}

static struct pads pads_of(struct elf_file *f, const char *name, int result)
{
	struct pads p = {.n = 0};
	uint64_t at = elf_find(f, name, NULL);
	assert_true(at);
	assert_int_equal(elf_each_landing_pad(f, at, add, &p), result);
	return p;
}

static void test_pads(void **state)
{
	(void)state;
	struct elf_file *f = own();
	uint64_t one = elf_find(f, "plain_1", NULL), two = elf_find(f, "plain_2", NULL);
	struct pads p = pads_of(f, "plain", 0);
	assert_int_equal(p.n, 3);
	assert_true(p.at[0] == one && p.at[1] == two && p.at[2] == one);
	p = pads_of(f, "based", 0);
	assert_int_equal(p.n, 1);
	assert_true(p.at[0] == elf_find(f, "based_2", NULL));
	assert_int_equal(elf_each_landing_pad(f, elf_find(f, "plain", NULL), stop, NULL), 7);
	assert_int_equal(pads_of(f, "none", 0).n, 0);
	assert_int_equal(pads_of(f, "unhandled", 0).n, 0);
	elf_file_close(f);
}

static void test_unknown(void **state)
{
	(void)state;
	struct elf_file *f = own();
	assert_int_equal(pads_of(f, "odd", -ENOEXEC).n, 0);
	assert_int_equal(pads_of(f, "cut", -ENOEXEC).n, 0);
	/* within a function, and where there is none */
	assert_int_equal(pads_of(f, "plain_1", -ENOENT).n, 0);
	assert_int_equal(elf_each_landing_pad(f, 16, add, NULL), -ENOENT);
	elf_file_close(f);
}

struct within {
	uint64_t start, size;
	unsigned n;
};

static int is_within(uint64_t vaddr, void *arg)
{
	struct within *w = arg;
	assert_true(vaddr > w->start && vaddr - w->start < w->size);
	w->n++;
	return 0;
}

/* Every op's table is understood; nearly all have destructors to run. */
static void check_library(const struct libtorch *l)
{
	struct elf_file *f;
	unsigned with = 0;
	assert_int_equal(elf_file_open(l->path, &f, NULL), 0);
	for (size_t i = 0; i < l->ncalls; i++) {
		struct within w = {0};
		w.start = elf_find_dynamic(f, l->calls[i], &w.size);
		assert_int_equal(elf_each_landing_pad(f, w.start, is_within, &w), 0);
		with += w.n > 0;
	}
	print_message("# %u of %zu ops have landing pads\n", with, l->ncalls);
	assert_true(with * 100 >= l->ncalls * 90);
	elf_file_close(f);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pads),
	    cmocka_unit_test(test_unknown),
	    cmocka_unit_test(test_libraries),
	};
	return unit_run(tests, NULL, NULL);
}
