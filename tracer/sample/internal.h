/* What the files of the sampler share. */
#ifndef TRACER_SAMPLE_INTERNAL_H
#define TRACER_SAMPLE_INTERNAL_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/sample/sampler.h"

/* What a process has mapped now, and code that it had mapped before, from
 * /proc/PID/maps and from records of mappings. */

/* Zero-initialise. */
struct known_maps {
	struct maps maps; /* unmapped code is kept until something else takes its place */
	size_t room;
	struct arena arena;
};

/* Read the present mappings. 0 or -errno as maps_read. */
int known_maps_read(struct known_maps *k, pid_t pid);

/* Whether different code is known at the addresses of `m`. */
bool known_maps_replaces(const struct known_maps *k, const struct mapping *m);

/* Add a mapping (copied): one with a build ID gets the inode of the file that its path is in
 * `files` (NULL: none) if the build IDs match. 1; 0 when it is known already; or -ENOMEM. */
int known_maps_add(struct known_maps *k, struct target_files *files, const struct mapping *m);

/* Add the code that `from` has mapped, for a process forked from it. 0 or -ENOMEM. */
int known_maps_inherit(struct known_maps *k, const struct known_maps *from);

void known_maps_free(struct known_maps *k);

/* perf_regs_x86_64.c: the registers in a sample of perf_event_open(2). */

enum { PERF_REGS = 20 };

/* For perf_event_attr.sample_regs_user: all that struct pt_regs has for 64-bit code. */
extern const uint64_t perf_regs_mask;

/* Whether this is a guest of a hypervisor (CPUID 1, ecx bit 31: Linux,
 * arch/x86/include/asm/cpufeatures.h, X86_FEATURE_HYPERVISOR), for which each interrupt of a
 * counter is emulated. */
bool perf_counters_are_virtual(void);

/* The abi field of a sample of 64-bit code (PERF_SAMPLE_REGS_ABI_64, linux/perf_event.h). */
enum { PERF_REGS_ABI = 2 };

/* Convert the PERF_REGS words of a sample to ARCH_REGS words by enum arch_reg. */
void perf_regs_take(const uint64_t *words, uint64_t *regs);

/* perf_sample.c: a PERF_RECORD_SAMPLE of perf_event_open(2) with the sampler's fields. */

struct perf_sample {
	pid_t pid, tid; /* 0: exiting */
	uint64_t time;	/* CLOCK_MONOTONIC ns */
	uint64_t period;
	bool in_kernel;
	bool has_regs; /* else no stack either: a kernel thread, or 32-bit code */
	uint64_t regs[ARCH_REGS];
	const uint8_t *stack; /* from regs[ARCH_SP] upwards, `len` bytes within the record */
	size_t len;
};

/* Set sample_type, sample_regs_user and sample_stack_user of *attr to these fields. */
void perf_sample_ask(struct perf_event_attr *attr);

/* Choose what samples are taken by, `hz` times a second: processor cycles or, where there is no
 * such counter or it is emulated, the CPU clock; with the kernel's time where that is permitted.
 * Above the kernel's limit it is that: how->frequency. 0 or -errno with *e. */
int perf_sample_choose(uint64_t hz, struct perf_event_attr *attr, struct sampling *how,
		       struct err *e);

/* Parse a record of h->size bytes with any contents. False: it is of another type, or truncated. */
bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *out);

/* sample_check.c: whether Python frames that were read a moment after a sample are those of the
 * sample. The thread runs on meanwhile; the native stack in the sample is the evidence. */

/* Bytes of a stack from `start` upwards: in the sample, and after the frames were read. */
struct sample_stack {
	uint64_t start;
	size_t len;
	const uint8_t *then, *now; /* now NULL: unreadable */
};

struct sample_check {
	const uint64_t *regs; /* ARCH_REGS of the sample */
	struct sample_stack stack;
	const struct native_place *places; /* the native stack, innermost first */
	unsigned nplaces;
	int interpreter; /* index of the innermost _PyEval_EvalFrameDefault; -1: none */
	unsigned interpreters;
	bool whole;   /* the last place is the outermost */
	bool at_once; /* the frames were read together with the sample, by the kernel */
	const struct py_walk *walk;
	const struct py_top *top;
	bool codes_stay;      /* no frame's code object can have taken the place of another since */
	uint64_t (*pairs)[2]; /* (code object, instruction) of the frames, innermost first */
	int n;		      /* their number, or -errno */
	uint64_t code_start, code_end; /* bytecode of the innermost code object; 0: not known */
};

enum sample_python {
	SAMPLE_NO_PYTHON, /* the thread ran no Python */
	SAMPLE_PYTHON,	  /* the frames are the sample's */
	SAMPLE_MOVED,	  /* they are not, or that is not certain */
};

/* Frames that were read at once are the sample's unless the thread was just changing them, which
 * the rules below show as well: nothing needs to be compared over time then, and a callee-saved
 * register may name the frame, too. For frames that were read afterwards:
 *
 * The interpreter keeps its current frame and instruction in its C frame and in registers, which
 * are in the sample:
 *
 *   - The innermost frame must be the one there. In 3.11 and 3.12 that is a word at a known place
 *     (_PyCFrame.current_frame, Include/cpython/pystate.h, a local of _PyEval_EvalFrameDefault,
 *     Python/ceval.c); in others it must be among the words there, and before 3.11 each Python
 *     frame must have a C frame of the interpreter.
 *   - The instruction is the one that was read if the interpreter's C frame, and the registers that
 *     its callee saved, have not changed; else the one before the only address that such a register
 *     or word holds within the code, if all code objects stay. That is put into pairs[0][1]. */
enum sample_python sample_check(const struct sample_check *c);

/* code_copies.c: copies of Python code objects, put together from the records of them: a long line
 * table comes in several. */

struct code_copy;

/* Zero-initialise. */
struct code_copies {
	struct code_copy *copy;
	size_t n, room;
};

/* Add a record: HIT_CODE_MET, with HIT_MORE if it is not the last of its code object. */
void code_copies_add(struct code_copies *c, const struct hit *h);

/* Give those of process `pid` that are whole to `rt`; NULL: drop all of it. */
void code_copies_learn(struct code_copies *c, pid_t pid, struct py_runtime *rt);

void code_copies_free(struct code_copies *c);

/* sample_frames.c: Python frames read by an eBPF program as each sample is taken. Needs CAP_BPF and
 * CAP_PERFMON; without them, frames are read afterwards. */

struct sample_frames;

/* 0 and *out (free with sample_frames_close), or -errno. */
int sample_frames_open(struct sample_frames **out);
void sample_frames_close(struct sample_frames *f); /* NULL allowed */

/* The program's descriptor, for PERF_EVENT_IOC_SET_BPF of every event that takes samples. */
int sample_frames_program(const struct sample_frames *f);

/* Set how to walk process `pid`, and what its code objects are like; NULL: stop walking it. 0 or
 * -errno. */
int sample_frames_set(struct sample_frames *f, pid_t pid, const struct py_runtime *py);

/* The frames of one sample. */
struct sampled_frames {
	struct py_top top;	       /* tstate 0: the thread runs no Python */
	uint64_t frames[PY_FRAMES][3]; /* code object, instruction, first local variable */
	uint64_t prints[PY_FRAMES];    /* of the code objects; 0: not known */
	int n;
	bool cut;
};

/* Take the frames of the sample of thread `tid` at `time_ns`. False: there are none. */
bool sample_frames_take(struct sample_frames *f, pid_t tid, uint64_t time_ns,
			struct sampled_frames *out);

/* Give the code objects of process `pid` that have come with the samples taken so far to `rt`;
 * NULL: drop them. */
void sample_frames_learn(struct sample_frames *f, pid_t pid, struct py_runtime *rt);

/* sampler_resolve.c: native frames, native stacks and ops of samples. Equal ones are interned as
 * one object, which outlives the process. */

/* Zero-initialise. */
struct sample_names {
	struct intern frame_ids, stack_ids, op_ids;
	struct arena arena;
	struct py_frame **frames; /* by ID */
	struct py_stack **stacks;
	struct op_desc **ops;
	size_t frames_room, stacks_room, ops_room;
};

/* The three return NULL without memory. *is_new: it was not known before (may be NULL). */
const struct py_frame *sample_frame(struct sample_names *n, const char *file, const char *function,
				    bool *is_new);
const struct py_stack *sample_stack(struct sample_names *n, const struct py_frame *const *frames,
				    unsigned depth, bool truncated);
const struct op_desc *sample_op(struct sample_names *n, const char *name, enum op_kind kind);

void sample_names_free(struct sample_names *n);

/* sampler_process.c: a process that is sampled. */

enum { SAMPLED_FRAMES = 128, SAMPLED_PYTHON = 256, SAMPLED_MORE = 256 << 10 };

/* A sample taken from the buffer, with what was read of the process right after. */
struct taken_sample {
	struct perf_sample sample;
	/* The sample's stack, and the stack as read afterwards, `now_len` bytes, which may be more.
	 * From malloc, with room for SAMPLED_MORE beyond the largest stack of a sample. */
	uint8_t *then, *now;
	size_t now_len;
	bool python_known; /* the process runs Python; the following are set */
	bool at_once;	   /* they were read by the kernel as the sample was taken */
	struct py_top top;
	uint64_t locals[SAMPLED_PYTHON]; /* with at_once: the first local variables */
	uint64_t pairs[SAMPLED_PYTHON][2];
	uint64_t prints[SAMPLED_PYTHON]; /* of the code objects, read as the pairs were */
	int npairs;
	bool cut;
	bool codes_stay; /* as in struct sample_check */
	bool unnamed;	 /* a frame's code object was gone before it could be read */
	uint64_t code_start, code_end;
};

enum { SAMPLER_NS_TIDS = 256 };

struct sampler_process {
	pid_t pid, ns_pid;
	bool other_ns;
	struct target_files *files;
	struct mem mem;
	struct known_maps known;
	struct native_stacks *natives;
	struct native_ops ops;
	struct perf_map jit;
	struct py_runtime *py;
	uint64_t stacks_ns, python_ns; /* when they were last looked for */
	bool unread;		       /* /proc/PID/maps is to be read (again) */
	bool mapped;		       /* there are new mappings since `natives` was opened */
	bool ended;		       /* before the present read began */
	bool told;		       /* the eBPF program knows how to walk it */
	bool python_gone;	       /* there is no Python that ditrace can read */
	struct {
		pid_t tid, ns_tid;
	} ns_tids[SAMPLER_NS_TIDS]; /* a cache, by tid modulo its size */
};

/* For a process that may have ended already. NULL without memory. */
struct sampler_process *sampler_process_new(pid_t pid);
void sampler_process_free(struct sampler_process *p); /* NULL allowed */
pid_t sampler_process_pid(const struct sampler_process *p);

/* `p` was forked by `from`: inherit its code mappings. */
void sampler_process_forked(struct sampler_process *p, const struct sampler_process *from);

/* sampler_process_map: add a mapping reported by a record. sampler_process_replaces: whether it
 * takes the place of something else, so that earlier samples must be resolved first. */
bool sampler_process_replaces(const struct sampler_process *p, const struct mapping *m);
void sampler_process_map(struct sampler_process *p, const struct mapping *m);

/* Records of mappings may have been lost: read them from /proc again. */
void sampler_process_missed(struct sampler_process *p);

/* Read what will soon have changed: the thread's stack, and its Python frames unless `frames`
 * (NULL: none) has them. */
void sampler_process_catch(struct sampler_process *p, struct taken_sample *t,
			   struct sample_frames *frames);

/* State shared by all processes of a sampler. */
struct sampler_shared {
	struct sample_names names;
	struct native_symbols symbols;
	struct sampler_sink sink;
	struct sample_frames *frames; /* NULL: the kernel does not read Python frames */
};

/* sampler_resolve.c: what a sample means. */

struct symbols_of_process {
	struct sampler_process *p;
	struct native_symbols *symbols;
};

/* Open p->natives with the mappings that are known by now; without success, it stays as it is. */
void sampler_process_open_natives(struct sampler_process *p, struct native_symbols *symbols);

/* Fill *out from a sample that was caught. */
void sampler_process_resolve(struct sampler_process *p, struct taken_sample *t,
			     struct sampler_shared *all, struct sample *out);

#endif
