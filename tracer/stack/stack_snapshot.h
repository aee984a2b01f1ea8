/* One look at all threads of a process: what each of them is doing at that moment. */
#ifndef TRACER_STACK_STACK_SNAPSHOT_H
#define TRACER_STACK_STACK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/native/native_op.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/stack/op_args.h"
#include "tracer/stack/wait_reason.h"

/* How certain a Python stack is. */
enum python_read {
	PYTHON_NONE,	/* the thread runs no Python, or it is not known: see note */
	PYTHON_EXACT,	/* the thread did not run while it was read */
	PYTHON_RUNNING, /* it ran on meanwhile; two reads in a row were equal */
};

enum { STACK_SNAPSHOT_FRAMES = 256 }; /* native ones; those further out are left out */

struct stack_snapshot_thread {
	struct thread_facts facts; /* from before it was held */
	enum python_read python_read;
	const struct py_stack *python; /* lives as long as the stack_reader; NULL: none */
	uint64_t (*pairs)[2];	       /* what `python` was made of */
	unsigned npairs;
	const char *python_note; /* why there is none, NULL: there is nothing to say */
	struct native_frame *frames;
	unsigned nframes;
	bool native_whole;     /* the last frame is the outermost */
	char native_note[160]; /* why there are none; "" nothing to say */
	uint64_t pc, sp;       /* 0: not known */
	struct in_op in;
	uint64_t in_op_ns;	  /* for how long it has been in in.op at least; 0: not known */
	struct op_call call;	  /* of in.op; op NULL: what it was called with is not known */
	struct op_caught *caught; /* of the stack_reader */
	struct wait_reason wait;
	bool holds_gil;
	bool still; /* since the first look of the stack_reader; false at that */
};

struct stack_snapshot {
	uint64_t at_ns; /* CLOCK_MONOTONIC, its beginning */
	struct stack_snapshot_thread *threads;
	size_t n;
};

struct stack_reader;

/* Get ready to look at process `pid`, with `native` stacks or without. 0 and *out (free with
 * stack_reader_close); -errno with *e and a hint: no such process, or this user may not read it.
 * What keeps Python from being read is no failure: see stack_reader_notes. */
int stack_reader_open(pid_t pid, bool native, struct stack_reader **out, struct err *e);
void stack_reader_close(struct stack_reader *l); /* NULL allowed */

/* Look at each thread, one after the other. With native stacks a thread is held still while its
 * registers, its stack's bytes and its Python frames are read, some hundred microseconds; without,
 * none is. A thread whose stop does not come within a second is left alone. Returns 0 and *out,
 * valid until the look after the next one; -ESRCH when the process has ended; -ENOMEM. */
int stack_reader_take(struct stack_reader *l, const struct stack_snapshot **out, struct err *e);

/* Say in `still` which threads have not moved from the look before, `second` when that was the
 * first: the same frames at the same places, and no more time on a processor than being looked at
 * takes. */
void stack_snapshot_compare(struct stack_snapshot *now, const struct stack_snapshot *before,
			    bool second);

/* The runtime of Python; NULL: none, and *why (of the stack_reader, code 0: there is no Python)
 * tells. */
struct py_runtime *stack_reader_python(struct stack_reader *l, const struct err **why);

/* Why there are no native stacks; code 0: there are, or none were wanted. */
const struct err *stack_reader_native_note(const struct stack_reader *l);

#endif
