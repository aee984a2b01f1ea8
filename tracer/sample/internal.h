/* What the files of this folder share. */
#ifndef TRACER_SAMPLE_INTERNAL_H
#define TRACER_SAMPLE_INTERNAL_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/intern.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"
#include "tracer/sample/sampler.h"

/* What a process has mapped, and what code it had mapped before: from /proc/PID/maps, and from
 * records of mappings as they were made. */

/* Zero-initialise. */
struct known_maps {
	struct maps maps; /* code that is no longer mapped stays where nothing has replaced it */
	size_t room;
	struct arena arena;
};

/* Read what is mapped now. 0 or as maps_read. */
int known_maps_read(struct known_maps *k, pid_t pid);

/* Whether code of something else is known where `m` is. */
bool known_maps_replaces(const struct known_maps *k, const struct mapping *m);

/* Take in a mapping that process `pid` has made (copied): one with a build id gets the inode of the
 * file at its path, if that has the same. 1; 0 when it is known already; or -ENOMEM. */
int known_maps_add(struct known_maps *k, pid_t pid, const struct mapping *m);

/* Take in the code that `from` has mapped, as a process that was forked has. 0 or -ENOMEM. */
int known_maps_inherit(struct known_maps *k, const struct known_maps *from);

void known_maps_free(struct known_maps *k);

/* The registers in a sample of perf_event_open(2). */

enum { PERF_REGS = 20 };

/* For perf_event_attr.sample_regs_user: all that struct pt_regs has of 64-bit code. */
extern const uint64_t perf_regs_mask;

/* The abi of a sample of such code (PERF_SAMPLE_REGS_ABI_64, linux/perf_event.h). */
enum { PERF_REGS_ABI = 2 };

/* From the PERF_REGS words of a sample to ARCH_REGS words by enum arch_reg. */
void perf_regs_take(const uint64_t *words, uint64_t *regs);

/* A PERF_RECORD_SAMPLE of perf_event_open(2) with what the sampler asks for. */

struct perf_sample {
	pid_t pid, tid; /* 0: it is ending */
	uint64_t time;	/* CLOCK_MONOTONIC ns */
	uint64_t period;
	bool in_kernel;
	bool has_regs; /* else it has no stack either: no user space, or 32-bit code */
	uint64_t regs[ARCH_REGS];
	const uint8_t *stack; /* from regs[ARCH_SP] upwards, `len` bytes of the record */
	size_t len;
};

/* What such a sample holds: sample_type, sample_regs_user and sample_stack_user of *attr. */
void perf_sample_ask(struct perf_event_attr *attr);

/* Take the record apart: `h` and h->size - sizeof(*h) bytes behind it, any bytes. False: it is no
 * such record, or shorter than it says. */
bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *out);

/* Whether Python frames that were read a moment after a sample are those of the sample. The thread
 * runs on meanwhile; what tells is its native stack as the sample has it. */

/* Bytes of a stack from `start` upwards: as the sample has them, and as they were after the frames
 * had been read. */
struct sample_stack {
	uint64_t start;
	size_t len;
	const uint8_t *then, *now; /* now NULL: they could not be read */
};

struct sample_check {
	const uint64_t *regs; /* ARCH_REGS of the sample */
	struct sample_stack stack;
	const struct native_place *places; /* the native stack, innermost first */
	unsigned nplaces;
	int interpreter; /* the place of the innermost _PyEval_EvalFrameDefault; -1: none */
	unsigned interpreters;
	bool whole;   /* the last place is the outermost */
	bool at_once; /* the frames were read as the sample was taken, and not afterwards */
	const struct py_walk *walk;
	const struct py_top *top;
	uint64_t (*pairs)[2];	       /* the frames read, innermost first */
	int n;			       /* how many; or -errno */
	uint64_t code_start, code_end; /* instructions of the innermost one's code; 0: not known */
};

enum sample_python {
	SAMPLE_NO_PYTHON, /* the thread ran none */
	SAMPLE_PYTHON,	  /* they are the sample's */
	SAMPLE_MOVED,	  /* they are not, or that cannot be told */
};

/* Frames that were read at once are the sample's, unless the thread was just changing them, which
 * the same rules tell but for what may have changed meanwhile; there a register that callees keep
 * for their callers, too, may name the frame. Of others:
 *
 * The interpreter keeps the frame that it runs, and the instruction, in its own C frame and in
 * registers, which the sample has:
 *
 *   - The innermost frame must be the one there: in 3.11 and 3.12 that is a word at a known place
 *     (_PyCFrame.current_frame, Include/cpython/pystate.h, a local of _PyEval_EvalFrameDefault,
 *     Python/ceval.c); in others it must be among the words there, and before 3.11 there must be an
 *     interpreter's C frame for each Python frame.
 *   - The instruction is the one that was read if the interpreter's C frame and what its callee
 *     saved there have not changed; else the one that a register or saved register points behind,
 *     if a single one does. That is put into pairs[0][1]. */
enum sample_python sample_check(const struct sample_check *c);

/* The Python frames of samples, from an eBPF program that runs as each sample is taken. Needs
 * CAP_BPF and CAP_PERFMON; without, they are read afterwards (tracer/sample/internal.h). */

struct sample_frames;

/* 0 and *out (free with sample_frames_close), or -errno. */
int sample_frames_open(struct sample_frames **out);
void sample_frames_close(struct sample_frames *f); /* NULL allowed */

/* The program for PERF_EVENT_IOC_SET_BPF of every event that takes samples. */
int sample_frames_program(const struct sample_frames *f);

/* How to walk process `pid`; NULL: not at all any more. 0 or -errno. */
int sample_frames_set(struct sample_frames *f, pid_t pid, const struct py_walk *walk);

/* What was sent of one sample. */
struct sampled_frames {
	struct py_top top;	       /* tstate 0: the thread runs no Python */
	uint64_t frames[PY_FRAMES][3]; /* code object, instruction, first local variable */
	int n;
	bool cut;
};

/* Of the sample that thread `tid` took at `time_ns`. False: there is nothing of it. */
bool sample_frames_take(struct sample_frames *f, pid_t tid, uint64_t time_ns,
			struct sampled_frames *out);

/* Native frames, native stacks and ops of samples: equal ones are one object, which outlives the
 * process it was seen in. */

/* Zero-initialise. */
struct sample_names {
	struct intern frame_ids, stack_ids, op_ids;
	struct arena arena;
	struct py_frame **frames; /* by their ids */
	struct py_stack **stacks;
	struct op_desc **ops;
	size_t frames_room, stacks_room, ops_room;
};

/* All three: NULL without memory. */

/* *is_new: it was not known (NULL: not asked). */
const struct py_frame *sample_frame(struct sample_names *n, const char *file, const char *function,
				    bool *is_new);
const struct py_stack *sample_stack(struct sample_names *n, const struct py_frame *const *frames,
				    unsigned depth, bool truncated);
const struct op_desc *sample_op(struct sample_names *n, const char *name, enum op_kind kind);

void sample_names_free(struct sample_names *n);

/* Inside of the sampler: one process of which samples come. */

enum { SAMPLED_FRAMES = 128, SAMPLED_PYTHON = 256, SAMPLED_MORE = 256 << 10 };

/* A sample that was taken from the buffer, with what was read of the process right then. */
struct taken_sample {
	struct perf_sample sample;
	/* Its stack, and the same read afterwards, `now_len` bytes, which may be more. From malloc,
	 * with room for SAMPLED_MORE behind the largest stack of a sample. */
	uint8_t *then, *now;
	size_t now_len;
	bool python_known; /* the process runs Python; those below are set */
	bool at_once;	   /* what follows was read by the kernel as the sample was taken */
	struct py_top top;
	uint64_t locals[SAMPLED_PYTHON]; /* with at_once: the first local variables */
	uint64_t pairs[SAMPLED_PYTHON][2];
	int npairs;
	bool cut;
	uint64_t code_start, code_end;
};

struct sampler_process;

/* A process that may have ended already. NULL without memory. */
struct sampler_process *sampler_process_new(pid_t pid);
void sampler_process_free(struct sampler_process *p); /* NULL allowed */
pid_t sampler_process_pid(const struct sampler_process *p);

/* It was forked by `from`. */
void sampler_process_forked(struct sampler_process *p, const struct sampler_process *from);

/* It has mapped something to execute, by a record; true: at the place of something else, so that
 * samples from before must be resolved before the call of sampler_process_map. */
bool sampler_process_replaces(const struct sampler_process *p, const struct mapping *m);
void sampler_process_map(struct sampler_process *p, const struct mapping *m);

/* Records of what it has mapped may be missing. */
void sampler_process_missed(struct sampler_process *p);

/* Read what will have changed in a moment: the Python frames of the thread where `frames` (NULL:
 * there are none) has not got them, and its stack. */
void sampler_process_catch(struct sampler_process *p, struct taken_sample *t,
			   struct sample_frames *frames);

/* What the sampler has for all processes. */
struct sampler_shared {
	struct sample_names names;
	struct native_symbols symbols;
	struct sampler_sink sink;
	struct sample_frames *frames; /* NULL: the kernel does not read them */
};

/* Make *out of a sample that was caught. */
void sampler_process_resolve(struct sampler_process *p, struct taken_sample *t,
			     struct sampler_shared *all, struct sample *out);

#endif
