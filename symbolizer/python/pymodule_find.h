/* The tree of a torch.nn.Module of the target: who is in it, and what that follows from. For
 * pymodule.c alone. */
#ifndef SYMBOLIZER_PYTHON_PYMODULE_FIND_H
#define SYMBOLIZER_PYTHON_PYMODULE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/python/pytable.h"

struct py_runtime;

enum { PY_PATH_MAX = 1024 };

/* Words of the target from which something follows as long as they are what they were. */
struct py_witness {
	uint64_t *at, *is; /* `n` each */
	uint32_t n, room;
};

bool py_witness_holds(const struct py_runtime *rt, const struct py_witness *w);
void py_witness_free(struct py_witness *w);

/* What a search needs to remember. Zero-initialise. */
struct py_tree {
	uint64_t modules_key; /* a string "_modules"; 0: none is known */
	struct pytable seen;
	struct py_branch *branch;
	uint32_t n;
};

void py_tree_free(struct py_tree *t);

/* The names from module `root` to `module` in its tree, joined by dots, by the shortest way and the
 * first of several; *w says what that follows from. 1; 0 when it is not in the tree; -errno when
 * the tree cannot be read as a whole (-E2BIG: it is too large). */
int py_tree_find(const struct py_runtime *rt, struct py_tree *t, uint64_t root, uint64_t module,
		 struct py_witness *w, char *out, size_t size);

/* The name of the class of the module `obj`. 0, or -errno when it is no module. */
int py_tree_class(const struct py_runtime *rt, struct py_tree *t, uint64_t obj,
		  struct py_witness *w, char *out, size_t size);

#endif
