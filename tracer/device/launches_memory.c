/* What was done with memory, and in which op. */
#include "tracer/device/launches.h"

#include "base/arena.h"
#include "base/map.h"
#include "tracer/device/internal.h"

bool blocks_allocated(struct blocks *b, struct memory_event *m, struct memory_event *before)
{
	struct block was = {0};
	const bool is_kept =
	    !m->bytes || !block_table_put(&b->table, m->address, m->bytes, m->of.start_ns, &was);
	if (is_kept && was.bytes) {
		*before = *m;
		before->freed = true;
		before->bytes = was.bytes;
		b->total -= was.bytes;
		before->total = b->total;
	}
	b->total += m->bytes;
	m->total = b->total;
	return is_kept && was.bytes;
}

bool blocks_freed(struct blocks *b, struct memory_event *m)
{
	const struct block *x = block_table_get(&b->table, m->address);
	if (x && m->of.start_ns < x->tag)
		return false;
	m->bytes = block_table_take(&b->table, m->address).bytes;
	b->total -= m->bytes;
	m->total = b->total;
	return true;
}

void blocks_free(struct blocks *b)
{
	block_table_free(&b->table);
	*b = (struct blocks){0};
}

static void memory_pass_on(struct launches *l, struct memory_event *m, enum activity_launch as,
			   const struct launch_op *op)
{
	m->launch = as;
	if (as == LAUNCH_IN_OP && op)
		launch_op_to(op, &m->of);
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

void launches_memory_within(struct launches *l, struct launch_process *p, struct waiting *w,
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

/* Those before `until` that came before `sure` are in no op that will come. */
void launches_memory_before(struct launches *l, struct launch_process *p, struct launch_thread *t,
			    uint64_t until, uint64_t sure)
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
		memory_settle(l, p, place, launches_judge_none(p, t, w->at[i].ns), NULL);
	}
	waiting_trim(w);
}

void launches_memory_rest(struct launches *l, struct launch_process *p, struct launch_thread *t)
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
	struct launch_thread *t = m->of.tid ? launches_thread(l, p, m->of.tid) : NULL;
	if (!t || op_history_find(&t->ops, m->of.start_ns, &as, &op) || !memory_hold(l, p, t, m))
		memory_pass_on(l, m, as, &op);
}

/* What is not the CPU's tells itself how much there is. */
void launches_memory_record(struct launches *l, struct launch_process *p,
			    const struct activity_record *r)
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
