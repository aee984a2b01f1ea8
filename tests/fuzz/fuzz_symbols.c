/* Fuzzes the symbol tables of files that a process has mapped or that a trace names, and what else
 * is read of such a file: functions are sorted, and a name is found where its symbol is. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "symbolizer/native/native_symbols.c"
#include "symbolizer/python/python.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { LOOKED_AT = 32 };

static const uint64_t base = 0x7f0000000000;

/* The file as it is once a process has it mapped and it was opened. */
static struct native_file *mapped_file(struct native_symbols *s, struct elf_file *elf)
{
	struct native_file *f = new_file(s, "/lib/libx.so");
	if (!f)
		abort();
	f->inode = 1;
	f->elf = elf;
	f->build = elf_build_id(elf, &f->nbuild);
	read_file(f);
	for (size_t i = 0; i + 1 < f->n; i++)
		if (f->functions[i].start >= f->functions[i + 1].start)
			abort();
	return f;
}

static void look_up(struct native_symbols *s, const struct maps *maps, uint64_t pc)
{
	struct native_frame out;
	const uint8_t *build;
	uint64_t start, size;
	size_t n;
	if (native_symbols_find(s, NULL, maps, pc, &out, &build, &n) || n > ELF_BUILD_MOST ||
	    !out.symbol != !out.name)
		abort();
	bool has = native_symbols_bounds(s, NULL, maps, pc, &start, &size);
	if (has != (out.symbol != NULL) || (has && pc - start >= size))
		abort();
}

/* Each page of the file as a mapping of its own. */
static void as_mapping(struct native_symbols *s, const struct native_file *f, uint64_t offset)
{
	struct mapping map = {.start = base,
			      .end = base + 0x10000,
			      .offset = offset,
			      .exec = true,
			      .inode = 1,
			      .path = "/lib/libx.so"};
	const struct maps maps = {.map = &map, .n = 1};
	uint64_t bias;
	native_symbols_base(s, NULL, &map);
	for (unsigned i = 0; i < LOOKED_AT; i++)
		look_up(s, &maps, base + i * 64);
	if (elf_bias(f->elf, &map, &bias))
		return;
	for (size_t i = 0; i < f->n && i < LOOKED_AT; i++)
		look_up(s, &maps, f->functions[i].start + bias);
}

static void look_at_code(struct native_symbols *s, const struct native_file *f)
{
	for (size_t i = 0; i < f->n && i < LOOKED_AT; i++) {
		uint64_t at = f->functions[i].start, start, size = elf_piece_at(f->elf, at, &start);
		if (size && at - start >= size)
			abort();
		elf_function_size(f->elf, at);
		function_name_in(s, f, at, true);
		if (f->functions[i].end > at && !function_name_in(s, f, at, false))
			abort();
	}
}

/* What tells whether the file has a CPython, and which. */
static void as_python(struct elf_file *elf)
{
	uint64_t vaddr[NNAMES];
	if (find_symbols(elf, true, vaddr) != complete(vaddr) || literal_minor(elf) > 999)
		abort();
}

/* The file as a trace names it. */
static void by_build(const unsigned char *data, size_t size, const struct native_file *f)
{
	struct native_symbols s = {0};
	char path[64];
	int fd = f->nbuild > 1 && f->n ? memfd_create("x", MFD_CLOEXEC) : -1;
	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) != (ssize_t)size)
		abort();
	const struct function *first = &f->functions[0];
	const char *name =
	    native_symbols_by_build(&s, path, f->build, f->nbuild, first->start, false);
	if (first->end > first->start && (!name || strcmp(name, first->name)))
		abort();
	native_symbols_free(&s);
	close(fd);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct native_symbols s = {0};
	struct elf_file *elf;
	unsigned char *copy = malloc(size + 1);
	if (!copy)
		abort();
	memcpy(copy, data, size);
	if (!elf_file_open_memory(copy, size, &elf)) {
		struct native_file *f = mapped_file(&s, elf);
		for (uint64_t offset = 0; offset < 0x4000; offset += 0x1000)
			as_mapping(&s, f, offset);
		look_at_code(&s, f);
		as_python(elf);
		by_build(data, size, f);
	}
	native_symbols_free(&s);
	free(copy);
	return 0;
}
