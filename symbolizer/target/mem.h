/* Access to the target's memory through an abstract reader: a live process, or a buffer in a test.
 */
#ifndef SYMBOLIZER_TARGET_MEM_H
#define SYMBOLIZER_TARGET_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A reader of target memory. `read` copies `len` bytes at target address `addr` to `buf`; returns
 * 0, or -errno (-EFAULT when any byte of the range is not readable, -ESRCH when the process is
 * gone). */
struct mem {
	int (*read)(const struct mem *m, uint64_t addr, void *buf, size_t len);
	pid_t pid; /* for mem_process */
};

/* A reader of the live process `pid` by process_vm_readv(2); needs ptrace access rights to it. */
struct mem mem_process(pid_t pid);

static inline int mem_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m, addr, buf, len);
}

/* Read one 8-byte word. 0 or -errno. */
int mem_read_u64(const struct mem *m, uint64_t addr, uint64_t *out);

/* Read `n` 8-byte words at the addresses `addrs` in few system calls. 0, or -errno when one cannot
 * be read. */
int mem_read_words(const struct mem *m, const uint64_t *addrs, uint64_t *out, size_t n);

/* Read a NUL-terminated string of at most size - 1 bytes into out, truncated when longer; always
 * NUL-terminated on success. Returns its length or -errno. */
ssize_t mem_read_str(const struct mem *m, uint64_t addr, char *out, size_t size);

/* Strings of libstdc++ in the target's memory. */

/* sizeof(std::string). C++11 ABI: {char *, size_t, 16 bytes: the text itself or its capacity}
 * (bits/basic_string.h). The older ABI, `cow` (bits/cow_string.h): {char *}, with {size_t length,
 * capacity; int refcount - 1} before the text; used by PyTorch's Linux wheels on PyPI up to 2.5. */
static inline unsigned std_string_size(bool cow)
{
	return cow ? 8 : 32;
}

/* Copy the std::string at `addr` to out, NUL-terminated. Returns its length; -1 when there is none,
 * it is not printable, or it has `size` bytes or more. */
int std_string_read(const struct mem *m, bool cow, uint64_t addr, char *out, size_t size);

#endif
