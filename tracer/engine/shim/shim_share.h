/* What ditrace and its library inside a traced process (engine shim) share: a memfd that both map,
 * and the first messages on the socket between them. Either side is of the same build. */
#ifndef TRACER_ENGINE_SHIM_SHIM_SHARE_H
#define TRACER_ENGINE_SHIM_SHIM_SHARE_H

#include <stdatomic.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/ring.h"

enum {
	SHIM_VERSION = 5,
	SHIM_THREADS = 128,
	SHIM_RING = CHUNKS * CHUNK, /* bytes of records a thread */
	SHIM_PATIENCE_S = 20,	 /* a process that has loaded libtorch waits for ditrace so long */
	SHIM_NEW_PATIENCE_S = 3, /* a thread whose new operator has ended waits so long */
	SHIM_LOOK_MS = 100,	 /* how often the library looks whether it is to go */
	SHIM_PATH = 108,	 /* bytes of a socket's path, struct sockaddr_un */
	SHIM_WAKE = 'w', /* the only byte on the socket behind the greeting: a thread stands */
};

/* In the environment of the started program: path of the socket. */
#define SHIM_SOCKET "DITRACE_SHIM"

/* The same, where functions of PyTorch are to do something else (tracer/intervene/intervene.h). */
#define MODES_SOCKET "DITRACE_MODES"

/* What the library is told there while a program runs: a page that ditrace writes. */
struct modes_control {
	/* Counted up when ditrace wants other things done: the library asks anew then. */
	_Atomic uint32_t generation;
};

struct shim_hello {
	uint32_t version; /* SHIM_VERSION */
	uint32_t unused;
	uint64_t bytes; /* sizeof(struct shim_share) */
};

/* With it, when code is 0, comes the descriptor of the memfd. */
struct shim_answer {
	int32_t code;
};

enum shim_refusal {
	SHIM_FINE,
	SHIM_NO_SYMBOLS, /* libtorch lacks a function that is needed */
	SHIM_NO_LAYOUT,	 /* a RecordFunction did not look as it must */
};

enum shim_phase {
	SHIM_OUT,    /* nothing of it is in use */
	SHIM_COMING, /* it calls ditrace */
	SHIM_IN,
	SHIM_GOING, /* it takes itself out */
};

/* What the library is doing, for whoever reads its memory: SHIM_STATE in its dynamic symbols. */
struct shim_state {
	uint32_t version; /* SHIM_VERSION */
	_Atomic int32_t phase;
	_Atomic int32_t failed;	  /* errno of why it did not come in when it was called last; 0 */
	_Atomic int32_t go;	  /* written from outside: take yourself out */
	int32_t tracer;		  /* process ID of ditrace as the process sees it */
	uint32_t came;		  /* how many times it came in */
	uint64_t since_ns;	  /* CLOCK_MONOTONIC: when the phase began */
	struct shim_share *share; /* address in the process; NULL while nothing is recorded */
	/* Of all times before this one. */
	uint64_t hits, lost;
	/* Written from outside: how long the thread stood still that was made to call, when it came
	 * in last; 0: not known, or it was preloaded. */
	uint64_t stood_ns;
	_Atomic int32_t modes;	      /* enum shim_phase of what changes functions of PyTorch */
	char modes_socket[SHIM_PATH]; /* socket that they call ditrace on, as the process sees it */
};
#define SHIM_STATE "ditrace_shim_state"
#define SHIM_THREAD "ditrace-shim" /* name of its thread */

/* SHIM_COME: the function that a thread of the process is made to call: copies the socket's path,
 * starts a thread that does everything else, and returns. */
#define SHIM_COME "ditrace_shim_come"

/* Of a thread whose last record has HIT_STOPPED: it sends SHIM_WAKE and waits on this word
 * (futex(2)) for SHIM_GOES. ditrace changes STANDS to LOOKED_AT, reads what the record is of, and
 * sets GOES; the thread goes on by itself when ditrace is gone, and from STANDS when it is to be
 * left or nothing happens for SHIM_PATIENCE_S. */
enum shim_stand { SHIM_GOES, SHIM_STANDS, SHIM_LOOKED_AT };

/* The same, where functions of PyTorch are to do something else. */
#define SHIM_MODES_COME "ditrace_modes_come"

struct shim_thread {
	_Atomic int32_t
	    tid; /* whose ring it is; 0: nobody's. Set by the thread, cleared by ditrace */
	_Atomic int32_t ended;
	_Atomic uint32_t stand; /* enum shim_stand */
	/* Counted up by whoever has the ring; never set back. */
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	struct chunks records; /* in the ring of the same index */
};

struct shim_share {
	_Atomic int32_t on;	    /* ops are to be recorded */
	_Atomic int32_t refusal;    /* enum shim_refusal: why the library does not record */
	_Atomic int32_t code_freed; /* tell of Python code objects that are freed */
	_Atomic uint32_t conf_seq;  /* odd while conf is being written */
	struct proc_conf conf;
	uint32_t op[SHIM_OPS]; /* index in the plan */
	struct op_plan plan[SHIM_OPS];
	uint16_t proc;
	_Atomic uint64_t lost; /* of threads without a ring */
	struct shim_thread thread[SHIM_THREADS];
	_Alignas(4096) uint8_t ring[SHIM_THREADS][SHIM_RING];
};

struct shim_counts {
	uint64_t hits, lost, sampled, sampled_ns;
};

/* `lost`: of threads without a ring; `t`: SHIM_THREADS of them. */
static inline struct shim_counts shim_count(uint64_t lost, const struct shim_thread *t)
{
	struct shim_counts c = {.lost = lost};
	for (unsigned i = 0; i < SHIM_THREADS; i++) {
		c.hits += t[i].hits;
		c.lost += t[i].lost;
		c.sampled += t[i].sampled;
		c.sampled_ns += t[i].sampled_ns;
	}
	return c;
}

#endif
