/* One traced process as the symbolizer sees it: its ops, its Python, the layout of its tensors. */
#ifndef SYMBOLIZER_DECODE_TARGET_H
#define SYMBOLIZER_DECODE_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/registry.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/torch/interned.h"
#include "symbolizer/torch/layout.h"
#include "symbolizer/torch/node_map.h"

enum { SNAPSHOTS_ENOUGH = 32, SNAPSHOTS_MAX = 256, TYPE_SLOTS = 64, READS_KEPT = 16 };
enum { GROUP_NOT_KNOWN = UINT16_MAX, GROUP_TRIES = 64 };

/* A Python class that ops are named after. */
struct type_name {
	uint64_t type; /* address of its type object */
	const struct op_desc *desc;
};

struct target {
	pid_t pid;
	struct mem mem;
	const struct op_table *ops; /* not owned */
	uint64_t
	    bias[OPS_FILES];   /* of its libraries: address in the process minus that in the file */
	struct py_runtime *py; /* NULL: no CPython, an unknown one, or not started yet */
	struct rtti *rtti;
	struct registry *registry;
	struct interned *interned;
	struct node_map nodes;
	struct type_name types[TYPE_SLOTS];
	struct boxed_seen boxed[BOXED_SEEN];
	struct tensor_layout layout;
	struct tensor_layout engine_layout; /* the layout that conf was made from */
	unsigned group_tries;
	uint16_t group_at;    /* offset of rank and size in a ProcessGroup; 0: none was seen yet */
	bool layout_complete; /* everything needed is known */
	bool layout_known;    /* settled: no more snapshots are wanted */
	struct tensor_snapshot *snapshots;
	uint32_t nsnapshots;
	struct tensor_read reads[READS_KEPT]; /* conf.tensor of the last generations */
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

/* Learn the schema in the items of a HIT_SCHEMA. */
void target_defined(struct target *t, const struct items *it);

/* Address in the process of the function that performs boxed calls of all operators: the
 * std::function of a registered torch::jit::Operator points to it. 0 if it cannot be found
 * (yet). */
uint64_t target_find_boxed(struct target *t);

#endif
