/* Internal to tracer/capture. */
#ifndef TRACER_CAPTURE_INTERNAL_H
#define TRACER_CAPTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "replay/capture/capture_files.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "tracer/capture/capture.h"

/* Where the gradient of a tensor flows in the autograd graph, read from the live process. */

/* A node by address and sequence number, which distinguishes it from a later one at the same
 * address. */
struct grad_edge {
	uint64_t node; /* 0: nowhere */
	uint64_t seq;  /* GRAD_LEAF: the AccumulateGrad of a leaf */
};

/* torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0 */
static const uint64_t GRAD_LEAF = UINT64_MAX;

static inline bool grad_edge_same(const struct grad_edge *a, const struct grad_edge *b)
{
	return a->node == b->node && a->seq == b->seq;
}

/* The node that the gradient of `x` flows to: its grad_fn, or a leaf's AccumulateGrad, which is
 * created when the leaf is first used; *out is zero if there is none. The thread that uses `x` must
 * be stopped. 0; -ENODATA if the place of the pointer is unknown, or if a view keeps it elsewhere;
 * the -errno of reading. */
int grad_edge_of(struct target *t, const struct tensor *x, struct grad_edge *out);

/* Where the results of a node flow: its std::vector<Edge> at address `edges`, which must have `n`
 * elements. 0; -EPROTO if it has another number; -ENODATA or the -errno of reading. */
int grad_edges_read(struct target *t, uint64_t edges, struct grad_edge *out, size_t n);

/* The tensor arguments of a captured call, where their gradients flow, and the gradients that have
 * arrived. A composite op has a graph of several nodes: what flows out of it to the edge of an
 * argument is that argument's gradient. */

/* Why the gradients of a call's arguments cannot be determined. */
enum grads_trouble {
	GRADS_FINE,
	GRADS_UNKNOWN, /* where they flow could not be read */
	GRADS_SHARED,  /* two arguments are results of one op, or the same tensor */
	GRADS_SUMMED,  /* an argument's gradient is the sum of several */
	GRADS_LOST,    /* a gradient could not be kept until all had arrived */
	GRADS_TROUBLES,
};

/* A few words for a summary. Static. */
const char *grads_trouble_text(enum grads_trouble t);

struct call_input {
	const char *name; /* in input.pth: "0", "1[2]" by position, "weight" by keyword */
	const struct tensor *tensor; /* only impl and meta.requires_grad stay valid */
	struct grad_edge edge;
	bool was_leaf;		   /* at the entry */
	const struct tensor *grad; /* NULL: not arrived */
};

/* Zero-initialise. */
struct call_inputs {
	struct arena arena;
	struct call_input *list; /* of each tensor in order of the arguments, lists flattened */
	unsigned n;
	struct kept grads;
	enum grads_trouble trouble;
};

/* Call at the entry of the op. Sets in->trouble without memory or if something is unknown. */
void call_inputs_begin(struct call_inputs *in, struct target *t, const struct op_event *ev);

/* Call at its exit, when leaves have their AccumulateGrad. */
void call_inputs_end(struct call_inputs *in, struct target *t, const struct op_event *ev);

/* The number of arguments whose gradient flows to `edge`; *input is one of them. */
unsigned call_inputs_at(const struct call_inputs *in, const struct grad_edge *edge,
			struct call_input **input);

/* Copy `grad`, which flows to *input, as it is now. Sets in->trouble if *input already has a
 * gradient, or if the copy fails or exceeds `max` bytes. */
void call_inputs_keep(struct call_inputs *in, struct call_input *input, const struct tensor *grad,
		      const struct source *live, size_t max);

/* The gradients as values, None for those that have not arrived, and the names of the arguments.
 * False without memory or if none has arrived. */
bool call_inputs_grads(struct call_inputs *in, struct value **grads, const char *const **names);

void call_inputs_free(struct call_inputs *in);

/* Captured calls whose gradients may still arrive: by id of the forward event, and by the nodes
 * that they created in the autograd graph. */

enum {
	CAPTURE_CALLS_MAX = 16384, /* beyond this the oldest is dropped: its graph may be gone */
	CAPTURE_NODES_MAX = 256,   /* per call */
};

/* A node that must run before all gradients of a call are complete. */
struct call_node {
	struct grad_edge at;
	struct captured_call *call;
	bool gave_result;	   /* it is the grad_fn of a result, not a node after one */
	struct call_node *in_slot; /* next in its hash slot */
	struct call_node *of_call; /* next of its call */
};

struct captured_call {
	struct capture_call call;
	struct captured_call *next;	       /* in its slot */
	struct captured_call *older, *younger; /* in order of addition */
	struct call_node *nodes;
	unsigned nnodes;
	struct call_inputs inputs;
	const struct py_stack *where; /* of the forward event */
	uint64_t files;
	bool one_result; /* it returned one tensor */
	bool began;	 /* one of its nodes has run */
};

/* Zero-initialise. */
struct capture_calls {
	struct captured_call *slot[CAPTURE_CALLS_MAX];
	struct call_node *nodes[CAPTURE_CALLS_MAX];
	struct captured_call *oldest, *youngest;
	uint32_t n;
	uint64_t unfinished; /* dropped after some of their nodes had run, but not all */
};

/* Add a record for the forward event `id`; NULL without memory. Valid until dropped, by
 * capture_calls_drop or when CAPTURE_CALLS_MAX others have been added. */
struct captured_call *capture_calls_add(struct capture_calls *c, uint64_t id);

/* NULL for an unknown id, and for 0. */
struct captured_call *capture_calls_find(const struct capture_calls *c, uint64_t id);

void capture_calls_drop(struct capture_calls *c, struct captured_call *call); /* NULL allowed */

/* Let `call` wait for the node `at`; no-op if it already does. 0, -ENOMEM, or -E2BIG for more than
 * CAPTURE_NODES_MAX nodes. */
int capture_calls_await(struct capture_calls *c, struct captured_call *call,
			const struct grad_edge *at, bool gave_result);

/* Iterate over the calls of process `pid` that wait for the node `at`: the next one after `after`
 * (NULL: the first); NULL: no more. */
struct call_node *capture_calls_awaiting(const struct capture_calls *c, int32_t pid,
					 const struct grad_edge *at, const struct call_node *after);

/* The node has run; frees it. */
void capture_calls_ran(struct capture_calls *c, struct call_node *node);

/* Whether a backward node is that of the op itself, as named by autograd's code generator
 * ("AddmmBackward0" for addmm and addmm_; tools/autograd in PyTorch's source): then it returns the
 * gradients of the op's arguments. `op` as in struct capture_call. */
bool capture_node_is_of(const char *node, const char *op);

void capture_calls_free(struct capture_calls *c);

/* The gradients of captured calls: which backward nodes return them, and when they are final. */

struct capture;
struct captured_call;
struct engine;

enum { GRADS_THREADS = 64, GRADS_RESULTS_MAX = 4096 };

/* A node that has ended on a thread, and whose results autograd is bringing into their final form.
 */
struct ended_node {
	int32_t tid;
	struct grad_edge at; /* node 0: none */
	const char *name;
	uint64_t *results; /* addresses of the TensorImpls, 0 for None */
	unsigned n;
};

/* Zero-initialise. */
struct capture_grads {
	struct ended_node ended[GRADS_THREADS];
	uint64_t troubles[GRADS_TROUBLES]; /* calls without grad_inputs, by reason */
	uint64_t as_returned;		   /* calls whose grad_inputs are not in their final form */
	uint64_t unseen;		   /* calls whose gradients' final form was not seen */
};

/* The op of `call` starts. */
void capture_grads_enter(struct captured_call *call, struct target *t, const struct op_event *ev);

/* The op has ended without throwing. False if no gradients will arrive. */
bool capture_grads_leave(struct capture *c, struct captured_call *call, struct target *t,
			 const struct op_event *ev);

/* A backward node starts, ends. */
void capture_grads_node_starts(struct capture *c, struct target *t, const struct op_event *ev);
void capture_grads_node_ends(struct capture *c, struct target *t, const struct op_event *ev);

/* The results of the last node that ended on the thread have their final form. */
void capture_grads_flow(struct capture *c, struct target *t, const struct decoder_grads *g);

/* Print what was left out, and why. */
void capture_grads_summary(const struct capture *c, FILE *f);

void capture_grads_free(struct capture_grads *g);

/* The memory of a traced process as a source of captures. */

/* The dispatch keys seen on integer tensors of this run, which never have the conjugate or negative
 * bit. Needed where the code of libtorch does not reveal these bits. Zero-initialise. */
struct ordinary_keys {
	uint64_t keys;
};

struct capture_source {
	struct target *target;
	struct ordinary_keys *keys;
};

/* A source that reads the process of `c`, which must outlive it. The thread that uses the tensors
 * must be stopped. Device memory cannot be read from outside. */
struct source capture_source(struct capture_source *c);

/* The calls being measured, from entry to exit, and which calls were chosen. */

enum { STATS_SLOTS = 1024, CHOSEN_MAX = 65536 };

struct stats_call {
	struct stats_call *next; /* in its hash slot, or in `unused` */
	uint64_t id;		 /* of the event */
	struct tensor_stats *rows;
	uint32_t n;
	size_t room;
	struct snapshot before; /* of its arguments */
};

/* Zero-initialise. */
struct stats_calls {
	struct stats_call *slot[STATS_SLOTS];
	struct stats_call *unused;
	uint64_t *chosen; /* a ring of the last CHOSEN_MAX ids, ascending */
	uint64_t nchosen; /* in total */
};

/* Add a record for the event `id`, without rows; NULL without memory. */
struct stats_call *stats_call_begin(struct stats_calls *c, uint64_t id);

/* NULL when there is none. */
struct stats_call *stats_call_find(const struct stats_calls *c, uint64_t id);

/* Append a row for the tensor at `place`, otherwise zeroed; NULL without memory. Rows must come in
 * the order of their places. Valid until the next one. */
struct tensor_stats *stats_call_row(struct stats_call *m, const struct tensor_place *place);

/* Release the record for reuse. */
void stats_call_end(struct stats_calls *c, struct stats_call *m);

/* Mark call `id` as chosen; ask whether it was. Ids must ascend; only the last CHOSEN_MAX are
 * remembered. */
void stats_call_choose(struct stats_calls *c, uint64_t id);
bool stats_was_chosen(const struct stats_calls *c, uint64_t id);

void stats_call_free(struct stats_calls *c);

/* The selection in each process, by the options --nth, --every, --max-calls and --step. */

enum { SELECTIONS_MAX = 256 };

/* Zero-initialise; must not be moved once used. */
struct selections {
	struct selection_policy policy;
	struct selection_process {
		pid_t pid; /* 0: free */
		struct selection selection;
	} processes[SELECTIONS_MAX];
	uint64_t chosen; /* calls, in all processes */
};

/* Read the options, except `dir` and `max_bytes`, and the environment (selection_environment). 0,
 * -EINVAL with *e, or -ENOMEM. */
int selections_read(struct selections *s, const struct capture_opts *o,
		    const struct selection_variables *v, struct err *e);

/* Whether there is any restriction, so that not every call is chosen. */
bool selections_restrict(const struct selections *s);

/* The selection of process `pid`; NULL if there are too many processes at once. */
struct selection *selections_of(struct selections *s, pid_t pid);

/* Process `pid` has ended: drop its counts. */
void selections_forget(struct selections *s, pid_t pid);

void selections_free(struct selections *s);

/* The processes of ranks, and the folders of their captures. */

struct capture_process {
	pid_t pid;
	int32_t rank;
	bool worker;
	char place[24]; /* "rank0", "rank0.1" */
};

/* Zero-initialise. */
struct capture_processes {
	struct capture_process *all;
	size_t n, room;
};

/* Tell that a file was saved, for a person. */
void capture_log_saved(FILE *log, const struct capture_saved *saved);

void capture_places_add(struct capture *c, const struct trace_process *told);

/* "" for a process that is no rank. */
void capture_place_of(const struct capture *c, pid_t pid, char *out, size_t size);

/* Collectives. */

/* Zero-initialise. */
struct capture_collectives {
	bool on; /* what is captured are collectives, under the engine shim */
	struct collective_capture *awaited; /* whose output is not written yet, newest first */
	size_t n;
	uint64_t not_done;  /* of which it was not seen when they were */
	uint64_t not_read;  /* files of which the values may have changed while they were read */
	uint64_t on_device; /* calls with tensors in memory that is not the CPU's */
	uint64_t no_ops;    /* calls that are of no operator, which no thread stops at */
};

/* Whether the event is of a collective that gives and gets tensors. */
bool capture_collectives_wants(const struct op_event *ev);

/* It starts, the thread is stopped; it has returned; a work has written what it gives, `t` is NULL
 * if its thread is not stopped. */
void capture_collectives_begin(struct capture *c, struct target *t, const struct op_event *ev);
void capture_collectives_end(struct capture *c, struct target *t, const struct op_event *ev);
void capture_collectives_written(struct capture *c, struct target *t, const struct work_done *w);

void capture_collectives_summary(const struct capture_collectives *c, FILE *f);
void capture_collectives_forget(struct capture *c, pid_t pid);
void capture_collectives_free(struct capture_collectives *c);

/* State of a capture, shared by capture.c (forward calls), capture_grads.c (gradients) and
 * capture_collectives.c. */

struct capture {
	struct observer observer;
	const struct when *when;
	FILE *log;
	observer_count_fn *count; /* NULL: the engine does not count calls */
	void *count_arg;
	struct selections selections;
	struct capture_files files;
	struct capture_calls calls;
	struct capture_grads grads;
	struct ordinary_keys keys;
	struct capture_processes processes;
	struct capture_collectives collectives;
	struct engine *engine;
	uint64_t saved; /* calls with at least one file written */
	struct when_counts when_counts;
	uint64_t too_early;		    /* calls whose inputs could not be read yet */
	char refused_op[CAPTURE_NAME_SIZE]; /* op of the last refusal logged */
	int refused_code;
	bool hinted; /* a refusal with a hint was logged */
	bool without_grads;
	bool over;
	struct err trouble;
};

/* Write one file of `call`, and log it. Reads memory from `src`, or from `t` as it is now. */
void capture_save(struct capture *c, struct captured_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src);
void capture_save_live(struct capture *c, struct target *t, struct captured_call *call,
		       enum capture_part part, const struct op_event *ev);

/* The same for values without an event. */
void capture_save_content(struct capture *c, const struct capture_call *call, const char *part,
			  struct pth_content *content, struct capture_about *about,
			  const struct source *src);

#endif
