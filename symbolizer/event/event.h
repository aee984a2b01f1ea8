/* The op event: one call of an op or of a backward node, with its values, statistics and stacks;
 * and the sample. All engines produce these and all views consume them. */
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
	VALUE_SCALAR, /* c10::Scalar; the type it holds is in value.scalar */
	VALUE_COMPLEX,
	VALUE_STRING,
	VALUE_DTYPE,
	VALUE_DEVICE,
	VALUE_LAYOUT,
	VALUE_MEMORY_FORMAT,
	VALUE_GENERATOR,
	VALUE_NOT_DECODED, /* value.str is the reason */
	VALUE_GROUP,	   /* a ProcessGroup of torch.distributed */
	VALUE_WORK,	   /* a Work of torch.distributed: a collective under way */
	VALUE_KINDS,
};

/* Unknown facts of a tensor: flags in tensor_meta.unknown. The field itself is then 0. */
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

enum { TENSOR_MAX_DIM = 64 }; /* dim_bitset_size in ATen/core/TensorBase.h */

/* Facts of a tensor other than its addresses; interned by value in the trace file. */
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
	uint64_t same; /* where it is that of another tensor, not 0, `meta` is, too; 0: not known */
};

/* A group of torch.distributed: equal on all its ranks, and of no other group of the same start of
 * a training. */
struct group_desc {
	const char *name;     /* "0", "default_pg" */
	const int32_t *ranks; /* in the group of all, ascending */
	uint32_t n;
};

struct arena;

/* A copy in the arena, of a group of this name and these `n` ranks; NULL when out of memory. */
const struct group_desc *group_desc_copy(struct arena *a, const char *name, const int32_t *ranks,
					 size_t n);

struct value {
	uint8_t kind;	  /* enum value_kind */
	uint8_t scalar;	  /* VALUE_SCALAR: VALUE_INT, VALUE_FLOAT or VALUE_BOOL (complex ones are
			     VALUE_COMPLEX) */
	bool is_unsigned; /* VALUE_SCALAR of VALUE_INT: i holds a uint64_t */
	uint32_t count;	  /* VALUE_LIST: number of items decoded; VALUE_STRING: length in bytes */
	union {
		struct tensor *tensor;
		struct value *items;
		int64_t i; /* value or code; GENERATOR: address */
		double f;
		struct {
			double re, im;
		} c;
		struct {
			int8_t type, index;
		} device;
		struct {
			uint64_t address;
			int32_t rank, size; /* the process's own rank in it; -1: not known */
			const struct group_desc *of; /* NULL: not known */
		} group;
		struct {
			uint64_t address;
			const char *backend; /* "gloo"; NULL: not known */
		} work;
		const char *str; /* STRING (count bytes and a NUL), NOT_DECODED */
	};
};

/* A collective of torch.distributed is done, as its Work says. */
struct work_done {
	int32_t pid;
	uint64_t address, ns; /* of the Work; CLOCK_MONOTONIC */
};

/* Maximum nesting of lists in a value; deeper ones are not decoded. */
enum { VALUE_DEPTH_MAX = 16 };

enum op_kind {
	OP_DISPATCHED, /* an operator of the dispatcher */
	OP_BACKWARD,   /* a node of the autograd graph */
	OP_FUNCTION,   /* apply of a Python autograd.Function, wait of a c10d::Work, a kernel that
			  inductor generated */
};

enum {
	OP_INPLACE = 1 << 0,
	OP_OUT = 1 << 1,
	OP_VIEW = 1 << 2,
	OP_RANDOM = 1 << 3,
};

struct schema;

struct op_arg {
	const char *name; /* schema name; results: "" when the schema gives none */
	const char *type; /* schema type as written, "Tensor(a!)", "int[2]" */
};

/* Description of an op. Immutable once published; lives as long as its owner (the op table of the
 * target, or a trace reader). */
struct op_desc {
	uint32_t id;   /* dense, from 0, unique within a table or a file; 0 for an op known to one
			  process only */
	uint8_t kind;  /* enum op_kind */
	uint8_t flags; /* OP_INPLACE ... */
	uint16_t nargs, nresults;
	const char *name;   /* "aten::add.Tensor", "AddmmBackward0", "MyFunctionBackward" */
	const char *schema; /* "aten::add.Tensor(Tensor self, ...) -> Tensor", "" when unknown */
	const struct schema *parsed; /* its schema (symbolizer/ops/schema.h): also of a boxed call,
					without text where it was read in memory. NULL when unknown,
					and for an op that a file names */
	const struct op_arg *args, *results;
};

struct py_frame {
	uint32_t id; /* dense, from 0, unique within the owner */
	const char *file, *function;
	const char *text;	    /* the source line without indentation; NULL: unknown */
	int32_t line;		    /* from 1; 0: unknown */
	int32_t column, end_column; /* UTF-8 byte offsets within the line, from 0, as
				       co_positions(); -1: unknown */
	int32_t end_line;	    /* 0: unknown */
	bool is_torch; /* of the torch package itself, of tracer/shim/modes, or of what imports */
};

/* A Python stack, innermost frame first. Interned: equal stacks are the same object. */
struct py_stack {
	uint32_t id; /* dense, from 0 */
	uint16_t depth;
	bool truncated; /* outer frames are missing */
	bool left_out;	/* there was a stack, of calls that were summed up (struct op_sum), which
			   was left out; it has no frames */
	/* The innermost torch.nn.Module being called: its path from the outermost one,
	 * "blocks.0.attn"; or its class, "(GPT)", when no module around it contains it. NULL: none,
	 * or ambiguous. */
	const char *module;
	/* Of what locates a gradient accumulation: the parameter's path from the outermost module,
	 * "blocks.0.attn.weight"; such a stack has no frames. Else NULL. */
	const char *parameter;
	const struct py_frame *frames[];
};

/* Such a stack, and how it is shown in place of lines and modules: "(stack left out)". */
extern const struct py_stack py_stack_left_out;
extern const char py_stack_left_out_text[];

static inline bool py_stack_is_left_out(const struct py_stack *s)
{
	return s && s->left_out;
}

static inline const char *py_stack_module(const struct py_stack *s)
{
	return py_stack_is_left_out(s) ? py_stack_left_out_text : s ? s->module : NULL;
}

static inline const char *py_stack_parameter(const struct py_stack *s)
{
	return s ? s->parameter : NULL;
}

/* The backward is what autograd's engine runs, and what a node runs that Python calls.
 * PHASE_RECOMPUTE is the forward of a checkpoint, run again: an op (not a node) in the backward,
 * with a frame of torch/utils/checkpoint.py among the Python frames between it and what called the
 * engine. PHASE_COMPILE is neither: a compilation of torch.compile (event_is_compilation), and what
 * runs in it. */
enum op_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_RECOMPUTE, PHASE_COMPILE, PHASES };

/* Whether a phase is of the backward. */
static inline bool phase_is_backward(int phase)
{
	return phase == PHASE_BACKWARD || phase == PHASE_RECOMPUTE;
}

/* "forward", "backward", "recompute", "compile". */
extern const char *const op_phase_names[PHASES];

struct op_event {
	uint64_t id;	     /* from 1, unique in the trace, ascending in start order */
	uint64_t parent;     /* id of the enclosing event on the same thread, 0: none */
	uint64_t forward_id; /* in the backward: id of the event that made the node, or that the
				op is in the backward of; 0: unknown */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end_ns 0: not ended */
	uint64_t child_ns;	   /* time spent in direct children */
	const struct op_desc *op;
	const struct value *args,
	    *results; /* op->nargs and op->nresults of them at most, see nargs and nresults */
	const struct py_stack *stack; /* NULL: the thread had no Python frame */
	/* The stack that locates the op, see py_stack_where. Of a node, and of an op in the
	 * backward that no Python code of the backward calls: that of the forward op, NULL if
	 * unknown. Else the same as `stack`. */
	const struct py_stack *where_stack;
	/* Of an op that Python code of the backward calls: the stack that locates the forward op
	 * in whose backward it runs. NULL: unknown, or another op. */
	const struct py_stack *backward_of;
	int32_t pid, tid;	  /* as seen from ditrace's PID namespace */
	uint16_t nargs, nresults; /* values present; no results when the op threw */
	uint32_t rank1;		  /* the rank of its process + 1; 0: not known */
	uint16_t depth;		  /* 0: outermost on its thread */
	uint8_t phase;		  /* enum op_phase */
	bool held;		  /* live tracing only: its thread is stopped now */
	bool lean;   /* live tracing only: there was no time for its arguments or results */
	bool thrown; /* exited by a C++ exception; end_ns is when that was noticed */
	/* Live tracing of a backward node: address and sequence number of its Node; 0: unknown. */
	uint64_t node, node_seq;
	/* The native stack of a sample; of an op the C++ callers inside the innermost Python frame,
	 * by --native-stack. NULL: unknown, or there is none. */
	const struct py_stack *native;
	const struct event_stats *stats; /* NULL: not measured */
};

/* Calls of an op with the same stack that were summed up while they were recorded, since there was
 * no room for an event of each. */
struct op_sum {
	/* What they have in common: op, stacks, pid, tid, phase. start_ns, end_ns: the time in
	 * which they lie. The rest is 0. */
	struct op_event of;
	uint64_t calls, thrown;
	uint64_t total_ns, child_ns; /* of all; spent in direct children */
	uint64_t min_ns, max_ns;
	bool nested; /* they were called by an op at the same line, */
	bool again;  /* within a call of the same op there */
};

/* What a device did for the process: a kernel that ran, memory that was copied or set. The word is
 * CUPTI's and torch.profiler's. */
enum activity_kind { ACTIVITY_KERNEL, ACTIVITY_COPY, ACTIVITY_SET, ACTIVITY_KINDS };

struct activity {
	/* The op during which it was launched, by `launched_ns`: its op, stacks, backward_of, pid,
	 * tid, phase and id (0: not known). start_ns, end_ns: when the device
	 * worked on it, CLOCK_MONOTONIC. op NULL: it was launched in no op, or not known: see
	 * `launch`. The rest is 0. */
	struct op_event of;
	enum activity_launch {
		LAUNCH_IN_OP,	  /* of.op is the innermost recorded op that was open */
		LAUNCH_IN_NO_OP,  /* no recorded op was open on the thread of.tid */
		LAUNCH_UNKNOWN,	  /* the thread is known, the op not: calls were summed up */
		LAUNCH_NO_THREAD, /* nothing of the launch is known; of.tid is 0 */
	} launch;
	enum activity_kind kind;
	int8_t device_type, device_index; /* c10::DeviceType */
	bool in_graph;			  /* launched with others, as a graph */
	uint32_t stream;		  /* a number of the vendor's library, within the process */
	uint64_t launched_ns;		  /* CLOCK_MONOTONIC; 0: not known */
	uint64_t bytes;			  /* of a copy or set */
	/* A kernel's name, demangled; else as torch.profiler has it, "Memcpy HtoD (Pageable ->
	 * Device)", "Memset (Device)". Interned, like stacks. */
	const char *name;
};

/* Memory that was allocated or freed, as torch.profiler's profile_memory is told. */
struct memory_event {
	/* The op during which that was done, as in struct activity; start_ns is when. */
	struct op_event of;
	enum activity_launch launch;
	bool freed;
	int8_t device_type, device_index; /* c10::DeviceType; -1: the CPU has none */
	uint64_t address;		  /* of the block, in the process or on the device */
	uint64_t bytes; /* 0: not known, of a block that was allocated before recording began */
	/* What of the device's memory is allocated now: of the CPU, since recording began; and what
	 * of it the device's allocator has, that included (0: not known). */
	uint64_t total, reserved;
};

/* Whose memory it is; that of several devices is added up. */
enum memory_kind { MEMORY_CPU, MEMORY_DEVICES, MEMORY_KINDS };

static inline enum memory_kind memory_kind(int device_type)
{
	return device_type ? MEMORY_DEVICES : MEMORY_CPU;
}

/* Its op, or one named "(in no op)" or "(op not known)". */
const struct op_desc *activity_op(const struct activity *a);

/* Whether the op is called by Python code that runs in the backward, so that its line is its own
 * and not that of a forward op. */
static inline bool event_is_called_in_backward(const struct op_event *ev)
{
	return phase_is_backward(ev->phase) && ev->where_stack && ev->where_stack == ev->stack;
}

/* Whether it is a compilation itself: of a frame (dynamo::compile_forward), or of a backward when
 * it is needed first (dynamo::compile_backward). They are not nested. */
bool event_is_compilation(const struct op_event *ev);

/* What PyTorch calls where a block of record_function begins and where it ends
 * (torch/csrc/autograd/record_function_ops.cpp, 1.13 to 2.13): marks, no ops of the program. */
enum op_mark { MARK_NONE, MARK_ENTER, MARK_EXIT };
enum op_mark op_mark(const struct op_desc *op);

/* What marks of one block have in common, within a process and until the block ends: the tensor, or
 * the object of a class of TorchScript, that is its record. False: not known. */
enum { MARK_BLOCK_MAX = 64 };
bool event_mark_block(const struct op_event *ev, char out[MARK_BLOCK_MAX]);

/* How such an object is written, as a value that is not decoded, before its address. */
extern const char mark_block_text[31];

/* Whether an op of this name is autograd's node AccumulateGrad, which adds to the gradient of a
 * leaf. Such a node has no line; where it is known of which parameter of a module it is, its
 * where_stack has that (struct py_stack). */
bool op_accumulates(const char *name);

/* How people are shown an op of this name: that node as "gradient accumulation", any other by its
 * name. */
const char *op_text(const char *op);

/* Whether the frame is of torch/utils/checkpoint.py. */
bool py_frame_is_checkpoint(const struct py_frame *f);

/* Whether it is of the function that calls the autograd engine, and no op by itself:
 * _engine_run_backward of torch/autograd/graph.py (PyTorch 2.13), before that backward and grad of
 * torch/autograd/__init__.py (1.13). */
bool py_frame_runs_backward(const struct py_frame *f);

/* The frame to show for a stack: the innermost one outside torch's own files, or unknown, else the
 * innermost; NULL if there is none. */
const struct py_frame *py_stack_where(const struct py_stack *s);

/* Whether `outer` is a prefix of `stack`, seen from the outermost frame. */
bool py_stack_lies_within(const struct py_stack *stack, const struct py_stack *outer);

/* Tensor statistics of one call, present in events that were measured. */

/* Statistics of a tensor's elements. Complex elements count by their absolute value, and are NaN
 * when either part is; quantized ones by their stored integers. */
struct stats {
	uint64_t count; /* elements */
	uint64_t nan, pos_inf, neg_inf, zeros;
	double min, max; /* of all elements that are not NaN; NaN if none */
	/* Of the finite elements; NaN when there are too few (one for mean and l2, two for std).
	 * std: sample standard deviation (n - 1), as Tensor.std(). l2: root of the sum of squares;
	 * 0 for an empty tensor. */
	double mean, std, l2;
	/* Integers and bool: exact min and max (uint64 as its two's complement), since a double is
	 * exact only up to 2^53. */
	bool is_int, is_unsigned;
	int64_t min_int, max_int;
	bool is_numeric; /* false: a dtype without known numeric values (bits8, int4); only count
			    and hash are valid */
	uint64_t hash;	 /* XXH3_64bits of the elements in row-major order, gaps left out: equal for
			    equal elements whatever the strides */
};

/* A tensor of an event: number `tensor`, depth first, within argument or result `value`. */
struct tensor_place {
	bool is_result;
	uint16_t value;
	uint32_t tensor;
};

struct tensor_stats {
	struct tensor_place place;
	const char *why; /* NULL: measured; else a short reason why not */
	struct stats stats;
};

/* Arguments as of the entry of the op, results as of its exit. */
struct event_stats {
	const struct tensor_stats *rows; /* sorted by place, no duplicates */
	uint32_t n;
};

/* Order of places, as strcmp: arguments before results, then by value, then by tensor. */
int tensor_place_compare(const struct tensor_place *a, const struct tensor_place *b);

typedef void event_tensor_fn(const struct tensor *t, const struct tensor_place *place, void *arg);

/* Call `fn` for each tensor among the arguments of `ev`, or among its results. */
void event_each_tensor(const struct op_event *ev, bool of_results, event_tensor_fn *fn, void *arg);

/* The statistics of the tensor at `place`, or NULL. Must be called with places in ascending order
 * and *next 0 at first: the cursor of the search. */
const struct tensor_stats *event_stats_next(const struct event_stats *s,
					    const struct tensor_place *place, uint32_t *next);

/* Number of NaN and infinite elements in all measured results, but those that only the op's own
 * backward reads. */
uint64_t event_bad_results(const struct op_event *ev);

/* Whether the results of `op` are uninitialised or existing memory: aten::empty and its like,
 * resize_, set_. Decided by their names in PyTorch's native_functions.yaml. */
bool op_gives_no_numbers(const struct op_desc *op);

/* Whether results are views of arguments: new tensors on existing storage, with nothing written to
 * it. Decided for each call, since aten::to and others return a view or a copy. */
bool event_gave_view(const struct op_event *ev);

/* A sample: the stacks of one thread at one moment, taken periodically by CPU time. */

struct sample {
	uint64_t time_ns;	       /* CLOCK_MONOTONIC */
	uint64_t weight;	       /* ns of CPU time, or cycles (struct sampling) */
	int32_t pid, tid;	       /* as seen from ditrace's PID namespace */
	uint32_t rank1;		       /* as in struct op_event */
	const struct op_desc *op;      /* the op or backward node; NULL: see sample_op_name */
	const struct py_stack *python; /* NULL: no Python code, or see `mismatched` */
	/* file: of the code; function: demangled name, or address in the file; line 0. NULL:
	 * unknown. */
	const struct py_stack *native;
	uint8_t phase;	 /* enum op_phase: see py_stack_backward_phase and py_stack_compiles */
	bool mismatched; /* the Python stack changed before the frames could be read */
	bool in_kernel;
};

/* Parameters of sampling. */
struct sampling {
	uint64_t frequency; /* Hz of each thread's CPU time */
	const char *event;  /* "cpu-clock": weights are ns; "cycles" */
	bool kernel;	    /* also samples kernel time */
};

/* The name of the sample's op; "(in no op)" when the complete native stack has none; "(op not
 * known)" when the native stack is incomplete. */
const char *sample_op_name(const struct sample *s);

/* Whether the thread was at work for ditrace's library in the process: the innermost native frame
 * but for those of the kernel and of the C library is of it, or of the memory for its stubs. */
bool sample_is_own(const struct sample *s);

/* Whether a native frame's file is CPython: its frames only repeat the Python frames. */
bool native_file_is_python(const char *file);

/* The phase of a sample within a backward node, by its Python stack, which may be NULL: there the
 * frames that call the engine are known by their files, torch/autograd/__init__.py and graph.py. */
enum op_phase py_stack_backward_phase(const struct py_stack *s);

/* Whether the Python code, which may be NULL, tells that autograd's engine runs: it has called that
 * (_engine_run_backward of torch/autograd/graph.py, 2.x), or was called by it for the backward of
 * an autograd.Function (torch/autograd/function.py; CPython 3.11 and later, which know the class).
 */
bool py_stack_is_in_backward(const struct py_stack *s);

/* Whether the Python code, which may be NULL, is of a compilation of torch.compile: called by what
 * PyTorch's counters of compilations are around, _compile of torch/_dynamo/convert_frame.py and
 * get_or_compile of torch/_functorch/_aot_autograd/runtime_wrappers.py (2.13; _wrapped_bw_compiler
 * of torch/_dynamo/backends/common.py is called by it, and by what was there before). Where outer
 * frames are missing, a function of torch/_dynamo/symbolic_convert.py, which follows a program to
 * compile it, tells as much. */
bool py_stack_compiles(const struct py_stack *s);

/* Convert the sample to an event of its op (named as above) whose duration is the sample's weight,
 * for code that aggregates events. *out borrows the pointers of *s. */
void sample_as_event(const struct sample *s, struct op_event *out);

/* Name for the file of native frames in anonymous memory: "[anon PID BOOT]", where BOOT identifies
 * this boot of this machine. 32 bytes are enough. */
void sample_anon_file(int32_t pid, char *out, size_t size);

#endif
