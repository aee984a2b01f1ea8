/* Groups of torch.distributed in the memory of a process: objects of C++ by their classes (RTTI),
 * and members found by the code of small functions. */
#ifndef SYMBOLIZER_TORCH_PROCESS_GROUP_H
#define SYMBOLIZER_TORCH_PROCESS_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/elf.h"
#include "symbolizer/target/process.h"
#include "symbolizer/torch/layout.h"

/* member_x86_64.c: which member of its object a function of `len` bytes at `code` (NULL: none)
 * returns, as its offset in bytes; MEMBER_NOT_KNOWN: it is not such a function. */

enum { MEMBER_NOT_KNOWN = -1 };

/* That only returns a member of 8 bytes. */
int32_t member_returned(const uint8_t *code, size_t len);

/* That returns a member of 4 bytes and adds 1 to it, as c10d::ProcessGroupGloo::nextTag. */
int32_t member_counted_up(const uint8_t *code, size_t len);

enum { TORCH_OBJECT_MAX = 4096 };

/* The memory of one object. */
struct torch_object {
	uint64_t at, word[TORCH_OBJECT_MAX / 8];
	size_t n;
	const struct rtti_class *class;
};

/* Read the one at `at`, which malloc of glibc has given out. False if it is implausible, as with
 * another malloc, or its class is not known. */
bool torch_object_read(const struct mem *m, struct rtti *r, uint64_t at, struct torch_object *out);

/* Whether what is at `at` is of the class, or of one derived from it. */
bool torch_object_is_a(struct rtti *r, uint64_t at, const char *class);

/* The addresses of the backends of a ProcessGroup, at most `most`. Returns their number; 0
 * before 2.x, where the group is the backend itself. */
size_t process_group_backends(const struct mem *m, struct rtti *r, const struct torch_object *group,
			      uint64_t *out, size_t most);

/* The offset in ProcessGroupGloo of collectiveCounter_, by the code of nextTag() in libtorch_cpu;
 * MEMBER_NOT_KNOWN. */
int32_t process_group_counter(struct elf_file *cpu);

/* How many collectives the ProcessGroup at `group` has begun, of Gloo: what collectiveCounter_
 * says, which is the same on all its ranks. 0; -ENODATA: another backend, or not known; -ENOMEM;
 * -errno. */
int process_group_count(const struct mem *m, struct rtti *r, struct elf_file *cpu, uint64_t group,
			uint32_t *count);

#endif
