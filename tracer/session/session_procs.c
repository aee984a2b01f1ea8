#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/device/launches.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/session/internal.h"

struct proc *session_proc(struct session *s, pid_t pid)
{
	for (unsigned i = 0; i < s->nprocs; i++)
		if (s->procs[i].target && s->procs[i].alive && s->procs[i].target->pid == pid)
			return &s->procs[i];
	return NULL;
}

static struct proc *free_slot(struct session *s)
{
	unsigned i = 0;
	while (i < PROCS_MAX && s->procs[i].target)
		i++;
	if (i == PROCS_MAX)
		return NULL;
	s->nprocs = i < s->nprocs ? s->nprocs : i + 1;
	return &s->procs[i];
}

static char *copy_or_empty(const char *s)
{
	return strdup(s ? s : "");
}

void session_free_target_info(struct trace_target *t)
{
	free((char *)t->comm);
	free((char *)t->argv);
	free((char *)t->torch_version);
	free((char *)t->python_version);
	free((char *)t->torch_dir);
}

/* Whether the process was started after this one, which was there to see its first op. */
static bool is_recorded_from_start(pid_t pid)
{
	struct process p, own;
	return !process_read(pid, &p, NULL) && !process_read(getpid(), &own, NULL) &&
	       p.start_ticks >= own.start_ticks;
}

/* The rank of a launcher is srun's or the node's, not one of the training's. */
static void tell_process(struct session *s, struct proc *p, enum rank_role role)
{
	if (role == RANK_LAUNCHER)
		p->rank.rank = -1;
	p->is_worker = role == RANK_WORKER;
	s->ranked_pid = 0;
	const struct trace_process told = {
	    .pid = p->target->pid, .worker = p->is_worker, .whole = p->is_whole, .rank = p->rank};
	OBSERVERS_CALL(s, on_process, &told);
}

static void tell_new(struct session *s, struct proc *p, bool is_late)
{
	pid_t pid = p->target->pid;
	p->is_whole = !is_late && is_recorded_from_start(pid) && !session_came_late(s, p);
	p->rank = p->target->rank;
	tell_process(s, p, process_rank_role(pid, &p->rank));
}

/* A launcher is known by the ranks that it has started, which it had not yet when it loaded
 * PyTorch; it calls no ops. */
void session_find_launchers(struct session *s)
{
	for (unsigned i = 0; i < s->nprocs; i++) {
		struct proc *p = &s->procs[i];
		if (p->target && p->alive && !p->has_ops && !p->is_worker && p->rank.rank >= 0 &&
		    process_rank_role(p->target->pid, &p->rank) == RANK_LAUNCHER)
			tell_process(s, p, RANK_LAUNCHER);
	}
}

static void describe(struct session *s, const struct target *t)
{
	char argv[1024];
	struct process p;
	if (s->ntargets == TARGETS_MAX || process_read(t->pid, &p, NULL) ||
	    array_grow(&s->targets, &s->targets_room, s->ntargets + 1, sizeof(*s->targets)))
		return;
	struct trace_target *i = &s->targets[s->ntargets++];
	*i = (struct trace_target){
	    .pid = t->pid,
	    .start_ns = (int64_t)s->start_ns,
	    .comm = copy_or_empty(p.comm),
	    .argv = copy_or_empty(process_cmdline(t->pid, argv, sizeof(argv))),
	    .torch_version = copy_or_empty(t->package.version),
	    .python_version = copy_or_empty(t->py ? python_version(t->py) : NULL),
	    .engine = s->engine->name,
	    .torch_dir = copy_or_empty(t->package.dir),
	};
	OBSERVERS_CALL(s, on_target, i);
}

/* Whether it is known for the first time where threads at work for ditrace are told. */
static bool find_own_work(struct target *t)
{
	uint64_t at;
	if (t->conf.own_work || injector_own_work(t->pid, &at))
		return false;
	t->conf.own_work = at;
	return true;
}

static int probe_process(struct session *s, struct proc *p, const struct libraries *l,
			 struct err *e)
{
	uint16_t index = (uint16_t)(p - s->procs);
	p->target->conf.phase =
	    (uint8_t)(s->o->phase == SESSION_RECOMPUTE ? SESSION_BACKWARD : s->o->phase);
	p->target->conf.max_depth = s->o->depth > UINT16_MAX ? 0 : (uint16_t)s->o->depth;
	if (s->engine->add_rows)
		p->target->conf.native = s->o->native_stack ? NATIVE_OF_ALL : NATIVE_OF_NO_PYTHON;
	p->generation = p->target->conf.generation;
	find_own_work(p->target);
	int r = s->engine->set_proc(s->engine, index, &p->target->conf);
	if (r)
		return err_set(e, r, "cannot set up process %d: %s", p->target->pid, strerror(-r));
	r = decoder_add_target(s->decoder, index, p->target);
	/* First, as the engine shim writes its jumps with those of the next. */
	r = r ? r
	      : session_probe_library(s, index, l, OPS_C10,
				      s->sites + s->cpu_sites + s->python_sites, s->c10_sites,
				      false, e);
	p->boxed = s->engine->observes && !session_find_boxed(s, p);
	r = r ? r
	      : session_probe_library(s, index, l, OPS_PYTHON, s->boxed_python, s->nboxed_python,
				      false, e);
	r = r ? r : session_probe_library(s, index, l, OPS_CPU, s->sites, s->cpu_sites, false, e);
	return r ? r
		 : session_probe_library(s, index, l, OPS_PYTHON, s->sites + s->cpu_sites,
					 s->python_sites, false, e);
}

static void inherit(struct session *s, struct target *t)
{
	struct process child;
	struct proc *p =
	    process_read(t->pid, &child, NULL) ? NULL : session_proc(s, child.status.ppid);
	if (p)
		target_inherit(t, p->target);
}

static int no_torch(pid_t pid, struct err *e)
{
	err_set(e, -ENODATA, "process %d has no PyTorch loaded", pid);
	return err_hint(e, "wait for it with: ditrace attach --wait %d", pid);
}

/* The first process decides which libtorch is traced. */
static int know_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e)
{
	int r = s->ops ? 0 : session_load_ops(s, pid, l, e);
	if (r || s->sites)
		return r;
	r = session_make_plan(s, &s->fatal);
	s->fatal_pid = r == -ENOENT || r == -EINVAL ? pid : 0;
	if (r && e)
		*e = s->fatal;
	return r;
}

static int check_same_torch(const struct session *s, pid_t pid, const struct libraries *l,
			    struct err *e)
{
	if (session_has_ops_of(s, l->torch))
		return 0;
	return err_set(
	    e, -ENOTSUP,
	    "process %d uses another libtorch than the first one traced; it is left alone", pid);
}

static int open_proc(struct session *s, struct proc *p, pid_t pid, const struct maps *maps,
		     const struct libraries *l, struct err *e)
{
	struct err py_note = {0};
	uint16_t index = (uint16_t)(p - s->procs);
	session_end_launches(s, pid, 0);
	OBSERVERS_CALL(s, forget_process, pid);
	*p = (struct proc){.alive = true, .added = session_now()};
	int r = target_open(pid, s->ops, maps, &p->target, &py_note, e);
	if (r)
		return r;
	inherit(s, p->target);
	r = probe_process(s, p, l, e);
	if (r) {
		s->engine->detach(s->engine, index);
		decoder_remove_target(s->decoder, index);
		session_end_launches(s, pid, 0);
		target_close(p->target);
		p->target = NULL;
	}
	return r;
}

static int add_mapped(struct session *s, pid_t pid, const struct maps *maps, struct err *e)
{
	struct libraries l;
	libraries_find(maps, &l);
	if (s->fatal.code)
		return s->fatal.code;
	if (!l.torch)
		return no_torch(pid, e);
	int r = know_ops(s, pid, &l, e);
	r = r ? r : check_same_torch(s, pid, &l, e);
	if (r)
		return r;
	session_find_launchers(s); /* the process may be of one; its own rank is not known yet */
	struct proc *p = free_slot(s);
	if (!p)
		return err_set(e, -E2BIG,
			       "more than %d processes at once; process %d is left alone",
			       PROCS_MAX, pid);
	bool is_late = session_is_stray(s, pid);
	session_cost_placing(s);
	r = open_proc(s, p, pid, maps, &l, e);
	session_cost_placed(s);
	if (r)
		return r;
	session_library_came(s, pid);
	s->total++;
	if (!s->first_ns)
		s->first_ns = session_now();
	tell_new(s, p, is_late);
	if (s->launches && s->o->memory)
		launches_begin(s->launches, pid);
	describe(s, p->target);
	session_complete_procs(s);
	session_probe_kernels(s, p, 0);
	return 0;
}

void session_library_came(struct session *s, pid_t pid)
{
	struct proc *p = session_proc(s, pid);
	if (p && find_own_work(p->target))
		s->engine->set_proc(s->engine, (uint16_t)(p - s->procs), &p->target->conf);
}

int session_add(struct session *s, pid_t pid, struct err *e)
{
	struct maps maps;
	if (session_proc(s, pid))
		return 0;
	s->news_ns = session_now();
	int r = maps_read(pid, &maps, e);
	if (r)
		return r;
	r = add_mapped(s, pid, &maps, e);
	maps_free(&maps);
	return r;
}

void session_remove(struct session *s, pid_t pid)
{
	struct proc *p = session_proc(s, pid);
	if (!p)
		return;
	/* Its last records may still be on their way: session_free_ended frees the slot. */
	p->alive = false;
	s->engine->detach(s->engine, (uint16_t)(p - s->procs));
}

/* Free this many at a time: each time, the trace writer forgets all ops, frames and stacks that it
 * knew by address and must look them up again by content. */
enum { MANY = 32 };

/* Flush what was held back; after this nothing refers to the target. */
static void finish(struct session *s, uint16_t index)
{
	struct target *t = s->procs[index].target;
	decoder_remove_target(s->decoder, index);
	session_end_launches(s, t->pid, UINT64_MAX);
	if (!session_proc(s, t->pid))
		OBSERVERS_CALL(s, forget_process, t->pid);
}

static void free_all(struct session *s)
{
	for (uint16_t i = 0; i < PROCS_MAX; i++)
		if (s->procs[i].decoded)
			finish(s, i);
	OBSERVERS_CALL(s, forget_addresses);
	s->textless = NULL;
	for (uint16_t i = 0; i < PROCS_MAX; i++) {
		if (!s->procs[i].decoded)
			continue;
		target_close(s->procs[i].target);
		free(s->procs[i].kernels);
		s->procs[i] = (struct proc){0};
	}
}

void session_free_ended(struct session *s, bool all)
{
	unsigned unused = PROCS_MAX, decoded = 0;
	for (uint16_t i = 0; i < s->nprocs; i++) {
		struct proc *p = &s->procs[i];
		unused -= p->target != NULL;
		if (all && p->target && !p->alive)
			p->decoded = decoder_end_target(s->decoder, i);
		decoded += p->decoded;
	}
	if (decoded >= MANY || (decoded && unused < MANY))
		free_all(s);
}

/* As Python's threading names it, whose ids are of the process's own PID namespace; else as the
 * kernel does. -EAGAIN or 0; name is empty when it is not known. */
static int read_name(const struct op_event *ev, const struct py_runtime *py, char *name,
		     size_t size)
{
	struct thread_facts facts;
	if (thread_facts_read(ev->pid, ev->tid, &facts))
		return 0;
	ssize_t n = py ? python_thread_name(py, facts.ns_tid, name, size) : -ENOENT;
	if (n <= 0)
		snprintf(name, size, "%s", facts.name);
	return n == -EAGAIN ? -EAGAIN : 0;
}

void session_name_thread(struct session *s, const struct op_event *ev)
{
	char name[64] = "";
	uint32_t slot = (uint32_t)ev->tid % THREAD_SLOTS;
	if (s->named[slot] == ev->tid)
		return;
	const struct proc *p = session_proc(s, ev->pid);
	const struct py_runtime *py = p ? p->target->py : NULL;
	int64_t worker = py && ev->tid == ev->pid ? python_loader_worker(py) : -ENOENT;
	int r = 0;
	if (worker >= 0)
		snprintf(name, sizeof(name), "DataLoader worker %" PRId64, worker);
	else
		r = worker == -EAGAIN ? -EAGAIN : read_name(ev, py, name, sizeof(name));
	if (r == -EAGAIN)
		return; /* with its next event */
	s->named[slot] = ev->tid;
	if (name[0])
		OBSERVERS_CALL(s, on_thread, ev->pid, ev->tid, name);
}

/* Tell the engine by which rows it walks on. */
static void add_rows(struct session *s, uint16_t index, struct proc *p)
{
	size_t n = 0;
	const struct native_row *rows =
	    p->target->callers ? native_callers_rows(p->target->callers, &n) : NULL;
	if (s->engine->add_rows && n > p->rows)
		s->engine->add_rows(s->engine, index, rows + p->rows, n - p->rows);
	p->rows = n;
}

void session_update_procs(struct session *s)
{
	for (unsigned i = 0; i < s->nprocs; i++) {
		struct proc *p = &s->procs[i];
		if (!p->target)
			continue;
		add_rows(s, (uint16_t)i, p);
		target_refresh(p->target);
		if (p->generation == p->target->conf.generation)
			continue;
		p->generation = p->target->conf.generation;
		s->engine->set_proc(s->engine, (uint16_t)i, &p->target->conf);
	}
}
