#include "tracer/device/launches.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/map.h"
#include "tracer/device/internal.h"

enum { TICK_NS = 20 * 1000 * 1000 };

/* Times of the struct launches' own, which stands still while records wait to be decoded. */
#define SECOND 1000000000ULL

/* An op that enclosed a launch and has ended, or calls that were summed up, are known by then. */
#define SURE_NS SECOND
#define AWAITED_NS (5 * SECOND)

struct launches *launches_new(launches_fn *fn, launches_open_fn *open, void *arg)
{
	struct launches *l = calloc(1, sizeof(*l));
	if (l)
		*l = (struct launches){
		    .fn = fn, .open = open, .arg = arg, .clock = 2 * LAUNCH_GRAPH_NS};
	return l;
}

static struct launch_process *process_find(const struct launches *l, int32_t pid)
{
	for (size_t i = 0; i < l->nprocs; i++)
		if (l->procs[i]->pid == pid)
			return l->procs[i];
	return NULL;
}

static struct launch_process *process_of(struct launches *l, int32_t pid)
{
	struct launch_process *p = process_find(l, pid);
	if (p || array_grow(&l->procs, &l->procs_room, l->nprocs + 1, sizeof(*l->procs)))
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->since = l->now;
	correlations_begin(&p->launches);
	return l->procs[l->nprocs++] = p;
}

enum activity_launch launches_judge_none(const struct launch_process *p,
					 const struct launch_thread *t, uint64_t ns)
{
	enum activity_launch as =
	    ns < p->sure_from ? LAUNCH_UNKNOWN : op_history_judge(&t->ops, ns);
	return as == LAUNCH_IN_NO_OP && spans_find(&p->lost, ns) ? LAUNCH_UNKNOWN : as;
}

/* No op that encloses it will come. */
static void settle_in_none(struct launches *l, struct launch_process *p,
			   const struct launch_thread *t, uint32_t launch)
{
	const struct launch *x = &p->launches.launch[launch];
	launches_settle(l, p, launch, launches_judge_none(p, t, x->ns));
}

/* No more of the thread's ops will come, all that began before `until` have (0: not known). */
static void thread_end(struct launches *l, struct launch_process *p, struct launch_thread *t,
		       uint64_t until)
{
	struct waiting *w = &t->waiting;
	for (size_t i = w->first; i < w->n; i++) {
		uint32_t launch = waiting_take(w, i);
		if (launch != NO_LAUNCH && w->at[i].ns < until)
			settle_in_none(l, p, t, launch);
		else if (launch != NO_LAUNCH && until)
			launches_forget(p, launch);
		else if (launch != NO_LAUNCH)
			launches_settle(l, p, launch, LAUNCH_UNKNOWN);
	}
	launches_memory_before(l, p, t, until, UINT64_MAX);
	launches_memory_rest(l, p, t);
	op_history_free(&t->ops);
	free(w->at);
	free(t->memory.at);
	free(t);
}

/* The one that was not used for the longest time makes room. */
static void drop_thread(struct launches *l, struct launch_process *p)
{
	unsigned old = 0;
	for (unsigned i = 1; i < p->nthreads; i++)
		if (p->threads[i]->used < p->threads[old]->used)
			old = i;
	uint64_t ended = p->threads[old]->ops.last_end;
	thread_end(l, p, p->threads[old], 0);
	p->threads[old] = p->threads[--p->nthreads];
	p->since = ended > l->now ? ended : l->now;
}

struct launch_thread *launches_thread_find(struct launch_process *p, int32_t tid)
{
	uint8_t *near = &p->near[(uint32_t)tid % LAUNCH_THREADS_MOST];
	if (*near < p->nthreads && p->threads[*near]->tid == tid)
		return p->threads[*near];
	for (unsigned i = 0; i < p->nthreads; i++)
		if (p->threads[i]->tid == tid)
			return p->threads[*near = (uint8_t)i];
	return NULL;
}

struct launch_thread *launches_thread(struct launches *l, struct launch_process *p, int32_t tid)
{
	struct launch_thread *t = launches_thread_find(p, tid);
	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		if (p->nthreads == LAUNCH_THREADS_MOST)
			drop_thread(l, p);
		t->tid = tid;
		op_history_begin(&t->ops, p->since);
		p->threads[p->nthreads++] = t;
	}
	t->used = l->clock;
	return t;
}

/* Without memory for its thread, nothing can be said of what it launches. */
static struct launch_thread *thread_of_op(struct launches *l, int32_t pid, int32_t tid,
					  struct launch_process **p)
{
	*p = l->nprocs ? process_find(l, pid) : NULL;
	struct launch_thread *t = *p ? launches_thread(l, *p, tid) : NULL;
	if (*p && !t)
		(*p)->since = UINT64_MAX;
	return t;
}

/* Those that wait and are in an op that has ended now: not in one within it, since those came
 * before. */
static void settle_within(struct launches *l, struct launch_process *p, struct waiting *w,
			  const struct past_op *op)
{
	for (size_t i = waiting_from(w, op->start_ns); i < w->n && w->at[i].ns < op->end_ns; i++) {
		uint32_t launch = waiting_take(w, i);
		if (launch == NO_LAUNCH)
			continue;
		p->launches.launch[launch].op = op->op;
		launches_settle(l, p, launch, op->op.op ? LAUNCH_IN_OP : LAUNCH_UNKNOWN);
	}
	waiting_trim(w);
}

void launches_begin(struct launches *l, int32_t pid)
{
	struct launch_process *p = process_find(l, pid) ? NULL : process_of(l, pid);
	if (!p)
		return;
	p->since = 0;
	p->is_begun = true;
}

void launches_op(struct launches *l, const struct op_event *ev)
{
	struct launch_process *p;
	struct launch_thread *t = thread_of_op(l, ev->pid, ev->tid, &p);
	if (!t)
		return;
	uint64_t first = t->ops.next;
	op_history_add(&t->ops, ev);
	for (; first < t->ops.next && (t->waiting.live || t->memory.live); first++) {
		settle_within(l, p, &t->waiting, op_history_at(&t->ops, first));
		launches_memory_within(l, p, &t->memory, op_history_at(&t->ops, first));
	}
}

void launches_sum(struct launches *l, const struct op_sum *s)
{
	struct launch_process *p;
	struct launch_thread *t = thread_of_op(l, s->of.pid, s->of.tid, &p);
	if (t)
		spans_add(&t->ops.summed, s->of.start_ns, s->of.end_ns);
}

void launches_lost(struct launches *l, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < l->nprocs; i++)
		spans_add(&l->procs[i]->lost, from_ns, to_ns);
}

void launches_record(struct launches *l, const struct activity_record *r, uint64_t now_ns)
{
	l->now = now_ns > l->now ? now_ns : l->now;
	struct launch_process *p = process_of(l, r->pid);
	if (p && p->is_begun) {
		p->is_begun = false;
		p->sure_from = l->now;
	}
	if (p && r->kind == RECORD_LAUNCH)
		launches_on_launch(l, p, r);
	else if (p && r->kind == RECORD_RAN && r->activity < ACTIVITY_KINDS)
		launches_on_ran(l, p, r);
	else if (p && r->kind == RECORD_NAME)
		launches_on_name(l, p, r);
	else if (p && (r->kind == RECORD_ALLOCATED || r->kind == RECORD_FREED))
		launches_memory_record(l, p, r);
}

/* Those that came long enough ago, and before the ops that the thread is in now. */
static void thread_tick(struct launches *l, struct launch_process *p, struct launch_thread *t)
{
	const struct launch *launch = p->launches.launch;
	struct waiting *w = &t->waiting;
	uint64_t sure = l->clock - SURE_NS;
	waiting_trim(w);
	if (!w->live || launch[w->at[w->first].launch].stamp > sure)
		return;
	uint64_t open = l->open(p->pid, t->tid, l->arg);
	for (size_t i = w->first; i < w->n && w->at[i].ns < open; i++) {
		uint32_t x = w->at[i].launch;
		if (x == NO_LAUNCH)
			continue;
		if (launch[x].stamp > sure)
			break;
		waiting_take(w, i);
		settle_in_none(l, p, t, x);
	}
	waiting_trim(w);
}

static void thread_tick_all(struct launches *l, struct launch_process *p, struct launch_thread *t)
{
	if (t->waiting.live)
		thread_tick(l, p, t);
	if (t->memory.live)
		launches_memory_before(l, p, t, l->open(p->pid, t->tid, l->arg),
				       l->clock - SURE_NS);
}

static void process_tick(struct launches *l, struct launch_process *p)
{
	uint32_t launch;
	for (unsigned i = 0; i < p->nthreads; i++)
		thread_tick_all(l, p, p->threads[i]);
	while ((launch = p->launches.lists[LAUNCH_AWAITED].first) != NO_LAUNCH &&
	       p->launches.launch[launch].stamp <= l->clock - AWAITED_NS)
		launches_settle(l, p, launch, LAUNCH_NO_THREAD);
}

void launches_tick(struct launches *l, uint64_t now_ns, bool behind)
{
	uint64_t ns = now_ns > l->told ? now_ns - l->told : 0;
	l->told += ns;
	l->now = l->told > l->now ? l->told : l->now;
	if (!behind)
		l->clock += ns < TICK_NS ? ns : TICK_NS;
	if (l->clock - l->ticked < TICK_NS)
		return;
	l->ticked = l->clock;
	for (size_t i = 0; i < l->nprocs; i++)
		process_tick(l, l->procs[i]);
}

static void process_free(struct launch_process *p)
{
	correlations_free(&p->launches);
	map_free(&p->names);
	blocks_free(&p->blocks);
	free(p->held);
	free(p->name);
	free(p);
}

static void process_end(struct launches *l, struct launch_process *p, uint64_t until)
{
	uint32_t launch;
	for (unsigned i = 0; i < p->nthreads; i++)
		thread_end(l, p, p->threads[i], until);
	while ((launch = p->launches.lists[LAUNCH_AWAITED].first) != NO_LAUNCH)
		launches_settle(l, p, launch, LAUNCH_NO_THREAD);
	process_free(p);
}

void launches_end(struct launches *l, int32_t pid, uint64_t until_ns)
{
	for (size_t i = 0; i < l->nprocs;) {
		if (pid && l->procs[i]->pid != pid) {
			i++;
			continue;
		}
		process_end(l, l->procs[i], until_ns);
		l->procs[i] = l->procs[--l->nprocs];
	}
}

static void no_activity(const struct activity *a, void *arg)
{
	(void)a;
	(void)arg;
}

void launches_free(struct launches *l)
{
	if (!l)
		return;
	l->fn = no_activity;
	l->on_memory = NULL;
	launches_end(l, 0, 0);
	intern_free(&l->names);
	free(l->procs);
	free(l);
}
