/* What was allocated and freed, in the rows of the ops that did it; the peaks, and what held them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "perf/report/internal.h"

/* Events come nearly in the order of their times: those within an op when that has ended. So many
 * are kept to be put in order; the older half is then taken. */
enum { WINDOW = 1 << 18 };

struct memory_step {
	uint64_t ns, address, bytes, total;
	uint32_t row1,
	    number; /* row1: its index + 1, 0: none; number: in the order in which they came */
	uint16_t device;
	bool freed;
};

/* What a row holds of a device's memory. */
struct held_memory {
	uint64_t live, at_peak;
	uint64_t peak; /* number of the peak that `at_peak` is of; of a later one it is `live` */
	uint32_t row1;
	uint16_t device;
};

struct memory_sums {
	struct memory_peak *peaks; /* by device of a process */
	uint64_t *numbers;	   /* of the peaks that there were */
	size_t npeaks, peaks_room, numbers_room;
	struct memory_step *steps;
	size_t n, room;
	uint64_t taken_ns;  /* what is earlier comes too late */
	struct map held_at; /* by row and device */
	struct held_memory *held;
	size_t nheld, held_room;
	struct block_table blocks; /* by address and device; tag: index in `held` */
};

void aggregate_memory_free(struct memory_sums *m)
{
	if (!m)
		return;
	free(m->peaks);
	free(m->numbers);
	free(m->steps);
	free(m->held);
	map_free(&m->held_at);
	block_table_free(&m->blocks);
	free(m);
}

static int64_t device_of(struct memory_sums *m, const struct memory_event *e)
{
	for (size_t i = 0; i < m->npeaks; i++)
		if (m->peaks[i].pid == e->of.pid && m->peaks[i].device_type == e->device_type &&
		    m->peaks[i].device_index == e->device_index)
			return (int64_t)i;
	if (m->npeaks == UINT16_MAX ||
	    array_grow(&m->peaks, &m->peaks_room, m->npeaks + 1, sizeof(*m->peaks)) ||
	    array_grow(&m->numbers, &m->numbers_room, m->npeaks + 1, sizeof(*m->numbers)))
		return -ENOMEM;
	m->numbers[m->npeaks] = 1;
	m->peaks[m->npeaks] = (struct memory_peak){.pid = e->of.pid,
						   .rank1 = e->of.rank1,
						   .device_type = e->device_type,
						   .device_index = e->device_index};
	return (int64_t)m->npeaks++;
}

/* An address, which is below 2^56, in the memory of a device. */
static uint64_t block_key(uint64_t address, uint16_t device)
{
	return address ^ (uint64_t)device << 56 ^ (uint64_t)device << 40;
}

static struct held_memory *held_of(struct memory_sums *m, uint32_t row1, uint16_t device)
{
	const uint64_t key = (uint64_t)row1 << 16 | device;
	int64_t at = map_get(&m->held_at, key);
	if (at < 0) {
		if (array_grow(&m->held, &m->held_room, m->nheld + 1, sizeof(*m->held)) ||
		    map_put(&m->held_at, key, (uint32_t)m->nheld))
			return NULL;
		at = (int64_t)m->nheld++;
		m->held[at] = (struct held_memory){.row1 = row1, .device = device};
	}
	return &m->held[at];
}

static void held_change(const struct memory_sums *m, struct held_memory *h, int64_t bytes)
{
	if (h->peak != m->numbers[h->device])
		h->at_peak = h->live;
	h->peak = m->numbers[h->device];
	h->live += (uint64_t)bytes;
}

static void block_released(struct memory_sums *m, const struct block *was)
{
	if (was->bytes)
		held_change(m, &m->held[was->tag], -(int64_t)was->bytes);
}

static int block_allocated(struct memory_sums *m, const struct memory_step *s)
{
	struct held_memory *h = held_of(m, s->row1, s->device);
	struct block was;
	if (!h || block_table_put(&m->blocks, block_key(s->address, s->device), s->bytes,
				  (uint64_t)(h - m->held), &was))
		return -ENOMEM;
	block_released(m, &was);
	held_change(m, h, (int64_t)s->bytes);
	return 0;
}

static void block_freed(struct memory_sums *m, const struct memory_step *s)
{
	const struct block was = block_table_take(&m->blocks, block_key(s->address, s->device));
	block_released(m, &was);
}

static int take_step(struct memory_sums *m, const struct memory_step *s)
{
	struct memory_peak *p = &m->peaks[s->device];
	int r = 0;
	if (s->freed)
		block_freed(m, s);
	else if (s->bytes)
		r = block_allocated(m, s);
	if (s->total > p->bytes) {
		p->bytes = s->total;
		p->ns = s->ns;
		m->numbers[s->device]++;
	}
	return r;
}

static int compare_steps(const void *a, const void *b)
{
	const struct memory_step *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Take all but the last `keep`. 0 or -ENOMEM. */
static int take_steps(struct memory_sums *m, size_t keep)
{
	int r = 0;
	size_t n = m->n > keep ? m->n - keep : 0;
	qsort(m->steps, m->n, sizeof(*m->steps), compare_steps);
	for (size_t i = 0; i < n && !r; i++)
		r = take_step(m, &m->steps[i]);
	m->taken_ns = n ? m->steps[n - 1].ns : m->taken_ns;
	memmove(m->steps, m->steps + n, (m->n - n) * sizeof(*m->steps));
	m->n -= n;
	for (size_t i = 0; i < m->n; i++)
		m->steps[i].number = (uint32_t)i;
	return r;
}

/* The row of its op; -1: there is none. */
static int64_t row_of_memory(struct aggregate *a, const struct memory_event *e)
{
	const bool in_mark = aggregate_is_mark(a, e->of.op);
	unsigned launch = in_mark ? LAUNCH_IN_NO_OP : e->launch;
	struct op_desc none = {.name = report_launch_text(launch)};
	struct op_event of = e->of;
	const struct aggregate_thread *t = aggregate_thread_known(a, &of);
	if (a->keys & AGGREGATE_NO_ACTIVITIES)
		return -1;
	if (a->keys & AGGREGATE_TENSORS && launch == LAUNCH_IN_OP) {
		int64_t row = aggregate_known(a, of.id);
		if (row >= 0)
			return row;
		launch = AGGREGATE_NO_CALL;
	}
	of.op = of.op && !in_mark ? of.op : &none;
	return aggregate_row_of(a, &of, t && t->worker, launch);
}

static void count_memory(struct aggregate *a, int64_t row, const struct memory_event *e)
{
	const enum memory_kind kind = memory_kind(e->device_type);
	struct memory_row *r = row >= 0 ? &a->rows[row]->memory[kind] : NULL;
	a->totals.memory_events++;
	a->totals.device_memory_events += kind == MEMORY_DEVICES;
	a->totals.memory_unknown += e->freed && !e->bytes;
	if (r && e->freed) {
		r->frees++;
		r->freed += e->bytes;
	} else if (r) {
		r->allocs++;
		r->allocated += e->bytes;
	}
}

static bool net_push(struct aggregate_thread *t, const struct net_step *s)
{
	if (array_grow(&t->inside, &t->inside_room, t->ninside + 1, sizeof(*t->inside)))
		return false;
	t->inside[t->ninside++] = *s;
	return true;
}

int aggregate_memory_inside(struct aggregate_thread *t, const struct op_event *ev,
			    struct net_memory *out)
{
	struct net_step all = {.ns = ev->start_ns};
	while (t->ninside && t->inside[t->ninside - 1].ns >= ev->start_ns)
		net_add(&all.net, &t->inside[--t->ninside].net);
	*out = all.net;
	t->last_id = ev->id;
	t->is_nested = ev->depth > 0;
	if (!t->is_nested)
		t->ninside = 0;
	bool is_any = false;
	for (int k = 0; k < MEMORY_KINDS; k++)
		is_any |= all.net.of[k] != 0;
	return !is_any || !t->is_nested || net_push(t, &all) ? 0 : -ENOMEM;
}

/* It comes behind its op, which has been added, and before the op that called that. 0 or -ENOMEM.
 */
static int add_net(struct aggregate *a, int64_t row, const struct memory_event *e)
{
	const struct aggregate_thread *known = aggregate_thread_known(a, &e->of);
	const enum memory_kind kind = memory_kind(e->device_type);
	struct net_step s = {.ns = e->of.start_ns};
	s.net.of[kind] = e->freed ? -(int64_t)e->bytes : (int64_t)e->bytes;
	a->rows[row]->memory[kind].net += s.net.of[kind];
	if (e->launch != LAUNCH_IN_OP || aggregate_is_mark(a, e->of.op))
		return 0;
	if (!known || !e->of.id || e->of.id != known->last_id) {
		a->totals.memory_late++;
		return 0;
	}
	struct aggregate_thread *t = &a->threads[known - a->threads];
	for (uint32_t i = t->npending; i-- > 0;) {
		if (t->pending[i].row != (uint32_t)row)
			continue;
		net_add(&t->pending[i].net, &s.net);
		break;
	}
	return !t->is_nested || net_push(t, &s) ? 0 : -ENOMEM;
}

int aggregate_add_memory(struct aggregate *a, const struct memory_event *e)
{
	if (!a->memory && !(a->memory = calloc(1, sizeof(*a->memory))))
		return -ENOMEM;
	struct memory_sums *m = a->memory;
	int64_t device = device_of(m, e), row = row_of_memory(a, e);
	if (device < 0 || row == -ENOMEM)
		return -ENOMEM;
	count_memory(a, row, e);
	if (row >= 0 && add_net(a, row, e))
		return -ENOMEM;
	if (m->n == WINDOW && take_steps(m, WINDOW / 2))
		return -ENOMEM;
	if (array_grow(&m->steps, &m->room, m->n + 1, sizeof(*m->steps)))
		return -ENOMEM;
	struct memory_peak *p = &m->peaks[device];
	p->late += e->of.start_ns < m->taken_ns;
	p->reserved = e->reserved > p->reserved ? e->reserved : p->reserved;
	m->steps[m->n] = (struct memory_step){
	    .ns = e->of.start_ns,
	    .address = e->address,
	    .bytes = e->bytes,
	    .total = e->total,
	    .row1 = (uint32_t)(row + 1),
	    .number = (uint32_t)m->n,
	    .device = (uint16_t)device,
	    .freed = e->freed,
	};
	m->n++;
	return 0;
}

void aggregate_memory_lost(struct aggregate *a, uint64_t count)
{
	a->totals.memory_lost += count;
}

void aggregate_begun_late(struct aggregate *a)
{
	a->totals.late = true;
}

int aggregate_memory_end(struct aggregate *a)
{
	struct memory_sums *m = a->memory;
	int r = m ? take_steps(m, 0) : 0;
	if (!m || r)
		return r;
	const bool has_net = aggregate_keys(a) & AGGREGATE_NET_MEMORY;
	for (size_t i = 0; i < a->row_ids.used; i++)
		for (int k = 0; k < MEMORY_KINDS; k++) {
			struct memory_row *row = &a->rows[i]->memory[k];
			row->at_peak = 0;
			row->net = has_net ? row->net : 0;
		}
	for (size_t i = 0; i < m->npeaks; i++)
		m->peaks[i].known = 0;
	for (size_t i = 0; i < m->nheld; i++) {
		const struct held_memory *h = &m->held[i];
		uint64_t bytes = h->peak == m->numbers[h->device] ? h->at_peak : h->live;
		struct memory_peak *p = &m->peaks[h->device];
		p->known += bytes;
		if (h->row1)
			a->rows[h->row1 - 1]->memory[memory_kind(p->device_type)].at_peak += bytes;
	}
	return 0;
}

const struct memory_peak *aggregate_peaks(const struct aggregate *a, size_t *n)
{
	*n = a->memory ? a->memory->npeaks : 0;
	return *n ? a->memory->peaks : NULL;
}
