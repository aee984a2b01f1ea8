/* The probe plan and the hits: what an engine is told to read at each probe, and the records it
 * returns. An engine executes the plan and knows nothing of torch; the symbolizer makes the plan
 * and decodes the records and knows nothing of engines.
 *
 * Shared with the eBPF program: fixed-width types only, no pointers. */
#ifndef SYMBOLIZER_PLAN_PLAN_H
#define SYMBOLIZER_PLAN_PLAN_H

#include <linux/types.h>
#ifndef __bpf__
#include <stdint.h>
#endif

/* Words available at a probe, by number ("loc"): at an entry, the integer argument registers in ABI
 * order, then the words of the stack argument area. They are saved for the reads at the exit. */
enum {
	LOC_REG =
	    0, /* 0..5: integer argument registers, System V ABI 3.2.3: rdi rsi rdx rcx r8 r9 */
	LOC_STACK = 6, /* 6 + k: the word at entry sp + 8 + 8 * k */
	LOC_MAX = 32,
	LOC_NOW = 0x40, /* 0x40 + r: register r (symbolizer/code/arch_x86_64.h) at the exit */
	LOC_FP = 0x60,	/* 0x60 + n: low 8 bytes of SSE argument register n at the entry, which
			   jumps alone can read */
	LOC_NONE = 0xff,
};

enum read_kind {
	READ_END = 0,
	READ_WORD,	 /* the word `a` itself */
	READ_MEM,	 /* `size` bytes at a + off; with deref: at *(a + off) + b */
	READ_SLOT,	 /* 8 bytes at (sp at entry) + off */
	READ_TENSOR,	 /* an at::Tensor at a + off */
	READ_OPT_TENSOR, /* std::optional<at::Tensor>: tensor at a + off, flag byte at a + size */
	READ_TENSORS,	 /* `b` at::Tensor objects at a */
	READ_VECTOR,	 /* std::vector<at::Tensor> at a + off */
	READ_ARRAY, /* b elements of `size` bytes at a, if the flag c is set (LOC_NONE: always);
		       size 1: a string. With deref: a points to {flag, pointer, length} */
	READ_LIST,  /* c10::List<...> at a + off: a ListImpl of IValues */
	READ_STD_STRING, /* the std::string at *a + off */
	READ_ILIST,	 /* at::ITensorListRef at a */
	READ_IVALUES,	 /* std::vector<c10::IValue> at a: its elements (the last STACK_VALUES) */
	READ_PYTENSOR,	 /* the tensor of the Python object at a, or of the first item if it is a
			    tuple */
	READ_NODE, /* a, the address of a Node, and 8 bytes of its sequence number if the offset is
		      known */
};

struct probe_read {
	__u8 kind;    /* enum read_kind */
	__u8 a, b, c; /* locs */
	__u8 size;
	__u8 deref;
	__s16 off;
};

enum { PLAN_READS = 30, PLAN_LOADS = 2 };

enum { NODE_READ = 0 }; /* index of READ_NODE among a node's reads */

enum {
	PLAN_BACKWARD = 1 << 0, /* a backward node, or the engine's work on one; it and what it
				   encloses are in the backward */
	PLAN_MARK = 1 << 1,	/* marks a region; not reported itself */
	PLAN_FORWARD = 1 << 2,	/* an op, which the dispatcher is asked for; neither a node nor
				   c10d::Work's functions are */
	PLAN_PY = 1 << 3,	/* read the Python stack at the entry */
	PLAN_STOP = 1 << 4,	/* the thread is stopped until its record has been handled: engine
				   ptrace, and bpf beside it */
	PLAN_MOVED = 1 << 5,	/* arguments are in other registers: arg_reg */
	PLAN_ASIDE = 1 << 6,	/* adds no nesting level: its callees count as its caller's */
	PLAN_PICK = 1 << 7,	/* with PLAN_STOP: stop only for calls that the engine picks (struct
				   pick); for nodes and PLAN_ASIDE only while gradients are awaited.
				   Engine shim, with PLAN_ASIDE: stop at every call */
};

enum { PICK_RANGES = 8 };

/* The calls of an op to pick, by call number from 1 within each process: those in one of the `n`
 * ascending, disjoint ranges (n 0: all), and of these the first and then each `every`-th (0 and 1:
 * all). */
struct pick {
	__u32 n, every;
	__u64 first[PICK_RANGES], last[PICK_RANGES];
};

static inline int pick_takes(const struct pick *p, __u64 number)
{
	__u64 before = p->n ? 0 : number - 1; /* calls in the ranges before this one */
	int in = !p->n;
	for (__u32 i = 0; i < PICK_RANGES && i < p->n; i++) {
		if (number > p->last[i])
			before += p->last[i] - p->first[i] + 1;
		else if (number >= p->first[i])
			before += number - p->first[i], in = 1;
	}
	return in && (p->every < 2 || before % p->every == 0);
}

/* What to do at the entry and the exit of one op. */
struct op_plan {
	__u8 nentry, nexit; /* numbers of reads: entry ones first in `read`, then exit ones */
	__u8 nstack; /* words of the stack argument area to save, at most LOC_MAX - LOC_STACK */
	__u8 flags;
	/* For a deferred entry: entry_sp is the stack pointer at the function's entry minus that at
	 * the probe, in bytes. With PLAN_MOVED, arg_reg are the registers (numbered as in LOC_NOW)
	 * that hold the integer arguments; the first one is what so many `loads`, at most
	 * PLAN_LOADS, lead to from `near` bytes behind what its register holds. */
	__u16 entry_sp;
	__u8 arg_reg[LOC_STACK - LOC_REG];
	__s32 near;
	__u32 loads;
	__u32 base;	/* plan_base of the op's name; 0: none */
	__u32 identity; /* 1 << n for read n: those that tell which op it is */
	struct probe_read read[PLAN_READS];
};

/* A hash (FNV-1a) of an op's name without its namespace and overload. */
static inline __u32 plan_base(const char *name)
{
	__u32 h = 2166136261U;
	for (const char *p = name; *p; p++)
		if (p[0] == ':' && p[1] == ':')
			name = p + 2;
	for (; *name && *name != '.'; name++)
		h = (h ^ (__u8)*name) * 16777619U;
	return h;
}

/* The parts of a tensor to copy in one read, and their offsets in bytes; made from
 * symbolizer/torch/layout.h. */
struct tensor_read {
	__u8 discover;	/* the layout is not known yet: copy whole snapshots instead */
	__u8 pack_meta; /* with `tail`: only three words of the autograd meta are sent */
	__u16 win_len;	/* bytes to read from the start of the TensorImpl */
	__u16 storage, storage_from,
	    storage_len;		 /* offset of the pointer; range to read behind it */
	__u16 meta, meta_from, meta_len; /* the same for the autograd meta; meta_len 0: not known */
	__u16 grad_fn;			 /* offset within the bytes read from meta */
	__u16 node_seq;	     /* offset of the sequence number within the Node; 0: not known */
	__u16 sizes;	     /* offset of the SizesAndStrides */
	__u16 inline_dims;   /* number of dimensions stored inline */
	__u16 target_size;   /* sizeof(intrusive_ptr_target), after which derived classes have their
				members */
	__u16 requires_grad; /* offset within the autograd meta */
	__u16 view_base, view_has_base; /* offsets within the meta of a view: TensorImpl* of its
					   base, and whether it has one */
	__u16 tail; /* packed items: offset of the part of the window after the sizes; 0: items are
		       not packed */
	__u64 view_vtable;    /* first word of the meta of a view; 0: not known */
	__u64 meta_vtable[2]; /* while discovering: first words of autograd metas; 0: not known */
	__u64 undefined;      /* address of the undefined TensorImpl */
	__u64 vt_impl;	      /* first word of a plain TensorImpl; 0: not known */
};

enum {
	WIN_MAX = 0xe0,	  /* maximum bytes of a TensorImpl */
	PART_MAX = 0x100, /* maximum bytes of a part it points to */
	PY_FRAMES = 128,  /* maximum depth of a Python stack */
	LIST_MAX = 1024,  /* maximum elements read of a list */
	STRING_MAX = 1024,
	STACK_VALUES = 64,
	OPEN_MAX = 64,	   /* maximum nesting of ops on one thread */
	CODE_STRING = 256, /* maximum bytes of what a code object points to: its names, */
	CODE_LINES = 2048, /* each piece of its line table */
	CODE_PIECES = 8,   /* pieces; enough for functions of some thousand lines */
};

enum {
	PY_TSTATE_WINDOW = 192, /* maximum sizes of the windows below, for fixed buffers */
	PY_FRAME_WINDOW = 96,
	PY_MAX_INTERPRETERS = 16, /* longer lists are treated as corrupt */
	PY_MAX_THREADS = 4096,
};

#define PY_NO_OFFSET 0xffffffffU

/* All that walking the frames of one thread needs. Every offset is in bytes; pointers are 8 bytes
 * and 8-byte aligned, the low three bits of fw_code must be cleared (3.14 tags them).
 *
 *   interpreter  = *interp_head_addr, then *(interpreter + interp_next)
 *   thread state = *(interpreter + interp_tstate_head), then *(thread state + tstate_next)
 *
 * A thread state is read as one window: tstate_window_len bytes at thread state + tstate_window. It
 * is the thread's own when the word tw_thread_id equals the thread's pthread_self() (x86-64: its fs
 * base) and the word tw_interp is the interpreter. tw_frame is then the innermost frame if
 * cframe_frame is PY_NO_OFFSET (3.8 to 3.10, 3.13), else a _PyCFrame, and the innermost frame is
 * *(it + cframe_frame) (3.11, 3.12). 0 at either place: the thread runs no Python code.
 *
 * A frame is read as one window: frame_window_len bytes at frame + frame_window. fw_previous is the
 * next frame outwards, 0 at the end. Where fw_owner is not PY_NO_OFFSET and the byte there is
 * owner_not_python or more, the frame is an interpreter's own marker (3.12+:
 * FRAME_OWNED_BY_CSTACK): follow fw_previous, emit nothing. 3.11 has no such frames.
 *
 * The (code, instruction) pair of a frame is the word fw_code and, at fw_instr, instr_size bytes
 * zero-extended: 8, the address of an instruction (3.11+), or 4, an int f_lasti (3.8 to 3.10).
 *
 * Its first local variable, `self` of a method, is the word fw_local (3.11+), else the one at frame
 * + frame_local. Garbage if the function has no locals. */
struct py_walk {
	__u64
	    interp_head_addr; /* address, in the target, of the pointer to the first interpreter */
	__u32 interp_next;
	__u32 interp_tstate_head;
	__u32 tstate_next;
	__u32 tstate_window, tstate_window_len;	 /* at most PY_TSTATE_WINDOW, multiples of 8 */
	__u32 tw_interp, tw_thread_id, tw_frame; /* within the window, multiples of 8 */
	__u32 tw_native_thread_id; /* 8 bytes, gettid() in the target's PID namespace; 3.11+, else
				      PY_NO_OFFSET */
	__u32 cframe_frame;	   /* or PY_NO_OFFSET */
	__u32 frame_window, frame_window_len; /* at most PY_FRAME_WINDOW, multiples of 8 */
	__u32 fw_code, fw_previous,
	    fw_instr;	/* within the window; multiples of 8 (fw_instr: of 4) */
	__u32 fw_owner; /* within the window, one byte; or PY_NO_OFFSET */
	__u32 owner_not_python;
	__u32 instr_size; /* 8 or 4 */
	__u32 fw_local;	  /* within the window, a multiple of 8; or PY_NO_OFFSET */
	__u32 frame_local;
};

/* What to copy of a code object when it is freed: its size, and the offsets of its pointers to two
 * str objects and a bytes object; and what its print needs besides (symbolizer/plan/code_print.h).
 */
struct py_code_read {
	__u32 size, filename, name, linetable;
	__u32 bytes_size, bytes_data; /* offsets of a bytes object's length and data */
	__u32 firstlineno;
	__u32 str_length, str_state;  /* within the first PRINT_STR_HEAD bytes of a str */
	__u32 str_ascii, str_compact; /* its text, by its state */
};

/* Maximum number of processes under trace at a time. Process number PROCS_MAX stands for the count
 * of dispatched ops. */
enum { PROCS_MAX = 255, PROC_SLOTS = PROCS_MAX + 1 };

/* In the memory of a process, the thread pointers (x86-64: fs bases) of threads that are at work
 * for ditrace itself, as the reference of --compare is: sets of OWN_WAYS words; 0: free. */
enum { OWN_SETS = 256, OWN_WAYS = 4 };

/* The offset in bytes of the set that a thread is in. */
static inline __u64 own_work_set(__u64 thread_pointer)
{
	return (thread_pointer * 0x9e3779b97f4a7c15ULL >> 56) * OWN_WAYS * sizeof(__u64);
}

/* Of which ops the native stack is sent: of none, of those without a Python frame, of all. */
enum native_stacks_of { NATIVE_OF_NONE, NATIVE_OF_NO_PYTHON, NATIVE_OF_ALL };

/* One process under trace. */
struct proc_conf {
	struct tensor_read tensor;
	struct py_walk py;
	struct py_code_read code;
	__u8 py_on;
	__u8 phase;	  /* 0 all, 1 forward only, 2 backward only */
	__u16 max_depth;  /* 0: all */
	__u32 generation; /* version of `tensor`; copied into hits */
	__u8 cow_strings; /* old libstdc++ ABI: std::string is a pointer to its text, preceded by
			     the length */
	__u8 native;	  /* enum native_stacks_of */
	__u8 pad[6];
	__u64 own_work; /* address of OWN_SETS sets, whose threads' ops are muted; 0: none */
};

enum hit_kind {
	HIT_ENTRY = 1,
	HIT_EXIT,
	HIT_CODE_FREED, /* sp: address of the code object. Items, if no HIT_CODE_MET was sent for
			   it: ITEM_DATA of 8 bytes of address and the bytes there, for it and for
			   what it points to */
	HIT_SCHEMA,	/* items: ITEM_STRING, the schema of an operator being defined */
	HIT_PYTHON, /* precedes a sample: an ITEM_DATA of the thread state, the _PyCFrame (or 0) and
		       the first frame; an ITEM_STACK; an ITEM_DATA (read 1) of the prints of the
		       frames' code objects, 0 for one that could not be read */
	HIT_STANDS, /* thread `tid` is stopped; no items (tracer/engine/ptrace/engine_both.c) */
	HIT_CODE_MET, /* the items of HIT_CODE_FREED, for a live code object that the previous hit
			 of the thread is the first to refer to; of samples: of process `tid`, with
			 print `seq`, and with HIT_MORE if another record of it follows with
			 more of its line table */
	HIT_SUM, /* calls of an op with one stack, summed up instead of recorded: those of HIT_ENTRY
		    that tell op and stack, then ITEM_SUM (tracer/engine/sums.h) */
};

/* Whether the hit describes a code object, live or freed. */
static inline int hit_is_of_code(__u32 kind)
{
	return kind == HIT_CODE_FREED || kind == HIT_CODE_MET;
}

enum {
	HIT_MORE = 1 << 0, /* the items continue in the next hit of this thread */
	HIT_CONT = 1 << 1, /* continues the previous hit of this thread */
	HIT_BACKWARD = 1 << 2,
	HIT_GAP = 1 << 3,     /* records of this thread were lost before this one */
	HIT_STOPPED = 1 << 4, /* the thread is stopped; last record of a PLAN_STOP hit */
	HIT_NESTED = 1 << 5,  /* of HIT_SUM: called by an op with the same Python stack, */
	HIT_AGAIN = 1 << 6,   /* within a call of the same op there */
	HIT_LEAN = 1 << 7,    /* arguments, or results, were not read, as there was little room */
};

/* Of so many hits the time of one is taken: odd, as entries and exits alternate; a longer one has
 * waited for a processor. */
enum { HIT_SAMPLE = 61, HIT_LONGEST_NS = 50000 };

struct hit {
	__u32 size; /* of the record, header included */
	__u8 kind, flags;
	__u16 depth;	  /* number of reported ops open around this one */
	__u32 op;	  /* index of the op's plan */
	__u16 proc;	  /* index of the process */
	__u16 generation; /* generation of the layout the tensors were read with */
	__u32 tid;	  /* in ditrace's PID namespace */
	__u32 stop;	  /* with HIT_STOPPED of the engine shim: number of the stop; else 0 */
	__u64 ts;	  /* CLOCK_MONOTONIC, ns */
	__u64 seq;	  /* number of the entry, ascending on each thread */
	__u64 sp;	  /* stack pointer at the entry */
};

enum item_kind {
	ITEM_DATA = 1, /* raw bytes; aux: full number of elements (READ_ARRAY), else 0 */
	ITEM_TENSOR,   /* a tensor and its parts, see below */
	ITEM_SNAPSHOT, /* struct tensor_snapshot, while the layout is not known; aux: TPART_BASE_*
			  and TPART_OUTLINE, which appends 16 bytes for each dimension */
	ITEM_LIST,     /* aux: number of elements; the elements follow as items (tensors) */
	ITEM_UNSET,    /* an empty optional */
	ITEM_FAULT,    /* memory could not be read */
	ITEM_STACK,  /* Python frames, STACK_FRAME_SIZE bytes each: code object, instruction, first
		      * local variable; aux: STACK_*, in the backward also its own frames */
	ITEM_STRING, /* bytes of a string; aux: its full length */
	ITEM_OBJECT, /* the first bytes, at most OBJECT_SIZE, of the object an IValue points to,
			which identify its class; aux: OBJECT_*, any of them together */
	ITEM_SUM,    /* struct sum_counts */
	ITEM_INNER,  /* at an exit: ns that the op spent in ops called by it that are summed up */
	ITEM_NATIVE, /* at an entry: return addresses, innermost first, 8 bytes each, as far as
			there were rows for them (symbolizer/plan/unwind.h); aux: NATIVE_* */
	ITEM_SLICE,  /* after it, with NATIVE_MISSED: the stack pointer and rbp in the frame of its
			last address, and the stack from there on */
};

enum {
	NATIVE_MISSED = 1, /* there is no row for the last one yet */
	NATIVE_CUT = 2,	   /* outer frames are missing */
	/* There is a Python stack, too: it ends with the first address in the interpreter. */
	NATIVE_TO_PYTHON = 4,
};

enum { ITEM_NO_READ = 0xff }; /* `read` of the last four */

/* Calls that are summed up. */
struct sum_counts {
	__u64 calls;
	__u64 thrown;		 /* of these, those left by an exception */
	__u64 ns, inner_ns;	 /* durations, and what of them was spent in ops that they called */
	__u64 min_ns, max_ns;	 /* durations, since the first one of all */
	__u64 first_ns, last_ns; /* CLOCK_MONOTONIC: start of the first one, end of the last */
};

enum {
	STACK_FRAME_SIZE = 24,
	STACK_SAME = 1,
	STACK_CUT = 2,
	STACK_NONE = 4,
	STACK_KNOWN = 8,     /* set by symbolizer/decode/decoder.c */
	STACK_LEFT_OUT = 16, /* there are frames, which were left out: of HIT_SUM. Own frames: 1 if
				there were any */
	STACK_OWN_SHIFT = 8, /* from this bit on: the number of the backward's own frames, which
				are inside the one that called autograd's engine; 0: none, or not in
				the backward */
};

/* What remains of the `aux` of a stack that is left out. */
static inline __u32 stack_left_out(__u32 aux)
{
	return STACK_LEFT_OUT | (aux >> STACK_OWN_SHIFT ? 1 << STACK_OWN_SHIFT : 0);
}

/* A list of IValues is one ITEM_DATA with the raw elements (16 bytes each: payload, tag), then, in
 * order, one item for each element that needs one: ITEM_TENSOR (or a snapshot, or a fault) for a
 * tensor; ITEM_OBJECT (or a fault) for a payload that may be a pointer. If the object looks like a
 * list or a string, its ITEM_DATA with its own elements' items, or its ITEM_STRING, follows;
 * if it looks like an object with a single slot, an ITEM_OBJECT of what is in it: its address and
 * its first bytes, if they could be read; whether it is one is decided by the object's class.
 * Tensor has always been tag 1 (ATen/core/ivalue.h). */
enum { COW_LENGTH = 24 }; /* bytes before the text (struct _Rep of libstdc++'s bits/cow_string.h) */
enum { OBJECT_SIZE = 64, OBJECT_LIST = 1, OBJECT_STRING = 2, OBJECT_SLOT = 4 };
enum { OBJECT_TYPE_SIZE = 64 }; /* of ivalue::Object, its WeakOrStrongTypePtr before the slots */
enum { IVALUE_NONE = 0, IVALUE_TENSOR = 1, IVALUE_DOUBLE = 3 };
enum { IVALUE_INT = 5, IVALUE_TAGS = 64 }; /* INT: since 1.6; TAGS: above all kinds */

static inline int ivalue_may_point(__u64 payload, __u32 tag)
{
	return tag != IVALUE_NONE && tag != IVALUE_TENSOR && tag != IVALUE_DOUBLE &&
	       tag != IVALUE_INT && payload >= 0x10000 && payload < (1ULL << 47) && !(payload & 7);
}

/* Header of each item; the payload is padded to 8 bytes. */
struct item {
	__u8 kind, read; /* read: index of the probe_read that made it */
	__u16 len;	 /* payload bytes */
	__u32 aux;
};

enum {
	TPART_FAULT = 1 << 0, /* the impl could not be read; the payload is its address only */
	TPART_STORAGE = 1 << 1,
	TPART_META = 1 << 2,
	TPART_NODE = 1 << 3,
	TPART_OUTLINE = 1 << 4, /* sizes and strides that are not inline */
	TPART_UNDEFINED = 1 << 5,
	TPART_META_FAULT = 1 << 6,
	TPART_BASE_NO_GRAD = 1 << 7, /* a view without own gradient; its base requires none */
	TPART_BASE_GRAD = 1 << 8,    /* the same; its base requires one */
	TPART_PACKED = 1 << 9,
};

/* ITEM_TENSOR: aux is TPART_*. Payload: impl address; win_len bytes; then, each only if its flag is
 * set and padded to 8: storage_len bytes, meta_len bytes, 8 bytes of the node's sequence number, 16
 * bytes for each dimension. With TPART_PACKED, instead of the win_len bytes: words 0, `storage`,
 * `meta` and `sizes`; sizes, then strides, of the inline dimensions; the bytes from `tail` on. With
 * `pack_meta`, also instead of the meta_len bytes: words 0, `grad_fn` and the one around
 * `requires_grad`. */

/* The op of the plan that a record belongs to. */
enum shim_op {
	SHIM_CALL,     /* an operator of the dispatcher: role ROLE_BOXED of symbolizer/ops/ops.h */
	SHIM_FUNCTION, /* known by name only: ROLE_NAMED */
	SHIM_NODE,     /* an autograd node: ROLE_NAMED_NODE */
	SHIM_ENGINE,   /* work of the autograd engine around a node: ROLE_ENGINE */
	SHIM_OPS,
};

/* Functions of libtorch_cpu that tell what is about to be observed. */
enum shim_step {
	SHIM_STEP_DISPATCH, /* at::getStepCallbacksUnlessEmpty: of a dispatch */
	SHIM_STEP_RECORD,   /* at::RecordFunction::RecordFunction(RecordScope): of anything else */
	SHIM_STEP_CALLBACK, /* at::addGlobalCallback */
	SHIM_STEP_PROFILER, /* torch::autograd::profiler::prepareProfiler */
	SHIM_STEPS,
};

/* Functions of libc10 that are told of memory (c10/core/CPUAllocator.cpp, c10/core/Allocator.cpp;
 * 1.12 to 2.13). */
enum shim_memory {
	SHIM_MEMORY_NEW,    /* ProfiledCPUMemoryReporter::New(this, address, bytes) */
	SHIM_MEMORY_DELETE, /* ProfiledCPUMemoryReporter::Delete(this, address) */
	/* reportMemoryUsageToProfiler(address, bytes, allocated, reserved, device): of devices each
	 * time; of the CPU only while the program's own profiler asks for it. */
	SHIM_MEMORY_REPORT,
	SHIM_MEMORIES,
};

/* Offsets of the words of a named op's and a node's arguments at the entry (enum LOC_*). */
enum { SHIM_LOC_DATA, SHIM_LOC_VALUES, SHIM_LOC_COUNT, SHIM_LOC_NAME, SHIM_LOC_NAME_LEN };

enum site_kind {
	SITE_ENTRY,
	SITE_EXIT,
	SITE_CODE_FREED, /* first argument: address of a Python code object */
	SITE_SCHEMA,	 /* second argument: a std::string with the schema of an operator */
	SITE_DISPATCH,	 /* counts dispatched ops while engine_count_dispatch is on; for jumps, of a
			    function of enum shim_step */
	SITE_MEMORY,	 /* for jumps, in libc10: of a function of enum shim_memory */
	SITE_ANNOUNCED,	 /* for jumps: the entry of an op that is not to be recorded */
	SITE_OBSERVED,	 /* no address: a callback from PyTorch's observer, in the order of enum
			    shim_op (tracer/engine/shim/shim_share.h) */
};

#ifndef __bpf__
/* One place to probe: a file offset (not an address) of an instruction. */
struct probe_site {
	uint64_t offset;
	uint32_t op;	  /* index into the plan */
	uint16_t kind;	  /* enum site_kind */
	uint8_t len;	  /* bytes of the instructions there that a jump may replace
			     (symbolizer/code/return_sites.h); 0: it is a place for a probe */
	uint8_t relative; /* the last four of them are a displacement from their end */
};
#endif

#endif
