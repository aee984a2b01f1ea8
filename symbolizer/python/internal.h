/* What the files of this folder share. */
#ifndef SYMBOLIZER_PYTHON_INTERNAL_H
#define SYMBOLIZER_PYTHON_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/python/pycode.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/mem.h"

/* From a bytecode offset to a source position: CPython's three line table formats. Pure functions
 * over bytes that nobody vouches for. */

enum linetable_kind {
	LINETABLE_LNOTAB,    /* 3.8, 3.9: Objects/lnotab_notes.txt */
	LINETABLE_PEP626,    /* 3.10: Objects/lnotab_notes.txt, "co_linetable" */
	LINETABLE_POSITIONS, /* 3.11+: Objects/locations.md (3.11), Include/cpython/code.h */
};

struct linetable_pos {
	int32_t line, end_line;	    /* from 1; 0: none is known for the instruction */
	int32_t column, end_column; /* UTF-8 bytes within line and end_line, from 0; -1: unknown */
};

/* The position of the instruction at byte offset `lasti` of the code, as frame.f_lineno and
 * code.co_positions() give it. A negative lasti (the frame has not begun) is the line of the `def`.
 * Returns 0; -ENODATA when the table (`len` bytes) ends before lasti; -EPROTO when the table is cut
 * within an entry or gives a position that cannot be. On failure *out is all unknown. Lnotab tables
 * have no end: their last line goes on. */
int linetable_lookup(enum linetable_kind kind, const uint8_t *bytes, size_t len,
		     int32_t firstlineno, int64_t lasti, struct linetable_pos *out);

/* Dicts and the attributes of objects of the target, read without its help. */

struct py_runtime;

/* A word of the target. */
struct py_word {
	uint64_t at, is;
};

/* A dict, an object of a class made from it such as OrderedDict, or the attributes of an object, as
 * they looked when they were opened. All are target addresses, but for `n`. */
struct py_dict {
	uint64_t entries;
	uint64_t key_at, value_at; /* of the first entry: where its key and its value stand */
	size_t key_step, value_step;
	size_t n; /* entries, those without a value (0) among them */
	/* As long as these words are what they were, entries stand where they stood. */
	struct py_word proof[4];
	unsigned nproof;
};

/* 0, -EPROTO when there is no dict, -E2BIG when it has more than PY_DICT_MAX entries, or -errno of
 * the reading. The layout is that of Objects/dict-common.h (3.8 to 3.10) or
 * Include/internal/pycore_dict.h (3.11 to 3.13). */
enum { PY_DICT_MAX = 4096 };
int py_dict_open(const struct py_runtime *rt, uint64_t addr, struct py_dict *out);

/* The attributes that the object at `obj`, of class `type`, has itself: its __dict__, or what it
 * has until that is asked for (3.11+). As above; -ENOENT when objects of its class have none. */
int py_attributes_open(const struct py_runtime *rt, uint64_t obj, uint64_t type,
		       struct py_dict *out);

/* Keys and values of all entries into out[d->n]; a value of 0: there is none. 0 or -errno. */
int py_dict_read(const struct py_runtime *rt, const struct py_dict *d, uint64_t out[][2]);

/* Which torch.nn.Module a call is in, as a path: "blocks.0.attn.qkv". Modules are told by their
 * addresses, as frames have them; names come from the _modules of those around them, read in the
 * target. What was read is kept with the words that it followed from: these are looked at again for
 * a call more than 2 ms later. A module that is gone by then, or that is first looked for more than
 * 20 ms after its call, has no path for it: another may have taken its address. What cannot be told
 * is one that takes it within this time. */

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

/* The tree of a torch.nn.Module of the target: who is in it, and what that follows from. For
 * pymodule.c alone. */

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

/* Reading Python objects of the target: types, strings, bytes. Everything is checked; nothing of
 * the target is executed or changed. */

struct py_runtime;

/* The word at `obj` that is the address of its type, if it is an object that is alive as far as its
 * reference count tells (ob_refcnt, Include/object.h); nothing else is read. 0 or -errno (-EPROTO:
 * it is none). */
int py_live_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* The type of the object at `obj`, as a target address, once that is known to be a type object.
 * 0 or -errno (-EPROTO: not an object). */
int py_object_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* tp_name of the type object at `type` into out, NUL-terminated, cut when longer than size - 1:
 * UTF-8, "module.Name" for static types, "Name" for classes made in Python. Returns its length, or
 * -errno
 * (-EPROTO: not a type object). */
ssize_t py_type_name(const struct py_runtime *rt, uint64_t type, char *out, size_t size);

/* The str object at `addr` as NUL-terminated UTF-8 into out, cut at a whole character when longer
 * than size - 1. Surrogates and NUL become U+FFFD. Returns its length, or -errno (-EPROTO: not an
 * exact, compact str). Layout: Include/cpython/unicodeobject.h. */
ssize_t py_read_str(const struct py_runtime *rt, uint64_t addr, char *out, size_t size);

/* The bytes object at `addr`: at most `max` bytes into a new buffer *out (free(3)). Returns its
 * length, or -errno (-EPROTO: not an exact bytes object, -E2BIG: longer than max). */
ssize_t py_read_bytes(const struct py_runtime *rt, uint64_t addr, size_t max, uint8_t **out);

/* Lines of the target's Python source files, for showing them beside a frame. */

struct py_sources;

/* Files as process `pid` sees them: absolute names below its root directory (symbolic links too),
 * relative ones from the working directory it has now. Both directories are held open, so texts can
 * be read after the process has ended. NULL without memory. */
struct py_sources *py_sources_new(pid_t pid);
void py_sources_free(struct py_sources *s); /* NULL is allowed */

/* Line `line` (from 1) of `file` without indentation and trailing space, NUL-terminated into out,
 * cut at a whole character at size - 1 bytes; bytes that are not UTF-8 become '?'. What the file
 * holds now is what is shown: a file that was changed since the program read it gives a text that
 * does not fit. Keeps at most 64 files and 16 MiB. Returns the length, 0 for an empty line, or
 * -ENOENT when there is no such line or the file cannot be read ("<string>" and the like). */
ssize_t py_sources_line(struct py_sources *s, const char *file, int32_t line, char *out,
			size_t size);

/* Which file of a process holds the CPython runtime, and where its symbols lie in the process. */

struct py_image {
	char path[512]; /* as in the target's mount namespace; cut when longer */
	/* Target addresses of the objects of these names; 0: the file has no such symbol. */
	uint64_t runtime;      /* _PyRuntime, never 0 */
	uint64_t version;      /* Py_Version, 3.11+ */
	uint64_t code_type;    /* PyCode_Type, never 0 */
	uint64_t unicode_type; /* PyUnicode_Type, never 0 */
	uint64_t bytes_type;   /* PyBytes_Type, never 0 */
	/* N when the file's read-only data holds the string "python3.N" for exactly one N, as the
	 * path set-up of 3.8 to 3.10 does (Modules/getpath.c, VERSION); else 0. */
	unsigned literal_minor;
};

/* Look through the executable mappings of `pid` for files that define a CPython runtime; files and
 * the main program with "python" in their names first, any other file only when those have none.
 * Fills out with at most `max` of them. Returns the number found (0: this process has no CPython),
 * or -errno with *e: -ESRCH, -EACCES. */
int py_images(pid_t pid, struct py_image *out, size_t max, struct err *e);

/* What struct py_runtime is made of: for the files symbolizer/py*.c only. */

struct py_codes;
struct py_modules;
struct py_sources;
struct py_stacks;

struct py_runtime {
	pid_t pid;
	const struct mem *mem;
	struct py_image image;
	struct py_layout layout; /* layout.walk with interp_head_addr */
	char version[24];
	struct py_codes *codes;	    /* symbolizer/python/pycode.c */
	struct py_sources *sources; /* symbolizer/python/pysource.c */
	struct py_stacks *stacks;   /* symbolizer/python/pystack.c */
	struct py_modules *modules; /* symbolizer/python/pymodule.c */
};

/* One thread state of one interpreter, and the window of it that struct py_walk describes. */
struct tstate_visit {
	uint64_t interp, tstate;
	uint8_t window[PY_TSTATE_WINDOW];
};

typedef int py_tstate_fn(const struct py_walk *w, const struct tstate_visit *v, void *arg);

/* Calls `fn` for every thread state of every interpreter until it returns other than 0, and returns
 * that; 0 at the end; -errno of a read, -EPROTO for lists without end. */
int py_each_tstate(const struct py_runtime *rt, py_tstate_fn *fn, void *arg);

/* NULL without memory. */
struct py_codes *py_codes_new(void);
void py_codes_free(struct py_codes *c);
struct py_stacks *py_stacks_new(void);
void py_stacks_free(struct py_stacks *s);

/* Changes when what is known of code objects does: pairs are to be resolved again. */
uint32_t py_codes_epoch(const struct py_codes *c);

/* What the code object is, as far as it has been resolved: both have a torch.nn.Module for their
 * first local variable. */
enum py_call {
	PY_CALL_OTHER,
	PY_CALL_MODULE,	 /* Module._call_impl */
	PY_CALL_WRAPPED, /* Module._wrapped_call_impl (2.1 and later), which calls that one */
};
enum py_call py_code_call(const struct py_codes *c, uint64_t code);

/* Whether py_resolve found what the pair means. */
bool py_frame_known(const struct py_codes *c, const struct py_frame *frame);

/* A copy that stays as long as `c`, the same for equal strings; NULL when there is no more room. */
const char *py_intern_string(struct py_codes *c, const char *s);

/* Make room for `more` items of `size` bytes in an array of `count` whose capacity is the next
 * power of two. */
bool py_reserve(void *array, size_t count, size_t more, size_t size);

/* glibc's struct pthread, which pthread_self() points to. */

/* gettid(2) of the thread, in its own PID namespace, whose pthread_self() is `self`: the member tid
 * of struct pthread (nptl/descr.h; 720 on x86-64 from glibc 2.17 to 2.41). 0 when it cannot be
 * read; another C library has some other number there. */
static inline pid_t pthread_tid(const struct mem *m, uint64_t self)
{
	enum { TID = 720 };
	int32_t tid;
	return mem_read(m, self + TID, &tid, sizeof(tid)) ? 0 : tid;
}

#endif
