/* One look at all threads of a process: what each of them is doing at that moment. */
#ifndef TRACER_STACK_STACK_SNAPSHOT_H
#define TRACER_STACK_STACK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"

/* What the operators that threads are in at this moment were called with: read from the frames of
 * at::_ops::NAME::call on their stacks, as far as these still tell. */

struct op_args;

/* Get ready for process `pid`, which has mapped what `maps` says; takes a fraction of a second. 0
 * and *out (free with op_args_close), or -errno with *e: it has no libtorch, or one that cannot be
 * understood. */
int op_args_open(pid_t pid, const struct maps *maps, struct op_args **out, struct err *e);
void op_args_close(struct op_args *a); /* NULL allowed */

/* One call, as it was caught. */
struct op_caught;

/* While thread t->tid stands still: the innermost call of an operator on its stack, which t->mem
 * reads, with what its arguments point to. From `arena`; NULL: there is none, its frame does not
 * tell, or no memory. */
struct op_caught *op_args_catch(struct op_args *a, struct native_stacks *stacks,
				const struct native_thread *t, struct arena *arena);

/* Learn from it how the tensors of this process are laid out: all that were caught, before the
 * first is decoded. */
void op_args_learn(struct op_args *a, const struct op_caught *c);

struct op_call {
	const char *op; /* "aten::mm"; NULL: none */
	/* Of its arguments the names and the values, those that are not known
	 * VALUE_NOT_DECODED. */
	const char **names;
	const struct value *args;
	unsigned nargs;
};

/* All of it from `arena`, but for static strings. */
struct op_call op_args_decode(struct op_args *a, const struct op_caught *c, struct arena *arena);

/* What a thread is doing: whether it runs, and if not, what it waits for. */

enum wait_kind {
	WAIT_NONE, /* it runs, or is ready to */
	WAIT_STOPPED,
	WAIT_TRACED,
	WAIT_ENDED,
	WAIT_GIL,
	WAIT_COLLECTIVE,
	WAIT_DATALOADER,
	WAIT_PYTHON_LOCK,
	WAIT_MUTEX,
	WAIT_CONDITION,
	WAIT_SEMAPHORE,
	WAIT_OPENMP,   /* for work of its team */
	WAIT_AUTOGRAD, /* for work of the autograd engine */
	WAIT_FUTEX,    /* of which nothing more is known */
	WAIT_SLEEP,
	WAIT_POLL,
	WAIT_IO,
	WAIT_CHILD,
	WAIT_SIGNAL,
	WAIT_OTHER,
	WAIT_KINDS
};

/* What is known of the thread. */
struct wait_reason_input {
	const struct thread_facts *facts;
	const struct native_frame *frames;
	unsigned nframes;
	const struct py_stack *python; /* NULL: none, or not known */
	const struct py_gil *gil;      /* of its interpreter; NULL: not known */
	const struct mem *mem;
	pid_t pid;
};

struct wait_reason {
	enum wait_kind kind;
	const char *in; /* WAIT_COLLECTIVE: the function; else the system call's name, or NULL */
	pid_t holder;	/* WAIT_MUTEX: the thread that holds it, as it sees itself; 0: not known */
	char file[256]; /* WAIT_IO: the file it reads or writes; "" not known */
};

struct wait_reason wait_reason_of(const struct wait_reason_input *in);

/* One word for programs, "gil", "collective". */
const char *wait_reason_word(enum wait_kind kind);

/* A phrase for people, "waits for the GIL". Returns out. */
const char *wait_reason_text(const struct wait_reason *w, char *out, size_t size);

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

/* A look at a process for people, and for programs. */

struct stack_snapshot_view {
	pid_t pid;
	struct stack_reader *stack_reader;
	const struct stack_snapshot *look; /* the last one */
	unsigned looks;			   /* taken */
	uint64_t first_ns;		   /* when the first of them began, CLOCK_MONOTONIC */
	bool native;			   /* native stacks were asked for */
	bool all;			   /* frames of torch and of the interpreter, too */
};

/* Threads that do the same at the same place are shown once. 0, -ENOMEM or -EIO. */
int stack_snapshot_print(const struct stack_snapshot_view *v, FILE *f);

/* One JSON object, see ditrace-stack(1). 0, -ENOMEM or -EIO. */
int stack_snapshot_json(const struct stack_snapshot_view *v, FILE *f);

#endif
