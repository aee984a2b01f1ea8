/* Inside of the engine shim: shared by what carries out the plan and takes records
 * (engine_shim.c) and what deals with the processes that call (shim_clients.c). */
#ifndef TRACER_ENGINE_SHIM_ENGINE_SHIM_INTERNAL_H
#define TRACER_ENGINE_SHIM_ENGINE_SHIM_INTERNAL_H

#include "tracer/engine/engine.h"
#include "tracer/engine/shim/shim_listener.h"
#include "tracer/engine/shim/shim_share.h"

enum { RECORD_MAX = 48 << 10, RINGS_MAX = 1024 };

/* One process that has the library in it, and has called or is going to. */
struct inside {
	struct inside *next;
	pid_t pid;
	int sock; /* -1: it has not called yet */
	int memory;
	uint64_t since; /* is expected to call */
	uint16_t proc;
	bool greeted, gone, told;
	bool broken;		  /* its rings cannot be believed any more */
	unsigned rounds;	  /* of consume since it is gone */
	struct shim_share *share; /* NULL: not traced */
};

/* A ring to read. */
struct ring_source {
	struct inside *whose;
	struct shim_thread *thread;
	const uint8_t *data;
};

/* The engine shim: a library that `run` preloads into what it starts, or that is brought into a
 * process that runs, and which calls once there is a libtorch. */
struct engine_shim {
	struct engine engine;
	struct shim_listener *listeners;
	interesting_fn *interesting;
	pid_t target;  /* runs and is to be entered, once; 0: none */
	pid_t watched; /* that, while it has no libtorch; 0: none */
	struct inside *all;
	struct proc_conf conf[PROC_SLOTS];
	uint32_t nplans;
	struct op_plan *plans;
	struct engine_counters past; /* of processes that have ended */
	struct ring_source rings[RINGS_MAX];
	unsigned nrings;
	uint64_t record[RECORD_MAX / 8];
};

/* The process `pid` that has not gone, NULL: none calls or is expected to. */
struct inside *inside_find(struct engine_shim *m, pid_t pid);

/* Memory to share with it. 0 or -errno. */
int inside_share(struct inside *i);

/* Add what the process has counted to *c; it must have such memory. */
void inside_count(const struct inside *i, struct engine_counters *c);

/* Its connection and memory, and `i`; what it counted stays with the engine. It must be out of
 * m->all. */
void inside_drop(struct engine_shim *m, struct inside *i);

/* engine->follow */
int shim_clients_follow(struct engine *g, follow_fn *fn, void *arg);

/* Wait, for a while, until those that run have taken the library out of use; what they have open is
 * closed then. */
void shim_clients_await_leaving(struct engine_shim *m);

#endif
