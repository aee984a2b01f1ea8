/* A call for tests of conditions: an invented op with arguments of every kind. */
#ifndef TESTS_WHEN_SAMPLE_H
#define TESTS_WHEN_SAMPLE_H

#include <string.h>

#include "symbolizer/event/event.h"

static const int64_t when_shape[] = {2, 3, 200}, when_stride[] = {600, 200, 1};
static const int64_t when_turned_shape[] = {3, 1, 2}, when_turned_stride[] = {1, 9, 3};

/* float16 on cuda:1, contiguous. */
static struct tensor when_self = {.meta = {.dtype = 5,
					   .device_type = 1,
					   .device_index = 1,
					   .requires_grad = true,
					   .ndim = 3,
					   .numel = 1200,
					   .shape = when_shape,
					   .stride = when_stride},
				  .storage_offset = 7,
				  .data_ptr = 0x7f0012345678};
/* int64 on the CPU, transposed. */
static struct tensor when_turned = {.meta = {.dtype = 4,
					     .device_index = -1,
					     .ndim = 3,
					     .numel = 6,
					     .shape = when_turned_shape,
					     .stride = when_turned_stride}};
static struct tensor when_scalar_tensor = {
    .meta = {.dtype = 6, .device_index = -1, .numel = 1, .layout = 0}};
/* Only its dtype is known. */
static struct tensor when_dark = {.meta = {.dtype = 6, .unknown = 0xff & ~TENSOR_NO_DTYPE}};

static struct value when_tensors[] = {{.kind = VALUE_TENSOR, .tensor = &when_turned},
				      {.kind = VALUE_TENSOR, .tensor = &when_scalar_tensor},
				      {.kind = VALUE_NONE}};
static struct value when_dims[] = {{.kind = VALUE_INT, .i = 2},
				   {.kind = VALUE_INT, .i = -1},
				   {.kind = VALUE_NOT_DECODED, .str = "symbolic"}};

enum {
	ARG_SELF,
	ARG_OTHER,
	ARG_ALPHA,
	ARG_BIAS,
	ARG_TENSORS,
	ARG_DIMS,
	ARG_EPS,
	ARG_MODE,
	ARG_DTYPE,
	ARG_DEVICE,
	ARG_BIG,
	ARG_VALUE,
	ARG_FLAG,
	ARG_FORMAT,
	ARG_LAYOUT,
	ARG_GENERATOR,
	ARG_DARK,
	ARG_P,
	ARG_LINE,
	WHEN_NARGS,
};

static struct value when_args[WHEN_NARGS] = {
    [ARG_SELF] = {.kind = VALUE_TENSOR, .tensor = &when_self},
    [ARG_OTHER] = {.kind = VALUE_TENSOR, .tensor = &when_turned},
    [ARG_ALPHA] = {.kind = VALUE_SCALAR, .scalar = VALUE_INT, .i = 2},
    [ARG_BIAS] = {.kind = VALUE_NONE},
    [ARG_TENSORS] = {.kind = VALUE_LIST, .count = 3, .items = when_tensors},
    [ARG_DIMS] = {.kind = VALUE_LIST, .count = 3, .items = when_dims},
    [ARG_EPS] = {.kind = VALUE_NOT_DECODED, .str = "in a register"},
    [ARG_MODE] = {.kind = VALUE_STRING, .str = "bilinear", .count = 8},
    [ARG_DTYPE] = {.kind = VALUE_DTYPE, .i = 15},
    [ARG_DEVICE] = {.kind = VALUE_DEVICE, .device = {0, -1}},
    [ARG_BIG] = {.kind = VALUE_SCALAR, .scalar = VALUE_INT, .i = -1, .is_unsigned = true},
    [ARG_VALUE] = {.kind = VALUE_COMPLEX, .c = {3, 0}},
    [ARG_FLAG] = {.kind = VALUE_BOOL, .i = 1},
    [ARG_FORMAT] = {.kind = VALUE_MEMORY_FORMAT, .i = 2},
    [ARG_LAYOUT] = {.kind = VALUE_LAYOUT, .i = 0},
    [ARG_GENERATOR] = {.kind = VALUE_GENERATOR, .i = 0x1234},
    [ARG_DARK] = {.kind = VALUE_TENSOR, .tensor = &when_dark},
    [ARG_P] = {.kind = VALUE_FLOAT, .f = 0.5},
    [ARG_LINE] = {.kind = VALUE_INT, .i = 5},
};

static const struct op_arg when_arg_names[WHEN_NARGS] = {
    [ARG_SELF] = {"self", "Tensor"},
    [ARG_OTHER] = {"other", "Tensor(a!)"},
    [ARG_ALPHA] = {"alpha", "Scalar"},
    [ARG_BIAS] = {"bias", "Tensor?"},
    [ARG_TENSORS] = {"tensors", "Tensor?[]"},
    [ARG_DIMS] = {"dims", "SymInt[3]"},
    [ARG_EPS] = {"eps", "float"},
    [ARG_MODE] = {"mode", "str"},
    [ARG_DTYPE] = {"dtype", "ScalarType?"},
    [ARG_DEVICE] = {"device", "Device?"},
    [ARG_BIG] = {"big", "Scalar"},
    [ARG_VALUE] = {"value", "Scalar"},
    [ARG_FLAG] = {"flag", "bool"},
    [ARG_FORMAT] = {"memory_format", "MemoryFormat?"},
    [ARG_LAYOUT] = {"layout", "Layout"},
    [ARG_GENERATOR] = {"generator", "Generator?"},
    [ARG_DARK] = {"dark", "Tensor"},
    [ARG_P] = {"p", "float"},
    [ARG_LINE] = {"line", "int"},
};

static struct value when_results[] = {{.kind = VALUE_TENSOR, .tensor = &when_turned},
				      {.kind = VALUE_TENSOR, .tensor = &when_self}};
static const struct op_arg when_result_names[] = {{"values", "Tensor"}, {"indices", "Tensor"}};

static const struct op_desc when_op = {.kind = OP_DISPATCHED,
				       .nargs = WHEN_NARGS,
				       .nresults = 2,
				       .name = "aten::sample.Tensor",
				       .schema = "aten::sample.Tensor(...)",
				       .args = when_arg_names,
				       .results = when_result_names};

/* Another op, with little in common. */
static const struct op_arg when_input_name[] = {{"input", "Tensor"}, {"alpha", "str"}};
static const struct op_desc when_other_op = {.id = 1,
					     .kind = OP_DISPATCHED,
					     .nargs = 2,
					     .name = "aten::other",
					     .schema = "aten::other(Tensor input, str alpha) -> ()",
					     .args = when_input_name};

static const struct py_frame when_frame = {
    .file = "/home/me/norm.py", .function = "forward", .line = 13};

static inline const struct py_stack *when_stack(void)
{
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory;
	s->depth = 1;
	s->frames[0] = &when_frame;
	return s;
}

static inline struct op_event when_event(void)
{
	return (struct op_event){.id = 5,
				 .parent = 2,
				 .start_ns = 1000000,
				 .end_ns = 3000000,
				 .op = &when_op,
				 .args = when_args,
				 .results = when_results,
				 .stack = when_stack(),
				 .where_stack = when_stack(),
				 .pid = 41,
				 .tid = 42,
				 .nargs = WHEN_NARGS,
				 .nresults = 2,
				 .depth = 1};
}

#endif
