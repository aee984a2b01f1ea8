/* Tracing by a process of its own, into a file that the caller reads meanwhile: whatever the caller
 * does with its terminal, tracing does not wait for it. */
#ifndef TRACER_BACKGROUND_H
#define TRACER_BACKGROUND_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn.h"
#include "tracer/session/session.h"

struct background_opts {
	struct session_opts session; /* its output is the file to write */
	pid_t pid;		     /* to attach to; 0: start argv */
	char *const *argv;	     /* NULL-ended */
	const char *program_output;  /* file for standard output and error of argv */
	struct spawn_signals signals;
	/* What functions of `pid` are to do instead: then nothing is traced. */
	struct intervene_opts change;
};

struct background {
	pid_t tracer; /* 0: it has ended */
	int messages; /* file with what it says to the user, a line each; -1: none */
	size_t read;  /* bytes of it that were read */
	int ready;    /* pipe that tells that it traces; -1: it has told, or will not */
};

/* Start it; background_ready tells when it traces. When the caller dies in whatever way, it
 * detaches, ends the file, and ends; what is traced runs on. Its standard input is /dev/null, and
 * it is in a process group of its own, as is argv. `o` is copied, what it points to must stay. 0,
 * or -errno with *e. */
int background_start(const struct background_opts *o, struct background *b, struct err *e);

/* Whether it traces; with `wait`, when it does. 1, 0: not yet; -errno with *e (what it said), and
 * then nothing is left. */
int background_ready(struct background *b, bool wait, struct err *e);

/* The next whole line it has said, without the newline, cut to size. */
bool background_message(struct background *b, char *out, size_t size);

/* Let it detach and end the file; background_ended tells when that is done. */
void background_stop(struct background *b);

/* Whether it has ended; with `wait`, when it has. */
bool background_ended(struct background *b, bool wait);

void background_free(struct background *b);

#endif
