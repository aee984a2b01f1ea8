/* Stack snapshots: what each thread of a process is doing at one moment. */
#ifndef TRACER_STACK_STACK_SNAPSHOT_H
#define TRACER_STACK_STACK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"

/* op_args.c: arguments of the operators that threads are in at this moment, as far as they can be
 * recovered from the frames of at::_ops::NAME::call on their stacks. */

struct op_args;

/* Prepare for process `pid` with the mappings `maps`; takes a fraction of a second. 0 and *out
 * (free with op_args_close), or -errno with *e: no libtorch, or one that cannot be analysed. */
int op_args_open(pid_t pid, const struct maps *maps, struct op_args **out, struct err *e);
void op_args_close(struct op_args *a); /* NULL allowed */

/* The raw data of one call. */
struct op_caught;

/* While thread t->tid is stopped: the innermost operator call on its stack, which t->mem reads, and
 * the memory that its arguments point to. Allocated from `arena`; NULL: no such call, its frame
 * cannot be read, or no memory. */
struct op_caught *op_args_catch(struct op_args *a, struct native_stacks *stacks,
				const struct native_thread *t, struct arena *arena);

/* Learn the tensor layout of the process from a call. Do that for all calls before decoding the
 * first. */
void op_args_learn(struct op_args *a, const struct op_caught *c);

struct op_call {
	const char *op; /* "aten::mm"; NULL: none */
	/* Names and values of its arguments; unknown ones are VALUE_NOT_DECODED. */
	const char **names;
	const struct value *args;
	unsigned nargs;
};

/* Decode a call; the result is in `arena`, except static strings. */
struct op_call op_args_decode(struct op_args *a, const struct op_caught *c, struct arena *arena);

/* wait_reason.c: whether a thread runs, and if not, what it waits for. */

enum wait_kind {
	WAIT_NONE, /* running or runnable */
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
	WAIT_OPENMP,   /* for work in its team */
	WAIT_AUTOGRAD, /* for work from the autograd engine */
	WAIT_FUTEX,    /* for an unknown reason */
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
	pid_t holder;	/* WAIT_MUTEX: tid of the owner, in its own PID namespace; 0: not known */
	char file[256]; /* WAIT_IO: the file it reads or writes; "": not known */
};

/* What the thread waits for, as far as *in shows it. */
struct wait_reason wait_reason_of(const struct wait_reason_input *in);

/* One word for machine-readable output, "gil", "collective". */
const char *wait_reason_word(enum wait_kind kind);

/* A phrase for humans, "waits for the GIL", in out. Returns out. */
const char *wait_reason_text(const struct wait_reason *w, char *out, size_t size);

/* How reliable a Python stack is. */
enum python_read {
	PYTHON_NONE,	/* the thread runs no Python, or it is not known: see python_note */
	PYTHON_EXACT,	/* the thread did not run while it was read */
	PYTHON_RUNNING, /* the thread may have run, but two successive reads were equal */
};

enum { STACK_SNAPSHOT_FRAMES = 256 }; /* most native frames; outer ones are cut off */

struct stack_snapshot_thread {
	struct thread_facts facts; /* from before it was stopped */
	enum python_read python_read;
	const struct py_stack *python; /* owned by the stack_reader; NULL: none */
	uint64_t (*pairs)[2];	       /* (code object, instruction) of each of its frames */
	unsigned npairs;
	const char *python_note; /* why there is none; NULL: nothing to say */
	struct native_frame *frames;
	unsigned nframes;
	bool native_whole;     /* the last frame is the outermost */
	char native_note[160]; /* why there are none; "": nothing to say */
	uint64_t pc, sp;       /* 0: not known */
	struct in_op in;
	uint64_t in_op_ns;	  /* has been in in.op for at least so long; 0: not known */
	struct op_call call;	  /* of in.op; op NULL: its arguments are not known */
	struct op_caught *caught; /* owned by the stack_reader */
	struct wait_reason wait;
	bool holds_gil;
	bool still; /* unmoved since the stack_reader's first snapshot; false in that one */
};

struct stack_snapshot {
	uint64_t at_ns; /* CLOCK_MONOTONIC, when it was begun */
	struct stack_snapshot_thread *threads;
	size_t n;
};

struct stack_reader;

/* Prepare for snapshots of process `pid`, with `native` stacks or without. 0 and *out (free with
 * stack_reader_close); -errno with *e and a hint: no such process, or this user may not read it.
 * Failing to read Python is no error: see stack_reader_python. */
int stack_reader_open(pid_t pid, bool native, struct stack_reader **out, struct err *e);
void stack_reader_close(struct stack_reader *l); /* NULL allowed */

/* Take a snapshot, one thread after the other. With native stacks each thread is stopped for some
 * hundred microseconds, while its registers, stack and Python frames are read; without, none is. A
 * thread that does not stop within a second is skipped. Returns 0 and *out, valid until the
 * snapshot after the next one; -ESRCH when the process has ended; -ENOMEM. */
int stack_reader_take(struct stack_reader *l, const struct stack_snapshot **out, struct err *e);

/* The Python runtime; NULL: none, with the reason in *why (owned by the stack_reader; code 0: there
 * is no Python). */
struct py_runtime *stack_reader_python(struct stack_reader *l, const struct err **why);

/* Why there are no native stacks; code 0: there are, or none were wanted. */
const struct err *stack_reader_native_note(const struct stack_reader *l);

/* Output of a snapshot for humans and for programs. */

struct stack_snapshot_view {
	pid_t pid;
	struct stack_reader *stack_reader;
	const struct stack_snapshot *look; /* the last one */
	unsigned looks;			   /* number of snapshots taken */
	uint64_t first_ns;		   /* at_ns of the first one */
	bool native;			   /* native stacks were asked for */
	bool all;			   /* show frames of torch and of the interpreter, too */
};

/* Print it as text, threads with equal stacks once. 0, -ENOMEM or -EIO. */
int stack_snapshot_print(const struct stack_snapshot_view *v, FILE *f);

struct hang_rank;

/* hang_ranks.c: take a snapshot, v->look, and say where the process is as a whole: in the
 * collective that a thread of it waits in, else where its main thread is; with its groups. If a
 * collective was called or ended meanwhile the snapshot is taken anew; of a process whose
 * collectives change all the time in_collective is false. *out is to be freed with hang_rank_free.
 * Errors as of stack_reader_take. */
int stack_place_take(struct stack_snapshot_view *v, struct hang_rank *out, struct err *e);

/* Print it as one JSON object, see ditrace-stack(1). 0, -ENOMEM or -EIO. */
int stack_snapshot_json(const struct stack_snapshot_view *v, FILE *f);

#endif
