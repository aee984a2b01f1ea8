/* An ELF file, for what reads it. */
#ifndef SYMBOLIZER_TARGET_INTERNAL_H
#define SYMBOLIZER_TARGET_INTERNAL_H

#include <elf.h>

#include "symbolizer/target/elf.h"

enum { ELF_LOADS_MAX = 32 };

struct elf_file {
	const uint8_t *raw;
	size_t size;
	void *map; /* NULL: `raw` is the caller's */
	/* Copies: others may write to the file after it was checked. */
	Elf64_Phdr *ph;
	size_t nph;
	Elf64_Shdr *sh;
	size_t nsh, names; /* index of the section of sections' names */
	const Elf64_Phdr *load[ELF_LOADS_MAX];
	unsigned nloads;
};

/* `count` elements of `each` bytes at offset `off`; NULL when out of bounds or not 8-byte aligned.
 */
const void *elf_part(const struct elf_file *f, uint64_t off, uint64_t count, uint64_t each);

#endif
