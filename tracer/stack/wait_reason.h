/* What a thread is doing: whether it runs, and if not, what it waits for. */
#ifndef TRACER_STACK_WAIT_REASON_H
#define TRACER_STACK_WAIT_REASON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/pywalk.h"
#include "symbolizer/target/mem.h"
#include "tracer/proc/thread_facts.h"

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

#endif
