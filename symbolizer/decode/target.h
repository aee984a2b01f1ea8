/* One traced process as the symbolizer sees it: its ops, its Python, the layout of its tensors. */
#ifndef SYMBOLIZER_DECODE_TARGET_H
#define SYMBOLIZER_DECODE_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "symbolizer/torch/layout.h"

/* Operators registered with the dispatcher of a live process: for boxed calls, and for operators
 * that are not libtorch's own (torch.library, extensions). */

struct registered_op {
	struct op_desc desc;		   /* first: a pointer to it is a pointer to this */
	struct schema_arg *args, *returns; /* types only; desc.nargs and desc.nresults of them */
	bool name_only; /* gone before its schema was read: desc has a single argument and a single
			   result, "?" */
};

struct registry;
struct groups; /* of torch.distributed, seen so far */

/* `m` and `r` must outlive it; `cow`: see std_string_size. NULL when out of memory. */
struct registry *registry_new(const struct mem *m, bool cow, struct rtti *r);
void registry_free(struct registry *g);

enum {
	HANDLE_WORDS = 5,
	OPERATOR_NAME_MAX = 384,
};

/* The operator of a boxed call, identified by the first argument: w[0] is the argument, w[1] and
 * w[2] are the words it points to, w[3] and w[4] those that w[1] points to. The argument is the
 * std::_Any_data of a std::function, which holds a c10::OperatorHandle
 * (ATen/core/dispatch/Dispatcher.h) or, if that is too large, a pointer to one; or the compiler
 * passes the handle's OperatorDef itself. Name and schema are read from the OperatorDef. `name` is
 * the operator's name at the time of the call ("ns::op.overload"); NULL: unknown, then what is
 * there now is trusted. The operator may have been destroyed since, its memory partly overwritten:
 * the schema is that of the definition texts with its name, if they agree, else that in memory;
 * failing both, the operator has a name only. Complete results are cached by w[1] to w[4]; w[0]
 * differs between calls. NULL if no operator can be determined; trying again may help. */
const struct registered_op *registry_find(struct registry *g, const uint64_t w[HANDLE_WORDS],
					  const char *name);

/* Whether registry_find has returned that operator before. */
bool registry_knows(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name);

/* Whether registry_find would find an operator there now. */
bool registry_is_operator(const struct registry *g, const uint64_t w[HANDLE_WORDS]);

/* Add the schema of an operator being defined, as written in its definition, with or without a
 * namespace. Copies the `len` bytes of `text`. */
void registry_add_schema(struct registry *g, const char *text, size_t len);

/* Add libtorch's own schema of an operator. It takes precedence over definitions: TorchScript also
 * parses texts of older forms, and of operators outside the dispatcher. */
void registry_add_library_schema(struct registry *g, const char *text);

/* An op known by name only, such as a Python autograd class; created on first use. `args` and
 * `results` are NULL-terminated lists of names; NULL: none. NULL when out of memory. */
const struct op_desc *registry_named(struct registry *g, const char *name, enum op_kind kind,
				     const char *const *args, const char *const *results);

/* The function that boxed calls of operators pass through: that of the std::function in every
 * torch::jit::Operator of a c10 operator (torch/csrc/jit/runtime/register_c10_ops.cpp,
 * createOperatorFromC10). torch.ops, TorchScript and everything built on them call ops through it.
 * Stripped libraries have no symbol for it, so it is found through the live registry. */

/* Address in the process of that function. `cpu` is libtorch_cpu, loaded at `bias`; [text,
 * text_end) is its executable mapping in the process. 0 if it cannot be found (yet). */
uint64_t boxed_find(struct elf_file *cpu, uint64_t bias, uint64_t text, uint64_t text_end,
		    const struct mem *m, struct registry *g);

/* Cache of the operators of earlier boxed calls, by the bytes of their records. */

enum { BOXED_SEEN = 256, BOXED_SEEN_BYTES = 176 };

/* The part of a record that names the operator: its items up to BOXED_OVERLOAD, which come first.
 * The payload of the very first, the argument itself, is left out. */
struct boxed_seen {
	const struct registered_op *op; /* NULL: none */
	uint32_t len;
	uint8_t bytes[BOXED_SEEN_BYTES];
};

/* The operator of an earlier record that began like this one; NULL if there is none. `all`:
 * BOXED_SEEN of them, zero-initialised. */
const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it);

/* Remember `op` for records that begin like this one. It must be complete, so that registry_find
 * would always return it for them. */
void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op);

/* The process. */

enum { SNAPSHOTS_ENOUGH = 32, SNAPSHOTS_MAX = 256, TYPE_SLOTS = 64, READS_KEPT = 16 };
enum { GROUP_NOT_KNOWN = UINT16_MAX, GROUP_TRIES = 64 };

/* A Python class that ops are named after. */
struct type_name {
	uint64_t type; /* address of its type object */
	const struct op_desc *desc;
};

enum { KERNEL_CALLS = 256 };

/* A place where a kernel of inductor's is called. */
struct kernel_call {
	const struct py_frame *frame;
	const struct op_probe *probe;
	const struct op_desc *desc; /* NULL: none */
};

struct target {
	pid_t pid;
	struct mem mem;
	const struct op_table *ops; /* not owned */
	uint64_t
	    bias[OPS_FILES]; /* of its libraries: address in the process minus that in the file */
	uint64_t text, text_end;	/* libtorch_cpu's code */
	struct py_runtime *py;		/* NULL: no CPython, an unknown one, or not started yet */
	struct native_callers *callers; /* NULL: no native stack has come yet */
	struct rtti *rtti;
	struct registry *registry;
	struct interned *interned;
	struct node_map nodes;
	struct type_name types[TYPE_SLOTS];
	struct kernel_call kernels[KERNEL_CALLS];
	struct boxed_seen boxed[BOXED_SEEN];
	struct tensor_layout layout;
	struct tensor_layout engine_layout; /* the layout that conf was made from */
	struct process_rank rank;
	unsigned group_tries;
	uint16_t group_at; /* offset of rank and size in a ProcessGroup; 0: none was seen yet */
	struct groups *groups;
	bool layout_complete; /* everything needed is known */
	bool layout_known;    /* settled: no more snapshots are wanted */
	struct tensor_snapshot *snapshots;
	uint32_t nsnapshots;
	struct tensor_read reads[READS_KEPT]; /* conf.tensor of the last generations */
	struct seen_tensors *seen;	      /* NULL: none yet */
	uint16_t reading;		      /* generation of the hit being decoded */
	struct proc_conf conf;		      /* what the engine is to read */
	struct torch_package package;
};

/* Open process `pid`, in which the libraries of `ops` are mapped as in `maps`. Returns 0 and *out
 * (free with target_close), or -errno. An unusable Python is no failure: *py_note, provided by the
 * caller, says why frames will be missing. */
int target_open(pid_t pid, const struct op_table *ops, const struct maps *maps, struct target **out,
		struct err *py_note, struct err *e);
void target_close(struct target *t);

/* Take over the layout, if known, from the process that `t` was forked from, provided that the
 * libraries are at the same addresses. */
void target_inherit(struct target *t, const struct target *parent);

/* Look for the Python runtime again if it had not started before. 0 once t->py is set, else
 * -errno. */
int target_find_python(struct target *t, struct err *e);

/* Learn from the snapshots among the items of a hit. Returns true when this settles the layout:
 * t->conf must then be given to the engine again. */
bool target_learn(struct target *t, const struct items *it);

/* Settle the layout: no more snapshots will come, or the wait is over. Facts they did not show stay
 * unknown, except those that decoding learns from metadata and nodes. */
void target_settle(struct target *t);

/* Update t->conf to the layout known by now. Returns true if it changed, and with it
 * t->conf.generation: the engine must then be told. */
bool target_refresh(struct target *t);

/* Read the sequence number of the live autograd node at `node`; false if it is not available. */
bool target_node_seq(struct target *t, uint64_t node, uint64_t *seq);

/* Call it once the libraries are ready to run: makes snapshots include the sequence numbers of
 * nodes, at offsets read from code alone. True if t->conf has changed. */
bool target_prepare(struct target *t);

/* Offset of the Python object within a torch::autograd::PyNode; 0 if not known (yet). */
uint16_t target_pynode_obj(struct target *t);

/* The op that a hit of `p` belongs to: p->desc, or for boxed calls, Python nodes and functions the
 * one that the items name. *reg: the registered operator of a boxed call with its types, else NULL.
 * Never returns NULL. */
const struct op_desc *target_identify(struct target *t, const struct op_probe *p,
				      const struct items *it, const struct registered_op **reg);

/* The op that a hit of `p`, of ROLE_KERNEL, with this stack belongs to: the kernel by its name in
 * the module that calls it; or p->desc's name, if that is not known. Never NULL. */
const struct op_desc *target_kernel(struct target *t, const struct op_probe *p,
				    const struct py_stack *stack);

/* Learn the schema in the items of a HIT_SCHEMA. */
void target_defined(struct target *t, const struct items *it);

/* The target's callers, made when they are first asked for; NULL when out of memory. */
struct native_callers *target_callers(struct target *t);

/* Address in the process of the function that performs boxed calls of all operators: the
 * std::function of a registered torch::jit::Operator points to it. 0 if it cannot be found
 * (yet). */
uint64_t target_find_boxed(struct target *t);

#endif
