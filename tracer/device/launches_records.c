/* Launches and what came of them: each activity waits until the op of its launch is known. */
#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/target/elf.h"
#include "tracer/device/internal.h"
#include "tracer/device/launches.h"

/* Names of what devices did. */

/* The name of a kernel with that symbol. Lives as long as `n`, as do the others; NULL when out of
 * memory. */
static const char *activity_name_of_kernel(struct intern *n, const char *symbol)
{
	char *text = elf_demangle(symbol, DMGL_PARAMS | DMGL_ANSI);
	const char *kept = intern_text(n, text ? text : symbol);
	free(text);
	return kept;
}

/* The words of Kineto (libkineto/src/cupti_strings.cpp), by CUpti_ActivityMemoryKind and
 * CUpti_ActivityMemcpyKind. */
static const char *word_of_memory(uint8_t kind)
{
	static const char *const words[] = {"Unknown",	     "Pageable",      "Pinned",
					    "Device",	     "Array",	      "Managed",
					    "Device Static", "Managed Static"};
	return kind < sizeof(words) / sizeof(words[0]) ? words[kind] : "Unrecognized";
}

static const char *word_of_copy(uint64_t kind)
{
	static const char *const words[] = {"<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					    "AtoD",	 "DtoA", "DtoD", "HtoH", "PtoP"};
	return words[kind < sizeof(words) / sizeof(words[0]) ? kind : 0];
}

/* The name of a copy or a set. */
static const char *activity_name_of_memory(struct intern *n, const struct activity_record *r)
{
	char text[96];
	if (r->activity == ACTIVITY_COPY)
		snprintf(text, sizeof(text), "Memcpy %s (%s -> %s)", word_of_copy(r->name),
			 word_of_memory(r->from), word_of_memory(r->to));
	else
		snprintf(text, sizeof(text), "Memset (%s)", word_of_memory(r->to));
	return intern_text(n, text);
}

/* Records. */

enum { NAMES_MOST = 1 << 16 };

/* Pass on what came of a launch (NULL: not known). */
static void pass_on(struct launches *l, const struct launch *by, enum activity_launch launch,
		    struct activity *a)
{
	a->launch = launch;
	if (launch != LAUNCH_NO_THREAD) {
		a->launched_ns = by->ns;
		a->of.tid = by->tid;
	}
	if (launch == LAUNCH_IN_OP)
		launch_op_to(&by->op, &a->of);
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

void launches_settle(struct launches *l, struct launch_process *p, uint32_t launch,
		     enum activity_launch as)
{
	correlations_set(&p->launches, launch, LAUNCH_SETTLED);
	p->launches.launch[launch].launch = (uint8_t)as;
	pass_on_all(l, p, launch, as);
}

void launches_forget(struct launch_process *p, uint32_t launch)
{
	struct activity a;
	while (correlations_take(&p->launches, launch, &a))
		;
}

/* Whatever waits of it waits no more. */
static void give_up(struct launches *l, struct launch_process *p, uint32_t launch)
{
	const struct launch *x = &p->launches.launch[launch];
	struct launch_thread *t = x->state == LAUNCH_WAITS ? launches_thread_find(p, x->tid) : NULL;
	if (t)
		waiting_drop(&t->waiting, x->ns, launch);
	if (x->state != LAUNCH_SETTLED)
		launches_settle(l, p, launch,
				x->state == LAUNCH_WAITS ? LAUNCH_UNKNOWN : LAUNCH_NO_THREAD);
}

static uint32_t launch_add(struct launches *l, struct launch_process *p, uint32_t correlation)
{
	uint32_t old = correlations_oldest(&p->launches, l->clock - LAUNCH_GRAPH_NS);
	if (old != NO_LAUNCH)
		give_up(l, p, old);
	return correlations_add(&p->launches, correlation, l->clock);
}

void launches_on_launch(struct launches *l, struct launch_process *p,
			const struct activity_record *r)
{
	enum activity_launch as;
	struct launch_thread *t = r->tid ? launches_thread(l, p, r->tid) : NULL;
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
		launches_settle(l, p, launch, as);
	else if (waiting_add(&t->waiting, x->ns, launch))
		correlations_set(&p->launches, launch, LAUNCH_WAITS);
	else
		launches_settle(l, p, launch, LAUNCH_UNKNOWN);
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

void launches_on_name(struct launches *l, struct launch_process *p, const struct activity_record *r)
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

static void keep_activity(struct launches *l, struct launch_process *p, uint32_t launch,
			  struct activity *a)
{
	if (correlations_keep(&p->launches, launch, a))
		return;
	relieve(l, p);
	const struct launch *x = &p->launches.launch[launch];
	if (!correlations_keep(&p->launches, launch, a))
		pass_on(l, x, x->state == LAUNCH_WAITS ? LAUNCH_UNKNOWN : LAUNCH_NO_THREAD, a);
}

void launches_on_ran(struct launches *l, struct launch_process *p, const struct activity_record *r)
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
		keep_activity(l, p, launch, &a);
}
