/* Reading an ELF file of the target. Nothing in the file is trusted: whatever does not lie within
 * it is not there. Structures by the System V ABI (gABI 4.1, chapters 4 and 5) as in glibc's
 * <elf.h>. */
#ifndef SYMBOLIZER_TARGET_ELF_H
#define SYMBOLIZER_TARGET_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/target/maps.h"

struct elf_symbol {
	const char *name; /* mangled; valid while the file is open */
	uint64_t vaddr, size;
	uint8_t type;	  /* STT_FUNC, STT_OBJECT, STT_NOTYPE, STT_GNU_IFUNC ... */
	bool is_function; /* STT_FUNC */
	bool from_symtab; /* .symtab, not .dynsym */
};

struct elf_file;

/* Open the 64-bit little-endian ELF file at `path`; maps it, reads no more than is asked for.
 * Returns 0 and *out (free with elf_file_close); -errno; -ENOEXEC when it is no such file. A file
 * that somebody truncates while it is open ends the reader with SIGBUS: libraries are replaced by
 * renaming, not by writing. */
int elf_file_open(const char *path, struct elf_file **out, struct err *e);

/* The same from an open file, which stays the caller's and may be closed afterwards. `name` is for
 * messages. */
int elf_file_open_fd(int fd, const char *name, struct elf_file **out, struct err *e);

/* The same from `size` bytes, 8-byte aligned, which must outlive the file. */
int elf_file_open_memory(const void *data, size_t size, struct elf_file **out);

void elf_file_close(struct elf_file *f); /* NULL allowed */

/* Give back the resident pages that reading has brought in; pointers into the file stay valid. */
void elf_file_drop(struct elf_file *f);

/* Called for each defined symbol; a value other than 0 ends the iteration. */
typedef int elf_symbol_fn(const struct elf_symbol *s, void *arg);

/* All defined symbols of .dynsym, then, with `symtab`, of .symtab (which repeats those of .dynsym);
 * without thread-local and absolute ones, sections and file names. Returns what the callback
 * returned last, or 0. */
int elf_each_symbol(struct elf_file *f, bool symtab, elf_symbol_fn *fn, void *arg);

/* Address of the first symbol called `name` (.dynsym first), 0 when there is none; *size (may be
 * NULL) is its size. */
uint64_t elf_find(struct elf_file *f, const char *name, uint64_t *size);

/* The same in .dynsym alone, by its hash table: quick. */
uint64_t elf_find_dynamic(struct elf_file *f, const char *name, uint64_t *size);

/* elf_find for `n` names with at most one pass over .symtab: vaddr[i] is the address of names[i],
 * or 0. `sizes` (n of them) may be NULL. Returns how many were found. */
size_t elf_find_all(struct elf_file *f, const char *const *names, size_t n, uint64_t *vaddr,
		    uint64_t *sizes);

/* File offset of the byte at address `vaddr`, by the program headers; -1 when none holds it. */
int64_t elf_offset(const struct elf_file *f, uint64_t vaddr);

/* What to add to an address of the file to get that in the process where `m` is one of its
 * mappings. 0 and *bias (modulo 2^64); -ENOENT when no segment fits the mapping; -EINVAL when
 * several fit with different results, which a page of the file that two segments share can bring
 * about: an executable mapping is the safe choice. */
int elf_bias(const struct elf_file *f, const struct mapping *m, uint64_t *bias);

/* The page at which its first segment begins. */
uint64_t elf_first(const struct elf_file *f);

/* The `len` bytes at address `vaddr` as the file has them (relocations not done); NULL when they
 * are not all in the file. Valid while it is open. */
const uint8_t *elf_bytes(const struct elf_file *f, uint64_t vaddr, uint64_t len);

/* Bytes of the function that begins at `vaddr`, by its unwind entry (.eh_frame_hdr's table; Linux
 * Standard Base Core 5.0, 10.6), which stripped files keep, too. 0 when there is none. */
uint64_t elf_function_size(struct elf_file *f, uint64_t vaddr);

enum { ELF_BUILD_MOST = 64 };

/* Its build id (.note.gnu.build-id), *n bytes, at most ELF_BUILD_MOST; NULL and 0 when it has none.
 * Valid while the file is open. */
const uint8_t *elf_build_id(struct elf_file *f, size_t *n);

/* The contents of the section called `name`; NULL when there is none, or when it has no bytes in
 * the file. */
const uint8_t *elf_section(struct elf_file *f, const char *name, uint64_t *vaddr, size_t *size);

#endif
