/* The processes that run PyTorch, as /proc shows them. */
#ifndef TUI_MODEL_PROCESSES_H
#define TUI_MODEL_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct listed_process {
	pid_t pid;
	uint64_t start_ticks; /* with pid, an identity */
	uid_t uid;
	bool torch;	    /* libtorch_cpu is mapped; or `hidden` and it is a Python by its name */
	bool hidden;	    /* this user may not see what is mapped */
	double cpu_percent; /* of one core, since the last look; -1: not known yet */
	uint64_t age_ns;
	char command[1024]; /* the program without its folder, and its arguments */
	struct err why; /* why this user may not trace it; code 0: nothing is known against it */
	/* For the next look. */
	uint64_t pages, cpu_ns, at_ns;
	bool seen;
};

/* Zero-initialise. */
struct processes {
	struct listed_process *list; /* by age, oldest first, also those without PyTorch */
	size_t n, room;
};

/* Look at all processes but this one. 0, -ENOMEM, or -errno of opening /proc. */
int processes_look(struct processes *p);

void processes_free(struct processes *p);

#endif
