/* (code object, instruction) pairs of the target to frames and stacks: files, functions, lines,
 * columns. Everything returned is interned and lives until python_close. */
#ifndef SYMBOLIZER_PYTHON_PYCODE_H
#define SYMBOLIZER_PYTHON_PYCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "symbolizer/python/python.h"

/* The frame of one pair (symbolizer/python/python.h). Reads the target once for a code
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

/* Code objects that may be freed before they can be read: what the engine copied of them when they
 * were met, or as they went. */

/* A piece of the target's memory as it was. */
struct py_region {
	uint64_t addr;
	const uint8_t *data;
	uint32_t len;
};

/* Learn the code object at `code` from copies of it, of the strings and the line table it points
 * to, unless it is known; another one that is known at that address is forgotten. What lies in no
 * copy is read from the live target; what reaches beyond one is not there. */
void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n);

/* Where a code object keeps what has to be copied, for the eBPF program: offsets of its pointers.
 */
struct py_code_read python_code_read(const struct py_runtime *rt);

/* A hash index: from 64-bit hashes to item numbers of arrays kept elsewhere. */

#define PYTABLE_NONE 0xffffffffU

/* Zero-initialise. */
struct pytable {
	struct pytable_slot {
		uint64_t hash;
		uint32_t item; /* + 1; 0: free */
	} * slot;
	uint32_t size, used; /* size: 0 or a power of two */
};

/* Items whose hash is `hash`, one a call: start with *pos = 0, PYTABLE_NONE at the end. The caller
 * compares the keys. */
uint32_t pytable_next(const struct pytable *t, uint64_t hash, uint32_t *pos);

/* Add an item, whether or not it is there already. 0 or -ENOMEM. */
int pytable_add(struct pytable *t, uint64_t hash, uint32_t item);

/* Forget all items; keeps the memory. */
void pytable_clear(struct pytable *t);
void pytable_free(struct pytable *t);

/* A hash of `len` bytes, good enough for power-of-two tables. Not for adversaries: compare keys. */
uint64_t pytable_hash(const void *bytes, size_t len, uint64_t seed);

#endif
