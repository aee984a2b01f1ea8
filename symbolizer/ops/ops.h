/* The op table of one libtorch, from its symbols, read-only data and code, and the probe plan made
 * from it. */
#ifndef SYMBOLIZER_OPS_OPS_H
#define SYMBOLIZER_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/code/return_sites.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/torch/layout.h"

/* Callbacks of the return-site analysis for one file: whether a callee is clean-up, and the
 * contents of read-only data. */

struct callees;

/* Create one for the open file, which is borrowed. 0 and *out (free with callees_close), or
 * -ENOMEM. A file without sections or symbols is not an error: no call is then known to be
 * clean-up. */
int callees_open(struct elf_file *f, struct callees **out);
void callees_close(struct callees *c); /* NULL allowed */

/* For return_sites_new; addresses are virtual addresses in the file. Thread-safe. Valid as long as
 * `c`. */
struct return_sites_ops callees_ops(struct callees *c);

/* For windows_find, with addresses as above. A function that has no unwind entry, or not of its
 * size, is taken for shared. Thread-safe. Valid as long as `c`. */
struct windows_ops callees_windows_ops(struct callees *c);

/* The function in the same file that the PLT stub at address `stub` jumps to, unless another
 * library interposes one of that name; 0 if it is not a stub, or for a function of another file. */
uint64_t callees_of_stub(struct callees *c, uint64_t stub);

/* The PLT stub by which the file calls the function `name`; 0: there is none. */
uint64_t callees_stub_for(struct callees *c, const char *name);

/* Whether the file calls the function `name`, which may be its own, as one of another library: the
 * dynamic linker sets the word through which it is called. */
bool callees_has_slot(const struct callees *c, const char *name);

/* Calling convention: how arguments and results of an op's `call` are passed, and so what to read
 * at its probes. System V ABI for AMD64 1.0, 3.2.3 (registers), and Itanium C++ ABI, 2.2 and 3.1
 * (classes with a non-trivial copy constructor or destructor are passed by reference and returned
 * through a hidden pointer). */

enum abi_how {
	ABI_UNKNOWN, /* not decoded: abi_value.why */
	ABI_TENSOR,  /* READ_TENSOR or READ_OPT_TENSOR */
	ABI_TENSORS, /* READ_TENSORS, READ_VECTOR, READ_ILIST */
	ABI_WORD,    /* bytes of a word, by `base`; with has_flag an optional in one word */
	ABI_WORDS,   /* optional over two words: `read` the value, `flag_read` the flag */
	ABI_BYTES,   /* the value's memory, by `base`; with has_flag an optional */
	ABI_ARRAY,   /* READ_ARRAY of `base` */
	ABI_STRING,
	ABI_BOOLS,   /* std::array<bool, count> in a word */
	ABI_LIST,    /* READ_LIST: IValues that are tensors or None */
	ABI_IVALUES, /* boxed call: taken from the IValues on the stack */
	ABI_OBJECT,  /* of a class of torch.distributed: `read` what it begins with, `flag_read` its
			address */
};

enum { ABI_NO_READ = 0xff };

/* How to decode one argument or result from the items of a hit. */
struct abi_value {
	uint8_t how;	   /* enum abi_how */
	uint8_t base;	   /* enum cxx_base */
	uint8_t read;	   /* index of the read, ABI_NO_READ */
	uint8_t flag_read; /* ABI_WORDS, ABI_OBJECT */
	bool has_flag;	   /* it is an optional */
	bool std_optional; /* std::optional: flag after the value; c10: before */
	uint8_t count;	   /* ABI_BOOLS */
	const char *why;   /* ABI_UNKNOWN; static */
};

struct op_abi {
	uint16_t nargs, nresults;
	bool late;			  /* the plan is for the deferred entry, func_facts.late */
	struct abi_value *args, *results; /* in the arena */
};

/* Plan the reads of one op. `f` is its C++ signature, `s` its schema (same arguments in the same
 * order), `facts` the analysis of its code. Fills `plan` and `out`, whose arrays are allocated in
 * `a`. Returns 0; -ENOMEM; -EPROTO when signature, schema and code contradict each other, so that
 * none of the op's values may be decoded. */
int abi_plan(const struct cxx_function *f, const struct schema *s, const struct func_facts *facts,
	     struct arena *a, struct op_plan *plan, struct op_abi *out);

enum probe_role {
	ROLE_CALL,     /* at::_ops::NAME::call */
	ROLE_BOXED,    /* the boxed call of any op, identified from its arguments */
	ROLE_NODE,     /* apply of an autograd node, named after its class */
	ROLE_PY_NODE,  /* torch::autograd::PyNode::apply, named after the Python class of its object
			*/
	ROLE_FUNCTION, /* THPFunction_apply: forward of a Python autograd.Function */
	ROLE_ENGINE,   /* torch::autograd::Engine::evaluate_function: ops inside are backward */
	ROLE_GRADS,    /* torch::autograd::validate_outputs: finalises a node's results */
	ROLE_WAIT,     /* c10d::Work::wait: a thread waits for a collective */
	ROLE_DONE,     /* c10d::Work::finish: a collective is done */
	/* c10d::ProcessGroupGloo::AsyncWork::finishWorkGloo: a collective has written what it
	 * gives, and nobody who waits for it was told yet */
	ROLE_WRITTEN,
	ROLE_REDUCER, /* a method of c10d::Reducer, of DistributedDataParallel (ops_c10d.c) */
	ROLE_GLOO,    /* a collective that is no operator, but a method of a group (ops_c10d.c) */
	/* c10::monitor::WaitCounterHandle, its constructor, start and stop: what is waited for has
	 * the counter's name, of which compilations are of interest. The descriptions of the last
	 * two are those of compilations, in the forward and the backward. */
	ROLE_COUNTER,
	ROLE_COUNTER_START,
	ROLE_COUNTER_STOP,
	ROLE_SLICES, /* torch::autograd::CopySlices, its constructor: a node, of writes into views
		      */
	/* A dispatch inlined into another function (inlined_calls_x86_64.c), identified from what
	 * leads to its OperatorDef */
	ROLE_INLINED,
	ROLE_KERNEL, /* generated by inductor (kernels.c), named by who calls it */
	/* Reported by the shim (tracer/engine/shim/shim_share.h), without an address in a file: */
	ROLE_NAMED,	 /* known by name, not an operator */
	ROLE_NAMED_NODE, /* an autograd node, known by name */
};

static inline bool role_is_counter(uint8_t role)
{
	return role >= ROLE_COUNTER && role <= ROLE_COUNTER_STOP;
}

/* Those without an address in a file. */
static inline bool role_has_no_place(uint8_t role)
{
	return role == ROLE_BOXED || role == ROLE_NAMED || role == ROLE_NAMED_NODE ||
	       role == ROLE_KERNEL || role == ROLE_INLINED;
}

/* Those of torch.distributed that `--ops` chooses by name as it does operators. */
static inline bool role_is_distributed(uint8_t role)
{
	return role == ROLE_WAIT || role == ROLE_REDUCER || role == ROLE_GLOO;
}

/* One probed function; its plan has the same index. */
struct op_probe {
	uint8_t role;	   /* enum probe_role */
	uint8_t exit_kind; /* enum exit_kind of symbolizer/code/return_sites.h */
	uint8_t file;	   /* index into op_table.files */
	bool values_known; /* abi is valid; else desc has names only, and `why` is the reason */
	const char *why;
	struct op_desc desc;
	struct op_abi abi;
	uint64_t vaddr;		     /* virtual address of the function */
	uint32_t first_site, nsites; /* into op_table.sites */
};

enum { OPS_CPU, OPS_PYTHON, OPS_C10, OPS_FILES };

enum { BOXED_COPIES_MAX = 32 }; /* libtorch_cpu of 2.13 has 13 of c10::Dispatcher::callBoxed */

/* Dispatches inlined into other functions: what op_table_inlined finds. */
enum { INLINED_MAX = 256 }; /* 2.13 has 60 */

struct op_inlined {
	bool searched;
	uint32_t first, nops;	  /* the ops of ROLE_INLINED */
	struct probe_site *sites; /* `cpu` of OPS_CPU, then those of OPS_PYTHON */
	size_t n, cpu, room;
};

struct op_table {
	struct op_probe *ops;
	struct op_plan *plans;
	uint32_t n, nplans; /* equal; plans beyond n are for the session */
	uint32_t nkernels;  /* the last so many ops: ROLE_KERNEL, in no file of the table */
	struct probe_site *sites;
	size_t nsites;
	char *path[OPS_FILES];		 /* the process's; NULL: none */
	struct elf_file *elf[OPS_FILES]; /* owned */
	struct callees *callees;	 /* of libtorch_cpu */
	uint32_t ncalls, nnodes;	 /* ROLE_CALL, ROLE_NODE */
	uint32_t safe_calls, safe_nodes; /* those with an emulated exit */
	uint32_t ret_exits;		 /* ops whose exit is single-stepped */
	uint32_t no_values;		 /* ops whose arguments cannot be decoded */
	uint64_t dispatch_off; /* file offset of at::getStepCallbacksUnlessEmpty; 0: not found */
	/* For jumps: the windows at the entries of the functions of enum shim_step, with that as
	 * `op`; len 0: none. */
	struct probe_site step[SHIM_STEPS];
	/* The same in libc10, of those of enum shim_memory. */
	struct probe_site memory[SHIM_MEMORIES];
	/* For jumps: torch::autograd::Engine::thread_main, which records each node's evaluation
	 * (torch/csrc/autograd/engine.cpp); virtual address in libtorch_cpu, 0: not found, and size
	 * in bytes. */
	uint64_t engine_main, engine_main_size;
	/* The answer of op_table_boxed_copies for the function `boxed_of`, 0: not asked yet. */
	uint64_t boxed_of, boxed_copies[BOXED_COPIES_MAX];
	size_t nboxed_copies;
	uint64_t boxed_known; /* the function itself, where it calls what asks for observers */
	/* Behind each call of libtorch_cpu that asks for observers, if that search was made. */
	uint64_t *asked;
	size_t nasked, asked_room;
	struct op_inlined inlined;
	uint64_t schema_off;	    /* file offset of torch::jit::parseSchema; 0: not found */
	bool has_grads;		    /* there is an op of ROLE_GRADS with an exit */
	struct layout_facts facts;  /* static evidence of the tensor layout */
	uint16_t node_seq;	    /* offset of a Node's sequence number; 0: unknown */
	uint8_t ndevice_types;	    /* COMPILE_TIME_MAX_DEVICE_TYPES, for names_device_code */
	bool cow_strings;	    /* see std_string_size */
	uint8_t scalar_complex_tag; /* c10::Scalar::Tag::HAS_z; 0: unknown */
	/* Virtual addresses within their files; 0: not found. */
	uint64_t pynode_vtable; /* libtorch_python: of torch::autograd::PyNode */
	uint64_t vt_impl;	/* libc10: vtable of c10::TensorImpl */
	uint64_t vt_meta[2]; /* libtorch_cpu: vtables of AutogradMeta and DifferentiableViewMeta */
	uint64_t vt_storage[OPS_FILES]; /* vtables of c10::StorageImpl; a process uses only one */
	uint64_t undefined;		/* libc10: c10::UndefinedTensorImpl::_singleton */
	uint64_t interned[INTERNED_PLACES]; /* libtorch_cpu: see interned_places */
	struct arena arena[2];
	struct build *lazy; /* OPS_LAZY, else NULL */
};

/* Symbol of the function in libtorch_cpu that is called once for each dispatched op, with the scope
 * (0) as its second argument: at::getStepCallbacksUnlessEmpty(at::RecordScope). */
extern const char ops_dispatched[];

/* The mapping of file number `file` (OPS_CPU ...); NULL if it is not mapped. */
const struct mapping *ops_mapping(const struct libraries *l, unsigned file);

/* Index of the read of {refcount, type} of a PyNode's object. */
enum { PY_NODE_READ = 2 };

/* Index of the read of the variable's TensorImpl, of AccumulateGrad alone (op_accumulates). */
enum { NODE_VARIABLE_READ = 2 };

/* Indices of the reads of validate_outputs: the gradients before and after, the node's edges. */
enum { GRADS_RETURNED_READ, GRADS_EDGES_READ, GRADS_FLOWING_READ };

/* Indices of the reads of a boxed call: the first argument; the words it points to; those that the
 * first of these points to; the two strings there; the stack of IValues at the entry and at the
 * exit. */
enum {
	BOXED_DATA,
	BOXED_HANDLE,
	BOXED_DEF,
	BOXED_NAME,
	BOXED_OVERLOAD,
	BOXED_STACK,
	BOXED_RESULTS,
};

/* Indices of the reads of counters: what they are of, as the address of its object, by which start
 * and stop are told apart from those of others; and, of the constructor, the name. */
enum { COUNTER_NAME_READ = 0, COUNTER_MADE_READ = 1, COUNTER_READ = 0 };

/* Index of ROLE_SLICES' read of the node: its address and its sequence number. */
enum { SLICES_NODE_READ = 0 };

/* Index of the read of the name, for ROLE_NAMED and ROLE_NAMED_NODE. */
enum { NAMED_READ = 0, NAMED_NODE_READ = 2 };

/* Index of the read that tells whether a ROLE_NAMED created an autograd node, and that node's
 * sequence number. */
enum { NAMED_MADE_READ = 1 };

/* Indices of the reads of Work::finish: the Work, and the exception with which it ends, 0: none. */
enum { DONE_WORK_READ, DONE_EXCEPTION_READ };

/* Index of the read of the object that THPFunction_apply returns. */
enum { FUNCTION_READ = 1 };

/* An open file, which stays the caller's, and its path, for messages; NULL: none. */
struct ops_file {
	int fd;
	const char *path;
};

enum ops_kind {
	OPS_PROBES, /* sites for probes */
	/* Sites are the windows of ops and nodes of libtorch_cpu, and plans are for jumps there;
	 * what has no windows has no sites. */
	OPS_JUMPS,
	OPS_COLLECTIVES, /* the same, with all waits for collectives */
	/* No op's code is analysed: ops have role, file and vaddr, but no sites; op_table_plan
	 * completes those that are needed. */
	OPS_LAZY,
};

/* Read libtorch_cpu (or libtorch, if one library has it all), libtorch_python and libc10; the first
 * is required. Takes a fraction of a second, since it disassembles every op, unless that is kept
 * from before in the folder `cache`, of home_cache (-1: nothing is kept). Returns 0 and *out (free
 * with op_table_free), or with *e: -ENOENT when the file has no at::_ops symbols (stripped, or not
 * a libtorch); -errno. */
int op_table_load(const struct ops_file files[OPS_FILES], enum ops_kind kind, int cache,
		  struct op_table **out, struct err *e);

/* Complete op `i` and its plan in a table of OPS_LAZY; once only. 0 or -ENOMEM. */
int op_table_plan(struct op_table *t, uint32_t i);

/* The windows of every op, of lazy tables too: out[i] for op i of the t->n. Those of other files,
 * and without code, have none. Single-threaded; takes a fraction of a second. 0 or -ENOMEM. */
int op_table_windows(struct op_table *t, struct func_windows *out);

/* NULL allowed. */
void op_table_free(struct op_table *t);

/* Make the plan of PyNode::apply read the Python object at byte offset `off` (0: not at all).
 * Returns that op's index, or -1 if there is none. */
int op_table_set_pynode(struct op_table *t, uint16_t off);

/* The sites of the boxed call (ROLE_BOXED), given the address `vaddr` in libtorch_cpu's file of the
 * function that makes it; with `jumps`, windows for jumps. `out` has room for 1 + EXITS_MAX.
 * Returns their number, 0 when its exits cannot be found. */
size_t op_table_boxed_sites(struct op_table *t, uint64_t vaddr, bool jumps, struct probe_site *out);

/* The *n copies of c10::Dispatcher::callBoxed in libtorch_cpu, other than that function or the one
 * it ends in, which take what it takes: functorch's layers and the fallbacks of Python and of
 * devices have their own. They have no symbol in a stripped file, and are told by their code.
 * Addresses for op_table_boxed_sites, valid as long as the table; none where that function is no
 * such copy. The first call reads all code of the library, which takes some tenths of a second. */
const uint64_t *op_table_boxed_copies(struct op_table *t, uint64_t vaddr, size_t *n);

/* Dispatches of libtorch_cpu and libtorch_python that neither an operator's own function nor boxed
 * calls make, each with its places for probes. Call it once op_table_boxed_copies was asked, which
 * reads all code for both. The first call adds them to the table as ops. Valid as long as the
 * table.
 */
const struct op_inlined *op_table_inlined(struct op_table *t);

/* That function may tail-call c10::Dispatcher::callBoxed through the PLT, so that any library that
 * defines it may supply it. If so, adapt the plan of the boxed call to its arguments and return its
 * index; else -1. */
int op_table_call_boxed(struct op_table *t, uint64_t vaddr);

/* The sites of callBoxed in file number `file` (OPS_CPU ...), as above; 0, too, where the file does
 * not define it. */
size_t op_table_call_boxed_sites(struct op_table *t, unsigned file, bool jumps,
				 struct probe_site *out);

/* Whether that file defines it; false, too, if there is no such file. */
bool op_table_call_boxed_is_in(const struct op_table *t, unsigned file);

/* Kernels for CPUs that inductor, the compiler of torch.compile, generates. Each is a library of
 * its own, an extension module of Python with one function (torch/_inductor/codecache.py,
 * CppPythonBindingsCodeCache; 2.11 and 2.13). */

struct op_table;

/* The most kernels of a table. */
enum { KERNELS_MAX = 4096 };

/* Whether the file at this path is, by its name, a library of inductor's cache. */
bool kernel_is_library(const char *path);

/* Where to probe a function. */
struct op_sites {
	size_t n; /* 0: nowhere */
	struct probe_site site[1 + EXITS_MAX];
};

/* Find the kernel in such a library, `path` in the process: places for probes or, with `jumps`,
 * windows for jumps. It becomes an op of the table, of ROLE_KERNEL, and the sites are of that op.
 * What it is called there tells who calls it: its description says only which library it is from.
 * Keeps nothing of `f`. 0; -ENOENT: it is a library of another kind; -ENOTSUP: there are no such
 * places; -E2BIG; -ENOMEM. */
int op_table_add_kernel(struct op_table *t, struct elf_file *f, const char *path, bool jumps,
			struct op_sites *out);

/* The name of the kernel that the source line `text` of a generated module calls, to `out`:
 * "cpp_fused_relu_0" of "cpp_fused_relu_0(buf0, buf1)"; false: it calls none. */
bool kernel_called(const char *text, char *out, size_t size);

/* What the line begins with by which such a module defines a kernel of that name. False: `out` is
 * too small. */
bool kernel_definition(const char *name, char *out, size_t size);

#endif
