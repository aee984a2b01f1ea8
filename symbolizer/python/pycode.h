/* (code object, instruction) pairs of the target to frames and stacks: files, functions, lines,
 * columns. Everything returned is interned and lives until python_close. */
#ifndef SYMBOLIZER_PYTHON_PYCODE_H
#define SYMBOLIZER_PYTHON_PYCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/python/python.h"

/* The frame of one pair (symbolizer/python/python_offsets.h). Reads the target once for a code
 * object, never for a further instruction of it. Call it soon after the pair was taken: code
 * objects go away (py_code_freed). A code address that is no code object any more, or never was,
 * gives the frame {file "?", function "?", line 0}, which is not remembered for the pair; an
 * instruction that lies outside its code gives line 0. Never NULL. */
const struct py_frame *py_resolve(struct py_runtime *rt, uint64_t code_addr, uint64_t instr);

/* Nobody tells of code objects that are freed (py_code_freed): see whether what is known of the one
 * at `code` is still true, and forget it if it is not. Before it is resolved, each time. */
void py_code_check(struct py_runtime *rt, uint64_t code);

/* The stack of `n` pairs, innermost first (at most 512 are kept). Equal stacks are the same
 * object; two stacks are equal when their frames show the same, whatever the code objects. After
 * 24 MiB of different stacks, new ones keep their innermost frame only and are marked truncated, so
 * that a target that makes up code without end does not fill memory. NULL only without memory. A
 * stack seen before costs a hash and a comparison over the pairs. */
const struct py_stack *py_stack_intern(struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
				       bool truncated);

/* The same with the module (struct py_stack) for frames as they come with hits: frames[i] = {code
 * object, instruction, first local variable}, taken at `ns` (CLOCK_MONOTONIC). */
const struct py_stack *py_stack_intern_at(struct py_runtime *rt, const uint64_t frames[][3],
					  size_t n, bool truncated, uint64_t ns);

/* The code object at `code` is being freed in the target: its address may mean another one from now
 * on. Give hits and this in the order in which they happened. Frames and stacks already returned
 * stay. */
void py_code_freed(struct py_runtime *rt, uint64_t code);

/* The address of the function that frees code objects (PyCode_Type.tp_dealloc,
 * Include/cpython/object.h), whose first argument is the code object: where to put the probe that
 * feeds py_code_freed. 0 or -errno. */
int py_code_dealloc_addr(struct py_runtime *rt, uint64_t *addr);

/* Files below `path` (an absolute directory as the target names it) are torch's own
 * (py_frame.is_torch), as are those with site-packages/torch/ or dist-packages/torch/ in their
 * names. Call it before resolving: it does not change frames that are already there. 0 or -ENOMEM.
 */
int py_set_torch_dir(struct py_runtime *rt, const char *path);

/* The source line of a frame of this runtime, as py_sources_line gives it, at most 200 bytes; NULL
 * when there is none. Sets frame->text, too. */
const char *py_frame_text(struct py_runtime *rt, const struct py_frame *frame);

#endif
