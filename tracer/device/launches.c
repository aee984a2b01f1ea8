#include "tracer/device/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "tracer/device/internal.h"

enum { THREADS_MOST = 256, NAMES_MOST = 1 << 16, TICK_NS = 20 * 1000 * 1000 };

/* Times of the struct launches' own, which stands still while records wait to be decoded. */
#define SECOND 1000000000ULL
/* An op that enclosed a launch and has ended, or calls that were summed up, are known by then. */
#define SURE_NS SECOND
#define AWAITED_NS (5 * SECOND)
#define GRAPH_NS (10 * SECOND)

struct launch_thread {
	int32_t tid;
	uint64_t used;
	struct op_history ops;
	struct waiting waiting, memory; /* memory: places in `held` of the process */
};

/* What was done with memory in an op that has not ended. */
struct held_memory {
	struct memory_event m;
	uint64_t stamp; /* as of a launch */
	uint32_t next;	/* free place */
};

struct launch_process {
	int32_t pid;
	uint64_t since;	    /* ops that ended before may be unknown of threads that are not there */
	uint64_t sure_from; /* before, it may have been in ops that are not known */
	bool is_begun;	    /* launches_begin, and there was no record yet */
	struct launch_thread *threads[THREADS_MOST];
	unsigned nthreads;
	uint8_t near[THREADS_MOST]; /* by tid: where its thread may be */
	struct spans lost;
	struct correlations launches;
	struct map names; /* of kernels, by number: index of `name` */
	const char **name;
	size_t nnames, names_room;
	struct blocks blocks;
	struct held_memory *held;
	size_t held_room;
	uint32_t nheld, free_held; /* free_held: a place + 1, 0: none */
};

struct launches {
	launches_fn *fn;
	launches_open_fn *open;
	launches_memory_fn *on_memory; /* NULL: nobody is told */
	void *arg;
	struct launch_process **procs;
	size_t nprocs, procs_room;
	struct activity_names names;
	uint64_t now, told, clock, ticked; /* told: the last launches_tick */
};

struct launches *launches_new(launches_fn *fn, launches_open_fn *open, void *arg)
{
	struct launches *l = calloc(1, sizeof(*l));
	if (l)
		*l = (struct launches){.fn = fn, .open = open, .arg = arg, .clock = 2 * GRAPH_NS};
	return l;
}

static struct launch_thread *thread_of(struct launches *l, struct launch_process *p, int32_t tid);

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

/* Pass on what came of a launch (NULL: not known). */
static void pass_on(struct launches *l, const struct launch *by, enum activity_launch launch,
		    struct activity *a)
{
	a->launch = launch;
	if (launch != LAUNCH_NO_THREAD) {
		a->launched_ns = by->ns;
		a->of.tid = by->tid;
	}
	if (launch == LAUNCH_IN_OP) {
		a->of.op = by->op.op;
		a->of.id = by->op.id;
		a->of.stack = by->op.stack;
		a->of.where_stack = by->op.where_stack;
		a->of.backward_of = by->op.backward_of;
		a->of.phase = by->op.phase;
	}
	l->fn(a, l->arg);
}

static void pass_on_all(struct launches *l, struct launch_process *p, uint32_t launch,
			enum activity_launch as)
{
	struct activity a;
	while (correlations_take(&p->launches, launch, &a)) {
		a.of.pid = p->pid;
		pass_on(l, &p->launches.launch[launch], as, &a);
	}
}

static void settle(struct launches *l, struct launch_process *p, uint32_t launch,
		   enum activity_launch as)
{
	correlations_set(&p->launches, launch, LAUNCH_SETTLED);
	p->launches.launch[launch].launch = (uint8_t)as;
	pass_on_all(l, p, launch, as);
}

static void memory_pass_on(struct launches *l, struct memory_event *m, enum activity_launch as,
			   const struct launch_op *op)
{
	m->launch = as;
	if (as == LAUNCH_IN_OP) {
		m->of.op = op->op;
		m->of.id = op->id;
		m->of.stack = op->stack;
		m->of.where_stack = op->where_stack;
		m->of.backward_of = op->backward_of;
		m->of.phase = op->phase;
	}
	if (l->on_memory)
		l->on_memory(m, l->arg);
}

static void memory_settle(struct launches *l, struct launch_process *p, uint32_t place,
			  enum activity_launch as, const struct launch_op *op)
{
	struct held_memory *h = &p->held[place];
	memory_pass_on(l, &h->m, as, op);
	h->next = p->free_held;
	p->free_held = place + 1;
}

/* False: no memory. */
static bool memory_hold(struct launches *l, struct launch_process *p, struct launch_thread *t,
			const struct memory_event *m)
{
	uint32_t place = p->free_held ? p->free_held - 1 : p->nheld;
	if (array_grow(&p->held, &p->held_room, place + (size_t)1, sizeof(*p->held)) ||
	    !waiting_add(&t->memory, m->of.start_ns, place))
		return false;
	if (p->free_held)
		p->free_held = p->held[place].next;
	else
		p->nheld++;
	p->held[place] = (struct held_memory){.m = *m, .stamp = l->clock};
	return true;
}

static void memory_settle_within(struct launches *l, struct launch_process *p, struct waiting *w,
				 const struct past_op *op)
{
	for (size_t i = waiting_from(w, op->start_ns); i < w->n && w->at[i].ns < op->end_ns; i++) {
		uint32_t place = waiting_take(w, i);
		if (place != NO_LAUNCH)
			memory_settle(l, p, place, op->op.op ? LAUNCH_IN_OP : LAUNCH_UNKNOWN,
				      &op->op);
	}
	waiting_trim(w);
}

static enum activity_launch judge_none(const struct launch_process *p,
				       const struct launch_thread *t, uint64_t ns)
{
	enum activity_launch as =
	    ns < p->sure_from ? LAUNCH_UNKNOWN : op_history_judge(&t->ops, ns);
	return as == LAUNCH_IN_NO_OP && spans_find(&p->lost, ns) ? LAUNCH_UNKNOWN : as;
}

/* Those before `until` that came before `sure` are in no op that will come. */
static void memory_settle_before(struct launches *l, struct launch_process *p,
				 struct launch_thread *t, uint64_t until, uint64_t sure)
{
	struct waiting *w = &t->memory;
	waiting_trim(w);
	for (size_t i = w->first; i < w->n && w->at[i].ns < until; i++) {
		uint32_t place = w->at[i].launch;
		if (place == NO_LAUNCH)
			continue;
		if (p->held[place].stamp > sure)
			break;
		waiting_take(w, i);
		memory_settle(l, p, place, judge_none(p, t, w->at[i].ns), NULL);
	}
	waiting_trim(w);
}

static void memory_settle_rest(struct launches *l, struct launch_process *p,
			       struct launch_thread *t)
{
	struct waiting *w = &t->memory;
	for (size_t i = w->first; i < w->n; i++) {
		uint32_t place = waiting_take(w, i);
		if (place != NO_LAUNCH)
			memory_settle(l, p, place, LAUNCH_UNKNOWN, NULL);
	}
}

static void memory_join(struct launches *l, struct launch_process *p, struct memory_event *m)
{
	enum activity_launch as = LAUNCH_UNKNOWN;
	struct launch_op op = {0};
	struct launch_thread *t = m->of.tid ? thread_of(l, p, m->of.tid) : NULL;
	if (!t || op_history_find(&t->ops, m->of.start_ns, &as, &op) || !memory_hold(l, p, t, m))
		memory_pass_on(l, m, as, &op);
}

/* What is not the CPU's tells itself how much there is. */
static void on_memory(struct launches *l, struct launch_process *p, const struct activity_record *r)
{
	const bool is_cpu = !r->device_type;
	struct memory_event m = {
	    .of = {.pid = r->pid, .tid = r->tid, .start_ns = r->start_ns, .end_ns = r->start_ns},
	    .freed = r->kind == RECORD_FREED,
	    .device_type = r->device_type,
	    .device_index = r->device_index,
	    .address = r->name,
	    .bytes = r->bytes,
	    .total = r->total,
	    .reserved = r->reserved,
	};
	struct memory_event before;
	if (is_cpu && m.freed && !blocks_freed(&p->blocks, &m))
		return;
	if (is_cpu && !m.freed && blocks_allocated(&p->blocks, &m, &before))
		memory_pass_on(l, &before, LAUNCH_UNKNOWN, NULL);
	memory_join(l, p, &m);
}

void launches_on_memory(struct launches *l, launches_memory_fn *fn)
{
	l->on_memory = fn;
}

/* No op that encloses it will come. */
static void settle_in_none(struct launches *l, struct launch_process *p,
			   const struct launch_thread *t, uint32_t launch)
{
	const struct launch *x = &p->launches.launch[launch];
	settle(l, p, launch, judge_none(p, t, x->ns));
}

/* No more of the thread's ops will come, all that began before `until` have. */
static void thread_end(struct launches *l, struct launch_process *p, struct launch_thread *t,
		       uint64_t until)
{
	struct waiting *w = &t->waiting;
	for (size_t i = w->first; i < w->n; i++) {
		uint32_t launch = waiting_take(w, i);
		if (launch != NO_LAUNCH && w->at[i].ns < until)
			settle_in_none(l, p, t, launch);
		else if (launch != NO_LAUNCH)
			settle(l, p, launch, LAUNCH_UNKNOWN);
	}
	memory_settle_before(l, p, t, until, UINT64_MAX);
	memory_settle_rest(l, p, t);
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

static struct launch_thread *thread_find(struct launch_process *p, int32_t tid)
{
	uint8_t *near = &p->near[(uint32_t)tid % THREADS_MOST];
	if (*near < p->nthreads && p->threads[*near]->tid == tid)
		return p->threads[*near];
	for (unsigned i = 0; i < p->nthreads; i++)
		if (p->threads[i]->tid == tid)
			return p->threads[*near = (uint8_t)i];
	return NULL;
}

static struct launch_thread *thread_of(struct launches *l, struct launch_process *p, int32_t tid)
{
	struct launch_thread *t = thread_find(p, tid);
	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		if (p->nthreads == THREADS_MOST)
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
	struct launch_thread *t = *p ? thread_of(l, *p, tid) : NULL;
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
		settle(l, p, launch, op->op.op ? LAUNCH_IN_OP : LAUNCH_UNKNOWN);
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
		memory_settle_within(l, p, &t->memory, op_history_at(&t->ops, first));
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

/* Whatever waits of it waits no more. */
static void give_up(struct launches *l, struct launch_process *p, uint32_t launch)
{
	const struct launch *x = &p->launches.launch[launch];
	struct launch_thread *t = x->state == LAUNCH_WAITS ? thread_find(p, x->tid) : NULL;
	if (t)
		waiting_drop(&t->waiting, x->ns, launch);
	if (x->state != LAUNCH_SETTLED)
		settle(l, p, launch, x->state == LAUNCH_WAITS ? LAUNCH_UNKNOWN : LAUNCH_NO_THREAD);
}

static uint32_t launch_add(struct launches *l, struct launch_process *p, uint32_t correlation)
{
	uint32_t old = correlations_oldest(&p->launches, l->clock - GRAPH_NS);
	if (old != NO_LAUNCH)
		give_up(l, p, old);
	return correlations_add(&p->launches, correlation, l->clock);
}

static void on_launch(struct launches *l, struct launch_process *p, const struct activity_record *r)
{
	enum activity_launch as;
	struct launch_thread *t = r->tid ? thread_of(l, p, r->tid) : NULL;
	uint32_t launch = correlations_find(&p->launches, r->correlation);
	if (!t)
		return;
	if (launch == NO_LAUNCH)
		launch = launch_add(l, p, r->correlation);
	if (launch == NO_LAUNCH)
		return;
	struct launch *x = &p->launches.launch[launch];
	/* A call of the host that calls another has told already. */
	if (x->state == LAUNCH_WAITS ||
	    (x->state == LAUNCH_SETTLED && x->launch != LAUNCH_NO_THREAD))
		return;
	x->ns = r->start_ns;
	x->tid = r->tid;
	x->stamp = l->clock;
	if (op_history_find(&t->ops, x->ns, &as, &x->op))
		settle(l, p, launch, as);
	else if (waiting_add(&t->waiting, x->ns, launch))
		correlations_set(&p->launches, launch, LAUNCH_WAITS);
	else
		settle(l, p, launch, LAUNCH_UNKNOWN);
}

static const char *name_of(struct launches *l, const struct launch_process *p,
			   const struct activity_record *r)
{
	const char *name = NULL;
	if (r->activity != ACTIVITY_KERNEL) {
		name = activity_name_of_memory(&l->names, r);
	} else {
		int64_t i = map_get(&p->names, r->name);
		name = i >= 0 ? p->name[i] : NULL;
	}
	return name ? name : "(name not known)";
}

static void on_name(struct launches *l, struct launch_process *p, const struct activity_record *r)
{
	const char *name =
	    p->nnames < NAMES_MOST ? activity_name_of_kernel(&l->names, r->text) : NULL;
	if (!name || array_grow(&p->name, &p->names_room, p->nnames + 1, sizeof(*p->name)) ||
	    map_put(&p->names, r->name, (uint32_t)p->nnames))
		return;
	p->name[p->nnames++] = name;
}

/* Pass on what has waited for the longest time, since no more can wait. */
static void relieve(struct launches *l, struct launch_process *p)
{
	const struct correlations *c = &p->launches;
	uint32_t a = c->lists[LAUNCH_AWAITED].first, b = c->lists[LAUNCH_WAITS].first;
	if (a != NO_LAUNCH && (b == NO_LAUNCH || c->launch[a].stamp < c->launch[b].stamp))
		pass_on_all(l, p, a, LAUNCH_NO_THREAD);
	else if (b != NO_LAUNCH)
		pass_on_all(l, p, b, LAUNCH_UNKNOWN);
}

static void keep(struct launches *l, struct launch_process *p, uint32_t launch, struct activity *a)
{
	if (correlations_keep(&p->launches, launch, a))
		return;
	relieve(l, p);
	const struct launch *x = &p->launches.launch[launch];
	if (!correlations_keep(&p->launches, launch, a))
		pass_on(l, x, x->state == LAUNCH_WAITS ? LAUNCH_UNKNOWN : LAUNCH_NO_THREAD, a);
}

static void on_ran(struct launches *l, struct launch_process *p, const struct activity_record *r)
{
	struct activity a = {
	    .of = {.pid = p->pid,
		   .start_ns = r->start_ns,
		   .end_ns = r->end_ns > r->start_ns ? r->end_ns : r->start_ns},
	    .kind = r->activity,
	    .device_type = r->device_type,
	    .device_index = r->device_index,
	    .in_graph = r->in_graph,
	    .stream = r->stream,
	    .bytes = r->bytes,
	    .name = name_of(l, p, r),
	};
	uint32_t launch = correlations_find(&p->launches, r->correlation);
	if (launch == NO_LAUNCH)
		launch = launch_add(l, p, r->correlation);
	if (launch == NO_LAUNCH) {
		pass_on(l, NULL, LAUNCH_NO_THREAD, &a);
		return;
	}
	struct launch *x = &p->launches.launch[launch];
	if (r->in_graph)
		x->used = l->clock;
	if (x->state == LAUNCH_SETTLED)
		pass_on(l, x, x->launch, &a);
	else
		keep(l, p, launch, &a);
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
		on_launch(l, p, r);
	else if (p && r->kind == RECORD_RAN && r->activity < ACTIVITY_KINDS)
		on_ran(l, p, r);
	else if (p && r->kind == RECORD_NAME)
		on_name(l, p, r);
	else if (p && (r->kind == RECORD_ALLOCATED || r->kind == RECORD_FREED))
		on_memory(l, p, r);
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
		memory_settle_before(l, p, t, l->open(p->pid, t->tid, l->arg), l->clock - SURE_NS);
}

static void process_tick(struct launches *l, struct launch_process *p)
{
	uint32_t launch;
	for (unsigned i = 0; i < p->nthreads; i++)
		thread_tick_all(l, p, p->threads[i]);
	while ((launch = p->launches.lists[LAUNCH_AWAITED].first) != NO_LAUNCH &&
	       p->launches.launch[launch].stamp <= l->clock - AWAITED_NS)
		settle(l, p, launch, LAUNCH_NO_THREAD);
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
		settle(l, p, launch, LAUNCH_NO_THREAD);
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
	activity_names_free(&l->names);
	free(l->procs);
	free(l);
}
