/* What ditrace and its tracing process (engine ptrace) share: memory for what goes one way without
 * waiting, and the requests on the socket between them. */
#ifndef TRACER_ENGINE_PTRACE_PTRACE_SHARE_H
#define TRACER_ENGINE_PTRACE_PTRACE_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "tracer/engine/ring.h"
#include "tracer/proc/follow.h"

enum {
	SHARE_RING = 32 << 20, /* bytes of records */
	SHARE_NEWS = 1024,     /* events of processes on their way */
	SHARE_BYTES = 1 << 20, /* code bytes changed at a time, in all processes */
	SHARE_REGS = 32,
};

/* A byte of code that was changed. Kept so that ditrace can put it back when its tracing process is
 * gone. */
struct changed_byte {
	uint64_t addr;
	int32_t pid; /* whose memory */
	uint8_t was;
	uint8_t in_use; /* this entry means something; set last, cleared first */
};

/* One of struct follow_event; the thread it names is kept still until REQUEST_RELEASE if `held`.
 * FOLLOW_EXIT that is held: the process is about to end, and its last records have been sent. */
struct news {
	enum follow_kind kind;
	pid_t pid, tid, parent;
	bool held;
};

struct share {
	int wake;	     /* eventfd: readable when a thread stands still for its record */
	struct ring records; /* in `ring`; the tracing process writes */
	_Alignas(64) _Atomic uint32_t news_head;
	_Atomic uint32_t news_tail;
	struct news news[SHARE_NEWS];
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	_Atomic uint64_t dispatched, dispatched_seen;
	_Atomic int counting; /* dispatched ops */
	_Atomic uint32_t
	    missing; /* breakpoints that somebody else took out, of process missing_in */
	_Atomic int32_t missing_in;
	_Atomic int standing;	   /* a SIGURG of the kernel's is told of: HIT_STANDS */
	uint64_t regs[SHARE_REGS]; /* answer to REQUEST_REGS, by enum arch_reg */
	_Atomic uint32_t nbytes;   /* entries of `bytes` ever used */
	struct changed_byte bytes[SHARE_BYTES];
	uint8_t ring[SHARE_RING];
};

enum request_kind {
	REQUEST_PLANS,	 /* first, n; n struct op_plan follow */
	REQUEST_PROC,	 /* proc; a struct proc_conf follows */
	REQUEST_WATCH,	 /* pid: trace all its threads and what it starts */
	REQUEST_ATTACH,	 /* pid, proc; a path of `path_len` bytes and n struct probe_site follow */
	REQUEST_DETACH,	 /* proc */
	REQUEST_RELEASE, /* pid: a thread that is held; sig: what it goes on with, 0: no signal */
	REQUEST_REGS,	 /* pid: a thread that is held at an op; its registers go to `regs` */
	REQUEST_LEAVE,	 /* take everything out and end */
};

struct request {
	uint32_t kind; /* enum request_kind */
	int32_t pid;
	int32_t sig;
	uint16_t proc;
	uint16_t path_len;
	uint32_t first, n;
	uint32_t len; /* bytes that follow */
};

struct reply {
	int32_t code; /* 0 or -errno, and then `err` */
	struct err err;
};

/* Append a record. 0, or -1 when there is no room. */
int share_put(struct share *s, const struct hit *h);

/* The next record, NULL: none. Valid until share_drop is called with it. */
const struct hit *share_next(struct share *s);
void share_drop(struct share *s, const struct hit *h);

/* Append news; false when there is no room. */
bool share_tell(struct share *s, const struct news *n);

/* Make `wake` readable. */
void share_wake(struct share *s);

/* Put back all bytes that are changed, through /proc/PID/mem. For signal handlers, too. */
void share_repair(struct share *s);

#endif
