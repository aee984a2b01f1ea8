#include "perf/collectives/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

struct collectives *collectives_new(void)
{
	struct collectives *c = calloc(1, sizeof(*c));
	if (c)
		c->first_ns = UINT64_MAX;
	return c;
}

void collectives_free(struct collectives *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->ngroups; i++) {
		free(c->groups[i].calls[NOT_NUMBERED].all);
		free(c->groups[i].calls[NUMBERED].all);
	}
	for (size_t i = 0; i < c->nrows; i++) {
		histogram_free(&c->rows[i].ns);
		histogram_free(&c->rows[i].spread_ns);
		histogram_free(&c->rows[i].done_ns);
		histogram_free(&c->rows[i].waits_ns);
		free(c->rows[i].last);
	}
	for (size_t i = 0; i < c->nworlds; i++) {
		free(c->worlds[i].groups);
		free(c->worlds[i].ranks);
	}
	buckets_free(&c->buckets);
	block_pairs_free(&c->blocks);
	intern_free(&c->strings);
	intern_free(&c->keys);
	intern_free(&c->descs);
	map_free(&c->by_pid);
	free(c->desc_of);
	free(c->processes);
	free(c->groups);
	free(c->rows);
	free(c->ranks);
	free(c->worlds);
	free(c->marks);
	free(c->kernels);
	free(c->clocks);
	arena_free(&c->arena);
	free(c);
}

static uint64_t process_key(int32_t pid, uint32_t rank1)
{
	return (uint64_t)rank1 << 32 | (uint32_t)pid;
}

int64_t collective_process_of(const struct collectives *c, int32_t pid, uint32_t rank1)
{
	return map_get(&c->by_pid, process_key(pid, rank1));
}

/* A PID that comes again is another process's. */
static int see_process(struct collectives *c, const struct trace_process *p)
{
	uint32_t i = (uint32_t)c->nprocesses, rank1 = (uint32_t)(p->rank.rank + 1);
	if (array_grow(&c->processes, &c->processes_room, c->nprocesses + 1,
		       sizeof(*c->processes)) ||
	    map_put(&c->by_pid, process_key(p->pid, 0), i) ||
	    (rank1 && map_put(&c->by_pid, process_key(p->pid, rank1), i)))
		return -ENOMEM;
	c->processes[c->nprocesses++] = (struct collective_process){.pid = p->pid,
								    .worker = p->worker,
								    .whole = p->whole,
								    .rank = p->rank,
								    .first_ns = UINT64_MAX,
								    .clock = c->clock};
	return 0;
}

static int64_t process_of(struct collectives *c, int32_t pid, uint32_t rank1)
{
	const struct trace_process unknown = {.pid = pid, .rank = {.rank = -1, .world_size = -1}};
	int64_t i = collective_process_of(c, pid, rank1);
	if (i >= 0)
		return i;
	return see_process(c, &unknown) ? -ENOMEM : (int64_t)c->nprocesses - 1;
}

/* A copy, as the trace may be closed before the groups are matched. */
static bool keep_desc(struct collectives *c, const struct group_desc *of)
{
	const struct group_desc *d = group_desc_copy(&c->arena, of->name, of->ranks, of->n);
	if (!d ||
	    array_grow(&c->desc_of, &c->desc_of_room, c->descs.used, sizeof(struct group_desc *)))
		return false;
	c->desc_of[c->descs.used - 1] = d;
	return true;
}

/* Equal for the group's calls on all ranks; -1: it is not known. */
static int64_t id_of(struct collectives *c, const struct group_desc *of)
{
	bool is_new;
	size_t name = of ? strlen(of->name) + 1 : 0, ranks = of ? of->n * sizeof(*of->ranks) : 0;
	char *key = of ? malloc(name + ranks) : NULL;
	if (!key)
		return of ? -ENOMEM : -1;
	memcpy(key, of->name, name);
	memcpy(key + name, of->ranks, ranks);
	int64_t id = intern(&c->descs, key, (uint32_t)(name + ranks), &is_new);
	free(key);
	return id < 0 || !is_new || keep_desc(c, of) ? id : -ENOMEM;
}

/* Another group may have got the address of one that is gone; what a group is may become known
 * after its first call. */
static bool is_group(const struct collective_group *g, const struct value *v, int64_t id)
{
	if (g->id >= 0 && id >= 0)
		return g->id == id;
	return g->id < 0 && g->address == (v ? v->group.address : 0) &&
	       (g->size < 0 || g->size == (v ? v->group.size : -1));
}

static void set_group(const struct collectives *c, struct collective_group *g,
		      const struct value *v, int64_t id)
{
	g->rank = v ? v->group.rank : -1;
	g->size = v ? v->group.size : -1;
	if (id < 0)
		return;
	g->id = id;
	g->of = c->desc_of[id];
	g->size = (int32_t)g->of->n;
}

static struct collective_group *group_of(struct collectives *c, uint32_t process,
					 const struct value *v)
{
	struct collective_process *p = &c->processes[process];
	int64_t id = id_of(c, v ? v->group.of : NULL);
	uint32_t i = p->first1;
	while (i && !is_group(&c->groups[i - 1], v, id))
		i = c->groups[i - 1].next1;
	if (id == -ENOMEM ||
	    (!i && array_grow(&c->groups, &c->groups_room, c->ngroups + 1, sizeof(*c->groups))))
		return NULL;
	struct collective_group *g = &c->groups[i ? i - 1 : c->ngroups++];
	if (!i) {
		*g = (struct collective_group){.process = process,
					       .address = v ? v->group.address : 0,
					       .number = v ? p->groups++ : 0,
					       .id = -1,
					       .next1 = p->first1};
		p->first1 = (uint32_t)c->ngroups;
	}
	set_group(c, g, v, id);
	return g;
}

static int64_t string_id(struct collectives *c, const char *s)
{
	bool is_new;
	return intern(&c->strings, s, (uint32_t)strlen(s), &is_new);
}

static int64_t row_of_calls(struct collectives *c, const struct collective *what,
			    const struct collective_group *g, const struct py_frame *where,
			    const char *purpose)
{
	bool is_new;
	int64_t backend = what->backend ? string_id(c, what->backend) : -1;
	int64_t key[15] = {(int64_t)(intptr_t)what->name,
			   (int64_t)(intptr_t)what->reduce_op,
			   what->root_rank,
			   what->has_bytes ? (int64_t)what->bytes : -1,
			   what->dtype,
			   what->async,
			   backend,
			   what->on_host,
			   g->id >= 0 || !g->address ? -1 : (int64_t)g->number,
			   g->id,
			   g->size,
			   where ? where->line : -1,
			   where ? string_id(c, where->file) : -1,
			   where ? string_id(c, where->function) : -1,
			   purpose ? string_id(c, purpose) : -1};
	int64_t id = intern(&c->keys, key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id;
	if (array_grow(&c->rows, &c->rows_room, c->nrows + 1, sizeof(*c->rows)))
		return -ENOMEM;
	struct collective_row *r = &c->rows[c->nrows++];
	*r = (struct collective_row){.what = *what,
				     .group = g->number,
				     .of = g->of,
				     .group_known = g->address != 0,
				     .size = g->size,
				     .where = where,
				     .purpose = purpose};
	r->what.group = NULL;
	if (what->backend &&
	    !(r->what.backend = arena_strndup(&c->arena, what->backend, strlen(what->backend))))
		return -ENOMEM;
	return id;
}

static void begins_by(uint64_t *first_ns, uint64_t ns)
{
	*first_ns = ns < *first_ns ? ns : *first_ns;
}

static int see_event(struct collectives *c, const struct op_event *ev)
{
	struct collective what;
	if (op_mark(ev->op))
		return block_pairs_add(&c->blocks, ev);
	bool is_wait = collective_is_wait(ev->op), is_reducers = collective_is_reducers(ev->op);
	if (!is_wait && !is_reducers && !collective_of(ev, &what))
		return 0;
	int64_t process = process_of(c, ev->pid, ev->rank1);
	if (is_reducers)
		return process < 0 ? -ENOMEM : collectives_see_reducer(c, (uint32_t)process, ev);
	if (is_wait)
		return process < 0 ? -ENOMEM : collectives_see_wait(c, (uint32_t)process, ev);
	struct collective_group *g =
	    process < 0 ? NULL : group_of(c, (uint32_t)process, what.group);
	struct collective_calls *calls = g ? &g->calls[collective_is_numbered(&what, ev)] : NULL;
	if (!g || array_grow(&calls->all, &calls->room, calls->n + 1, sizeof(*calls->all)))
		return -ENOMEM;
	int64_t row =
	    row_of_calls(c, &what, g, collective_where(ev->stack), collective_purpose_of(c, ev));
	if (row < 0)
		return -ENOMEM;
	c->processes[process].unnamed += !what.group;
	begins_by(&c->first_ns, ev->start_ns);
	begins_by(&c->processes[process].first_ns, ev->start_ns);
	calls->all[calls->n++] =
	    (struct collective_call){.start_ns = ev->start_ns,
				     .ns = ev->end_ns ? ev->end_ns - ev->start_ns : COLLECTIVE_OPEN,
				     .work = what.work,
				     .row = (uint32_t)row,
				     .bucket1 = collective_bucket_sent(c, (uint32_t)process, ev),
				     .chosen = true};
	return 0;
}

static int see_done(struct collectives *c, const struct work_done *d, uint32_t rank1)
{
	int64_t process = process_of(c, d->pid, rank1);
	return process < 0 ? -ENOMEM : collectives_see_done(c, (uint32_t)process, d);
}

static int see_kernel(struct collectives *c, const struct activity *a)
{
	int64_t process = process_of(c, a->of.pid, a->of.rank1);
	return process < 0 ? -ENOMEM : collectives_see_kernel(c, (uint32_t)process, a);
}

static int see_clock(struct collectives *c, const struct trace_clock *k)
{
	if (array_grow(&c->clocks, &c->clocks_room, c->nclocks + 1, sizeof(struct trace_clock *)))
		return -ENOMEM;
	c->clocks[c->nclocks++] = k;
	return 0;
}

int collectives_see(struct collectives *c, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		return see_event(c, &item->event);
	case TRACE_SUM:
		if (collective_is_wait(item->sum.of.op))
			c->waits_not_known += item->sum.calls;
		else if (!strncmp(item->sum.of.op->name, "c10d::", 6) &&
			 !collective_is_reducers(item->sum.of.op))
			c->summed += item->sum.calls;
		return 0;
	case TRACE_DONE:
		return see_done(c, &item->done, item->rank1);
	case TRACE_ACTIVITY:
		return collective_is_kernel(&item->activity) ? see_kernel(c, &item->activity) : 0;
	case TRACE_LOST:
		c->lost += item->lost.count;
		return 0;
	case TRACE_CLOCK:
		return see_clock(c, item->clock);
	case TRACE_PROCESS:
		return see_process(c, &item->process);
	case TRACE_TARGET:
		c->blind |= item->target.engine && strcmp(item->target.engine, "shim") != 0;
		return 0;
	default:
		return 0;
	}
}

static int sum_work(struct collective_row *r, const struct collective_call *call)
{
	int code = 0;
	r->done += call->done_ns > 0;
	r->waits += call->wait_ns > 0;
	r->waited_ns += call->waited_ns;
	if (call->done_ns)
		code = histogram_add(&r->done_ns, call->done_ns - call->start_ns);
	if (call->wait_ns && !code)
		code = histogram_add(&r->waits_ns, call->waited_ns);
	return code;
}

static int sum_calls(struct collectives *c, const struct collective_calls *calls)
{
	for (size_t k = 0; k < calls->n; k++) {
		const struct collective_call *call = &calls->all[k];
		struct collective_row *r = &c->rows[call->row];
		if (!call->chosen)
			continue;
		r->calls++;
		if (sum_work(r, call) || (call->bucket1 && collective_bucket_sum(c, call)))
			return -ENOMEM;
		if (call->ns == COLLECTIVE_OPEN)
			continue;
		r->max_ns = call->ns > r->max_ns ? call->ns : r->max_ns;
		if (histogram_add(&r->ns, call->ns))
			return -ENOMEM;
	}
	return 0;
}

/* Once for each row that it is in: where the ranks have different lines, it is in several. */
static int sum_entry(struct collectives *c, const struct collective_world *w, size_t k)
{
	struct collective_entry e = collective_entered(c, w, k);
	for (size_t i = 0; i < w->nranks; i++) {
		const struct collective_call *call = collective_call_of(c, w, k, i);
		struct collective_row *r = &c->rows[call->row];
		bool again = !call->chosen;
		for (size_t j = 0; j < i && !again; j++)
			again = collective_call_of(c, w, k, j)->row == call->row;
		if (again)
			continue;
		if (!r->last && !(r->last = calloc(c->nranks, sizeof(*r->last))))
			return -ENOMEM;
		r->matched++;
		r->last[w->ranks[e.last]]++;
		if (histogram_add(&r->spread_ns, e.last_ns - e.first_ns))
			return -ENOMEM;
	}
	return 0;
}

int collectives_sum(struct collectives *c)
{
	int r = 0;
	for (size_t i = 0; i < c->ngroups && !r; i++) {
		r = sum_calls(c, &c->groups[i].calls[NOT_NUMBERED]);
		r = r ? r : sum_calls(c, &c->groups[i].calls[NUMBERED]);
	}
	for (size_t i = 0; i < c->nworlds; i++)
		for (size_t k = 0; k < c->worlds[i].n && !r; k++)
			r = sum_entry(c, &c->worlds[i], k);
	return r;
}
