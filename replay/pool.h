/* Jobs for several runners at once. */
#ifndef REPLAY_POOL_H
#define REPLAY_POOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "replay/worker.h"

enum { POOL_MAX = 64 };

struct pool {
	const char *python;	     /* the interpreter */
	unsigned jobs;		     /* runners, 1 .. POOL_MAX */
	char torch[64], version[32]; /* of the runners: "2.13.0", "3.11.2"; set by pool_open */

	size_t count; /* jobs to do */
	void *ctx;
	/* The request of job `i`; its reference is taken over. NULL: it has text that is not UTF-8.
	 */
	json_t *(*request)(void *ctx, size_t i);
	/* A message about job `i`. Tensors in w's memory are valid during the call. Not 0 ends all.
	 */
	int (*message)(void *ctx, size_t i, struct worker *w, json_t *m, struct err *e);
	/* Job `i` has ended: `how` is "done", "skipped" (nothing that could be compared),
	 * "refused", "damaged", "error" or "died", `why` the reason, "" for done. */
	void (*ended)(void *ctx, size_t i, const char *how, const char *why);

	struct pool_worker {
		struct worker w;
		size_t job; /* SIZE_MAX: none */
	} workers[POOL_MAX];
	unsigned nworkers;
};

/* Start the first runner. -ENOENT with a hint when this is no Python with PyTorch. */
int pool_open(struct pool *p, struct err *e);

/* Do all jobs. A runner that dies costs its job and is started anew. 0 or -errno. */
int pool_run(struct pool *p, struct err *e);

void pool_close(struct pool *p);

#endif
