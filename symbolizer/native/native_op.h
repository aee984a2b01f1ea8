/* The operator of PyTorch that a thread is in, by the functions on its native stack. */
#ifndef SYMBOLIZER_NATIVE_NATIVE_OP_H
#define SYMBOLIZER_NATIVE_NATIVE_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/maps.h"

/* What is known of the names of one process; zero-initialise, free with native_ops_free. */
struct native_ops {
	struct arena arena;
	struct native_op_name *names; /* those asked for */
	struct elf_file *elf;	      /* libtorch_cpu; NULL: not opened (yet) */
	bool opened;
};

struct in_op {
	const char *op;	  /* "aten::add.Tensor"; NULL: in none that at::_ops has */
	uint64_t entry;	  /* where the function begins that is the op's; 0: not known */
	const char *node; /* "AddmmBackward0": the innermost backward node; NULL: none */
};

/* The innermost of the `n` frames of process `pid`. An operator's schema name is looked up in the
 * read-only data of its libtorch; where that has none or several that would be written so in C++,
 * the name is that of the C++ struct, "at::_ops::add_Tensor". The strings live as long as `o`. */
struct in_op native_op_find(struct native_ops *o, pid_t pid, const struct maps *maps,
			    const struct native_frame *frames, unsigned n);

void native_ops_free(struct native_ops *o);

/* Whether schema name `name` of `len` bytes, with or without "aten::", is that of the struct
 * at::_ops::`owner`: its name with "_" for the overload's "." (torchgen/model.py,
 * OperatorName.unambiguous_name). */
bool native_op_is(const char *name, size_t len, const char *owner);

#endif
