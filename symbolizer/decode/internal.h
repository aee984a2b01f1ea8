/* Declarations shared by the files of this folder. */
#ifndef SYMBOLIZER_DECODE_INTERNAL_H
#define SYMBOLIZER_DECODE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/process.h"

/* Decoding of tensors, used by symbolizer/decode/decode_value.c. */

/* Decode `i`, an ITEM_TENSOR or ITEM_SNAPSHOT. Returns a VALUE_TENSOR in d->arena, VALUE_NONE for
 * an undefined tensor, or VALUE_NOT_DECODED. Adds the tensor's grad_fn to d->nodes. */
struct value decode_tensor(struct decode *d, const struct item *i);

/* Tensors decoded before, by what their items say other than addresses. */

enum { SEEN_WORDS = 32 };

struct seen_key {
	uint32_t n;	  /* words of the payload */
	uint32_t aux;	  /* the item's */
	uint32_t unknown; /* of the layout that it was decoded by, as are: */
	uint16_t reading, generation;
	uint64_t words[SEEN_WORDS]; /* the payload, in place of an address whether there is one */
};

/* The autograd node that such an item tells of; addr 0: none. */
struct seen_node {
	uint64_t addr, seq;
	bool has_seq;
};

/* The key of `i`, an ITEM_TENSOR of the hit being decoded; false: it is none to be found again. */
bool seen_key_make(const struct target *t, const struct item *i, struct seen_key *k);

/* The tensor of `i`, in d->arena, if one with the same key was added; else NULL. */
struct tensor *seen_tensors_find(struct decode *d, const struct item *i, const struct seen_key *k,
				 struct seen_node *node);

/* The same without a key, for the one that came after the tensor found last; NULL: it is another.
 */
struct tensor *seen_tensors_foreseen(struct decode *d, const struct item *i,
				     struct seen_node *node);

/* Remember what `i` was decoded to by the layout that the key was made with, unless something of it
 * is unknown. Sets tensor->same. */
void seen_tensors_add(struct target *t, const struct item *i, const struct seen_key *k,
		      struct tensor *tensor);

/* Forget all. */
void seen_tensors_forget(struct target *t);

/* What the c10d::ProcessGroup at that address of the process is; NULL: not known, or two groups
 * have been there. Lives as long as the target. *place: of the process in it, -1: not known. */
const struct group_desc *groups_find(struct target *t, uint64_t object, int32_t *place);
void groups_free(struct groups *g); /* NULL allowed */

/* Where rank and size, two ints side by side, are in a ProcessGroup differs between versions of
 * PyTorch. The group of all ranks tells: its are RANK and WORLD_SIZE. Returns the offset in the
 * `len` bytes, at least `from`; 0: nowhere; GROUP_NOT_KNOWN: of two places neither is believed. */
uint16_t decode_group_place(const struct process_rank *own, const uint8_t *group, uint32_t from,
			    uint32_t len);

/* Decode `held`, an item of what the only slot of an object holds. */
struct value decode_custom_object(const struct decode *d, const struct item *held);

/* The same of an object at `addr` that begins with the `len` bytes at `p`. */
struct value decode_object(const struct decode *d, uint64_t addr, const uint8_t *p, uint32_t len);

/* Reassembly of a hit that comes in several records. */

/* One per thread; zero-initialise. */
struct hit_fragments {
	struct hit head;
	uint8_t *data;
	size_t len, room; /* bytes */
	bool lost;	  /* a record is missing */
};

/* Add the next record of the thread, one with HIT_MORE or HIT_CONT. Returns 0; -E2BIG if the hit
 * exceeds a few MiB, or -ENOMEM: the hit is then lost. */
int hit_fragments_add(struct hit_fragments *p, const struct hit *h);

/* The items of the hit whose last record was added; none if one of its records is missing. Borrowed
 * from `p` until the next call. */
struct items hit_fragments_end(struct hit_fragments *p);

void hit_fragments_free(struct hit_fragments *p);

/* An op between its entry and its exit, and the decoding of its records. */

struct open_op {
	struct op_event ev;
	const struct op_probe *probe;
	const struct registered_op *reg; /* boxed ops: the operator with its types; NULL: unknown */
	uint64_t seq;			 /* hit.seq */
	uint32_t own;			 /* innermost frames of ev.stack that are the backward's */
	struct arena arena;		 /* holds the values; reused from op to op */
	struct node_refs in;		 /* nodes of the arguments */
	uint64_t edges;			 /* ROLE_GRADS: address of the node's edges */
};

/* The context for decoding values of the op, into its arena. `nodes` collects the nodes of the
 * tensors; may be NULL. */
struct decode open_op_decode(struct target *t, struct open_op *o, struct node_refs *nodes);

/* Decode the arguments from the items of the entry into ev.args. `lean`: it has none (HIT_LEAN). */
void open_op_args(struct target *t, struct open_op *o, const struct items *it, bool lean);

/* Decode the results from the items of the exit into ev.results, and record the op as the creator
 * of the nodes it made. `lean`: as above. */
void open_op_results(struct target *t, struct open_op *o, const struct items *exit, bool lean);

/* At the entry of a node: set the event's node and, if known, the forward op and the stack that it
 * belongs to. Returns whether they are. */
bool open_op_tie(struct target *t, struct open_op *o, const struct items *it);

/* At the entry of AccumulateGrad, at `ns`: set the stack that it belongs to, if it is known of
 * which parameter it is. Returns whether it is. */
bool open_op_accumulates(struct target *t, struct open_op *o, const struct items *it, uint64_t ns);

/* A write into a view, `o`, has made the node CopySlices, which its base has then and no result. */
void open_op_makes_slices(struct target *t, const struct open_op *o, const struct items *it);

/* Ops that autograd's engine runs with the results of a node, after it and in no other. */

/* The node of a thread that ended last, as long as nothing was entered since but what follows here.
 * Each entry takes a number, also that of Engine::evaluate_function, which is not reported: while
 * the numbers go on without a gap, the engine is still at work on that node. Zero-initialise. */
struct after_node {
	bool is;
	bool accumulates; /* what comes next can only be a hook of it */
	uint16_t depth;
	uint64_t next; /* the number of the next entry */
	const struct py_stack *stack, *where_stack, *backward_of;
	uint64_t forward_id;
};

/* A node has returned; an entry with this hit.seq has come (of everything that is entered). */
void after_node_ended(struct after_node *a, const struct op_event *node);
void after_node_entry(struct after_node *a, uint64_t seq);

/* Locate an op that the engine's work on a node encloses, and that no Python code of the backward
 * calls, as the node is. False: it is not certain that it works on what the node returned. */
bool after_node_locate(const struct after_node *a, struct op_event *op);

/* Compilations of torch.compile. */

enum compilation_kind {
	COMPILATION_NONE,
	COMPILATION_FORWARD,
	COMPILATION_BACKWARD,
	COMPILATION_KINDS,
};

/* Of one thread; zero-initialise. */
struct compilation {
	uint64_t made_seq; /* hit.seq of the last constructor */
	uint8_t made_kind; /* what that counter is of */
	/* By kind, the address of what is counted, which is the same for all counters of one name
	 * and lasts as long as the process; 0: not known. */
	uint64_t counter[COMPILATION_KINDS];
	uint64_t running; /* that of the compilation that runs; 0: none does */
	unsigned nested;  /* more of the kind within it */
	uint16_t level;	  /* its place among the open ops; set by its user */
};

/* A hit of a constructor. */
void compilation_counter(struct compilation *c, const struct hit *h, const struct items *it);

/* A counter starts: what begins with it, COMPILATION_NONE if it is no compilation. */
enum compilation_kind compilation_starts(struct compilation *c, const struct items *it);

/* A counter stops: whether the compilation ends with it, which is then still running for `c`. */
bool compilation_stops(struct compilation *c, const struct items *it);

/* A queue of records, in order of arrival. */

/* Zero-initialise. The records lie at data[0 .. len); their sizes are multiples of 8. */
struct hit_queue {
	uint8_t *data;
	size_t len, room; /* bytes */
};

/* Free the memory of the queue and empty it. */
void hit_queue_free(struct hit_queue *q);

/* Delays hits briefly, until it is known which Python code objects were freed right after them. */

enum { REORDER_BUFFER_NS = 20 * 1000 * 1000 };

struct batch {
	struct hit_queue hits;
	size_t nends; /* records of code objects: HIT_CODE_FREED, HIT_CODE_MET */
};

/* Zero-initialise. */
struct reorder_buffer {
	struct batch waiting, coming;
	size_t warmed;	 /* bytes of `coming` whose stacks have been processed */
	uint64_t turned; /* CLOCK_MONOTONIC, ns: time of the last turn */
	uint64_t turns;	 /* number of turns; all records added so far are decoded two turns later */
};

/* Add a copy of one record. Once more than a few MiB are waiting, they are decoded at once. */
void reorder_buffer_add(struct reorder_buffer *l, struct decoder *d, const struct hit *h);

/* Read the Python code objects that records added since the last call refer to, while they are
 * alive. If the last turn was REORDER_BUFFER_NS ago or earlier, also decode the records that came
 * before it. Returns whether it did. */
bool reorder_buffer_turn(struct reorder_buffer *l, struct decoder *d, uint64_t now_ns);

/* Decode all waiting records. */
void reorder_buffer_flush(struct reorder_buffer *l, struct decoder *d);

void reorder_buffer_free(struct reorder_buffer *l);

enum { THREAD_BUCKETS = 256 };

struct decoder_proc {
	struct target *target; /* NULL: unknown process */
	struct hit_queue held; /* records held back until the layout of its tensors is known */
	uint64_t drained;      /* CLOCK_MONOTONIC, ns: when held records were last decoded */
	uint64_t last_turn; /* turn of the reorder buffer by which all its records are decoded; 0:
			       more may come */
};

struct decoder {
	decoder_event_fn *fn, *start_fn;
	decoder_grads_fn *grads_fn;
	decoder_sum_fn *sum_fn;
	decoder_done_fn *done_fn, *written_fn;
	void *arg;
	struct decoder_proc procs[PROCS_MAX];
	struct reorder_buffer reorder_buffer;
	struct decoder_thread *threads[THREAD_BUCKETS];
	uint64_t next_id, dropped;
};

/* Decode the held records of a process, with what is known of its tensors now. */
void decoder_drain(struct decoder *d, struct decoder_proc *p);

/* decoder_drain for each process whose layout is still unknown, at most every half second. */
void decoder_drain_held(struct decoder *d, uint64_t now_ns);

/* The process has ended, or no more hits will come: settle the layout of its tensors and decode its
 * held records. */
void decoder_settle(struct decoder *d, struct decoder_proc *p);

/* Open or close the op that a record belongs to; `t` is its process. In pair_hits.c. */
void decoder_pair(struct decoder *d, struct target *t, const struct hit *h);

/* Hits of ROLE_GRADS: `o`, at its entry, gets what the node returned; at the exit, what flows on is
 * passed to grads_fn with it. */
void pair_grads_entered(struct target *t, struct open_op *o, const struct hit *h,
			const struct items *it);
void pair_grads_left(struct decoder *d, struct target *t, struct open_op *o, const struct hit *h,
		     const struct items *it);

/* A hit of ROLE_DONE: passed to done_fn, except of a collective that ends with an exception, as
 * that is never done. */
void pair_work_done(struct decoder *d, struct target *t, const struct hit *h,
		    const struct items *it);

/* A hit of ROLE_WRITTEN: passed to written_fn. */
void pair_work_written(struct decoder *d, struct target *t, const struct hit *h,
		       const struct items *it);

/* End the open ops of process `proc` (-1: of all processes) as unfinished; forget its threads. */
void decoder_end_ops(struct decoder *d, int proc);
void decoder_drop_threads(struct decoder *d, int proc);

/* The interned stack for the frames in the ITEM_STACK `i` of a hit at time `when`. For one with
 * frames of the backward's own, `around` is the stack of the forward op; NULL: not known. */
const struct py_stack *decoder_frames(struct target *t, const struct item *i,
				      const struct py_stack *around, uint64_t when);

/* registry_read.c: an operator as the dispatcher of a live process has it. */

struct operator_reader {
	const struct mem *mem;
	bool cow; /* see std_string_size */
	struct rtti *rtti;
	struct arena *arena;	/* holds what is read */
	unsigned argument_size; /* sizeof(c10::Argument); 0: not known yet */
	bool has_real_types;	/* c10::Argument has real_type_ */
};

struct operator_read {
	struct schema_arg *args, *returns; /* names, types and kwarg_only */
	int nargs, nreturns;
};

/* The name of the impl::OperatorEntry, or FunctionSchema, at `def`: "ns::op.overload". False: there
 * is none. */
bool operator_read_name(const struct operator_reader *g, uint64_t def,
			char full[OPERATOR_NAME_MAX]);

/* Read the schema of the live operator `full` at `def`. False: it was incomplete at some time. */
bool operator_read(struct operator_reader *g, uint64_t def, const char *full,
		   struct operator_read *out);

/* decode_plain.c: values of known size. */

static inline const uint8_t *item_bytes(const struct item *i)
{
	return (const uint8_t *)(i + 1);
}

static inline uint64_t plain_word(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline struct value value_none(void)
{
	return (struct value){.kind = VALUE_NONE};
}

static inline struct value value_int(int kind, int64_t v)
{
	return (struct value){.kind = (uint8_t)kind, .i = v};
}

/* A value of `base` from the bytes at `p`, at least 8, or 2 for a device. */
struct value plain_value(uint8_t base, const uint8_t *p);

/* What a c10::Scalar of a kind (VALUE_BOOL, VALUE_INT, VALUE_FLOAT) holds. */
struct value plain_scalar(uint8_t kind, const uint8_t *v);

/* plain_value for all types of known size, including those that need facts of the target. */
struct value plain_of_type(const struct decode *d, uint8_t base, const uint8_t *p);

/* A plain or optional value from its `len` bytes at `p`. */
struct value plain_laid_out(const struct decode *d, const struct abi_value *v, const uint8_t *p,
			    uint32_t len);

/* backward.c: the stack of an op, and in the backward the line that it belongs to. */

bool open_op_is_node(const struct open_op *o);

/* Set the op's stack, and how many of its frames are the backward's own. `up`: the op around it, or
 * NULL. */
void open_op_set_stack(struct target *t, struct open_op *o, const struct open_op *up,
		       const struct items *it, uint64_t when);

/* In the backward: which line an op belongs to, or a node whose forward op is not known. Without
 * frames of its own it has that of the op or node that encloses it, unless there is another call of
 * the engine in between; or that of the node on whose results the engine works (`after`; NULL: on
 * none). */
void open_op_locate(struct open_op *o, const struct open_op *up, const struct after_node *after);

/* In the backward although no node encloses it: the engine's own work between nodes, or of a node
 * that was entered before the recording began. */
bool open_op_is_of_engine(const struct open_op *o);

/* decoder.c: hand over the calls of o->probe that were summed up in the hit, as a sum. */
void decoder_give_sum(struct decoder *d, struct target *t, const struct hit *h, struct open_op *o,
		      struct sum_counts *c);

#endif
