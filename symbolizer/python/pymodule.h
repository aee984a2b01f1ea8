/* Which torch.nn.Module a call is in, as a path: "blocks.0.attn.qkv". Modules are told by their
 * addresses, as frames have them; names come from the _modules of those around them, read in the
 * target. What was read is kept with the words that it followed from: these are looked at again for
 * a call more than 2 ms later. A module that is gone by then, or that is first looked for more than
 * 20 ms after its call, has no path for it: another may have taken its address. What cannot be told
 * is one that takes it within this time. */
#ifndef SYMBOLIZER_PYTHON_PYMODULE_H
#define SYMBOLIZER_PYTHON_PYMODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct py_runtime;
struct py_modules;

/* NULL without memory. */
struct py_modules *py_modules_new(void);
void py_modules_free(struct py_modules *m);

#define PY_NO_MODULE 0xffffffffU

/* The number of this nesting of calls: modules[0] is called by modules[1] and so on; one that
 * follows itself (a call of two frames, or a recursion) is taken once. 0 in `modules` is one that
 * is not known. PY_NO_MODULE for none, for one not known, and without memory. */
uint32_t py_module_node(struct py_runtime *rt, const uint64_t *modules, size_t n);

/* Whether the number still means something: after very many they begin anew. */
bool py_module_node_known(const struct py_runtime *rt, uint32_t node);

/* The path of the innermost module of a nesting, as of a call at `ns` (CLOCK_MONOTONIC), interned;
 * as struct py_stack has it. NULL for PY_NO_MODULE, too. */
const char *py_module_path(struct py_runtime *rt, uint32_t node, uint64_t ns);

#endif
