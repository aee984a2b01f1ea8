/* The ops of one libtorch: what its symbols, read-only data and code tell, and from that the probe
 * plan. */
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
#include "symbolizer/torch/accessors.h"
#include "symbolizer/torch/interned.h"

/* What the analysis of a function's exits asks about the file the function is in: whether a
 * function that it calls is clean-up, and what stands in read-only data. */

struct callees;

/* Make one for the open file, which must outlive it. 0 and *out (free with callees_close), or
 * -ENOMEM. A file without sections or symbols is no error: then no call is known to be clean-up. */
int callees_open(struct elf_file *f, struct callees **out);
void callees_close(struct callees *c); /* NULL allowed */

/* For return_sites_new; addresses are those of the file. May be used by several threads. Valid
 * while `c` is. */
struct return_sites_ops callees_ops(struct callees *c);

/* The function of the file itself that the linker's stub (.plt) at address `stub` jumps to, if no
 * other library has one of its name; 0: it is no stub, or for a function of another file. */
uint64_t callees_of_stub(struct callees *c, uint64_t stub);

/* How the arguments and results of an op's `call` are passed, and so what to read at its probes:
 * System V ABI for AMD64 1.0, 3.2.3 (registers), and Itanium C++ ABI, 2.2 and 3.1 (classes with a
 * non-trivial copy or destructor go by reference and return through a hidden pointer). */

enum abi_how {
	ABI_UNKNOWN, /* not decoded: abi_value.why */
	ABI_TENSOR,  /* READ_TENSOR or READ_OPT_TENSOR */
	ABI_TENSORS, /* READ_TENSORS, READ_VECTOR, READ_ILIST */
	ABI_WORD,    /* bytes of a word, by `base`; with has_flag: std or c10 optional within it */
	ABI_WORDS,   /* optional over two words: `read` the value, `flag_read` the flag */
	ABI_BYTES,   /* memory of the value, by `base`; with has_flag an optional */
	ABI_ARRAY,   /* READ_ARRAY of `base` */
	ABI_STRING,
	ABI_BOOLS,   /* std::array<bool, count> in a word */
	ABI_LIST,    /* READ_LIST: IValues that are tensors or none */
	ABI_IVALUES, /* boxed: taken from the values on the stack */
};

enum { ABI_NO_READ = 0xff };

/* How one argument or result comes out of the items of a hit. */
struct abi_value {
	uint8_t how;	   /* enum abi_how */
	uint8_t base;	   /* enum cxx_base */
	uint8_t read;	   /* index of the read, ABI_NO_READ */
	uint8_t flag_read; /* ABI_WORDS */
	bool has_flag;	   /* optional */
	bool std_optional; /* value first, flag behind it (std::optional); else c10::optional: flag
			      first */
	uint8_t count;	   /* ABI_BOOLS */
	const char *why;   /* ABI_UNKNOWN; static */
};

struct op_abi {
	uint16_t nargs, nresults;
	bool late;			  /* the plan is for an entry probe at func_facts.late */
	struct abi_value *args, *results; /* in the arena */
};

/* Plan the reads of one op. `f` is its C++ signature, `s` its schema (same arguments in the same
 * order), `facts` what is known of its code. Fills `plan` and `out`, whose arrays lie in `a`.
 * Returns 0; -ENOMEM; -EPROTO when signature and schema do not fit each other (then nothing of the
 * op's values may be shown). */
int abi_plan(const struct cxx_function *f, const struct schema *s, const struct func_facts *facts,
	     struct arena *a, struct op_plan *plan, struct op_abi *out);

enum probe_role {
	ROLE_CALL,     /* at::_ops::NAME::call */
	ROLE_BOXED,    /* the boxed call of any op: which one is on the stack */
	ROLE_NODE,     /* apply of an autograd node, named by its class */
	ROLE_PY_NODE,  /* torch::autograd::PyNode::apply: named by the Python class of its object */
	ROLE_FUNCTION, /* THPFunction_apply: forward of a Python autograd.Function */
	ROLE_ENGINE,   /* torch::autograd::Engine::evaluate_function: what runs in it is backward */
	ROLE_GRADS,    /* torch::autograd::validate_outputs: what becomes of a node's results */
	/* Told of by the library inside the process (tracer/engine/shim/shim_share.h), and no place
	 * in a file:
	 */
	ROLE_NAMED,	 /* what has a name and is no operator */
	ROLE_NAMED_NODE, /* an autograd node, by its name */
};

/* One probed function: plan entry of the same index. */
struct op_probe {
	uint8_t role;	   /* enum probe_role */
	uint8_t exit_kind; /* enum exit_kind of symbolizer/code/return_sites.h */
	uint8_t file;	   /* index into op_table.files */
	bool values_known; /* abi is good; else desc has names only and the reason is why */
	const char *why;
	struct op_desc desc;
	struct op_abi abi;
	uint64_t vaddr;		     /* of the function */
	uint32_t first_site, nsites; /* into op_table.sites */
};

enum { OPS_CPU, OPS_PYTHON, OPS_C10, OPS_FILES };

struct op_table {
	struct op_probe *ops;
	struct op_plan *plans;
	uint32_t n, nplans; /* the same; plans beyond n are free for the session's use */
	struct probe_site *sites;
	size_t nsites;
	char *path[OPS_FILES];		 /* as opened; NULL: not there */
	struct elf_file *elf[OPS_FILES]; /* open while the table lives */
	struct callees *callees;	 /* of libtorch_cpu */
	uint32_t ncalls, nnodes;	 /* ROLE_CALL, ROLE_NODE */
	uint32_t safe_calls, safe_nodes; /* of them with an emulated exit */
	uint32_t ret_exits;		 /* ops whose exit is single-stepped */
	uint32_t no_values;		 /* ops whose arguments cannot be decoded */
	uint64_t dispatch_off; /* file offset of at::getStepCallbacksUnlessEmpty, 0: not found */
	uint64_t schema_off;   /* file offset of torch::jit::parseSchema, 0: not found */
	bool has_grads;	       /* there is an op of ROLE_GRADS, with an exit */
	struct layout_facts facts;  /* what the libraries' code tells of the layout of tensors */
	uint16_t node_seq;	    /* offset of a Node's sequence number, 0: not known */
	uint8_t ndevice_types;	    /* COMPILE_TIME_MAX_DEVICE_TYPES, for names_device_code */
	bool cow_strings;	    /* see std_string_size */
	uint8_t scalar_complex_tag; /* c10::Scalar::Tag::HAS_z, 0: not known */
	/* Addresses within their files of things in the process; 0: not found. */
	uint64_t pynode_vtable; /* libtorch_python: of torch::autograd::PyNode */
	uint64_t vt_impl;	/* libc10: vtable of c10::TensorImpl */
	uint64_t vt_meta[2]; /* libtorch_cpu: vtables of AutogradMeta and DifferentiableViewMeta */
	uint64_t
	    vt_storage[OPS_FILES]; /* vtables of c10::StorageImpl; a process uses one of them */
	uint64_t undefined;	   /* libc10: c10::UndefinedTensorImpl::_singleton */
	uint64_t interned[INTERNED_PLACES]; /* libtorch_cpu: see interned_places */
	struct arena arena[2];
	struct build *lazy; /* of op_table_load_lazy, else NULL */
};

/* The symbol of libtorch_cpu of what is called once for each dispatched op, with the scope (0) as
 * its second argument: at::getStepCallbacksUnlessEmpty(at::RecordScope). */
extern const char ops_dispatched[];

/* Where file number `file` (OPS_CPU ...) is mapped, NULL: it is not. */
const struct mapping *ops_mapping(const struct libraries *l, unsigned file);

/* Index of the read that holds {reference count, type} of a PyNode's object. */
enum { PY_NODE_READ = 2 };

/* Indices of the reads of validate_outputs: the gradients before and after, the node's edges. */
enum { GRADS_RETURNED_READ, GRADS_EDGES_READ, GRADS_FLOWING_READ };

/* Indices of the reads of a boxed call: the first argument, the words it points to, those that the
 * first of these points to; the two strings there; the stack, at the entry and at the exit. */
enum {
	BOXED_DATA,
	BOXED_HANDLE,
	BOXED_DEF,
	BOXED_NAME,
	BOXED_OVERLOAD,
	BOXED_STACK,
	BOXED_RESULTS,
};

/* Index of the read that holds the name of what has nothing else: ROLE_NAMED, ROLE_NAMED_NODE. */
enum { NAMED_READ = 0, NAMED_NODE_READ = 2 };

/* Index of the read that holds whether a ROLE_NAMED made an autograd node, and that one's sequence
 * number. */
enum { NAMED_MADE_READ = 1 };

/* Index of the read that holds the object that THPFunction_apply returns. */
enum { FUNCTION_READ = 1 };

/* Read libtorch_cpu (or libtorch, where one library has it all), libtorch_python and libc10, at
 * `paths` (NULL: not there; the first must be). Takes a fraction of a second: disassembles every
 * op. Returns 0 and *out (free with op_table_free); -ENOENT when the file has no at::_ops symbols
 * (stripped, or no libtorch); -errno. */
int op_table_load(const char *const paths[OPS_FILES], struct op_table **out, struct err *e);

/* The same without a look at any op's code: of each op role, file and vaddr are there, there are no
 * sites, and op_table_plan does the rest for those that are asked for. */
int op_table_load_lazy(const char *const paths[OPS_FILES], struct op_table **out, struct err *e);

/* Complete op `i` and its plan in a table of op_table_load_lazy, if that was not done. 0 or
 * -ENOMEM.
 */
int op_table_plan(struct op_table *t, uint32_t i);

void op_table_free(struct op_table *t);

/* Let the plan of PyNode::apply read the Python object at `off`. Returns that op's index, or -1
 * when there is none. */
int op_table_set_pynode(struct op_table *t, uint16_t off);

/* The sites of the boxed call (ROLE_BOXED), once the address in libtorch_cpu's file of the function
 * that does it is known. `out` has room for 1 + EXITS_MAX. Returns how many, 0 when its exits
 * cannot be found. */
size_t op_table_boxed_sites(struct op_table *t, uint64_t vaddr, struct probe_site *out);

/* That function may jump on to c10::Dispatcher::callBoxed by way of the linker, which takes it from
 * any library that has one. Then let the plan of the boxed call read its arguments, and return its
 * index; else -1. */
int op_table_call_boxed(struct op_table *t, uint64_t vaddr);

/* The sites of callBoxed in file number `file` (OPS_CPU ...), as above. */
size_t op_table_call_boxed_sites(struct op_table *t, unsigned file, struct probe_site *out);

#endif
