/* Tracing in a separate process, to a file that the caller reads meanwhile: nothing the caller does
 * with its terminal can delay tracing. */
#ifndef TRACER_BACKGROUND_H
#define TRACER_BACKGROUND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/intervene/intervene.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"

struct background_opts {
	struct session_opts session; /* its output is the file to write */
	pid_t pid;		     /* to attach to; 0: start argv */
	char *const *argv;	     /* NULL-terminated */
	const char *program_output;  /* file for standard output and error of argv */
	struct spawn_caller caller;
	/* Interventions in `pid`; if any are given, this process does not trace. */
	struct intervene_opts change;
};

struct background {
	pid_t tracer; /* 0: it has ended */
	int messages; /* file with its messages to the user, one per line; -1: none */
	size_t read;  /* bytes of it already read */
	int ready; /* pipe that reports the start of tracing; -1: reported, or it never will be */
};

/* Start it; background_ready reports when it traces. However the caller dies, the tracer detaches,
 * completes the file and exits; the traced program runs on. Its standard input is /dev/null, and it
 * is in a process group of its own, as is argv. `o` is copied, but what it points to must stay
 * valid. 0, or -errno with *e. */
int background_start(const struct background_opts *o, struct background *b, struct err *e);

/* Whether it is tracing; with `wait`, wait until it is. 1; 0: not yet; or -errno with *e (its own
 * message), after which `b` has been freed. */
int background_ready(struct background *b, bool wait, struct err *e);

/* The next complete line of its messages, without the newline, truncated to `size`. False if there
 * is none. */
bool background_message(struct background *b, char *out, size_t size);

/* Make it detach and complete the file; background_ended reports when that is done. */
void background_stop(struct background *b);

/* Whether it has exited; with `wait`, wait until it has. */
bool background_ended(struct background *b, bool wait);

void background_free(struct background *b);

#endif
