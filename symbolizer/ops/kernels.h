/* Kernels for CPUs that inductor, the compiler of torch.compile, generates. Each is a library of
 * its own, an extension module of Python with one function (torch/_inductor/codecache.py,
 * CppPythonBindingsCodeCache; 2.11 and 2.13). */
#ifndef SYMBOLIZER_OPS_KERNELS_H
#define SYMBOLIZER_OPS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/return_sites.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/elf.h"

struct op_table;

/* The most kernels of a table. */
enum { KERNELS_MAX = 4096 };

/* Whether the file at this path is, by its name, a library of inductor's cache. */
bool kernel_is_library(const char *path);

/* Where to probe a kernel. */
struct kernel_sites {
	size_t n; /* 0: nowhere */
	struct probe_site site[1 + EXITS_MAX];
};

/* Find the kernel in such a library, `path` in the process: places for probes or, with `jumps`,
 * windows for jumps. It becomes an op of the table, of ROLE_KERNEL, and the sites are of that op.
 * What it is called there tells who calls it: its description says only which library it is from.
 * Keeps nothing of `f`. 0; -ENOENT: it is a library of another kind; -ENOTSUP: there are no such
 * places; -E2BIG; -ENOMEM. */
int op_table_add_kernel(struct op_table *t, struct elf_file *f, const char *path, bool jumps,
			struct kernel_sites *out);

/* The name of the kernel that the source line `text` of a generated module calls, to `out`:
 * "cpp_fused_relu_0" of "cpp_fused_relu_0(buf0, buf1)"; false: it calls none. */
bool kernel_called(const char *text, char *out, size_t size);

/* What the line begins with by which such a module defines a kernel of that name. False: `out` is
 * too small. */
bool kernel_definition(const char *name, char *out, size_t size);

#endif
