/* Fuzzes ELF headers: the reader stays within the file. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/elf.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static volatile unsigned sink;

static void touch(const uint8_t *p, size_t len)
{
	for (size_t i = 0; p && i < len; i++)
		sink += p[i];
}

static int on_pad(uint64_t vaddr, void *arg)
{
	(void)arg;
	sink += (unsigned)vaddr;
	return 0;
}

static void read_unwinding(struct elf_file *f, uint64_t vaddr)
{
	uint64_t start;
	if (elf_piece_at(f, vaddr, &start))
		elf_each_landing_pad(f, start, on_pad, NULL);
}

static int on_symbol(const struct elf_symbol *s, void *arg)
{
	struct elf_file *f = arg;
	int64_t off = elf_offset(f, s->vaddr);
	sink += (unsigned)strlen(s->name) + (unsigned)off;
	touch(elf_bytes(f, s->vaddr, s->size), s->size < 64 ? s->size : 64);
	read_unwinding(f, s->vaddr);
	return 0;
}

static void read_everything(struct elf_file *f)
{
	static const char *const names[] = {"main", "_ZN2at4_ops", "x", ""};
	struct mapping m = {.start = 0x7000, .offset = 0x1000, .exec = true};
	uint64_t at[4], sizes[4], vaddr, bias;
	size_t len = 0;
	elf_each_symbol(f, true, on_symbol, f);
	elf_find_all(f, names, 4, at, sizes);
	elf_bias(f, &m, &bias);
	const uint8_t *p = elf_section(f, ".rodata", &vaddr, &len);
	touch(p, len);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct elf_file *f;
	unsigned char *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (!elf_file_open_memory(copy, size, &f)) {
		read_everything(f);
		elf_file_close(f);
	}
	free(copy);
	return 0;
}
