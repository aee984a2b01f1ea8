/* Events for tests: one with every kind of value, and simple ones. */
#ifndef TESTS_SAMPLE_EVENTS_H
#define TESTS_SAMPLE_EVENTS_H

#include <math.h>
#include <string.h>

#include "symbolizer/event/event.h"

static const int64_t sample_shape[] = {2, 3, 4}, sample_stride[] = {12, -4, 1};

static struct tensor sample_tensor = {.meta = {.dtype = 6,
					       .device_index = -1,
					       .requires_grad = true,
					       .ndim = 3,
					       .numel = 24,
					       .shape = sample_shape,
					       .stride = sample_stride},
				      .storage_offset = 7,
				      .data_ptr = 0x7f0012345678,
				      .impl = 0x55aa00001000,
				      .storage = 0x55aa00002000};

static struct tensor sample_unknown_tensor = {
    .meta = {.dtype = 999,
	     .device_type = 57,
	     .device_index = 1,
	     .layout = 77,
	     .unknown = TENSOR_NO_SHAPE | TENSOR_NO_STRIDE | TENSOR_NO_OFFSET}};

static struct value sample_list[] = {{.kind = VALUE_TENSOR, .tensor = &sample_tensor},
				     {.kind = VALUE_NONE},
				     {.kind = VALUE_INT, .i = -1}};

static struct value sample_args[] = {
    {.kind = VALUE_TENSOR, .tensor = &sample_tensor},
    {.kind = VALUE_TENSOR, .tensor = &sample_unknown_tensor},
    {.kind = VALUE_LIST, .count = 3, .items = sample_list},
    {.kind = VALUE_LIST, .count = 0},
    {.kind = VALUE_INT, .i = INT64_MIN},
    {.kind = VALUE_INT, .i = INT64_MAX},
    {.kind = VALUE_FLOAT, .f = 0.1},
    {.kind = VALUE_FLOAT, .f = -INFINITY},
    {.kind = VALUE_BOOL, .i = 1},
    {.kind = VALUE_SCALAR, .scalar = VALUE_INT, .i = -3},
    {.kind = VALUE_SCALAR, .scalar = VALUE_INT, .i = -1, .is_unsigned = true},
    {.kind = VALUE_SCALAR, .scalar = VALUE_FLOAT, .f = 1e-5},
    {.kind = VALUE_SCALAR, .scalar = VALUE_BOOL, .i = 0},
    {.kind = VALUE_COMPLEX, .c = {1.5, -2}},
    {.kind = VALUE_STRING, .str = "a\"\\\n\x1b\xff\xc3\xa9\0z", .count = 10},
    {.kind = VALUE_DTYPE, .i = 15},
    {.kind = VALUE_DEVICE, .device = {1, 2}},
    {.kind = VALUE_LAYOUT, .i = 1},
    {.kind = VALUE_MEMORY_FORMAT, .i = 2},
    {.kind = VALUE_GENERATOR, .i = 0x1234},
    {.kind = VALUE_NOT_DECODED, .str = "no layout"},
    {.kind = VALUE_GROUP, .group = {0x1234, 1, 4, NULL}},
    {.kind = VALUE_GROUP, .group = {0x1234, -1, -1, NULL}},
    {.kind = VALUE_WORK, .work = {0x1234, "gloo"}},
    {.kind = VALUE_WORK, .work = {0x1234, NULL}},
    {.kind = VALUE_NONE},
};
enum { SAMPLE_NARGS = sizeof(sample_args) / sizeof(sample_args[0]) };

static const struct op_arg sample_arg_names[] = {
    {"self", "Tensor"}, {"other", "Tensor"}, {"tensors", "Tensor[]"}};
static const struct op_arg sample_result_names[] = {{"", "Tensor"}};
static const struct op_desc sample_op = {
    .kind = OP_DISPATCHED,
    .flags = OP_VIEW,
    .nargs = 3,
    .nresults = 1,
    .name = "aten::sample.Tensor",
    .schema = "aten::sample.Tensor(Tensor self, Tensor other, Tensor[] tensors) -> Tensor",
    .args = sample_arg_names,
    .results = sample_result_names};
static const struct op_desc sample_add = {.id = 1,
					  .kind = OP_DISPATCHED,
					  .nargs = 2,
					  .nresults = 1,
					  .name = "aten::add.Tensor",
					  .schema = "",
					  .args = sample_arg_names,
					  .results = sample_result_names};
static const struct op_desc sample_node = {
    .id = 2, .kind = OP_BACKWARD, .name = "AddBackward0", .schema = ""};

static const struct py_frame sample_frame = {.file = "/home/me/train.py",
					     .function = "forward",
					     .text = "q = self.qkv(x)",
					     .line = 13,
					     .column = 4,
					     .end_column = 19,
					     .end_line = 13};
static const struct py_frame sample_torch_frame = {.id = 1,
						   .file = "/lib/torch/nn/linear.py",
						   .function = "forward",
						   .line = 114,
						   .column = -1,
						   .end_column = -1,
						   .is_torch = true};
static const struct py_frame sample_other_frame = {.id = 2,
						   .file = "/home/me/train.py",
						   .function = "main",
						   .line = 40,
						   .column = -1,
						   .end_column = -1};

/* The innermost frame is in torch, the next is train.py:13. */
static inline const struct py_stack *sample_stack(void)
{
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + 2 * sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory;
	s->depth = 2;
	s->module = "blocks.0.attn";
	s->frames[0] = &sample_torch_frame;
	s->frames[1] = &sample_frame;
	return s;
}

/* train.py:40, truncated. */
static inline const struct py_stack *sample_other_stack(void)
{
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory;
	s->id = 1;
	s->depth = 1;
	s->truncated = true;
	s->frames[0] = &sample_other_frame;
	return s;
}

/* An event with every kind of value. */
static inline struct op_event sample_full_event(void)
{
	return (struct op_event){.id = 5,
				 .parent = 2,
				 .start_ns = 1000000,
				 .end_ns = 1000500,
				 .child_ns = 100,
				 .op = &sample_op,
				 .args = sample_args,
				 .results = sample_list,
				 .stack = sample_stack(),
				 .where_stack = sample_stack(),
				 .pid = 41,
				 .tid = 42,
				 .nargs = SAMPLE_NARGS,
				 .nresults = 1,
				 .depth = 1,
				 .thrown = true};
}

static inline struct op_event sample_event(uint64_t id, uint64_t parent, uint16_t depth,
					   uint64_t start, uint64_t end)
{
	return (struct op_event){.id = id,
				 .parent = parent,
				 .depth = depth,
				 .start_ns = start,
				 .end_ns = end,
				 .op = &sample_add,
				 .args = sample_args,
				 .nargs = 2,
				 .results = sample_args,
				 .nresults = 1,
				 .stack = sample_stack(),
				 .where_stack = sample_stack(),
				 .pid = 41,
				 .tid = 42};
}

static inline struct op_event sample_backward(uint64_t id, uint64_t forward_id, uint64_t start,
					      uint64_t end)
{
	return (struct op_event){.id = id,
				 .forward_id = forward_id,
				 .start_ns = start,
				 .end_ns = end,
				 .op = &sample_node,
				 .args = sample_args,
				 .nargs = 1,
				 .results = sample_args,
				 .nresults = 1,
				 .where_stack = sample_stack(),
				 .phase = PHASE_BACKWARD,
				 .pid = 41,
				 .tid = 43};
}

/* A kernel on stream 7 of cuda:0, launched by `ev` at `launched_ns`. */
static inline struct activity sample_activity(const struct op_event *ev, uint64_t launched_ns,
					      uint64_t start, uint64_t end)
{
	struct activity a = {.of = {.id = ev->id,
				    .start_ns = start,
				    .end_ns = end,
				    .op = ev->op,
				    .stack = ev->stack,
				    .where_stack = ev->where_stack,
				    .pid = ev->pid,
				    .tid = ev->tid,
				    .phase = ev->phase},
			     .kind = ACTIVITY_KERNEL,
			     .device_type = 1,
			     .stream = 7,
			     .launched_ns = launched_ns,
			     .name = "void add<float, 4>(float*; int)"};
	return a;
}

/* A copy of 4096 bytes on stream 13 of cuda:0, of whose launch nothing is known. */
static inline struct activity sample_copy(int32_t pid, uint64_t start, uint64_t end)
{
	return (struct activity){.of = {.pid = pid, .start_ns = start, .end_ns = end},
				 .launch = LAUNCH_NO_THREAD,
				 .kind = ACTIVITY_COPY,
				 .device_type = 1,
				 .stream = 13,
				 .bytes = 4096,
				 .name = "Memcpy HtoD (Pinned -> Device)"};
}

#endif
