/* Internals of symbolizer/python: line tables, dicts, modules, objects, source files, images, the
 * runtime. */
#ifndef SYMBOLIZER_PYTHON_INTERNAL_H
#define SYMBOLIZER_PYTHON_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "symbolizer/event/event.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/process.h"

/* Line tables: from bytecode offset to source position, in CPython's three formats. Pure functions;
 * the bytes are untrusted. */

enum linetable_kind {
	LINETABLE_LNOTAB,    /* 3.8, 3.9: Objects/lnotab_notes.txt */
	LINETABLE_PEP626,    /* 3.10: Objects/lnotab_notes.txt, "co_linetable" */
	LINETABLE_POSITIONS, /* 3.11+: Objects/locations.md (3.11), Include/cpython/code.h */
};

struct linetable_pos {
	int32_t line, end_line;	    /* from 1; 0: the instruction has none */
	int32_t column, end_column; /* UTF-8 bytes within line and end_line, from 0; -1: unknown */
};

/* The position of the instruction at byte offset `lasti`, as frame.f_lineno and code.co_positions()
 * give it. A negative lasti (the frame has not started) gives the line of the `def`. Returns 0;
 * -ENODATA when the table (`len` bytes) ends before lasti; -EPROTO when it is truncated within an
 * entry or gives an impossible position. On failure *out is all unknown. Lnotab tables have no end:
 * their last line continues. */
int linetable_lookup(enum linetable_kind kind, const uint8_t *bytes, size_t len,
		     int32_t firstlineno, int64_t lasti, struct linetable_pos *out);

/* Dicts and object attributes, read from the target's memory without running any of its code. */

struct py_runtime;

/* A word of target memory and its value. */
struct py_word {
	uint64_t at, is;
};

/* A snapshot of a dict, of a subclass such as OrderedDict, or of an object's attributes. All
 * members but `n` are target addresses or strides in bytes. */
struct py_dict {
	uint64_t entries;
	uint64_t key_at, value_at; /* addresses of the first entry's key and value */
	size_t key_step, value_step;
	size_t n; /* number of entries, including those without a value (0) */
	/* The entries are in place as long as these words are unchanged. */
	struct py_word proof[6];
	unsigned nproof;
	bool is_counted; /* of a dict, with so many entries */
	uint64_t used;
};

enum { PY_DICT_MAX = 4096 };

/* The process runs while its dicts are read: so often what gives -EAGAIN is tried. */
enum { PY_TRIES = 5 };

/* Open the dict at `addr`. 0, -EPROTO when it is not a dict, -E2BIG when it has more than
 * PY_DICT_MAX entries, -EAGAIN when it is growing, or -errno of a read. Layout:
 * Objects/dict-common.h (3.8 to 3.10), Include/internal/pycore_dict.h (3.11 to 3.13). */
int py_dict_open(const struct py_runtime *rt, uint64_t addr, struct py_dict *out);

/* Open the instance attributes of the object at `obj`, of class `type`: its __dict__, or its inline
 * values while it has none yet (3.11+). As above; -ENOENT when objects of its class have no
 * attributes. */
int py_attributes_open(const struct py_runtime *rt, uint64_t obj, uint64_t type,
		       struct py_dict *out);

/* Read the addresses of all keys and values into out[d->n]; value 0: empty entry. 0, -EAGAIN when
 * the entries were moved meanwhile, or -errno. */
int py_dict_read(const struct py_runtime *rt, const struct py_dict *d, uint64_t out[][2]);

/* The address of the value that the str `name` has in a snapshot, in the dict at `dict`, of at most
 * 65,536 entries, or as an attribute of the object at `obj`, in its __dict__ or __slots__. 0;
 * -ENOENT when there is none; -EAGAIN when it changed meanwhile; or as py_dict_open. */
int py_dict_find(const struct py_runtime *rt, const struct py_dict *d, const char *name,
		 uint64_t *value);
int py_dict_get(const struct py_runtime *rt, uint64_t dict, const char *name, uint64_t *value);
int py_attribute_get(const struct py_runtime *rt, uint64_t obj, const char *name, uint64_t *value);

/* Module paths: which torch.nn.Module a call is in, as a path, "blocks.0.attn.qkv". Modules are
 * identified by the addresses that frames hold; names come from the _modules of enclosing modules,
 * read from the target. A path is cached with the words of memory it was derived from (its
 * witness), which are compared again for a call more than 2 ms later. A module that is gone by
 * then, or first looked up more than 20 ms after its call, has no path for that call: its address
 * may have been reused. Reuse within that time goes unnoticed. */

struct py_runtime;
struct py_modules;

/* NULL when out of memory. */
struct py_modules *py_modules_new(void);
void py_modules_free(struct py_modules *m);

#define PY_NO_MODULE 0xffffffffU

/* The number of a nesting of module calls: modules[0] is called by modules[1] and so on, 0 for an
 * unknown one. Consecutive duplicates (a call with two frames, or recursion) count once.
 * PY_NO_MODULE if there is none, one is unknown, or memory runs out. `around`: the number of the
 * nesting in whose backward they are called, and where they may have been called before;
 * PY_NO_MODULE: none. */
uint32_t py_module_node(struct py_runtime *rt, uint32_t around, const uint64_t *modules, size_t n);

/* Whether the number is still valid; after very many, numbering starts anew. */
bool py_module_node_known(const struct py_runtime *rt, uint32_t node);

/* The path of the innermost module of a nesting, for a call at `ns` (CLOCK_MONOTONIC); interned, as
 * py_stack.module. NULL for PY_NO_MODULE. */
const char *py_module_path(struct py_runtime *rt, uint32_t node, uint64_t ns);

/* Search in the tree of a torch.nn.Module. For pymodule.c only. */

struct py_runtime;

enum { PY_PATH_MAX = 1024 };

/* Words of target memory that a result was derived from: it holds as long as they are unchanged.
 * Zero-initialise; free with py_witness_free. */
struct py_witness {
	uint64_t *at, *is; /* addresses and values, `n` each */
	uint32_t n, room;
};

/* Whether all words still have their values; false when one cannot be read. */
bool py_witness_holds(const struct py_runtime *rt, const struct py_witness *w);
void py_witness_free(struct py_witness *w);

enum py_member { PY_MODULES, PY_PARAMETERS, PY_MEMBERS };

/* State of a search. Zero-initialise. */
struct py_tree {
	uint64_t key[PY_MEMBERS]; /* address of a str "_modules", "_parameters"; 0: unknown */
	struct map seen;
	struct py_branch *branch;
	uint32_t n;
	uint32_t names; /* of attributes compared in this search */
};

void py_tree_free(struct py_tree *t);

/* The dotted names from module `root` to `module` in its tree, by the shortest path and the first
 * of several; *w is its witness. Returns 1; 0 when it is not in the tree; -errno when the tree
 * cannot be read completely (-E2BIG: too large). */
int py_tree_find(const struct py_runtime *rt, struct py_tree *t, uint64_t root, uint64_t module,
		 struct py_witness *w, char *out, size_t size);

/* The class name of the module `obj`, with its witness. 0, or -errno when it is not a module. */
int py_tree_class(const struct py_runtime *rt, struct py_tree *t, uint64_t obj,
		  struct py_witness *w, char *out, size_t size);

/* A parameter of a module. */
struct py_parameter {
	char name[128];
	uint64_t word[2]; /* the words of which one is the address of its TensorImpl */
};

/* A module's own parameters. */
struct py_owner {
	char path[PY_PATH_MAX]; /* from the root; "": the root itself */
	/* That these are its parameters, and that they have these words. It holds until the dict of
	 * parameters changes at all, and never again. */
	struct py_witness witness;
	struct py_parameter *parameter;
	size_t n;
};

typedef void py_owner_fn(void *arg, struct py_owner *o);

/* Call `fn` for each module in the tree of `root` that has parameters of its own, in the order of
 * named_parameters(); *o is freed afterwards, unless `fn` has taken its members. Modules that
 * change meanwhile are left out. 0, -ENOMEM, -E2BIG. */
int py_tree_parameters(const struct py_runtime *rt, struct py_tree *t, uint64_t root,
		       py_owner_fn *fn, void *arg);
void py_owner_free(struct py_owner *o);

/* Names of parameters (pyparameter.c), found when a module is called that no other calls, and when
 * a tensor is not found. NULL when out of memory. */
struct py_parameters *py_parameters_new(void);
void py_parameters_free(struct py_parameters *p);

/* An outermost module was called, for the first time that is known. */
void py_parameters_called(struct py_runtime *rt, uint64_t module);

/* Python objects: types, strings, bytes. Everything is validated; nothing in the target is executed
 * or changed. */

struct py_runtime;

/* The type pointer of the object at `obj`, if its refcount looks alive (ob_refcnt,
 * Include/object.h); nothing else is checked. 0 or -errno (-EPROTO: not a live object). */
int py_live_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* The type of the object at `obj`, verified to be a type object. 0 or -errno (-EPROTO: not an
 * object). */
int py_object_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* tp_name of the type object at `type` into out, NUL-terminated, truncated between characters to
 * size - 1 bytes: UTF-8, "module.Name" for static types, "Name" for classes made in Python. Returns
 * its length, or -errno (-EPROTO: not a type object). */
ssize_t py_type_name(const struct py_runtime *rt, uint64_t type, char *out, size_t size);

/* The str object at `addr` as NUL-terminated UTF-8 into out, truncated between characters to size -
 * 1 bytes. Surrogates and NUL become U+FFFD. Returns its length, or -errno (-EPROTO: not an exact,
 * compact str). Layout: Include/cpython/unicodeobject.h. */
ssize_t py_read_str(const struct py_runtime *rt, uint64_t addr, char *out, size_t size);

/* The same, whole, in a new buffer *out, to be freed with free(3). Returns its length, or -errno
 * (-E2BIG: more than `max` characters). */
ssize_t py_read_text(const struct py_runtime *rt, uint64_t addr, size_t max, char **out);

/* The number of items of the list or tuple at `addr`, and the address of the first: words that
 * point to objects. Returns -errno on failure (-EPROTO: neither, -E2BIG: more than `max`). */
ssize_t py_sequence(const struct py_runtime *rt, uint64_t addr, size_t max, uint64_t *items);

/* The value of the int object at `addr` if it is from 0 to 2^30 - 1, else -errno. */
int64_t py_read_int(const struct py_runtime *rt, uint64_t addr);

/* The contents of the bytes object at `addr`, at most `max` bytes, in a new buffer *out, to be
 * freed with free(3). Returns its length, or -errno (-EPROTO: not an exact bytes object, -E2BIG:
 * longer than max). */
ssize_t py_read_bytes(const struct py_runtime *rt, uint64_t addr, size_t max, uint8_t **out);

/* The address of the value of a name in it. */
int py_module_get(const struct py_runtime *rt, const char *module, const char *name,
		  uint64_t *value);

/* The text that the target's linecache has for a file name (Lib/linecache.py), which is how Python
 * itself finds the lines of code that is in no file: cells of notebooks, generated code. */

/* The text, at most `max` bytes, NUL-terminated, in a new buffer *out, to be freed with free(3).
 * Returns its length; -ENOENT when linecache has none; or -errno. */
ssize_t py_linecache_text(const struct py_runtime *rt, const char *file, size_t max, char **out);

/* Cells of IPython, by the number that IPython counts them with. */

/* Files that are no cells. Zero-initialise. */
struct py_cells {
	struct map others;	/* by address of the interned name */
	struct py_word modules; /* sys.modules when it had no IPython */
};

/* The name for frames of code whose co_filename is `file`, interned: that of a cell is
 * "FILE/In[3]", or "FILE/In[3,5]" when cells 3 and 5 have the same text and the same FILE, so that
 * the code may be of either; of anything else, and of a cell whose number is not certain, FILE. */
const char *py_cell_name(struct py_runtime *rt, const char *file);

/* The length of FILE in such a name; 0: it is not one. */
size_t py_cell_file(const char *name);

/* Images: the file of a process that contains the CPython runtime, and its symbols. */

struct py_image {
	char path[512]; /* path in the target's mount namespace; truncated */
	/* Run-time addresses of these symbols; 0: not in the file. */
	uint64_t runtime;      /* _PyRuntime, never 0 */
	uint64_t version;      /* Py_Version, 3.11+ */
	uint64_t code_type;    /* PyCode_Type, never 0 */
	uint64_t unicode_type; /* PyUnicode_Type, never 0 */
	uint64_t bytes_type;   /* PyBytes_Type, never 0 */
	/* N if the file's read-only data has "python3.N" for exactly one N, as the path
	 * configuration of 3.8 to 3.10 does (Modules/getpath.c, VERSION); else 0. */
	unsigned literal_minor;
	bool loaded; /* false: the dynamic linker has not mapped its data to their place yet */
};

/* Search the executable mappings of `pid` for files that define a CPython runtime: the main program
 * and files with "python" in their names; others only if those have none. Fills out with at most
 * `max` of them. Returns the number found (0: no CPython), or -errno with *e: -ESRCH, -EACCES. */
int py_images(pid_t pid, struct py_image *out, size_t max, struct err *e);

/* The runtime: contents of struct py_runtime. */

struct py_codes;
struct py_modules;
struct py_parameters;
struct py_sources;
struct py_stacks;

struct py_runtime {
	pid_t pid;
	const struct mem *mem;
	const struct mem *live; /* the process's own, while `mem` is of copies (pycode.c) */
	struct py_image image;
	struct py_layout layout; /* layout.walk with interp_head_addr */
	char version[24];
	struct py_codes *codes;		  /* symbolizer/python/pycode.c */
	struct py_sources *sources;	  /* symbolizer/python/pysource.c */
	struct py_stacks *stacks;	  /* symbolizer/python/pystack.c */
	struct py_modules *modules;	  /* symbolizer/python/pymodule.c */
	struct py_parameters *parameters; /* symbolizer/python/pyparameter.c */
	struct py_cells cells;		  /* symbolizer/python/pycell.c */
};

/* One thread state of one interpreter, and the window of it that struct py_walk describes. */
struct tstate_visit {
	uint64_t interp, tstate;
	uint8_t window[PY_TSTATE_WINDOW];
};

typedef int py_tstate_fn(const struct py_walk *w, const struct tstate_visit *v, void *arg);

/* Call `fn` for every thread state of every interpreter until it returns non-zero, and return that;
 * 0 at the end; -errno of a read; -EPROTO for endless lists. */
int py_each_tstate(const struct py_runtime *rt, py_tstate_fn *fn, void *arg);

/* NULL when out of memory. */
struct py_codes *py_codes_new(void);
void py_codes_free(struct py_codes *c);
struct py_stacks *py_stacks_new(void);
void py_stacks_free(struct py_stacks *s);

/* Changes whenever knowledge of code objects changes: pairs must be resolved again. */
uint32_t py_codes_epoch(const struct py_codes *c);

/* Role of a code object, once resolved: both kinds of module call have the torch.nn.Module as their
 * first local variable. */
enum py_call {
	PY_CALL_OTHER,
	PY_CALL_MODULE,	 /* Module._call_impl */
	PY_CALL_WRAPPED, /* Module._wrapped_call_impl (2.1+), which calls _call_impl */
};
enum py_call py_code_call(const struct py_codes *c, uint64_t code, uint64_t print);

/* The stack that has the name of a parameter, and no frames, in the module whose parameter it is,
 * NULL: the outermost. NULL when there is no room for it. */
const struct py_stack *py_stack_of_parameter(struct py_runtime *rt, const char *module,
					     const char *name);

/* As py_resolve, of the code object that has this print; 0: of an unknown one. */
const struct py_frame *py_resolve_print(struct py_runtime *rt, uint64_t code_addr, uint64_t print,
					uint64_t instr);

/* Whether py_resolve could resolve the pair. */
bool py_frame_known(const struct py_codes *c, const struct py_frame *frame);

/* An interned copy that lives as long as `c`; NULL when the string table is full. */
const char *py_intern_string(struct py_codes *c, const char *s);

/* Reserve space for `more` items of `size` bytes in an array of `count` whose capacity is the next
 * power of two. False when out of memory. */
bool py_reserve(void *array, size_t count, size_t more, size_t size);

/* The word at a target address; -EFAULT where nothing is ever mapped (vm.mmap_min_addr), or as
 * mem_read_u64. */
static inline int py_read_word(const struct py_runtime *rt, uint64_t addr, uint64_t *out)
{
	return addr < 4096 ? -EFAULT : mem_read_u64(rt->mem, addr, out);
}

/* The word at byte `off` of a window read before. */
static inline uint64_t py_word_in(const uint8_t *window, uint32_t off)
{
	uint64_t v;
	memcpy(&v, window + off, sizeof(v));
	return v;
}

/* The __dict__ of the class at `type`. 0 or -errno of a read. tp_dict of PyTypeObject:
 * Include/cpython/object.h. */
static inline int py_type_dict(const struct py_runtime *rt, uint64_t type, uint64_t *dict)
{
	enum { TP_DICT = 264 };
	return py_read_word(rt, type + TP_DICT, dict);
}

/* Threads: glibc's struct pthread, which pthread_self() points to. */

/* gettid(2), in its own PID namespace, of the thread whose pthread_self() is `self`: member tid of
 * struct pthread (nptl/descr.h; offset 720 on x86-64 from glibc 2.17 to 2.41). 0 when it cannot be
 * read; with another C library the result is arbitrary. */
static inline pid_t pthread_tid(const struct mem *m, uint64_t self)
{
	enum { TID = 720 };
	int32_t tid;
	return mem_read(m, self + TID, &tid, sizeof(tid)) ? 0 : tid;
}

/* Whether a code object's file is one of tracer/shim/modes, which changes what the program calls;
 * replay/runner/loader.py names it so. */
bool py_is_own_file(const char *file);

/* pycode.c and pyframe.c: code objects, and the frames that their instructions resolve to. */

enum { PY_CALLS_MAX = 8 };

enum { MAX_CODE = 4096 }; /* sizeof(PyCodeObject) is about 200 */

/* A code object of the target. */
struct py_code_object {
	uint64_t parts[3]; /* addresses of its file name, name and line table */
	uint64_t addr;
	uint64_t asked; /* the print that it was asked for by; 0: by its address only */
	uint64_t print; /* with all parts; 0: unreadable */
	uint64_t since; /* CLOCK_MONOTONIC ns: from then on no other was seen at its address */
	const char *file, *function; /* interned */
	const char *source;	     /* co_filename; file: also which cell it is */
	uint8_t *linetable;
	uint32_t linetable_len;
	int32_t firstlineno;
	bool is_torch, freed;
	bool shares;	 /* another one was seen at its address, before or since */
	uint64_t serial; /* unique, so that entries of a freed one are never matched */
};

/* A resolved instruction of a code object. */
struct py_point {
	uint64_t serial, instr;
	struct py_frame *frame;
};

/* A code object that calls modules. */
struct py_module_caller {
	uint64_t addr, asked;
	enum py_call call;
};

struct py_codes {
	struct arena arena; /* strings and frames: never freed before the end */
	struct map string_index, frame_index;
	const char **strings;
	struct py_frame **frames;
	uint32_t nstrings, nframes;
	struct py_frame unknown;
	char *torch_dir;
	size_t string_bytes;

	/* Caches that may be dropped. */
	struct map code_index, point_index;
	struct map last_index; /* by address: the last one seen of those with prints */
	struct py_code_object *codes;
	struct py_point *points;
	uint32_t ncodes, npoints;
	size_t linetable_bytes;
	uint64_t next_serial;
	struct py_module_caller calls[PY_CALLS_MAX];
	uint32_t ncalls;
	uint32_t epoch;
};

/* The code object at `addr`, read when new; NULL if there is none. `print` is that of the one
 * meant, with any of its parts; 0: the one that is there. */
const struct py_code_object *py_code_find(struct py_runtime *rt, uint64_t addr, uint64_t print);

#endif
