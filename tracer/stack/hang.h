/* A training on many processes that hangs: what each rank waits for, and what does not match. */
#ifndef TRACER_STACK_HANG_H
#define TRACER_STACK_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/process.h"

/* A collective that a rank has called, and that is not done. */
struct hang_call {
	char kind[32];	   /* the function of torch.distributed, "all_reduce" */
	char tensors[256]; /* "float32 [4, 1024]"; "": none, or not known */
	uint64_t number;   /* of the calls of its group, from 1; 0: not known */
};

/* A group as one rank knows it. One of several backends is several of these. */
struct hang_group {
	char name[128];
	char backend[24]; /* "gloo"; "": not known */
	int32_t *ranks;	  /* of the group of all, ascending */
	size_t nranks;
	bool counted;
	uint64_t count;		 /* collectives that the rank has called in it */
	struct hang_call *calls; /* those not done, oldest first, as far as they are known */
	size_t ncalls;
};

enum hang_state {
	HANG_HERE,
	HANG_ENDED,  /* its process has ended */
	HANG_ABSENT, /* no process of it was looked at */
};

struct hang_rank {
	int32_t rank; /* -1: not known */
	int32_t world_size;
	pid_t pid;
	enum hang_state state;
	bool in_collective; /* a thread of it waits in one */
	char collective[128];
	char doing[192];
	char where[2048]; /* the Python line, with its text */
	char place[256];  /* the same, "train.py:30"; "": not known */
	char in[256];	  /* the functions from there outwards: "forward"; "": not known */
	char last[512];	  /* of one that is not there: the last collective that was recorded */
	struct hang_group *groups;
	size_t ngroups;
};

void hang_rank_free(struct hang_rank *r);

/* All ranks that were looked at. Zero-initialise. */
struct hang_ranks {
	struct hang_rank *all;
	size_t n, room;
};

void hang_ranks_free(struct hang_ranks *r);

/* Add one, whose groups are then theirs. 0 or -ENOMEM. */
int hang_ranks_add(struct hang_ranks *r, const struct hang_rank *one);

/* Add a HANG_ABSENT for each rank below world_size that is missing. 0 or -ENOMEM. */
int hang_ranks_add_absent(struct hang_ranks *r);

/* process_groups.c: the groups of process `pid` and the collectives in them that are not done, from
 * its memory, which is only read.
 *
 * Counts: ProcessGroupGloo::collectiveCounter_, of other backends what getSequenceNumberForGroup()
 * returns; the place in the object is taken from the code of nextTag() or that function. Calls: of
 * gloo those in ProcessGroupGloo::workInProgress_, told by the classes of objects (RTTI), as their
 * tensors are; numbers from AsyncWork::getSequencenumber() (2.x) or the count
 * (torch/csrc/distributed/c10d/ProcessGroupGloo.{h,c}pp, 1.13 and 2.13).
 *
 * Sets groups, and rank and world_size if they are -1. 0; -ENOENT: no groups; -errno. */
int process_groups_read(pid_t pid, const struct mem *m, struct py_runtime *py,
			struct hang_rank *out);

/* hang.c: the judgement. */

/* What is not as it should be, in sentences, the cause first; "" if there is nothing to say.
 * Allocated with malloc; NULL when out of memory. Sorts the ranks. */
char *hang_explain(struct hang_ranks *ranks);

/* A row for each place, with the ranks there. 0, -ENOMEM or -EIO. */
int hang_print_places(const struct hang_ranks *ranks, FILE *f, struct terminal terminal);

/* The same as one JSON object, with what hang_explain said. 0 or -EIO. */
int hang_print_json(const struct hang_ranks *ranks, const char *explained, FILE *f);

/* hang_traces.c: what traces that are being written, or were, say of their ranks. */

/* The processes of ranks in the trace file or folder at `path`, the last one of each rank, added to
 * *out with rank, world_size, pid and state (HANG_HERE: it runs), and `last`. 0 or -errno with *e:
 * -ENOENT if there are none. */
int hang_traces_read(const char *path, struct hang_ranks *out, struct err *e);

/* How far processes have come: training steps in their traces; without one, what can be read from
 * their memory. */

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

/* From now on of these processes, and of those from before that have ended: those that are new and
 * can be read are added. Whether there were any. */
bool progress_keep_pids(struct progress_reader *r, const pid_t *pids, size_t n);

void progress_close(struct progress_reader *r); /* NULL allowed */

/* Look now. *out is the reader's. 0 or -errno with *e. */
int progress_look(struct progress_reader *r, const struct progress **out, struct err *e);

#endif
