/* Writes the trace of a small training run on two threads, with fixed times.
 *
 *     trace_tool FILE STEPS [SOURCE [OPS]]
 *
 * SOURCE is the path of the Python file of the calls; OPS: additional ops in each step, of many
 * sizes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/trace/trace_write.h"

enum { US = 1000, PID = 4121, AUTOGRAD = 4130, DEPTH = 2 };

struct stack {
	_Alignas(struct py_stack) char memory[sizeof(struct py_stack) + DEPTH * sizeof(void *)];
};

struct writer {
	struct trace_writer *w;
	uint64_t id, now;
};

static const struct op_arg two[] = {{"self", "Tensor"}, {"other", "Tensor"}};
static const struct op_arg one[] = {{"", "Tensor"}};

static const struct op_desc linear = {.id = 0,
				      .nargs = 2,
				      .nresults = 1,
				      .args = two,
				      .results = one,
				      .name = "aten::linear",
				      .schema = ""};
static const struct op_desc addmm = {.id = 1,
				     .nargs = 2,
				     .nresults = 1,
				     .args = two,
				     .results = one,
				     .name = "aten::addmm",
				     .schema = ""};
static const struct op_desc relu = {.id = 2,
				    .nargs = 1,
				    .nresults = 1,
				    .args = two,
				    .results = one,
				    .name = "aten::relu",
				    .schema = ""};
static const struct op_desc backward = {.id = 3,
					.kind = OP_BACKWARD,
					.nargs = 1,
					.nresults = 1,
					.args = one,
					.results = one,
					.name = "AddmmBackward0",
					.schema = ""};
static const struct op_desc add_ = {.id = 4,
				    .flags = OP_INPLACE,
				    .nargs = 2,
				    .nresults = 1,
				    .args = two,
				    .results = one,
				    .name = "aten::add_.Tensor",
				    .schema = ""};
static const struct op_desc check = {.id = 5,
				     .nargs = 1,
				     .args = two,
				     .name = "my_library::a_check_with_a_long_name.overload",
				     .schema = ""};

static struct py_frame frames[] = {
    {.id = 0,
     .function = "Model.forward",
     .text = "h = self.first(x)",
     .line = 8,
     .column = 12,
     .end_column = 25,
     .end_line = 8},
    {.id = 1,
     .function = "Model.forward",
     .text = "return self.second(h.relu())  # “größer”",
     .line = 9,
     .column = 27,
     .end_column = 35,
     .end_line = 9},
    {.id = 2,
     .function = "train",
     .text = "optimizer.step()",
     .line = 16,
     .column = 8,
     .end_column = 24,
     .end_line = 16},
    {.id = 3,
     .function = "SGD.step",
     .file = "/usr/lib/python3/torch/optim/sgd.py",
     .line = 76,
     .column = -1,
     .end_column = -1,
     .is_torch = true},
    {.id = 4,
     .function = "Linear.forward",
     .file = "/usr/lib/python3/torch/nn/modules/linear.py",
     .line = 114,
     .column = -1,
     .end_column = -1,
     .is_torch = true},
};

static const struct py_stack *stack(uint32_t id, int inner, int outer, const char *module)
{
	static struct stack stacks[8];
	struct py_stack *s = (struct py_stack *)stacks[id].memory;
	s->id = id;
	s->depth = DEPTH;
	s->module = module;
	s->frames[0] = &frames[inner];
	s->frames[1] = &frames[outer];
	return s;
}

static struct value tensor(int64_t rows, int64_t columns, unsigned slot)
{
	static int64_t shape[4][2], stride[4][2];
	static struct tensor tensors[4];
	shape[slot][0] = rows;
	shape[slot][1] = stride[slot][0] = columns;
	stride[slot][1] = 1;
	tensors[slot] = (struct tensor){.meta = {.dtype = 6,
						 .device_index = -1,
						 .ndim = 2,
						 .numel = rows * columns,
						 .shape = shape[slot],
						 .stride = stride[slot]},
					.data_ptr = 0x10000 + slot * 0x1000,
					.impl = 0x20000 + slot * 0x100,
					.storage = 0x30000 + slot * 0x100};
	return (struct value){.kind = VALUE_TENSOR, .tensor = &tensors[slot]};
}

/* A call from w->now that takes `ns`; the next begins at its end. */
static uint64_t call(struct writer *w, struct op_event ev, uint64_t ns, int64_t rows)
{
	struct value args[] = {tensor(rows, 64, 0), tensor(64, 32, 1)},
		     result = tensor(rows, 32, 2);
	if (!ev.id)
		ev.id = ++w->id;
	if (!ev.start_ns)
		ev.start_ns = w->now;
	ev.end_ns = ev.start_ns + ns;
	ev.pid = PID;
	ev.tid = ev.phase == PHASE_BACKWARD ? AUTOGRAD : PID;
	ev.args = args;
	ev.results = &result;
	ev.nargs = ev.op->nargs;
	ev.nresults = ev.thrown ? 0 : ev.op->nresults;
	w->now = ev.end_ns;
	if (trace_write_event(w->w, &ev))
		exit(1);
	return ev.id;
}

static struct op_event at(const struct op_desc *op, const struct py_stack *s)
{
	return (struct op_event){.op = op, .stack = s, .where_stack = s};
}

/* A linear with its addmm inside. */
static uint64_t call_linear(struct writer *w, const struct py_stack *s, uint64_t us, int64_t rows)
{
	struct op_event outer = at(&linear, s), inner = at(&addmm, s);
	outer.id = ++w->id;
	outer.start_ns = w->now;
	inner.parent = outer.id;
	inner.depth = 1;
	w->now += 2 * US;
	uint64_t id = call(w, inner, us * US, rows);
	outer.child_ns = us * US;
	call(w, outer, (us + 4) * US, rows);
	return id;
}

static void step(struct writer *w, unsigned i, unsigned ops)
{
	const struct py_stack *first = stack(0, 4, 0, "first"), *second = stack(1, 4, 1, "second"),
			      *on = stack(2, 1, 2, "(Model)"), *optimizer = stack(3, 3, 2, NULL);
	int64_t rows = i % 4 ? 16 : 24;
	struct op_event node = {.op = &backward, .phase = PHASE_BACKWARD, .where_stack = first};
	struct op_event bad = at(&check, on);
	uint64_t made = call_linear(w, first, 100 + 7 * (i % 10), rows);
	call(w, at(&relu, on), 9 * US, rows);
	uint64_t made_too = call_linear(w, second, 60, rows);
	for (unsigned k = 0; k < ops; k++)
		call(w, at(k % 3 ? &relu : &add_, on), (1 + k % 7) * US, rows + k % 5);
	bad.thrown = i % 5 == 0;
	call(w, bad, 3 * US, rows);
	node.forward_id = made_too;
	node.where_stack = second;
	call(w, node, 150 * US, rows);
	node.forward_id = made;
	node.where_stack = first;
	call(w, node, 230 * US, rows);
	w->now += (i % 8 == 7 ? 900 : 100) * US;
	for (int k = 0; k < 3; k++)
		call(w, at(&add_, optimizer), 12 * US, 64);
	w->now += 50 * US;
}

static void begin(struct trace_writer *w)
{
	const struct trace_target target = {.pid = PID,
					    .start_ns = 1000000000,
					    .comm = "python",
					    .argv = "python train.py --name größe",
					    .torch_version = "2.13.0",
					    .python_version = "3.11.7",
					    .engine = "bpf",
					    .torch_dir = "/usr/lib/python3/torch"};
	if (trace_write_target(w, &target) || trace_write_thread(w, PID, PID, "python") ||
	    trace_write_thread(w, PID, AUTOGRAD, "pt_autograd_0"))
		exit(1);
}

int main(int argc, char **argv)
{
	struct writer w = {.now = 2000000000};
	struct err e = {0};
	if (argc < 3 || trace_writer_open(argv[1], &w.w, &e)) {
		fprintf(stderr, "trace_tool FILE STEPS [SOURCE [OPS]]: %s\n", e.what);
		return 2;
	}
	for (int i = 0; i < 3; i++)
		frames[i].file = argc > 3 ? argv[3] : "model.py";
	begin(w.w);
	unsigned steps = (unsigned)strtoul(argv[2], NULL, 10);
	unsigned ops = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
	for (unsigned i = 0; i < steps; i++)
		step(&w, i, ops);
	const uint64_t probe_ns = (w.now - 2000000000) / 50;
	const struct trace_stats stats = {.probe_ns = probe_ns,
					  .seen_permille = 1000,
					  .wall_ns = w.now,
					  .cpu_ns = 101 * probe_ns};
	if (trace_write_lost(w.w, w.now, 3) || trace_write_stats(w.w, &stats) ||
	    trace_writer_close(w.w, true))
		return 1;
	return 0;
}
