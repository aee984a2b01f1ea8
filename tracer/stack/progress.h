/* How far processes have come: training steps in their traces; without one, what can be read from
 * their memory. */
#ifndef TRACER_STACK_PROGRESS_H
#define TRACER_STACK_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { PROGRESS_KEPT = 63, PROGRESS_LEAST = 3 };

/* One process. */
struct progress_of {
	pid_t pid;
	int32_t rank; /* -1: not known */
	uint64_t count;
	const char *unit; /* what is counted: "step" */
	uint64_t last_ns; /* when it was last seen to have come further; CLOCK_MONOTONIC */
	uint64_t each_ns[PROGRESS_KEPT]; /* of one step, in turn */
	size_t n;			 /* of them ever */
	bool ended;
};

struct progress {
	struct progress_of *all;
	size_t n, room;
};

/* Note that the process has come to `count` by `now_ns`. */
void progress_note(struct progress_of *p, uint64_t count, uint64_t now_ns);

/* The median of the last PROGRESS_KEPT; 0: fewer than PROGRESS_LEAST were seen. */
uint64_t progress_usual(const struct progress_of *p);

struct progress_reader;

/* Of the trace at `path`, file or folder, that is being written: the steps of each process. 0 or
 * -errno with *e. */
int progress_open_trace(const char *path, struct progress_reader **out, struct err *e);

/* Of processes: the collectives of torch.distributed that each has called; of one that has no
 * groups how often its main thread was seen at another place of its Python code. No thread is
 * stopped. 0 or -errno with *e. */
int progress_open_pids(const pid_t *pids, size_t n, struct progress_reader **out, struct err *e);

void progress_close(struct progress_reader *r); /* NULL allowed */

/* Look now. *out is the reader's. 0 or -errno with *e. */
int progress_look(struct progress_reader *r, const struct progress **out, struct err *e);

#endif
