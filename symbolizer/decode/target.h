/* One traced process as the symbolizer sees it: its ops, its Python, where its tensors keep what.
 */
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

/* A Python class that names ops. */
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
	struct py_runtime *py; /* NULL: no CPython, or not one that is known, or not yet */
	struct rtti *rtti;
	struct registry *registry;
	struct interned *interned;
	struct node_map nodes;
	struct type_name types[TYPE_SLOTS];
	struct boxed_seen boxed[BOXED_SEEN];
	struct tensor_layout layout;
	struct tensor_layout engine_layout; /* that conf was made from */
	bool layout_complete;		    /* all that is needed is known */
	bool layout_known;		    /* settled: no more snapshots are wanted */
	struct tensor_snapshot *snapshots;
	uint32_t nsnapshots;
	struct tensor_read reads[READS_KEPT]; /* conf.tensor of the last generations */
	uint16_t reading;      /* generation that the hit being decoded was read with */
	struct proc_conf conf; /* what the engine is to read */
	struct torch_package package;
};

/* Open process `pid`, which has mapped the libraries of `ops` as `maps` says. Returns 0 and *out
 * (free with target_close) or -errno. A Python that cannot be used is no failure: *py_note (an err
 * of the caller's) says why frames will be missing. */
int target_open(pid_t pid, const struct op_table *ops, const struct maps *maps, struct target **out,
		struct err *py_note, struct err *e);
void target_close(struct target *t);

/* Take over what is known of the layout from the process that `t` was forked from, if the libraries
 * lie at the same addresses. */
void target_inherit(struct target *t, const struct target *parent);

/* Look for the Python runtime again, when it had not started yet. 0 once t->py is there. */
int target_find_python(struct target *t, struct err *e);

/* Take the snapshots among the items of a hit. Returns true when the layout has just been settled,
 * and then t->conf is to be given to the engine again. */
bool target_learn(struct target *t, const struct items *it);

/* No more evidence will come, or no more can be waited for: what is not known by now stays unknown.
 */
void target_settle(struct target *t);

/* Bring t->conf up to what is known of the layout by now. True when that changed, and
 * t->conf.generation with it: the engine is to be told. */
bool target_refresh(struct target *t);

/* The sequence number of the live autograd node at `node`; false when it cannot be had. */
bool target_node_seq(struct target *t, uint64_t node, uint64_t *seq);

/* Once the libraries are ready to run: let snapshots tell the sequence numbers of nodes, too, found
 * by the code of their class alone. True when t->conf has changed. */
bool target_prepare(struct target *t);

/* Offset of the Python object within a torch::autograd::PyNode; 0 when it is not known (yet). */
uint16_t target_pynode_obj(struct target *t);

/* Which op a hit of `p` belongs to: p->desc, or for boxed calls, Python nodes and functions the one
 * that the items name. *types (may be NULL in return): the registered operator with its types.
 * Never NULL. */
const struct op_desc *target_identify(struct target *t, const struct op_probe *p,
				      const struct items *it, const struct registered_op **reg);

/* Learn the schema that a HIT_SCHEMA holds. */
void target_defined(struct target *t, const struct items *it);

/* Address in the process of the function that carries out boxed calls of all operators: the
 * std::function of a registered torch::jit::Operator points to it. 0 when it cannot be found (yet).
 */
uint64_t target_find_boxed(struct target *t);

#endif
