/* big_trace EVENTS FILE: writes the trace of a long training run, with steps of 500 ops, three
 * levels deep, from 50 source lines, and a backward node for every tenth op. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	struct trace_writer *w;
	struct err e = {0};
	uint64_t n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	if (!n) {
		fputs("usage: big_trace EVENTS FILE\n", stderr);
		return 2;
	}
	make_things();
	int r = trace_writer_open(argv[2], &w, &e);
	for (uint64_t i = 0; i < n && !r; i++) {
		struct op_event ev = event(i, 1000000000, 4121);
		r = trace_write_event(w, &ev);
	}
	r = r ? r : trace_writer_close(w, true);
	if (r)
		fprintf(stderr, "big_trace: %s\n", e.what[0] ? e.what : strerror(-r));
	return r != 0;
}
