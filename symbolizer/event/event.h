/* The op event: one call of an op or of a backward node, with its values. The one model that every
 * engine produces and that perf/, tui/ and replay/ consume. */
#ifndef SYMBOLIZER_EVENT_EVENT_H
#define SYMBOLIZER_EVENT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind {
	VALUE_NONE,
	VALUE_TENSOR,
	VALUE_LIST, /* lists and tuples of values */
	VALUE_INT,
	VALUE_FLOAT,
	VALUE_BOOL,
	VALUE_SCALAR, /* c10::Scalar; what it holds is in value.scalar */
	VALUE_COMPLEX,
	VALUE_STRING,
	VALUE_DTYPE,
	VALUE_DEVICE,
	VALUE_LAYOUT,
	VALUE_MEMORY_FORMAT,
	VALUE_GENERATOR,
	VALUE_NOT_DECODED, /* value.str is the reason */
};

/* Facts of a tensor that may be unknown: set in tensor_meta.unknown, and then the field is 0. */
enum {
	TENSOR_NO_SHAPE = 1 << 0, /* shape and numel */
	TENSOR_NO_STRIDE = 1 << 1,
	TENSOR_NO_DTYPE = 1 << 2,
	TENSOR_NO_DEVICE = 1 << 3,
	TENSOR_NO_LAYOUT = 1 << 4,
	TENSOR_NO_REQUIRES_GRAD = 1 << 5,
	TENSOR_NO_DATA_PTR = 1 << 6,
	TENSOR_NO_OFFSET = 1 << 7,
};

enum {
	TENSOR_MAX_DIM = 64
}; /* dim_bitset_size, ATen/core/TensorBase.h: no more than 64 dimensions */

/* What a tensor looks like apart from where it lies: interned by value in the trace file. */
struct tensor_meta {
	uint16_t dtype;	     /* c10::ScalarType, see symbolizer/event/names.h */
	int8_t device_type;  /* c10::DeviceType */
	int8_t device_index; /* -1: none */
	int8_t layout;	     /* c10::Layout */
	bool requires_grad;
	uint8_t ndim;
	uint8_t unknown; /* TENSOR_NO_* */
	int64_t numel;
	const int64_t *shape;  /* ndim elements each */
	const int64_t *stride; /* in elements */
};

struct tensor {
	struct tensor_meta meta;
	int64_t storage_offset; /* in elements */
	uint64_t data_ptr;	/* address of the first element, as Tensor.data_ptr(); 0 if none */
	uint64_t impl;		/* address of the TensorImpl */
	uint64_t storage;	/* address of the StorageImpl, 0 if none */
};

struct value {
	uint8_t kind;	  /* enum value_kind */
	uint8_t scalar;	  /* VALUE_SCALAR: VALUE_INT, VALUE_FLOAT or VALUE_BOOL (complex ones are
			     VALUE_COMPLEX) */
	bool is_unsigned; /* VALUE_SCALAR of VALUE_INT: i holds a uint64_t */
	uint32_t count;	  /* VALUE_LIST: number of items decoded; VALUE_STRING: length in bytes */
	union {
		struct tensor *tensor;
		struct value *items;
		int64_t i; /* INT, BOOL, DTYPE, LAYOUT, MEMORY_FORMAT: their codes; GENERATOR:
			      address */
		double f;
		struct {
			double re, im;
		} c;
		struct {
			int8_t type, index;
		} device;
		const char *str; /* STRING (count bytes and a NUL), NOT_DECODED */
	};
};

/* Lists within lists that a value has at most; what lies deeper is not decoded. */
enum { VALUE_DEPTH_MAX = 16 };

enum op_kind {
	OP_DISPATCHED, /* an operator of the dispatcher */
	OP_BACKWARD,   /* a node of the autograd graph */
	OP_FUNCTION,   /* apply of a Python autograd.Function */
};

enum {
	OP_INPLACE = 1 << 0,
	OP_OUT = 1 << 1,
	OP_VIEW = 1 << 2,
	OP_RANDOM = 1 << 3,
};

struct op_arg {
	const char *name; /* schema name; results: "" when the schema gives none */
	const char *type; /* schema type as written, "Tensor(a!)", "int[2]" */
};

/* What is known of an op. Immutable once published; lives as long as its owner (the op table of the
 * target, or a trace reader). */
struct op_desc {
	uint32_t id;   /* dense, from 0, unique within a table or a file; 0 for one that a process
			  registered by itself */
	uint8_t kind;  /* enum op_kind */
	uint8_t flags; /* OP_INPLACE ... */
	uint16_t nargs, nresults;
	const char *name;   /* "aten::add.Tensor", "AddmmBackward0", "MyFunctionBackward" */
	const char *schema; /* "aten::add.Tensor(Tensor self, ...) -> Tensor", "" when unknown */
	const struct op_arg *args, *results;
};

struct py_frame {
	uint32_t id; /* dense, from 0, unique within the owner */
	const char *file, *function;
	const char *text; /* the source line without indentation, or NULL when it is not known */
	int32_t line;	  /* from 1; 0: unknown */
	int32_t column, end_column; /* UTF-8 byte offsets within the line, from 0, as
				       co_positions(); -1: unknown */
	int32_t end_line;	    /* 0: unknown */
	bool is_torch;		    /* a file of the torch package itself */
};

/* A Python stack, innermost frame first. Interned: equal stacks are the same object. */
struct py_stack {
	uint32_t id; /* dense, from 0 */
	uint16_t depth;
	bool truncated; /* there are more frames outside */
	/* The torch.nn.Module whose call is innermost: its path in the outermost one's tree,
	 * "blocks.0.attn"; a module that is in the tree of none around it: its class, "(GPT)".
	 * NULL: the stack has no module, or which one is not certain. */
	const char *module;
	const struct py_frame *frames[];
};

enum op_phase { PHASE_FORWARD, PHASE_BACKWARD };

struct op_event {
	uint64_t id;	 /* from 1, unique in the trace, grows in the order in which ops start */
	uint64_t parent; /* id of the enclosing event on the same thread, 0: none */
	uint64_t forward_id; /* backward: id of the forward event that made the node, 0: unknown */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end_ns is 0 for an op that had not ended */
	uint64_t child_ns;	   /* time spent in direct children */
	const struct op_desc *op;
	const struct value *args,
	    *results;		      /* op->nargs / op->nresults of them, see nargs, nresults */
	const struct py_stack *stack; /* NULL: the thread had no Python frame */
	/* The stack that locates the op, see py_stack_where. Forward: the same as `stack`;
	 * backward: that of the forward op, or when that is unknown the same as `stack`. */
	const struct py_stack *where_stack;
	int32_t pid, tid;	  /* as the caller of ditrace sees them */
	uint16_t nargs, nresults; /* values present: results are absent when the op threw */
	uint16_t depth;		  /* 0: outermost on its thread */
	uint8_t phase;		  /* enum op_phase */
	bool held;		  /* while it is traced: its thread stands still now */
	bool thrown; /* left by a C++ exception; end_ns is then the time it was noticed */
	/* Of a backward node while it is traced: address and sequence number of its Node; 0: not
	 * known. */
	uint64_t node, node_seq;
	const struct py_stack *native;	 /* of a sample (symbolizer/event/event.h), else NULL */
	const struct event_stats *stats; /* symbolizer/event/event.h; NULL: not measured */
};

/* The frame to show for a stack: the innermost outside torch's own files, else the innermost; NULL
 * for no stack. */
const struct py_frame *py_stack_where(const struct py_stack *s);

/* Statistics of the tensors of one call: of events that were measured, a part of the event. */

/* What can be said of the numbers in a tensor without keeping them. The elements of a complex
 * tensor count by their absolute value, and are NaN when one of the two parts is; those of a
 * quantized one by the integers that are stored. */
struct stats {
	uint64_t count; /* elements */
	uint64_t nan, pos_inf, neg_inf, zeros;
	double min, max; /* of all that are not NaN; NaN when there is none */
	/* Of the finite elements; NaN when there are too few of them (one for mean and l2, two for
	 * std). std is the sample's (n - 1), as Tensor.std(). l2 is the root of the sum of squares;
	 * 0 for an empty tensor. */
	double mean, std, l2;
	/* Integers and bool: min and max to the last digit (uint64 as its two's complement), which
	 * a double does not hold beyond 2^53. */
	bool is_int, is_unsigned;
	int64_t min_int, max_int;
	bool is_numeric; /* false: the dtype has no numbers that are known (bits8, int4), and only
			    count and hash say something */
	uint64_t hash; /* XXH3_64bits of the elements in row-major order, without what lies between
			  them: equal for equal elements whatever the strides */
};

/* Which of the event's tensors: the `tensor`-th, depth first, of an argument or a result. */
struct tensor_place {
	bool is_result;
	uint16_t value;
	uint32_t tensor;
};

struct tensor_stats {
	struct tensor_place place;
	const char *why; /* NULL: measured; else why it could not be, in a few words */
	struct stats stats;
};

/* Arguments as they were when the op began, results as they were when it ended. */
struct event_stats {
	const struct tensor_stats *rows; /* by place, each at most once */
	uint32_t n;
};

/* Below, at or above 0 as `a` comes before `b`: arguments before results, then by value, then by
 * tensor. */
int tensor_place_compare(const struct tensor_place *a, const struct tensor_place *b);

typedef void event_tensor_fn(const struct tensor *t, const struct tensor_place *place, void *arg);

/* Call `fn` for each tensor among the arguments of `ev`, or among its results. */
void event_each_tensor(const struct op_event *ev, bool of_results, event_tensor_fn *fn, void *arg);

/* What was measured of the tensor at `place`; NULL: nothing. To be asked for places in their order,
 * with *next 0 at first: it is where the search goes on. */
const struct tensor_stats *event_stats_next(const struct event_stats *s,
					    const struct tensor_place *place, uint32_t *next);

/* Elements that are NaN or infinite, in all results that were measured. */
uint64_t event_stats_bad_results(const struct event_stats *s);

/* Whether the results of `op` are what was in memory before: aten::empty and its like, resize_,
 * set_. By their names in PyTorch's native_functions.yaml. */
bool op_gives_no_numbers(const struct op_desc *op);

/* Whether results are views of arguments: other elements of memory that was there, into which
 * nothing was put. Asked of the call, since aten::to and others give a view or a copy. */
bool event_gave_view(const struct op_event *ev);

/* A sample: what one thread did at one moment, taken after every so much time on a processor.
 * Beside the op event what the trace file holds. */

struct sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t weight;  /* what it stands for: ns on a processor, or cycles (struct sampling) */
	int32_t pid, tid; /* as the caller of ditrace sees them */
	const struct op_desc *op;      /* the op or backward node; NULL: see sample_op_name */
	const struct py_stack *python; /* NULL: it ran no Python, or see `mismatched` */
	/* file: that holds the code; function: demangled, or the address in the file; line 0. NULL:
	 * not known. */
	const struct py_stack *native;
	uint8_t phase;	 /* enum op_phase */
	bool mismatched; /* it ran Python, but had moved on before the frames could be read */
	bool in_kernel;
};

/* How samples were taken. */
struct sampling {
	uint64_t frequency; /* a second of each thread's time */
	const char *event;  /* "cpu-clock": weights are ns; "cycles" */
	bool kernel;	    /* time in the kernel was sampled, too */
};

/* The name of its op; "(in no op)" where the whole native stack has none; "(op not known)" where
 * the way to the outermost frames was not found. */
const char *sample_op_name(const struct sample *s);

/* The sample as an event of its op (named as above) that lasts for its weight, for what sums up
 * events. *out points to what *s does. */
void sample_as_event(const struct sample *s, struct op_event *out);

/* The file that native frames in no file have: "[anon PID BOOT]", of which BOOT tells this boot of
 * this machine from others. 32 bytes are enough. */
void sample_anon_file(int32_t pid, char *out, size_t size);

#endif
