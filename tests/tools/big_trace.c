/* big_trace EVENTS FILE: writes the trace of a long training run, with steps of 500 ops, three
 * levels deep, from 50 source lines, and a backward node for every tenth op.
 *
 * big_trace EVENTS FOLDER RANKS: the same of so many ranks. Of every 100 events one is a
 * collective, in turns of all ranks and of eight. One rank, two thirds on, is late for each, by an
 * op at line 10.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "perf/trace/trace_write.h"

enum { OPS = 60, LINES = 50, PER_STEP = 500 };

static struct op_desc ops[OPS];
static char names[OPS][48];
static struct py_frame frames[LINES + 1];
static _Alignas(struct py_stack) char stacks[LINES][sizeof(struct py_stack) + 2 * sizeof(void *)];
static int64_t shape[] = {32, 128}, stride[] = {128, 1};
static struct tensor tensor = {
    .meta = {.dtype = 6, .ndim = 2, .numel = 4096, .shape = shape, .stride = stride}};
static struct value args[] = {{.kind = VALUE_TENSOR, .tensor = &tensor},
			      {.kind = VALUE_TENSOR, .tensor = &tensor}};

static void make_things(void)
{
	for (uint32_t i = 0; i < OPS; i++) {
		bool node = i >= OPS - OPS / 10;
		snprintf(names[i], sizeof(names[i]),
			 node ? "Op%" PRIu32 "Backward0" : "aten::op%" PRIu32, i);
		ops[i] = (struct op_desc){.id = i,
					  .name = names[i],
					  .schema = "",
					  .nargs = 0,
					  .kind = node ? OP_BACKWARD : OP_DISPATCHED};
	}
	for (uint32_t i = 0; i <= LINES; i++)
		frames[i] = (struct py_frame){.id = i,
					      .file = "/home/me/train.py",
					      .function = "forward",
					      .text = "x = self.layer(x)",
					      .line = (int32_t)(10 + i),
					      .column = -1,
					      .end_column = -1};
	for (uint32_t i = 0; i < LINES; i++) {
		struct py_stack *s = (struct py_stack *)stacks[i];
		*s = (struct py_stack){.id = i, .depth = 2};
		s->frames[0] = &frames[i];
		s->frames[1] = &frames[LINES];
	}
}

/* Event number `i`, in order of end: two ops in one in one, repeated. */
static struct op_event event(uint64_t i, uint64_t base, int32_t pid)
{
	static const struct {
		uint64_t id, parent;
		uint16_t depth, start, end, child;
	} shapes[] = {{3, 2, 2, 200, 500, 0},
		      {4, 2, 2, 600, 900, 0},
		      {2, 1, 1, 100, 1000, 600},
		      {1, 0, 0, 0, 1200, 900}};
	uint64_t group = i / 4, first = 4 * group, at = base + 2000 * group;
	unsigned k = i % 4;
	bool backward = group % 10 == 9 && k == 3;
	uint32_t op = (uint32_t)((group * 7 + k) % (OPS - OPS / 10));
	const struct py_stack *stack = (const struct py_stack *)stacks[group % PER_STEP % LINES];
	return (struct op_event){.id = first + shapes[k].id,
				 .parent = shapes[k].parent ? first + shapes[k].parent : 0,
				 .forward_id = backward ? first - 3 : 0,
				 .depth = shapes[k].depth,
				 .start_ns = at + shapes[k].start,
				 .end_ns = at + shapes[k].end + group * 2654435761u % 97,
				 .child_ns = shapes[k].child,
				 .op = &ops[backward ? OPS - 1 - group % (OPS / 10) : op],
				 .args = args,
				 .nargs = 2,
				 .stack = stack,
				 .where_stack = stack,
				 .phase = backward ? PHASE_BACKWARD : PHASE_FORWARD,
				 .pid = pid,
				 .tid = pid};
}

static int write_run(struct trace_writer *w, uint64_t n)
{
	int r = 0;
	for (uint64_t i = 0; i < n && !r; i++) {
		struct op_event ev = event(i, 1000000000, 4121);
		r = trace_write_event(w, &ev);
	}
	return r;
}

/* Ranks. */

enum { BLOCK = 100, BLOCK_NS = 120000, OF_GROUP = 8, CALL_NS = 60000, LATE_NS = 30000 };

static const struct op_desc allreduce = {
    .id = OPS, .name = "c10d::allreduce_", .schema = "", .kind = OP_DISPATCHED};

static struct group_desc group_of(uint32_t rank, uint32_t nranks, bool all, int32_t *ranks,
				  char name[16])
{
	uint32_t first = all ? 0 : rank / OF_GROUP * OF_GROUP;
	uint32_t n = all || nranks - first < OF_GROUP ? nranks - first : OF_GROUP;
	for (uint32_t i = 0; i < n; i++)
		ranks[i] = (int32_t)(first + i);
	snprintf(name, 16, "%" PRIu32, all ? 0 : 1 + first / OF_GROUP);
	return (struct group_desc){.name = name, .ranks = ranks, .n = n};
}

/* The collective at the end of block `b`, which is done everywhere at one time. */
static int write_collective(struct trace_writer *w, uint64_t b, uint32_t rank, uint32_t nranks,
			    int32_t *ranks, bool late)
{
	char name[16];
	const struct group_desc of = group_of(rank, nranks, b % 2, ranks, name);
	uint64_t at = 1000000000 + b * BLOCK_NS, start = at + CALL_NS + (late ? LATE_NS : 0);
	struct op_event ev = event(0, at, 1000 + (int32_t)rank);
	struct value all[] = {args[0],
			      {.kind = VALUE_GROUP,
			       .group = {0x1000 + b % 2, (int32_t)(rank - (uint32_t)ranks[0]),
					 (int32_t)of.n, &of}},
			      {.kind = VALUE_STRING, .str = "SUM", .count = 3}},
		     work = {.kind = VALUE_WORK, .work = {0x2000, "gloo"}};
	const struct work_done done = {1000 + (int32_t)rank, 0x2000, at + BLOCK_NS - 10000};
	ev.id = b * BLOCK + BLOCK - 1;
	ev.parent = ev.depth = ev.child_ns = 0;
	ev.op = &allreduce;
	ev.args = all;
	ev.nargs = 3;
	ev.results = &work;
	ev.nresults = 1;
	ev.start_ns = start + (b * 31 + rank) * 2654435761u % 4001;
	ev.end_ns = ev.start_ns + 1000;
	int r = trace_write_event(w, &ev);
	return r ? r : trace_write_done(w, &done);
}

static int write_rank(struct trace_writer *w, uint64_t n, uint32_t rank, uint32_t nranks,
		      int32_t *ranks)
{
	const bool late = rank == nranks * 2 / 3;
	const struct trace_process process = {
	    .pid = 1000 + (int32_t)rank,
	    .whole = true,
	    .rank = {.rank = (int32_t)rank, .world_size = (int32_t)nranks, .host = "here"}};
	trace_writer_one_file(w);
	int r = trace_write_process(w, &process);
	for (uint64_t b = 0; b < n / BLOCK && !r; b++) {
		for (uint64_t k = 0; k < BLOCK - 1 && !r; k++) {
			struct op_event ev = event(k, 1000000000 + b * BLOCK_NS, process.pid);
			bool slow = late && k == BLOCK - 2;
			ev.id += b * BLOCK;
			ev.parent += ev.parent ? b * BLOCK : 0;
			ev.forward_id += ev.forward_id ? b * BLOCK : 0;
			ev.end_ns += slow ? LATE_NS : 0;
			ev.stack = slow ? (const struct py_stack *)stacks[0] : ev.stack;
			ev.where_stack = ev.stack;
			r = trace_write_event(w, &ev);
		}
		r = r ? r : write_collective(w, b, rank, nranks, ranks, late);
	}
	return r;
}

/* nranks: 0: a run without ranks. */
static int write_file(const char *path, uint64_t n, uint32_t rank, uint32_t nranks)
{
	struct trace_writer *w;
	struct err e = {0};
	int32_t *ranks = calloc(nranks + 1, sizeof(*ranks));
	int r = ranks ? trace_writer_open(path, &w, &e) : -ENOMEM;
	if (!r) {
		r = nranks ? write_rank(w, n, rank, nranks, ranks) : write_run(w, n);
		int code = trace_writer_close(w, true);
		r = r ? r : code;
	}
	free(ranks);
	if (r)
		fprintf(stderr, "big_trace: %s\n", e.what[0] ? e.what : strerror(-r));
	return r;
}

static int write_ranks(const char *folder, uint64_t n, uint32_t nranks)
{
	char path[4096];
	if (mkdir(folder, 0777))
		return -errno;
	for (uint32_t rank = 0; rank < nranks; rank++) {
		snprintf(path, sizeof(path), "%s/rank%" PRIu32 ".data", folder, rank);
		int r = write_file(path, n, rank, nranks);
		if (r)
			return r;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t n = argc == 3 || argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
	uint32_t nranks = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	if (!n || (argc == 4 && !nranks)) {
		fputs("usage: big_trace EVENTS FILE | EVENTS FOLDER RANKS\n", stderr);
		return 2;
	}
	make_things();
	return nranks ? write_ranks(argv[2], n, nranks) != 0 : write_file(argv[2], n, 0, 0) != 0;
}
