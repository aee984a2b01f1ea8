#include "perf/report/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/report/internal.h"
#include "perf/report/report.h"

enum { PENDING_MAX = 65536 };

/* Finished calls of a row inside ops that are still open. Of recursive calls, only the outermost.
 */
struct pending {
	uint32_t row;
	uint16_t depth; /* of the outermost finished op that contains them, or their own */
	uint64_t ns;	/* their share of the row's total_ns */
};

struct aggregate_thread {
	int32_t pid;
	int32_t rank_at; /* index of its rank; -1: not known */
	bool worker, has_stack;
	uint64_t first_ns, last_ns;
	uint64_t self_ns, backward_ns; /* self times of its ops; of those in the backward */
	struct pending *pending;       /* in ascending order of depth */
	uint32_t npending, pending_size;
	struct flops_nest flops;
};

/* Two-way cache of the rows of recent events: the hash of the key selects a pair of entries, which
 * share one cache line. */
struct memo {
	const struct op_desc *op;
	const struct py_stack *where_stack;
	const struct aggregate_row *row;
	uint32_t id;	 /* of the row */
	uint32_t thread; /* 8 * index of the thread + 2 * phase + whether its line is its own */
};

enum { MEMO_PAIRS = 8192, CACHE_LINE = 64 };
_Static_assert(2 * sizeof(struct memo) == CACHE_LINE, "a pair of memos is a cache line");

/* The row of a forward op, at index id modulo AGGREGATE_SIDES_MAX. */
struct side {
	uint64_t id;
	uint32_t row;
};

struct aggregate {
	unsigned keys;
	struct memo (*memos)[2]; /* MEMO_PAIRS of them, or NULL */
	int32_t last_pid, last_tid;
	uint32_t last_rank1;
	struct aggregate_thread *last_thread; /* of last_pid and last_tid, or NULL */
	struct side *sides;
	size_t sides_room;
	struct intern row_ids, thread_ids;
	uint32_t *ranks; /* by index */
	size_t nranks, ranks_room;
	struct arena arena;
	struct aggregate_row **rows;
	uint32_t *merged; /* by row: scratch space of compact() */
	struct aggregate_thread *threads;
	uint32_t rows_size, threads_size;
	struct aggregate_totals totals;
};

struct aggregate *aggregate_new_by(unsigned keys)
{
	const unsigned others = AGGREGATE_SHAPE | AGGREGATE_DTYPE | AGGREGATE_DEVICE |
				AGGREGATE_SYMBOL | AGGREGATE_SAMPLES;
	struct aggregate *a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->keys = keys;
	if (keys & AGGREGATE_STEADY &&
	    !(keys & others)) /* only a cache: may stay NULL if out of memory */
		a->memos = aligned_alloc(CACHE_LINE, MEMO_PAIRS * sizeof(*a->memos));
	aggregate_forget(a);
	return a;
}

struct aggregate *aggregate_new(void)
{
	return aggregate_new_by(AGGREGATE_DEFAULT);
}

unsigned aggregate_keys(const struct aggregate *a)
{
	return a->keys | (a->nranks > 1 ? AGGREGATE_RANKS : 0);
}

static const char *aggregate_copy_text(struct aggregate *a, const char *s, bool *failed)
{
	if (!s)
		return NULL;
	const char *copy = arena_strndup(&a->arena, s, strlen(s));
	if (!copy)
		*failed = true;
	return copy;
}

/* Double the capacity of an array with elements of that size; new elements are zero. */
static int grow(void *array, uint32_t *size, size_t element)
{
	void *old;
	uint32_t more = *size ? *size * 2 : 64;
	memcpy(&old, array, sizeof(old));
	void *grown = realloc(old, more * element);
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + *size * element, 0, (more - *size) * element);
	memcpy(array, &grown, sizeof(grown));
	*size = more;
	return 0;
}

static int grow_rows(struct aggregate *a)
{
	uint32_t size = a->rows_size;
	int r = grow(&a->merged, &size, sizeof(*a->merged));
	return r ? r : grow(&a->rows, &a->rows_size, sizeof(*a->rows));
}

static struct aggregate_row *add_row(struct aggregate *a, uint32_t id,
				     const struct aggregate_row *like)
{
	bool failed = id >= a->rows_size && grow_rows(a);
	char *room =
	    failed ? NULL : arena_alloc(&a->arena, sizeof(struct aggregate_row) + CACHE_LINE);
	if (!room)
		return NULL;
	struct aggregate_row *row = (void *)(room + (0 - (uintptr_t)room) % CACHE_LINE);
	*row = *like;
	row->min_ns = UINT64_MAX;
	row->op = aggregate_copy_text(a, like->op, &failed);
	row->file = aggregate_copy_text(a, like->file, &failed);
	row->function = aggregate_copy_text(a, like->function, &failed);
	row->text = aggregate_copy_text(a, like->text, &failed);
	row->module = aggregate_copy_text(a, like->module, &failed);
	row->shape = aggregate_copy_text(a, like->shape, &failed);
	row->dtype = aggregate_copy_text(a, like->dtype, &failed);
	row->device = aggregate_copy_text(a, like->device, &failed);
	row->symbol = aggregate_copy_text(a, like->symbol, &failed);
	row->object = aggregate_copy_text(a, like->object, &failed);
	if (a->keys & AGGREGATE_BATCHES) {
		row->batches = arena_alloc(&a->arena, sizeof(*row->batches));
		failed |= !row->batches;
	}
	if (failed)
		return NULL;
	a->rows[id] = row;
	return row;
}

/* The index of the event's row, or -ENOMEM. */
static int64_t row_of(struct aggregate *a, const struct op_event *ev, bool worker)
{
	struct aggregate_key key;
	bool is_new, failed = false;
	uint32_t len = aggregate_key(&key, a->keys, ev, worker);
	int64_t id = intern(&a->row_ids, key.bytes, len, &is_new);
	if (id < 0)
		return id;
	struct aggregate_row *row = is_new		? add_row(a, (uint32_t)id, &key.row)
				    : id < a->rows_size ? a->rows[id]
							: NULL;
	if (!row)
		return -ENOMEM; /* out of memory now, or when the row was added */
	if (!row->text && key.row.text)
		row->text = aggregate_copy_text(a, key.row.text, &failed);
	return failed ? -ENOMEM : id;
}

static int32_t rank_at(struct aggregate *a, uint32_t rank1)
{
	for (size_t i = 0; rank1 && i < a->nranks; i++)
		if (a->ranks[i] == rank1 - 1)
			return (int32_t)i;
	if (!rank1 || a->nranks == AGGREGATE_RANKS_MAX ||
	    array_grow(&a->ranks, &a->ranks_room, a->nranks + 1, sizeof(*a->ranks)))
		return -1;
	a->ranks[a->nranks] = rank1 - 1;
	return (int32_t)a->nranks++;
}

/* Processes of different hosts may have the same PID. */
static struct aggregate_thread *find_thread(struct aggregate *a, const struct op_event *ev)
{
	int32_t key[3] = {ev->pid, ev->tid, (int32_t)ev->rank1};
	bool is_new;
	if (a->last_thread && a->last_pid == ev->pid && a->last_tid == ev->tid &&
	    a->last_rank1 == ev->rank1)
		return a->last_thread;
	int64_t id = intern(&a->thread_ids, key, sizeof(key), &is_new);
	if (id < 0 ||
	    (id >= a->threads_size && grow(&a->threads, &a->threads_size, sizeof(*a->threads))))
		return NULL;
	struct aggregate_thread *t = &a->threads[id];
	if (is_new) {
		*t = (struct aggregate_thread){.pid = ev->pid,
					       .rank_at = rank_at(a, ev->rank1),
					       .first_ns = ev->start_ns,
					       .last_ns = ev->start_ns};
		a->totals.threads++;
	}
	a->last_pid = ev->pid;
	a->last_tid = ev->tid;
	a->last_rank1 = ev->rank1;
	a->last_thread = t;
	return t;
}

/* Ops and stacks are at least 16 bytes apart: the low 4 bits of their addresses say nothing. */
static struct memo *memos_of(const struct aggregate *a, const struct memo *m)
{
	uint64_t h = ((uintptr_t)m->op >> 4) * 0x9e3779b97f4a7c15u;
	h = (h ^ (uintptr_t)m->where_stack >> 4 ^ (uint64_t)m->thread << 40) * 0xff51afd7ed558ccdu;
	return a->memos[h >> 51];
}

static struct memo key_of(const struct aggregate *a, const struct aggregate_thread *t,
			  const struct op_event *ev)
{
	return (struct memo){.op = ev->op,
			     .where_stack = ev->where_stack,
			     .thread = (uint32_t)(t - a->threads) * 8 + ev->phase * 2U +
				       event_is_called_in_backward(ev)};
}

static bool is_for(const struct memo *m, const struct memo *n)
{
	return m->row && m->op == n->op && m->where_stack == n->where_stack &&
	       m->thread == n->thread;
}

void aggregate_forget(struct aggregate *a)
{
	if (a->memos)
		memset(a->memos, 0, MEMO_PAIRS * sizeof(*a->memos));
}

void aggregate_prefetch(const struct aggregate *a, const struct op_event *ev, int after)
{
	const struct aggregate_thread *t = a->last_thread;
	if (!a->memos || !t || a->last_pid != ev->pid || a->last_tid != ev->tid)
		return;
	struct memo key = key_of(a, t, ev);
	const struct memo *m = memos_of(a, &key);
	if (after == 3) {
		__builtin_prefetch(m, 0);
		return;
	}
	const struct aggregate_row *row = is_for(&m[0], &key)	? m[0].row
					  : is_for(&m[1], &key) ? m[1].row
								: NULL;
	if (!row)
		return;
	if (after == 2)
		__builtin_prefetch(row, 1);
	histogram_prefetch(&row->times, ev->end_ns - ev->start_ns, after == 1);
}

/* Like row_of, through the cache. A row without source text is looked up again, since the text may
 * have become known. */
static int64_t row_again(struct aggregate *a, const struct aggregate_thread *t,
			 const struct op_event *ev)
{
	if (!a->memos)
		return row_of(a, ev, t->worker);
	struct memo new = key_of(a, t, ev);
	struct memo *m = memos_of(a, &new);
	for (int i = 0; i < 2; i++)
		if (is_for(&m[i], &new) && (m[i].row->text || !(a->keys & AGGREGATE_LINE)))
			return m[i].id;
	int64_t id = row_of(a, ev, t->worker);
	if (id < 0)
		return id;
	new.id = (uint32_t)id;
	new.row = a->rows[id];
	if (!is_for(&m[0], &new))
		m[1] = m[0];
	m[0] = new;
	return id;
}

static void observe(struct aggregate *a, struct aggregate_thread *t, const struct op_event *ev)
{
	uint64_t end = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns;
	a->totals.observed_ns -= t->last_ns - t->first_ns;
	if (ev->start_ns < t->first_ns)
		t->first_ns = ev->start_ns;
	if (end > t->last_ns)
		t->last_ns = end;
	a->totals.observed_ns += t->last_ns - t->first_ns;
}

/* Merge pending entries of the same row and depth. */
static void compact(struct aggregate *a, struct aggregate_thread *t)
{
	uint32_t kept = 0, run = 0;
	for (uint32_t i = 0; i < t->npending; i++) {
		struct pending p = t->pending[i];
		if (kept == 0 || t->pending[kept - 1].depth != p.depth)
			run = kept;
		uint32_t at = a->merged[p.row];
		if (at >= run && at < kept && t->pending[at].row == p.row) {
			t->pending[at].ns += p.ns;
			continue;
		}
		a->merged[p.row] = kept;
		t->pending[kept++] = p;
	}
	t->npending = kept;
}

static int push(struct aggregate *a, struct aggregate_thread *t, struct pending p)
{
	if (t->npending == PENDING_MAX) {
		compact(a, t);
		if (t->npending > PENDING_MAX / 2)
			t->npending = 0;
	}
	if (t->npending == t->pending_size &&
	    grow(&t->pending, &t->pending_size, sizeof(*t->pending)))
		return -ENOMEM;
	t->pending[t->npending++] = p;
	return 0;
}

/* Calls of the same row inside this one are already part of its duration: subtract them from the
 * row's total. The other pending calls move up to this op's depth. */
static int nest(struct aggregate *a, struct aggregate_thread *t, uint32_t id, uint16_t depth,
		uint64_t ns)
{
	uint32_t from = t->npending, kept;
	while (from && t->pending[from - 1].depth > depth)
		from--;
	kept = from;
	for (uint32_t i = from; i < t->npending; i++) {
		struct pending p = t->pending[i];
		if (p.row == id) {
			a->rows[id]->total_ns -= p.ns;
			continue;
		}
		p.depth = depth;
		t->pending[kept++] = p;
	}
	t->npending = kept;
	if (depth == 0) {
		t->npending = 0;
		return 0;
	}
	return push(a, t, (struct pending){.row = id, .depth = depth, .ns = ns});
}

static int count_call(struct aggregate *a, struct aggregate_row *row, const struct op_event *ev,
		      uint64_t ns)
{
	uint64_t self = ns > ev->child_ns ? ns - ev->child_ns : 0;
	row->calls++;
	if (ev->thrown)
		row->thrown++;
	row->total_ns += ns;
	row->sum_ns += ns;
	row->self_ns += self;
	if (ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	a->totals.events++;
	a->totals.thrown += ev->thrown;
	a->totals.self_ns += self;
	if (row->batches)
		batches_add(row->batches, a->totals.events + a->totals.passed - 1,
			    log(ns ? (double)ns : 1));
	return histogram_add(&row->times, ns);
}

static int count_rank(struct aggregate_row *row, const struct aggregate_thread *t, uint64_t self)
{
	size_t room = row->nranks;
	if (t->rank_at < 0)
		return 0;
	if ((size_t)t->rank_at >= room) {
		if (array_grow(&row->ranks_ns, &room, (size_t)t->rank_at + 1,
			       sizeof(*row->ranks_ns)))
			return -ENOMEM;
		memset(row->ranks_ns + row->nranks, 0,
		       (room - row->nranks) * sizeof(*row->ranks_ns));
		row->nranks = (uint32_t)room;
	}
	row->ranks_ns[t->rank_at] += self;
	return 0;
}

static void count_flops(struct aggregate_thread *t, struct aggregate_row *row,
			const struct op_event *ev)
{
	double flops;
	row->flops_unknown += flops_of(ev, &flops) == FLOPS_UNKNOWN;
	row->flops += flops_own(&t->flops, ev->depth, flops);
}

static int remember_side(struct aggregate *a, uint64_t event, uint32_t row)
{
	size_t at = event % AGGREGATE_SIDES_MAX, old = a->sides_room;
	if (at >= old) {
		if (array_grow(&a->sides, &a->sides_room, at + 1, sizeof(*a->sides)))
			return -ENOMEM;
		memset(a->sides + old, 0, (a->sides_room - old) * sizeof(*a->sides));
	}
	a->sides[at] = (struct side){.id = event, .row = row};
	return 0;
}

/* The row of the node's forward op, or the node's own if the forward op is not known; or -ENOMEM.
 */
static int64_t row_of_node(struct aggregate *a, const struct op_event *ev)
{
	size_t at = ev->forward_id % AGGREGATE_SIDES_MAX;
	if (ev->forward_id && at < a->sides_room && a->sides[at].id == ev->forward_id)
		return a->sides[at].row;
	return row_of(a, ev, false);
}

/* In the backward, nodes count in the row of their forward op, and other ops in no row. All of them
 * count as time in ops. What is recomputed makes nodes of its own. */
static int add_backward(struct aggregate *a, const struct op_event *ev, uint64_t ns)
{
	a->totals.events++;
	a->totals.thrown += ev->thrown;
	a->totals.self_ns += ns > ev->child_ns ? ns - ev->child_ns : 0;
	if (ev->op->kind != OP_BACKWARD && ev->phase != PHASE_RECOMPUTE)
		return 0;
	int64_t id = ev->phase == PHASE_RECOMPUTE ? row_of(a, ev, false) : row_of_node(a, ev);
	if (id < 0)
		return -ENOMEM;
	if (ev->phase == PHASE_RECOMPUTE)
		return remember_side(a, ev->id, (uint32_t)id);
	a->rows[id]->backward_calls++;
	a->rows[id]->backward_ns += ns;
	return 0;
}

static void find_worker(const struct aggregate *a, struct aggregate_thread *t,
			const struct op_event *ev)
{
	if (!(a->keys & AGGREGATE_WORKERS) || t->has_stack || !ev->stack)
		return;
	t->has_stack = true;
	t->worker = breakdown_is_worker(ev->stack);
}

int aggregate_add(struct aggregate *a, const struct op_event *ev)
{
	struct aggregate_thread *t = find_thread(a, ev);
	if (!t)
		return -ENOMEM;
	observe(a, t, ev);
	find_worker(a, t, ev);
	if (ev->end_ns == 0) {
		a->totals.unfinished++;
		return 0;
	}
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	uint64_t self = ns > ev->child_ns ? ns - ev->child_ns : 0;
	t->self_ns += self;
	t->backward_ns += ev->phase != PHASE_FORWARD ? self : 0;
	if (a->keys & AGGREGATE_SIDES && ev->phase != PHASE_FORWARD)
		return add_backward(a, ev, ns);
	int64_t id = row_again(a, t, ev);
	if (id < 0)
		return -ENOMEM;
	int r = count_call(a, a->rows[id], ev, ns);
	r = r ? r : count_rank(a->rows[id], t, self);
	if (!r && a->keys & AGGREGATE_SIDES)
		r = remember_side(a, ev->id, (uint32_t)id);
	if (a->keys & AGGREGATE_FLOPS)
		count_flops(t, a->rows[id], ev);
	return r ? r : nest(a, t, (uint32_t)id, ev->depth, ns);
}

static void count_sum(struct aggregate *a, struct aggregate_row *row, const struct op_sum *s)
{
	/* Of calls within others of the same row, the outer ones have the time. */
	bool is_inner = a->keys & AGGREGATE_OP ? s->again : s->nested;
	double flops;
	if (a->keys & AGGREGATE_FLOPS && flops_of(&s->of, &flops) == FLOPS_UNKNOWN)
		row->flops_unknown += s->calls;
	row->calls += s->calls;
	row->thrown += s->thrown;
	row->total_ns += is_inner ? 0 : s->total_ns;
	row->sum_ns += s->total_ns;
	row->self_ns += s->total_ns - s->child_ns;
	row->min_ns = s->min_ns < row->min_ns ? s->min_ns : row->min_ns;
	row->max_ns = s->max_ns > row->max_ns ? s->max_ns : row->max_ns;
}

/* In the row of a node, as its forward op is not known; other ops of the backward are in none. */
static int add_backward_sum(struct aggregate *a, const struct op_sum *s)
{
	if (s->of.op->kind != OP_BACKWARD && s->of.phase != PHASE_RECOMPUTE)
		return 0;
	int64_t id = row_of(a, &s->of, false);
	if (id < 0)
		return -ENOMEM;
	if (s->of.phase == PHASE_RECOMPUTE)
		return 0;
	a->rows[id]->backward_calls += s->calls;
	a->rows[id]->backward_ns += s->total_ns;
	return 0;
}

int aggregate_add_sum(struct aggregate *a, const struct op_sum *sum)
{
	struct op_sum s = *sum;
	struct aggregate_thread *t = find_thread(a, &s.of);
	if (!t)
		return -ENOMEM;
	s.child_ns = s.child_ns < s.total_ns ? s.child_ns : s.total_ns;
	uint64_t self = s.total_ns - s.child_ns;
	observe(a, t, &s.of);
	find_worker(a, t, &s.of);
	a->totals.events += s.calls;
	a->totals.summed += s.calls;
	a->totals.thrown += s.thrown;
	a->totals.self_ns += self;
	t->self_ns += self;
	t->backward_ns += s.of.phase != PHASE_FORWARD ? self : 0;
	if (a->keys & AGGREGATE_SIDES && s.of.phase != PHASE_FORWARD)
		return add_backward_sum(a, &s);
	int64_t id = row_of(a, &s.of, t->worker);
	if (id < 0)
		return -ENOMEM;
	count_sum(a, a->rows[id], &s);
	return count_rank(a->rows[id], t, self);
}

void aggregate_pass(struct aggregate *a)
{
	a->totals.passed++;
}

void aggregate_lost(struct aggregate *a, uint64_t count)
{
	a->totals.lost += count;
}

const struct aggregate_row *const *aggregate_rows(const struct aggregate *a, size_t *n)
{
	*n = a->row_ids.used;
	return (const struct aggregate_row *const *)a->rows;
}

static uint64_t span_of(const struct aggregate_thread *t)
{
	return t->last_ns - t->first_ns;
}

/* While other threads run the backward, those that call ops wait for them: they are not in no op.
 */
static void totals_of_callers(const struct aggregate *a, struct aggregate_totals *out)
{
	uint64_t every = 0;
	out->observed_ns = out->self_ns = out->workers = 0;
	for (uint32_t i = 0; i < a->thread_ids.used; i++) {
		const struct aggregate_thread *t = &a->threads[i];
		out->workers += t->worker;
		out->workers_ns += t->worker ? span_of(t) : 0;
		if (t->worker)
			continue;
		every += span_of(t);
		out->self_ns += t->self_ns;
		out->observed_ns += t->self_ns > t->backward_ns ? span_of(t) : 0;
	}
	/* Several ran the backward at once. */
	if (out->self_ns > out->observed_ns)
		out->observed_ns = every;
}

enum aggregate_process aggregate_process(const struct aggregate *a, int32_t pid)
{
	enum aggregate_process is = AGGREGATE_NO_OPS;
	for (uint32_t i = 0; i < a->thread_ids.used && is != AGGREGATE_OPS; i++)
		if (a->threads[i].pid == pid)
			is = a->threads[i].worker ? AGGREGATE_LOADS : AGGREGATE_OPS;
	return is;
}

const uint32_t *aggregate_ranks(const struct aggregate *a, size_t *n)
{
	*n = a->nranks;
	return a->ranks;
}

uint64_t aggregate_rank_ns(const struct aggregate_row *row, size_t index)
{
	return index < row->nranks ? row->ranks_ns[index] : 0;
}

void aggregate_totals(const struct aggregate *a, struct aggregate_totals *out)
{
	*out = a->totals;
	out->all_ns = out->observed_ns;
	if (a->keys & AGGREGATE_SAMPLES)
		out->observed_ns = out->self_ns;
	else if (a->keys & AGGREGATE_WORKERS)
		totals_of_callers(a, out);
}

uint64_t aggregate_quantile(const struct aggregate_row *row, double q)
{
	uint64_t ns = histogram_quantile(&row->times, q);
	if (!row->calls || !aggregate_has_quantiles(row))
		return 0;
	return ns < row->min_ns ? row->min_ns : ns > row->max_ns ? row->max_ns : ns;
}

void aggregate_free(struct aggregate *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < a->row_ids.used && i < a->rows_size; i++)
		if (a->rows[i]) {
			histogram_free(&a->rows[i]->times);
			free(a->rows[i]->ranks_ns);
		}
	for (uint32_t i = 0; i < a->threads_size; i++)
		free(a->threads[i].pending);
	intern_free(&a->row_ids);
	intern_free(&a->thread_ids);
	arena_free(&a->arena);
	free(a->rows);
	free(a->ranks);
	free(a->merged);
	free(a->threads);
	free(a->sides);
	free(a->memos);
	free(a);
}
