/* A Python process that runs captured ops (replay/runner). Messages are lines of JSON over pipes,
 * tensors are in shared memory. */
#ifndef REPLAY_WORKER_H
#define REPLAY_WORKER_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct worker {
	pid_t pid;		      /* 0: none */
	int requests, replies, arena; /* file descriptors; poll replies */
	char *text;		      /* received part of a line */
	size_t len, size;
	void *map;
	size_t mapped;
};

enum { WORKER_LINE_MAX = 256 << 20 }; /* bytes of a message that is not complete yet */

struct worker_how {
	const char *python;  /* the interpreter */
	char *const *before; /* words that start it, as sandbox.h has them; NULL: none */
	unsigned threads;    /* compute threads */
	unsigned runners;    /* how many share the memory that is free, at least 1 */
};

/* Start the runner. Its first message is "hello"; its standard output goes to our standard error.
 * 0, or -errno with *e; the worker then holds no resources. */
int worker_start(struct worker *w, const struct worker_how *how, struct err *e);

/* A descriptor of memory for tensors: it can grow and, being sealed (fcntl(2)), not shrink, so that
 * neither side's mapping of it ever raises SIGBUS. -1 with errno. */
int worker_arena(void);

/* Send a request; takes over the reference. 0; -EPIPE if the worker has died; -ENOMEM if the
 * request cannot be encoded, or is NULL, as json_pack returns for text that is not UTF-8. */
int worker_send(struct worker *w, json_t *request);

/* Receive a message once w->replies is readable: 1 with *out (json_decref it); 0: not complete yet;
 * -EPIPE: the worker has ended; -EPROTO: not JSON; -EMSGSIZE: longer than any message. */
int worker_receive(struct worker *w, json_t **out);

/* As worker_receive, from what was received already; never blocks. */
int worker_next(struct worker *w, json_t **out);

/* Map the shared memory at its present size: once for each message with tensors, before the first
 * worker_memory. Pointers from earlier mappings become invalid. 0 or -errno. */
int worker_map(struct worker *w);

/* `size` bytes at `offset` of the shared memory, valid until the message is answered; NULL if out
 * of range. */
const void *worker_memory(const struct worker *w, size_t offset, size_t size);

/* End the worker, running or not, and free everything. With `why` it has ended or is ending by
 * itself: `why` gets the cause, "signal 11 (Segmentation fault)" or "exit status 1", and stays as
 * it is if the worker had to be killed. */
void worker_stop(struct worker *w, char *why, size_t size);

#endif
