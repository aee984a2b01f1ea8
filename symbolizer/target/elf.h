/* Reader for ELF files of the target. The file is untrusted: data that does not lie within it is
 * treated as absent. Structures by the System V ABI (gABI 4.1, chapters 4 and 5) as in glibc's
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

/* Open the 64-bit little-endian ELF file at `path` by mmap; pages are read on demand. Returns 0 and
 * *out (free with elf_file_close), -errno, or -ENOEXEC when it is not such a file. If the file is
 * truncated while it is open, what it had reads as zeros, where bus_guard was called. */
int elf_file_open(const char *path, struct elf_file **out, struct err *e);

/* The same from an open file. `fd` stays the caller's and may be closed afterwards. `name` is for
 * messages. */
int elf_file_open_fd(int fd, const char *name, struct elf_file **out, struct err *e);

/* The same from `size` bytes in memory, 8-byte aligned, borrowed until elf_file_close. 0, -EINVAL
 * when misaligned, -ENOEXEC or -ENOMEM. */
int elf_file_open_memory(const void *data, size_t size, struct elf_file **out);

void elf_file_close(struct elf_file *f); /* NULL allowed */

/* Drop the resident pages of the mapping; pointers into the file stay valid. */
void elf_file_drop(struct elf_file *f);

/* Called for each defined symbol; a non-zero return ends the iteration. */
typedef int elf_symbol_fn(const struct elf_symbol *s, void *arg);

/* Iterate over all defined symbols of .dynsym and, if `symtab`, of .symtab, which repeats those of
 * .dynsym. Thread-local and absolute symbols, sections and file names are skipped. Returns the last
 * return value of the callback, or 0. */
int elf_each_symbol(struct elf_file *f, bool symtab, elf_symbol_fn *fn, void *arg);

/* Virtual address of the first symbol called `name` (.dynsym first), 0 if there is none. *size (may
 * be NULL): its size in bytes. */
uint64_t elf_find(struct elf_file *f, const char *name, uint64_t *size);

/* The same in .dynsym only, by its hash table if it has one. */
uint64_t elf_find_dynamic(struct elf_file *f, const char *name, uint64_t *size);

/* elf_find for `n` names in at most one pass over .symtab. vaddr[i]: address of names[i], or 0;
 * sizes[i]: its size (`sizes` may be NULL). Returns the number found. */
size_t elf_find_all(struct elf_file *f, const char *const *names, size_t n, uint64_t *vaddr,
		    uint64_t *sizes);

/* File offset of the byte at address `vaddr`, by the program headers; -1 if no segment has it. */
int64_t elf_offset(const struct elf_file *f, uint64_t vaddr);

/* The address of the byte at that file offset, by the program headers; 0 if no segment has it. */
uint64_t elf_address(const struct elf_file *f, uint64_t offset);

/* Load bias: what to add to an address of the file to get the address in the process that `m` is a
 * mapping of. 0 and *bias (modulo 2^64); -ENOENT when no segment fits the mapping; -EINVAL when
 * segments with different results fit, as when two segments share a page of the file. Prefer an
 * executable mapping. */
int elf_bias(const struct elf_file *f, const struct mapping *m, uint64_t *bias);

/* Address of the first loadable segment, rounded down to a page. */
uint64_t elf_first(const struct elf_file *f);

/* The `len` bytes at address `vaddr` as in the file, not relocated; NULL when they are not all in
 * the file. Valid while it is open. */
const uint8_t *elf_bytes(const struct elf_file *f, uint64_t vaddr, uint64_t len);

/* Size in bytes of the function that begins at `vaddr`, by its unwind entry, which stripped files
 * keep. 0 if it has none. */
uint64_t elf_function_size(struct elf_file *f, uint64_t vaddr);

/* Size in bytes and *start of the piece of a function that has the code at `vaddr`, by its unwind
 * entry. 0 if it has none. */
uint64_t elf_piece_at(struct elf_file *f, uint64_t vaddr, uint64_t *start);

/* Called with an address; a non-zero return ends the iteration. */
typedef int elf_address_fn(uint64_t vaddr, void *arg);

/* Call `fn` with the address of each landing pad, where an exception enters the function again, of
 * the piece of code that begins at `vaddr`; one address may come several times, and may be in
 * another piece. Returns 0, the callback's non-zero value, -ENOENT when no unwind entry begins
 * there, -ENOEXEC when its tables are not understood. */
int elf_each_landing_pad(struct elf_file *f, uint64_t vaddr, elf_address_fn *fn, void *arg);

enum { ELF_BUILD_MOST = 64 };

/* The build id (.note.gnu.build-id) of *n bytes, at most ELF_BUILD_MOST; NULL and 0 if there is
 * none. Valid while the file is open. */
const uint8_t *elf_build_id(struct elf_file *f, size_t *n);

/* The C++ name that the symbol `symbol` stands for, by the DMGL_* of libiberty's demangle.h in
 * `options`; free() it. NULL when it is none, or longer than 64 KiB: a symbol of a few hundred
 * bytes can stand for more than any memory holds. */
char *elf_demangle(const char *symbol, int options);

/* Contents of the section called `name`, with its address and its size in bytes; NULL if there is
 * none, or it is compressed or has no bytes in the file. Valid while the file is open. */
const uint8_t *elf_section(struct elf_file *f, const char *name, uint64_t *vaddr, size_t *size);

#endif
