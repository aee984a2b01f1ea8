/* What ditrace and its library inside a traced process (engine shim) share: a memfd that both map,
 * and the first messages on the socket between them. Either side is of the same build. */
#ifndef TRACER_SHIM_SHARE_H
#define TRACER_SHIM_SHARE_H

#include <stdatomic.h>
#include <stdint.h>

#include "tracer/plan.h"
#include "tracer/ring.h"

enum {
	SHIM_VERSION = 1,
	SHIM_THREADS = 128,
	SHIM_RING = 8 << 20,  /* bytes of records a thread */
	SHIM_SILENCE_S = 1,   /* ditrace is taken for dead when it has not shown up for so long */
	SHIM_PATIENCE_S = 20, /* a process that has loaded libtorch waits for ditrace so long */
};

/* In the environment of the started program: path of the socket. */
#define SHIM_SOCKET "DITRACE_SHIM"

/* Which op of the plan a record is of. */
enum shim_op {
	SHIM_CALL,     /* an operator of the dispatcher: role ROLE_BOXED of symbolizer/ops.h */
	SHIM_FUNCTION, /* has a name only: ROLE_NAMED */
	SHIM_NODE,     /* an autograd node: ROLE_NAMED_NODE */
	SHIM_ENGINE,   /* what the autograd engine does about a node: ROLE_ENGINE */
	SHIM_OPS,
};

/* Offsets of the words of a named op's and a node's arguments at the entry (enum LOC_*). */
enum { SHIM_LOC_DATA, SHIM_LOC_VALUES, SHIM_LOC_COUNT, SHIM_LOC_NAME, SHIM_LOC_NAME_LEN };

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

struct shim_thread {
	_Atomic int32_t
	    tid; /* whose ring it is; 0: nobody's. Set by the thread, cleared by ditrace */
	_Atomic int32_t ended;
	struct ring records; /* in the ring of the same index */
};

struct shim_share {
	_Atomic uint64_t seen_ns;   /* CLOCK_MONOTONIC, when ditrace was here last */
	_Atomic int32_t on;	    /* ops are to be recorded */
	_Atomic int32_t refusal;    /* enum shim_refusal: why the library does not record */
	_Atomic int32_t code_freed; /* tell of Python code objects that are freed */
	_Atomic uint32_t conf_seq;  /* odd while conf is being written */
	struct proc_conf conf;
	uint32_t op[SHIM_OPS]; /* index in the plan */
	struct op_plan plan[SHIM_OPS];
	uint16_t proc;
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	struct shim_thread thread[SHIM_THREADS];
	_Alignas(4096) uint8_t ring[SHIM_THREADS][SHIM_RING];
};

#endif
