/* device_trace FILE: writes the trace of some steps of a training on cuda:0. Kernels run on stream
 * 7, copies on stream 13, later than their ops; two kernels of a graph overlap; of some nothing is
 * known; and records of devices come in no order. */
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "perf/trace/trace_write.h"

enum { STEPS = 3, LAYERS = 4, MAIN = 4242, AUTOGRAD = 4250, HELD_MAX = 64 };

enum op { LINEAR, ADDMM, RELU, NODE, MM, COPY, ADD, ZERO, OPS };

static const struct op_desc ops[OPS] = {
    [LINEAR] = {.id = LINEAR, .name = "aten::linear", .schema = ""},
    [ADDMM] = {.id = ADDMM, .name = "aten::addmm", .schema = ""},
    [RELU] = {.id = RELU, .name = "aten::relu", .schema = ""},
    [NODE] = {.id = NODE, .name = "AddmmBackward0", .schema = "", .kind = OP_BACKWARD},
    [MM] = {.id = MM, .name = "aten::mm", .schema = ""},
    [COPY] = {.id = COPY, .name = "aten::copy_", .schema = ""},
    [ADD] = {.id = ADD, .name = "aten::_foreach_add_", .schema = ""},
    [ZERO] = {.id = ZERO, .name = "aten::zero_", .schema = ""},
};

enum line { MODEL, LAYER, OPTIMIZER, STEP, TO_DEVICE, LINES };

static const struct py_frame frames[LINES] = {
    [MODEL] = {0, "/home/me/train.py", "main", "loss = model(x)", 40, -1, -1, 0, false},
    [LAYER] = {1, "/home/me/train.py", "Block.forward", "return self.fc(x).relu()", 12, -1, -1, 0,
	       false},
    [OPTIMIZER] = {2, "/x/torch/optim/adam.py", "step", NULL, 5, -1, -1, 0, true},
    [STEP] = {3, "/home/me/train.py", "main", "optimizer.step()", 44, -1, -1, 0, false},
    [TO_DEVICE] = {4, "/home/me/train.py", "main", "x = x.cuda(non_blocking=True)", 38, -1, -1, 0,
		   false},
};

enum place { IN_MODEL, IN_LAYER, IN_STEP, IN_COPY, PLACES };

static _Alignas(struct py_stack) char stacks[PLACES][sizeof(struct py_stack) + 2 * sizeof(void *)];

static const struct py_stack *stack_of(enum place place)
{
	static const enum line lines[PLACES][2] = {[IN_MODEL] = {MODEL, MODEL},
						   [IN_LAYER] = {LAYER, MODEL},
						   [IN_STEP] = {OPTIMIZER, STEP},
						   [IN_COPY] = {TO_DEVICE, MODEL}};
	struct py_stack *s = (struct py_stack *)stacks[place];
	*s = (struct py_stack){.id = place,
			       .depth = place == IN_LAYER || place == IN_STEP ? 2 : 1,
			       .module = place == IN_LAYER ? "blocks.0" : NULL};
	s->frames[0] = &frames[lines[place][0]];
	s->frames[1] = &frames[lines[place][1]];
	return s;
}

static struct trace_writer *writer;
static uint64_t last_id, free_ns[16]; /* by stream */
static struct activity held[HELD_MAX];
static size_t nheld;

static struct op_event op_at(enum op op, enum place place, uint64_t start, uint64_t ns)
{
	const struct py_stack *stack = stack_of(place);
	return (struct op_event){.id = ++last_id,
				 .start_ns = start,
				 .end_ns = start + ns,
				 .op = &ops[op],
				 .stack = stack,
				 .where_stack = stack,
				 .pid = MAIN,
				 .tid = MAIN};
}

static struct op_event op_in(struct op_event *parent, enum op op, uint64_t after, uint64_t ns)
{
	struct op_event ev = *parent;
	ev.id = ++last_id;
	ev.parent = parent->id;
	ev.depth++;
	ev.start_ns += after;
	ev.end_ns = ev.start_ns + ns;
	ev.child_ns = 0;
	ev.op = &ops[op];
	parent->child_ns += ns;
	return ev;
}

/* The op launches it two thirds of its time after its start; it runs when its stream is free. */
static struct activity *launch(const struct op_event *ev, uint32_t stream, uint64_t ns,
			       const char *name)
{
	uint64_t at = ev->start_ns + (ev->end_ns - ev->start_ns) * 2 / 3, start = at + 4000;
	struct activity *a = &held[nheld++];
	if (free_ns[stream] > start)
		start = free_ns[stream];
	free_ns[stream] = start + ns;
	*a = (struct activity){
	    .of = *ev, .device_type = 1, .stream = stream, .launched_ns = at, .name = name};
	a->of.start_ns = start;
	a->of.end_ns = start + ns;
	return a;
}

static void forget_op(struct activity *a, enum activity_launch launch)
{
	a->of = (struct op_event){.start_ns = a->of.start_ns,
				  .end_ns = a->of.end_ns,
				  .pid = a->of.pid,
				  .tid = launch == LAUNCH_NO_THREAD ? 0 : a->of.tid};
	a->launch = launch;
	if (launch == LAUNCH_NO_THREAD)
		a->launched_ns = 0;
}

static void write_event(const struct op_event *ev)
{
	trace_write_event(writer, ev);
}

/* Returns when it ends; *id: of the op that has the backward. */
static uint64_t forward(uint64_t at, uint64_t *id)
{
	struct op_event linear = op_at(LINEAR, IN_LAYER, at, 50000);
	struct op_event addmm = op_in(&linear, ADDMM, 5000, 40000);
	launch(&addmm, 7, 80000, "void cutlass::Kernel2<gemm_256x128>(cutlass::Params)");
	launch(&addmm, 7, 9000, "void splitKreduce<32, int>(float*)");
	write_event(&addmm);
	write_event(&linear);
	struct op_event relu = op_at(RELU, IN_LAYER, at + 55000, 12000);
	launch(&relu, 7, 15000, "void vectorized_elementwise<4, relu>(int)");
	write_event(&relu);
	*id = addmm.id;
	return at + 70000;
}

static uint64_t backward(uint64_t at, uint64_t forward_id)
{
	struct op_event node = op_at(NODE, IN_LAYER, at, 60000);
	node.tid = AUTOGRAD;
	node.stack = NULL;
	node.phase = PHASE_BACKWARD;
	node.forward_id = forward_id;
	struct op_event mm = op_in(&node, MM, 4000, 24000);
	launch(&mm, 7, 70000, "ampere_sgemm_128x64_nt");
	write_event(&mm);
	write_event(&node);
	return at + 65000;
}

static uint64_t finish_step(uint64_t at)
{
	struct op_event zero = op_at(ZERO, IN_MODEL, at, 9000), add;
	struct activity *a = launch(&zero, 7, 2000, "Memset (Device)");
	a->kind = ACTIVITY_SET;
	a->bytes = 4096;
	write_event(&zero);
	for (int i = 0; i < 2; i++) {
		a = launch(&zero, 7, 30000, i ? "graph_b" : "graph_a");
		a->in_graph = true;
		forget_op(a, LAUNCH_IN_NO_OP);
		a->of.start_ns -= i * 20000ULL;
	}
	forget_op(launch(&zero, 7, 3000, "of_a_sum"), LAUNCH_UNKNOWN);
	forget_op(launch(&zero, 13, 400000, "ncclDevKernel_AllReduce(int)"), LAUNCH_NO_THREAD);
	add = op_at(ADD, IN_STEP, at + 20000, 20000);
	launch(&add, 7, 40000, "void multi_tensor_apply<adam>(int)");
	write_event(&add);
	return free_ns[7] + 20000;
}

static uint64_t step(uint64_t at)
{
	uint64_t ids[LAYERS];
	struct op_event copy = op_at(COPY, IN_COPY, at, 30000);
	struct activity *a = launch(&copy, 13, 120000, "Memcpy HtoD (Pinned -> Device)");
	a->kind = ACTIVITY_COPY;
	a->bytes = 1 << 20;
	write_event(&copy);
	at += 40000;
	for (int i = 0; i < LAYERS; i++)
		at = forward(at, &ids[i]);
	for (int i = LAYERS; i--;)
		at = backward(at, ids[i]);
	at = finish_step(at);
	while (nheld)
		trace_write_activity(writer, &held[--nheld]);
	return at;
}

int main(int argc, char **argv)
{
	const struct trace_target target = {.pid = MAIN,
					    .comm = "python3",
					    .argv = "python3 train.py",
					    .torch_version = "2.11.0",
					    .python_version = "3.12.3",
					    .engine = "shim",
					    .torch_dir = "/x/torch"};
	struct err e = {0};
	if (argc != 2) {
		fputs("usage: device_trace FILE\n", stderr);
		return 2;
	}
	int r = trace_writer_open(argv[1], &writer, &e);
	if (!r) {
		uint64_t at = clock_ns(CLOCK_MONOTONIC);
		trace_write_target(writer, &target);
		trace_write_thread(writer, MAIN, AUTOGRAD, "pt_autograd_0");
		for (int i = 0; i < STEPS; i++)
			at = step(at);
		trace_write_activities_lost(writer, MAIN, at, 17);
		r = trace_writer_close(writer, true);
	}
	if (r)
		fprintf(stderr, "device_trace: %s\n", e.what[0] ? e.what : strerror(-r));
	return r != 0;
}
