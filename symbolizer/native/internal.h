/* What the files of this folder share. */
#ifndef SYMBOLIZER_NATIVE_INTERNAL_H
#define SYMBOLIZER_NATIVE_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "symbolizer/native/native_stack.h"

/* The module at `pc`; NULL: none. */
Dwfl_Module *native_stacks_module(const struct native_stacks *s, uint64_t pc);

/* Its row at `pc`, to be freed with free; NULL: there is none. */
Dwarf_Frame *native_stacks_row(Dwfl_Module *mod, uint64_t pc);

/* `symbol` without its parameters, or as it is; as long as `s`. NULL when out of memory. */
const char *native_stacks_demangle(struct native_stacks *s, const char *symbol);
const char *native_stacks_keep(struct native_stacks *s, const char *text);

#endif
