/* Resolves (code object, instruction) pairs of the target to frames and stacks: files, functions,
 * lines, columns. Everything returned is interned and lives until python_close. */
#ifndef SYMBOLIZER_PYTHON_PYCODE_H
#define SYMBOLIZER_PYTHON_PYCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/python/python.h"

/* The frame of one pair (py_walk_thread). Reads the target once for each code object. Call it soon
 * after the pair was taken: code objects are freed (py_code_freed). An address that is not a code
 * object (any more) gives the frame {file "?", function "?", line 0}, which is not cached; an
 * instruction outside its code gives line 0. Never NULL. */
const struct py_frame *py_resolve(struct py_runtime *rt, uint64_t code_addr, uint64_t instr);

/* For when py_code_freed is not called: verify the cached code object at `code` and drop it if it
 * has changed. Call it each time before resolving. */
void py_code_check(struct py_runtime *rt, uint64_t code);

/* The stack of `n` pairs, innermost first (at most 512 are kept). Equal stacks are the same object;
 * stacks are equal if their frames show the same, whatever the code objects. After 24 MiB of
 * different stacks, new ones keep their innermost frame only and are marked truncated, so that a
 * target that keeps generating code does not exhaust memory. NULL only when out of memory. A known
 * stack costs a hash and a comparison of the pairs. */
const struct py_stack *py_stack_intern(struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
				       bool truncated);

/* The same with py_stack.module, for frames as they come with hits: frames[i] = {code object,
 * instruction, first local variable}, taken at `ns` (CLOCK_MONOTONIC). */
const struct py_stack *py_stack_intern_at(struct py_runtime *rt, const uint64_t frames[][3],
					  size_t n, bool truncated, uint64_t ns);

/* The same for an op that Python code of the backward calls: the `own` innermost frames. They lie
 * in the modules of `around`, the stack of the forward op in whose backward they run; NULL: not
 * known, and no module is. */
const struct py_stack *py_stack_intern_backward(struct py_runtime *rt, const uint64_t frames[][3],
						size_t n, size_t own, const struct py_stack *around,
						bool truncated, uint64_t ns);

/* The code object at `code` is being freed in the target, and its address may be reused. Must be
 * called in order with the hits. Frames and stacks already returned stay valid. */
void py_code_freed(struct py_runtime *rt, uint64_t code);

/* The address of the function that frees code objects (PyCode_Type.tp_dealloc,
 * Include/cpython/object.h), whose first argument is the code object: the place of the probe that
 * feeds py_code_freed. 0 or -errno. */
int py_code_dealloc_addr(struct py_runtime *rt, uint64_t *addr);

/* Declare files below `path` (an absolute directory in the target) torch's own (py_frame.is_torch),
 * besides those with site-packages/torch/ or dist-packages/torch/ in their names. Call it before
 * resolving: frames already made are not updated. 0 or -ENOMEM. */
int py_set_torch_dir(struct py_runtime *rt, const char *path);

/* The source line of a frame of this runtime, as from py_sources_line, at most 200 bytes; NULL if
 * there is none. Also sets frame->text. */
const char *py_frame_text(struct py_runtime *rt, const struct py_frame *frame);

/* Code objects that may be freed before they can be read: copies made by the engine when they were
 * met or freed. */

/* A copy of target memory. */
struct py_region {
	uint64_t addr;
	const uint8_t *data;
	uint32_t len;
};

/* Cache the code object at `code` from copies of it and of the strings and line table it points to,
 * unless it is cached; a different one cached for that address is dropped. Memory in no copy is
 * read from the live target; a read that starts in a copy and extends beyond all copies fails. */
void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n);

/* What to copy of a code object, for the eBPF program. */
struct py_code_read python_code_read(const struct py_runtime *rt);

#endif
