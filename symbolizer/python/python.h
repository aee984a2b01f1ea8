/* The CPython runtime of a live process, read from outside: version, layout, threads, frames, GIL.
 */
#ifndef SYMBOLIZER_PYTHON_PYTHON_H
#define SYMBOLIZER_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/process.h"

/* The offsets that a stack walk and the line lookup need, by CPython minor version.
 *
 * Those of 3.8 to 3.12 are offsetof() of the structures in the headers named at each table in
 * python_offsets.c, compiled for x86-64. From 3.13 on, the target itself contains them
 * (_Py_DebugOffsets at the start of _PyRuntime, Include/internal/pycore_runtime.h). */

/* How the second word of a pair encodes the instruction's byte offset in the code. */
enum py_instr_kind {
	PY_INSTR_LASTI_BYTES, /* 3.8, 3.9: f_lasti itself */
	PY_INSTR_LASTI_UNITS, /* 3.10: f_lasti * 2 */
	PY_INSTR_POINTER,     /* 3.11+: word - (code + code_adaptive) */
};

/* Byte offsets within the objects that user space reads. */
struct py_objects {
	__u32 code_size; /* bytes from the start that cover all code_* fields */
	__u32 code_filename, code_name, code_qualname; /* qualname: 3.11+, else PY_NO_OFFSET */
	__u32 code_firstlineno, code_linetable;
	__u32 code_adaptive; /* first instruction; 3.11+, else PY_NO_OFFSET */
	__u32 str_length, str_state;
	__u32 str_ascii, str_compact; /* text of a compact ASCII string, of any other */
	__u32 bytes_size, bytes_data;
	__u32 ob_type, type_name, type_dealloc, type_flags;
};

struct py_layout {
	__u32 minor;	   /* as in 3.minor */
	__u32 linetable;   /* enum linetable_kind */
	__u32 instr_kind;  /* enum py_instr_kind */
	__u32 interp_head; /* offset within _PyRuntime */
	__u32 modules;	   /* sys.modules: offset within an interpreter */
	/* The GIL: its offset within _PyRuntime, or (3.12+) offset of a pointer to it within an
	 * interpreter. */
	__u32 gil;
	__u32 gil_locked, gil_holder, gil_size; /* offsets of an int and a pointer; size in bytes */
	struct py_walk walk;			/* without interp_head_addr */
	struct py_objects obj;
};

/* sizeof(_Py_DebugOffsets) of 3.13.0: the first bytes of _PyRuntime. */
enum { PY_DEBUG_OFFSETS_SIZE = 584 };

#ifndef __bpf__
#include <stddef.h>

struct err;

/* The layout of CPython 3.`minor` for the versions that have a table (3.8 to 3.12), else NULL.
 * Static storage. */
const struct py_layout *py_layout_table(unsigned minor);

/* Fill `out` from the `len` bytes at the start of the target's _PyRuntime (3.13). The bytes are
 * untrusted: every structure size and every field's span is checked. Returns 0; -ENOENT when there
 * is no debug cookie (before 3.13); -ENOTSUP for a free-threaded build or an unknown version;
 * -EPROTO for impossible offsets. *version is set to PY_VERSION_HEX whenever the cookie is there.
 * Source: Include/internal/pycore_runtime.h of 3.13.0. */
int py_layout_debug(const void *bytes, size_t len, struct py_layout *out, __u32 *version,
		    struct err *e);
#endif

/* The interpreter runtime of one process, with the caches of symbolizer/python/python.h. Not
 * thread-safe. */
struct py_runtime;

/* Find the runtime of `pid` (CPython 3.8 to 3.13, the default build), linked into the program or in
 * a shared library, and validate its memory against the layout. `m` is borrowed and must outlive
 * *out. Keeps the root and working directory of the process open, so that sources can be read after
 * its end. Returns 0 and *out (free with python_close), or -errno with *e:
 *   -ENOENT   no CPython in this process
 *   -EAGAIN   CPython is mapped but not initialised yet: try again later
 *   -ENOTSUP  unknown version or build
 *   -EPROTO   memory contradicts the layout of the version
 *   -ESRCH, -EPERM, -EACCES  the process cannot be read */
int python_open(pid_t pid, const struct mem *m, struct py_runtime **out, struct err *e);
void python_close(struct py_runtime *rt); /* NULL allowed */

/* "3.11.7"; "3.9" where the patch level is unknown (3.8 to 3.10). */
const char *python_version(const struct py_runtime *rt);

/* The number of the worker of a torch.utils.data.DataLoader that the process is, from 0: what
 * get_worker_info() says (torch/utils/data/_utils/worker.py). -ENOENT when it is none, or has not
 * begun its work; -EAGAIN when it changed while it was read; -errno when that cannot be read. */
int64_t python_loader_worker(const struct py_runtime *rt);

/* The name that Python's threading has for the thread whose threading.get_native_id() is `tid`,
 * into out (Lib/threading.py, 3.8 to 3.13: _active). Returns its length; -ENOENT when threading
 * does not know it; -EAGAIN when threads began or ended each time it was read: it may know it;
 * -errno when that cannot be read. */
ssize_t python_thread_name(const struct py_runtime *rt, int32_t tid, char *out, size_t size);

/* A group of processes of torch.distributed. */
struct python_group {
	char name[128];	 /* the same on all its ranks: "0", "default_pg" */
	uint64_t object; /* what its Python object wraps: the first word behind the head of an
			    instance of pybind11 (detail/common.h, simple_value_holder); a
			    c10d::ProcessGroup if its class says so */
	int32_t *ranks;	 /* in the group of all, ascending */
	size_t n;
};

/* The groups that this process is in: _pg_names and _pg_group_ranks of
 * torch/distributed/distributed_c10d.py (1.13 to 2.13). Their number and *out, to be freed with
 * python_groups_free; -ENOENT without that module; -errno when they cannot be read. */
int python_groups(const struct py_runtime *rt, struct python_group **out);
void python_groups_free(struct python_group *groups, size_t n); /* NULL allowed */

/* By what python_groups last saw: zero-initialise. */
struct python_groups_mark {
	uint64_t dict, entries; /* addresses in the process */
	size_t n;
};

/* Whether there may be other groups than when it was last called: some were made since, or all were
 * destroyed. 1, 0 or -errno. */
int python_groups_changed(const struct py_runtime *rt, struct python_groups_mark *mark);

/* How to walk frames, for the engines: struct py_walk in symbolizer/plan/plan.h. */
const struct py_walk *python_walk(const struct py_runtime *rt);

/* Walking the frames of any Python thread from outside, by struct py_walk, as the engines do for
 * the thread that hit. */

/* Find the thread state of the thread whose pthread_self() is `thread_id` (x86-64: its fs base),
 * or, if that is 0, whose gettid() in its own PID namespace is `tid`; before 3.11 the latter
 * requires glibc (pthread_tid in symbolizer/python/internal.h). Searches all interpreters. Returns
 * 0 and its address, -ENOENT when the thread has none, or -errno of a read. */
int py_find_tstate(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t *tstate);

/* Walk the frames of a thread, given as above, innermost first: pairs[i] = {code object,
 * instruction} as struct py_walk describes them, at most `max`. The thread should not run Python
 * meanwhile. *truncated is set when there are more frames, or one could not be read. Returns the
 * number of frames (0: no Python code), or -errno as py_find_tstate. */
int py_walk_thread(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t pairs[][2],
		   size_t max, bool *truncated);

/* Where a walk started. */
struct py_top {
	uint64_t tstate;
	uint64_t cframe; /* the _PyCFrame on the C stack of the interpreter's innermost call (3.11,
			    3.12), else 0 */
	uint64_t frame;	 /* the innermost frame */
};

/* The same; *top tells where the walk started. */
int py_walk_from(struct py_runtime *rt, uint64_t thread_id, pid_t tid, struct py_top *top,
		 uint64_t pairs[][2], size_t max, bool *truncated);

/* Address range [*start, *end) of the instructions of the code object at `code`, if the second word
 * of its pairs is an address (3.11+); 0, -ENOTSUP before 3.11, -errno of a read. */
int py_code_range(struct py_runtime *rt, uint64_t code, uint64_t *start, uint64_t *end);

struct py_gil {
	uint64_t addr, size; /* address, bytes; contains the futex words of its waiters */
	uint64_t holder;     /* the thread state that holds it; 0: free */
};

/* Read the GIL of the thread state's interpreter. Hazard: a thread that takes it sets `locked`
 * first and the holder an instruction later, so read twice. 0 or -errno. */
int py_gil_read(struct py_runtime *rt, uint64_t tstate, struct py_gil *out);

/* Resolves (code object, instruction) pairs of the target to frames and stacks: files, functions,
 * lines, columns. Everything returned is interned and lives until python_close. */

/* A copy of target memory. */
struct py_region {
	uint64_t addr;
	const uint8_t *data;
	uint32_t len;
};

/* The frame of one pair (py_walk_thread). Reads the target once for each code object. Call it soon
 * after the pair was taken: code objects are freed (py_code_freed). An address that is not a code
 * object (any more) gives the frame {file "?", function "?", line 0}, which is not cached; an
 * instruction outside its code gives line 0. Never NULL. */
const struct py_frame *py_resolve(struct py_runtime *rt, uint64_t code_addr, uint64_t instr);

/* For when py_code_freed is not called: verify the cached code object at `code` and drop it if it
 * has changed. Call it each time before resolving, while a frame keeps the code object alive. */
void py_code_check(struct py_runtime *rt, uint64_t code);

/* Or tell code objects apart by their prints (symbolizer/plan/code_print.h), taken while a frame
 * kept the code object alive. It need not live any more when it is resolved: it is named if it was
 * read before, or if what is at its address still has that print; else its frames are unknown. */

/* The print of the code object at `code`, with the parts that `like` has (PRINT_PARTS: all); 0: it
 * cannot be read. */
uint64_t py_code_print(const struct py_runtime *rt, uint64_t code, uint64_t like);

/* Read the code object now unless it was read; it is at its address. Whether it is known. */
bool py_code_see(struct py_runtime *rt, uint64_t code, uint64_t print);

/* The same, from copies (py_code_remember); it stays unread if they are of another one. */
void py_code_learn(struct py_runtime *rt, uint64_t code, uint64_t print, const struct py_region *r,
		   unsigned n);

/* Whether it was there at `ns` (CLOCK_MONOTONIC) and since: no other one was seen at its address,
 * not for a second before `ns` either. */
bool py_code_stays(const struct py_runtime *rt, uint64_t code, uint64_t print, uint64_t ns);

/* The stack of `n` pairs, innermost first (at most 512 are kept). Equal stacks are the same object;
 * stacks are equal if their frames show the same, whatever the code objects. After 24 MiB of
 * different stacks, new ones keep their innermost frame only and are marked truncated, so that a
 * target that keeps generating code does not exhaust memory. NULL only when out of memory. A known
 * stack costs a hash and a comparison of the pairs. */
const struct py_stack *py_stack_intern(struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
				       bool truncated);

/* How often stacks were new, or not as they were before, in all processes so far. */
uint64_t py_stacks_resolved(void);

/* The same with py_stack.module, for frames as they come with hits: frames[i] = {code object,
 * instruction, first local variable}, taken at `ns` (CLOCK_MONOTONIC). */
const struct py_stack *py_stack_intern_at(struct py_runtime *rt, const uint64_t frames[][3],
					  size_t n, bool truncated, uint64_t ns);

/* The same for frames whose code objects are known by their prints: frames[i] = {code object,
 * instruction, first local variable, print}. Without `locals`, the third is not looked at, and
 * there is no module. A frame whose print is 0 is unknown. */
const struct py_stack *py_stack_intern_prints(struct py_runtime *rt, const uint64_t frames[][4],
					      size_t n, bool truncated, bool locals, uint64_t ns);

/* The same for an op that Python code of the backward calls: the `own` innermost frames. They lie
 * in the modules of `around`, the stack of the forward op in whose backward they run; NULL: not
 * known, and no module is. */
const struct py_stack *py_stack_intern_backward(struct py_runtime *rt, const uint64_t frames[][3],
						size_t n, size_t own, const struct py_stack *around,
						bool truncated, uint64_t ns);

/* Find the names of parameters, too. */
void py_want_parameters(struct py_runtime *rt);

/* What locates the gradient accumulation, at `ns`, of the parameter whose TensorImpl is at `impl`:
 * a stack with its module and its name, and no frames. NULL unless it is certain that a module of
 * the program had it by that name at `ns`: the dict of the module's parameters was the same before
 * and afterwards. */
const struct py_stack *py_parameter_stack(struct py_runtime *rt, uint64_t impl, uint64_t ns);

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

/* Whether a line of the source file of a frame of this runtime begins with `text`, as
 * py_sources_begins. */
bool py_source_begins(struct py_runtime *rt, const char *file, const char *text);

/* Source files: lines of the target's code. */

struct py_sources;

/* Files as process `pid` sees them and may read them, also after it has ended:
 * symbolizer/target/target_files.h. What is no file is looked up in the linecache of `rt`, as long
 * as it runs (NULL: it is not). NULL when out of memory. */
struct py_sources *py_sources_new(pid_t pid, const struct py_runtime *rt);
void py_sources_free(struct py_sources *s); /* NULL allowed */

/* Line `line` (from 1) of `file` without indentation and trailing space, NUL-terminated into out,
 * truncated between characters to size - 1 bytes; invalid UTF-8 becomes '?'. Shows the file as it
 * is now, which may have changed since the program loaded it. Caches at most 64 files and 16 MiB.
 * Returns the length, 0 for an empty line, or -ENOENT when there is no such line or no text. */
ssize_t py_sources_line(struct py_sources *s, const char *file, int32_t line, char *out,
			size_t size);

/* Whether a line of `file` begins with `text`, which has no line break. */
bool py_sources_begins(struct py_sources *s, const char *file, const char *text);

/* Code objects that may be freed before they can be read: copies made by the engine when they were
 * met or freed. */

/* Cache the code object at `code` from copies of it and of the strings and line table it points to,
 * unless it is cached; a different one cached for that address is dropped. Memory in no copy is
 * read from the live target; a read that starts in a copy and extends beyond all copies fails. */
void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n);

/* What to copy of a code object, for the eBPF program. */
struct py_code_read python_code_read(const struct py_runtime *rt);

#endif
