/* A Python process that runs captured ops (replay/runner), and the talk with it: lines of JSON over
 * pipes, tensors in shared memory. */
#ifndef REPLAY_WORKER_H
#define REPLAY_WORKER_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct worker {
	pid_t pid;		      /* 0: none */
	int requests, replies, arena; /* file descriptors; replies is to be polled */
	char *text;		      /* received, not yet a whole line */
	size_t len, size;
	void *map;
	size_t mapped;
};

/* Start `python` with the runner; it computes on `threads` threads. The worker's first message is
 * "hello". Its standard output goes to our standard error. A worker that could not be started is
 * left zeroed. */
int worker_start(struct worker *w, const char *python, unsigned threads, struct err *e);

/* Returns 0, -EPIPE when the worker is gone, or -ENOMEM for what cannot be written as JSON: NULL,
 * which is what a text that is not UTF-8 comes to. Steals the reference to `request`. */
int worker_send(struct worker *w, json_t *request);

/* The next message into *out (json_decref it) once w->replies is readable: 1; 0 when it is not yet
 * whole; -EPIPE when the worker has ended; -EPROTO for what is no JSON. */
int worker_receive(struct worker *w, json_t **out);

/* The same of what was received already, without waiting. */
int worker_next(struct worker *w, json_t **out);

/* See all of the shared memory as it is now: for each message that has tensors, before the first
 * worker_memory. What worker_memory gave before is not valid any more. 0 or -errno. */
int worker_map(struct worker *w);

/* `size` bytes at `offset` of the shared memory, until the message is answered; NULL when there is
 * not that much. */
const void *worker_memory(const struct worker *w, size_t offset, size_t size);

/* End it, whether it runs or not, and free all. With `why` it has ended already, or is about to:
 * what it died of, "signal 11 (Segmentation fault)" or "exit status 1", goes there, and nothing if
 * it did not end by itself. */
void worker_stop(struct worker *w, char *why, size_t size);

#endif
