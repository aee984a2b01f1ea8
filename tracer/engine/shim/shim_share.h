/* What ditrace and its library inside a traced process (engine shim) share: a memfd that both map,
 * and the first messages on the socket between them. Both sides are of the same build. */
#ifndef TRACER_ENGINE_SHIM_SHIM_SHARE_H
#define TRACER_ENGINE_SHIM_SHIM_SHARE_H

#include <stdatomic.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"
#include "symbolizer/plan/unwind.h"
#include "tracer/engine/ring.h"
#include "tracer/engine/sums.h"
#include "tracer/engine/turns.h"

enum {
	SHIM_VERSION = 14,
	SHIM_THREADS = 128,
	SHIM_PLANS = 16384, /* the most plans of a session */
	SHIM_NODES = 2048,
	SHIM_RING = CHUNKS * CHUNK, /* bytes of records a thread, at most */
	SHIM_MEMORY_CHUNKS = 64,
	SHIM_MEMORY_RING = SHIM_MEMORY_CHUNKS * CHUNK, /* the same of what is done with memory */
	SHIM_PATIENCE_S = 20,	 /* how long the traced process waits for ditrace */
	SHIM_NEW_PATIENCE_S = 3, /* the same of a thread at the end of an operator new to ditrace */
	SHIM_SHORT_PATIENCE_MS = 1, /* the same of all threads after a wait in vain */
	SHIM_LOOK_MS = 100,	    /* how often the library checks whether it is to leave */
	SHIM_PATH = 108,	    /* bytes of a socket's path, struct sockaddr_un */
	SHIM_WAKE = 'w',	    /* the only byte sent after the greeting: a thread is stopped */
};

/* Environment variable of the started program: path of the socket. */
#define SHIM_SOCKET "DITRACE_SHIM"

/* The same for interventions (tracer/intervene/intervene.h). */
#define MODES_SOCKET "DITRACE_MODES"

/* A page written by ditrace, which the library of MODES_SOCKET watches while the program runs. */
struct modes_control {
	/* Incremented when the rules change: the library then asks for them again. */
	_Atomic uint32_t generation;
	_Atomic uint32_t away; /* ditrace is about to stand still: calls are passed on unchanged */
};

/* The library's file. */
#define SHIM_LIBRARY "libditrace_shim.so"

enum { JUMP_PARTS = 32 };

/* Memory in a process for the stubs of jumps, of one part or, where so much is not free in one
 * piece, of several. Each is within reach of some of the sites (2 GiB less than a window), mapped
 * r-x and private, aligned to pages and at first all zeros. It stays mapped for the life of the
 * process: threads may be in its stubs when all jumps have long been taken out. A window keeps its
 * stub for ever, so room for all that may ever be used is enough. */
struct jump_pool {
	uint64_t n; /* parts; 0: no jumps are possible */
	struct jump_part {
		uint64_t addr, len; /* in the process; bytes */
	} part[JUMP_PARTS];
};

/* Pools near other libraries, which may be too far from libtorch_cpu: that of libc10 is made with
 * the first. To have one near the
 * addresses low to high ditrace increments `asked`; the library's thread makes it, unless one of
 * them is, and sets `told` to that. They never go, and keep their order: a window has its stub in
 * the first that is near. */
enum { SHIM_NEAR = 8 };

struct shim_near {
	_Atomic uint32_t asked, told;
	uint64_t low, high;
	uint64_t n;
	struct jump_pool pool[SHIM_NEAR];
};

/* Where jumps may lead, as addresses in the process: the pool near libtorch_cpu, and
 * the functions that stubs call (tracer/engine/shim/jumps.h). */
struct shim_jumps {
	struct jump_pool pool;
	uint64_t entry;	    /* the entry of an op */
	uint64_t exit;	    /* its exit */
	uint64_t announced; /* the entry of an op that is not recorded, nor to be observed */
	uint64_t step;	    /* the entry of a function of enum shim_step */
	uint64_t memory;    /* the entry of one of enum shim_memory */
};

struct shim_hello {
	uint32_t version; /* SHIM_VERSION */
	uint32_t unused;
	uint64_t bytes; /* sizeof(struct shim_share) */
	struct shim_jumps jumps;
	/* Those of struct shim_near that there are already: a fork has its parent's. */
	uint64_t nnear;
	struct jump_pool near[SHIM_NEAR];
};

/* When code is 0 the memfd's descriptor comes with it. */
struct shim_answer {
	int32_t code;
};

enum shim_refusal {
	SHIM_FINE,
	SHIM_NO_SYMBOLS, /* libtorch lacks a function that is needed */
	SHIM_NO_LAYOUT,	 /* a RecordFunction has an unknown layout */
};

enum shim_phase {
	SHIM_OUT,    /* not in use */
	SHIM_COMING, /* connecting to ditrace */
	SHIM_IN,
	SHIM_GOING, /* removing itself */
};

/* The library's state, for anyone who reads the process's memory: SHIM_STATE in its dynamic
 * symbols. */
struct shim_state {
	uint32_t version; /* SHIM_VERSION */
	_Atomic int32_t phase;
	_Atomic int32_t failed;	  /* errno of the last attempt to connect; 0: it worked */
	_Atomic int32_t go;	  /* written from outside: leave */
	int32_t tracer;		  /* process ID of ditrace as the process sees it */
	uint32_t came;		  /* how many times it has connected */
	uint64_t since_ns;	  /* CLOCK_MONOTONIC: when the phase began */
	struct shim_share *share; /* address in the process; NULL while nothing is recorded */
	/* Totals of all earlier connections. */
	uint64_t hits, lost;
	/* Written from outside: how long the thread that was made to call was stopped, the last
	 * time; 0: not known, or the library was preloaded. */
	uint64_t stood_ns;
	_Atomic int32_t modes;	      /* enum shim_phase of the interventions */
	char modes_socket[SHIM_PATH]; /* the socket they use, as the process sees it */
};
#define SHIM_STATE "ditrace_shim_state"
#define SHIM_THREAD "ditrace-shim" /* name of its thread */

/* SHIM_COME: the function that the injector has a thread call: copies the socket's path, starts a
 * thread that does everything else, and returns. */
#define SHIM_COME "ditrace_shim_come"

/* SHIM_OWN_WORK: the table that proc_conf.own_work tells of (symbolizer/plan/plan.h). */
#define SHIM_OWN_WORK "ditrace_own_work"

/* The low bits of the futex word of a thread; above them is the number of its last stop, which that
 * record has, too. A thread whose last record has HIT_STOPPED sends SHIM_WAKE and waits for
 * SHIM_GOES. ditrace changes STANDS to LOOKED_AT, reads what the record refers to, and changes that
 * to GOES. The thread goes on by itself when ditrace is gone or is stopped (state T of proc(5)),
 * and from STANDS also when recording ends, ditrace is `away`, or nothing happens for
 * SHIM_PATIENCE_S. */
enum shim_stand { SHIM_GOES, SHIM_STANDS, SHIM_LOOKED_AT, SHIM_STAND_MASK };

/* The word of stop number `n`; the number in a word. */
static inline uint32_t shim_stand_word(uint32_t n, enum shim_stand s)
{
	return n << 2 | s;
}

static inline uint32_t shim_stand_number(uint32_t word)
{
	return word >> 2;
}

/* The same as SHIM_COME, for interventions. */
#define SHIM_MODES_COME "ditrace_modes_come"

/* What a thread has spent in a turn (struct turn_spent), once it has begun another. */
struct shim_turn {
	_Atomic uint64_t cpu_ns, ops, idle_ns;
	_Atomic uint64_t entered; /* ops so far */
};

struct shim_thread {
	_Atomic int32_t tid; /* owner of the ring; 0: free. Set by the thread, cleared by ditrace */
	_Atomic int32_t ended;
	_Atomic uint32_t self;	/* the low half of its pthread_self() */
	_Atomic uint32_t stand; /* shim_stand_word */
	/* Incremented by the ring's owner; never reset. */
	_Atomic uint64_t hits, lost, sampled, sampled_ns;
	struct shim_turn turn[TURNS_LAST + 1]; /* never reset */
	struct chunks records;		       /* in the ring of the same index */
	_Atomic uint64_t memory_lost;
	struct chunks memory; /* in the memory ring of the same index */
};

/* What is done with memory, as it is in a ring: op is an enum shim_memory. */
struct shim_memory_record {
	/* size, ts; sp: the address; seq: bytes, negative where it is freed; generation: the
	 * device, its type and index, a byte each */
	struct hit hit;
	uint64_t total, reserved; /* of a device: what is allocated, and reserved, now */
};

/* Whether what devices do is recorded. */
enum shim_device_state {
	SHIM_DEVICE_OFF,  /* no device is in use, or not yet */
	SHIM_DEVICE_NEAR, /* recording is about to begin */
	SHIM_DEVICE_ON,
	SHIM_DEVICE_UNASKED,	/* it is in use already: SHIM_DEVICES_EARLY */
	SHIM_DEVICE_NO_LIBRARY, /* CUPTI is not loaded, or older than 11.8 */
	SHIM_DEVICE_FAILED,	/* with shim_activities.error, a CUptiResult */
	SHIM_DEVICE_YIELDED,	/* the program's own profiler has begun to use it */
};

/* Whether it is to be recorded: also where the device was in use before recording could begin. */
enum shim_devices { SHIM_DEVICES_NO, SHIM_DEVICES_EARLY, SHIM_DEVICES_ALWAYS };

/* A struct activity_record as it is in the ring. */
struct shim_activity {
	struct hit hit; /* size */
	uint8_t kind, activity, from, to;
	int8_t device_type, device_index;
	uint8_t in_graph;
	uint32_t correlation, stream;
	uint32_t thread; /* of a launch: the low half of its pthread_self() */
	uint64_t start_ns, end_ns, bytes, name;
	char text[]; /* of a RECORD_NAME, with its NUL */
};

struct shim_activities {
	_Atomic int32_t wanted; /* enum shim_devices; set once the library is told of profilers */
	_Atomic int32_t state;	/* enum shim_device_state */
	_Atomic int32_t error;
	_Atomic int32_t noted; /* ditrace has seen a `state`: it remembers ops from then on */
	/* ditrace increments `flush`, to have all that there is; then the library sets `flushed`.
	 */
	_Atomic uint32_t flush, flushed;
	_Atomic uint64_t lost;
	struct chunks records;
};

struct shim_share {
	_Atomic int32_t on;	    /* ops are to be recorded */
	_Atomic int32_t away;	    /* ditrace is about to stand still: no thread is to wait */
	_Atomic uint32_t turn;	    /* at most TURNS_LAST */
	_Atomic int32_t refusal;    /* enum shim_refusal: why the library does not record */
	_Atomic int32_t code_freed; /* report Python code objects that are freed */
	_Atomic int32_t may_sum;    /* calls without room in a ring are summed up, not lost */
	_Atomic int32_t waits;	    /* threads wait for room */
	_Atomic int32_t memory;	    /* there are jumps that tell of it */
	uint32_t chunks;	    /* of a ring that are used; set before `on` */
	_Atomic uint32_t conf_seq;  /* a seqlock: odd while conf is being written */
	struct proc_conf conf;
	uint32_t op[SHIM_OPS]; /* index in the plan */
	/* What announces itself by jumps is not to be observed; false: there are none. */
	_Atomic int32_t jumps;
	uint8_t jumped[SHIM_PLANS]; /* those of which all sites have jumps */
	/* Addresses where nodes that need not be observed are entered, ascending; 0: none, also in
	 * the autograd engine. */
	uint32_t nnodes;
	uint64_t node[SHIM_NODES];
	uint64_t engine_from, engine_to; /* of torch::autograd::Engine::thread_main */
	struct op_plan plan[SHIM_PLANS];
	struct shim_near near;
	struct unwind_table unwind; /* written by ditrace, as it meets return addresses */
	uint16_t proc;
	_Atomic uint64_t lost;	   /* of threads without a ring */
	_Atomic uint32_t nthreads; /* of `thread` only so many, the first, were ever claimed */
	struct shim_thread thread[SHIM_THREADS];
	struct sums_code code;
	_Alignas(4096) struct sums sums[SHIM_THREADS]; /* of the thread of the same index */
	_Alignas(4096) uint8_t ring[SHIM_THREADS][SHIM_RING];
	struct shim_activities activities;
	_Alignas(4096) uint8_t activity_ring[SHIM_RING];
	_Alignas(4096) uint8_t memory_ring[SHIM_THREADS][SHIM_MEMORY_RING];
};

/* How many of `thread` need to be looked at; the process may have written anything there. */
static inline unsigned shim_nthreads(const struct shim_share *s)
{
	uint32_t n = atomic_load_explicit(&s->nthreads, memory_order_acquire);
	return n < SHIM_THREADS ? n : SHIM_THREADS;
}

struct shim_counts {
	uint64_t hits, lost, sampled, sampled_ns;
};

/* Sum the counters. `lost`: those of threads without a ring; `t`: SHIM_THREADS threads. */
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
