/* The rows and threads of an aggregate: their keys, and how they are found, made, kept, freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/report/internal.h"

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

struct memo_pair {
	struct memo of[2];
};
_Static_assert(sizeof(struct memo_pair) == CACHE_LINE, "a pair of memos is a cache line");

struct aggregate *aggregate_new(unsigned keys)
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

static unsigned keys_of_memory(const struct aggregate *a)
{
	const struct aggregate_totals *t = &a->totals;
	if (a->keys & AGGREGATE_NO_ACTIVITIES)
		return 0;
	const bool has_net =
	    t->memory_events && !t->summed && !t->memory_late && !(a->keys & AGGREGATE_PART);
	return (t->memory_events > t->device_memory_events ? AGGREGATE_MEMORY : 0) |
	       (t->device_memory_events ? AGGREGATE_DEVICE_MEMORY : 0) |
	       (has_net ? AGGREGATE_NET_MEMORY : 0);
}

unsigned aggregate_keys(const struct aggregate *a)
{
	return a->keys | (a->nranks > 1 ? AGGREGATE_RANKS : 0) |
	       (a->totals.activities && !(a->keys & AGGREGATE_NO_ACTIVITIES) ? AGGREGATE_ACTIVITIES
									     : 0) |
	       keys_of_memory(a);
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

int aggregate_grow(void *array, uint32_t *size, size_t element)
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

enum { KEY_MAX = 12 << 10, KEY_STRING_MAX = 1200 };

struct row_key {
	struct aggregate_row row; /* keys only; strings are the event's or in the buffers below */
	char shape[EVENT_TENSORS_MAX], dtype[EVENT_TENSORS_MAX], device[EVENT_TENSORS_MAX];
	char bytes[KEY_MAX]; /* equal for equal keys */
};

static void take_where(struct aggregate_row *r, unsigned keys, const struct py_stack *stack)
{
	const struct py_frame *where = py_stack_where(stack);
	if (keys & AGGREGATE_LINE)
		r->parameter = py_stack_parameter(stack);
	if (py_stack_is_left_out(stack) &&
	    keys & (AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION))
		r->function = py_stack_left_out_text;
	if (!where)
		return;
	if (keys & (AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION))
		r->file = where->file;
	if (keys & (AGGREGATE_LINE | AGGREGATE_FUNCTION))
		r->function = where->function;
	if (keys & AGGREGATE_LINE) {
		r->line = where->line;
		r->text = where->text;
	}
}

static void take_tensors(struct row_key *k, unsigned keys, const struct op_event *ev)
{
	if (keys & AGGREGATE_SHAPE)
		k->row.shape = event_shapes(k->shape, sizeof(k->shape), ev);
	if (keys & AGGREGATE_DTYPE)
		k->row.dtype = event_dtypes(k->dtype, sizeof(k->dtype), ev);
	if (keys & AGGREGATE_DEVICE)
		k->row.device = event_devices(k->device, sizeof(k->device), ev);
}

static void take_symbol(struct aggregate_row *r, const struct py_stack *native)
{
	r->symbol = native && native->depth ? native->frames[0]->function : NULL;
	r->object = native && native->depth ? native->frames[0]->file : NULL;
}

static uint32_t add_bytes(char *key, uint32_t len, const void *bytes, size_t n)
{
	memcpy(key + len, bytes, n);
	return len + (uint32_t)n;
}

static uint32_t add_string(char *key, uint32_t len, const char *s)
{
	size_t n = s ? strnlen(s, KEY_STRING_MAX) : 0;
	len = add_bytes(key, len, s ? s : "", n);
	key[len] = s ? '\0' : '\1';
	return len + 1;
}

/* Fill *k with the keys of the event, of a worker or not, that `keys` (AGGREGATE_*) selects; valid
 * as long as the event and *k are. launch: see aggregate_row_of. Returns the number of bytes in
 * k->bytes. */
static uint32_t row_key(struct row_key *k, unsigned keys, const struct op_event *ev, bool worker,
			unsigned launch)
{
	const unsigned of_ops = AGGREGATE_OP | AGGREGATE_LINE | AGGREGATE_FILE |
				AGGREGATE_FUNCTION | AGGREGATE_MODULE | AGGREGATE_TENSORS;
	struct aggregate_row *r = &k->row;
	uint32_t len = 0;
	*r = (struct aggregate_row){
	    .op = keys & AGGREGATE_OP ? ev->op->name : NULL,
	    .worker = worker,
	    .rank1 = keys & AGGREGATE_RANK ? ev->rank1 : 0,
	    .phase = keys & AGGREGATE_PHASE || ev->phase == PHASE_COMPILE ? ev->phase : 0,
	    .pid = keys & AGGREGATE_THREAD ? ev->pid : 0,
	    .tid = keys & AGGREGATE_THREAD ? ev->tid : 0};
	if (keys & of_ops)
		r->launch = (uint8_t)launch;
	else if (keys & AGGREGATE_PHASE && launch != LAUNCH_IN_OP)
		r->launch = LAUNCH_NO_THREAD; /* nothing tells such rows apart */
	if (keys & AGGREGATE_PHASE && keys & (AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION))
		r->is_own = event_is_called_in_backward(ev);
	take_where(r, keys, ev->where_stack);
	if (keys & AGGREGATE_MODULE)
		r->module = py_stack_module(ev->where_stack);
	take_tensors(k, keys, ev);
	if (keys & AGGREGATE_SYMBOL)
		take_symbol(r, ev->native);
	len = add_bytes(k->bytes, len, &r->phase, sizeof(r->phase));
	len = add_bytes(k->bytes, len, &r->launch, sizeof(r->launch));
	len = add_bytes(k->bytes, len, &r->worker, sizeof(r->worker));
	len = add_bytes(k->bytes, len, &r->is_own, sizeof(r->is_own));
	len = add_bytes(k->bytes, len, &r->rank1, sizeof(r->rank1));
	len = add_bytes(k->bytes, len, &r->line, sizeof(r->line));
	len = add_bytes(k->bytes, len, &r->pid, sizeof(r->pid));
	len = add_bytes(k->bytes, len, &r->tid, sizeof(r->tid));
	len = add_string(k->bytes, len, r->op);
	len = add_string(k->bytes, len, r->file);
	/* In rows by line the function of a file is not a key: a row shows that of its first event.
	 */
	len = add_string(k->bytes, len, keys & AGGREGATE_FUNCTION || !r->file ? r->function : NULL);
	len = add_string(k->bytes, len, r->parameter);
	len = add_string(k->bytes, len, r->module);
	len = add_string(k->bytes, len, r->shape);
	len = add_string(k->bytes, len, r->dtype);
	if (keys & AGGREGATE_SYMBOL) {
		len = add_string(k->bytes, len, r->symbol);
		len = add_string(k->bytes, len, r->object);
	}
	return add_string(k->bytes, len, r->device);
}

static int grow_rows(struct aggregate *a)
{
	uint32_t size = a->rows_size;
	int r = aggregate_grow(&a->merged, &size, sizeof(*a->merged));
	return r ? r : aggregate_grow(&a->rows, &a->rows_size, sizeof(*a->rows));
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
	row->parameter = aggregate_copy_text(a, like->parameter, &failed);
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

int64_t aggregate_row_of(struct aggregate *a, const struct op_event *ev, bool worker,
			 unsigned launch)
{
	struct row_key key;
	bool is_new, failed = false;
	uint32_t len = row_key(&key, a->keys, ev, worker, launch);
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
struct aggregate_thread *aggregate_thread_of(struct aggregate *a, const struct op_event *ev)
{
	int32_t key[3] = {ev->pid, ev->tid, (int32_t)ev->rank1};
	bool is_new;
	if (a->last_thread && a->last_pid == ev->pid && a->last_tid == ev->tid &&
	    a->last_rank1 == ev->rank1)
		return a->last_thread;
	int64_t id = intern(&a->thread_ids, key, sizeof(key), &is_new);
	if (id < 0 || (id >= a->threads_size &&
		       aggregate_grow(&a->threads, &a->threads_size, sizeof(*a->threads))))
		return NULL;
	struct aggregate_thread *t = &a->threads[id];
	if (is_new) {
		*t = (struct aggregate_thread){.pid = ev->pid,
					       .rank1 = ev->rank1,
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

const struct aggregate_thread *aggregate_thread_known(const struct aggregate *a,
						      const struct op_event *ev)
{
	int32_t key[3] = {ev->pid, ev->tid, (int32_t)ev->rank1};
	int64_t id = intern_find(&a->thread_ids, key, sizeof(key));
	return id < 0 || id >= a->threads_size ? NULL : &a->threads[id];
}

/* Ops and stacks are at least 16 bytes apart: the low 4 bits of their addresses say nothing. */
static struct memo *memos_of(const struct aggregate *a, const struct memo *m)
{
	uint64_t h = ((uintptr_t)m->op >> 4) * 0x9e3779b97f4a7c15u;
	h = (h ^ (uintptr_t)m->where_stack >> 4 ^ (uint64_t)m->thread << 40) * 0xff51afd7ed558ccdu;
	return a->memos[h >> 51].of;
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
int64_t aggregate_row_again(struct aggregate *a, const struct aggregate_thread *t,
			    const struct op_event *ev)
{
	if (!a->memos)
		return aggregate_row_of(a, ev, t->worker, LAUNCH_IN_OP);
	struct memo new = key_of(a, t, ev);
	struct memo *m = memos_of(a, &new);
	for (int i = 0; i < 2; i++)
		if (is_for(&m[i], &new) && (m[i].row->text || !(a->keys & AGGREGATE_LINE)))
			return m[i].id;
	int64_t id = aggregate_row_of(a, ev, t->worker, LAUNCH_IN_OP);
	if (id < 0)
		return id;
	new.id = (uint32_t)id;
	new.row = a->rows[id];
	if (!is_for(&m[0], &new))
		m[1] = m[0];
	m[0] = new;
	return id;
}
const struct aggregate_row *const *aggregate_rows(const struct aggregate *a, size_t *n)
{
	*n = a->row_ids.used;
	return (const struct aggregate_row *const *)a->rows;
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

void aggregate_free(struct aggregate *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < a->row_ids.used && i < a->rows_size; i++)
		if (a->rows[i]) {
			histogram_free(&a->rows[i]->times);
			free(a->rows[i]->ranks_ns);
		}
	for (uint32_t i = 0; i < a->threads_size; i++) {
		free(a->threads[i].pending);
		free(a->threads[i].inside);
	}
	intern_free(&a->row_ids);
	intern_free(&a->thread_ids);
	arena_free(&a->arena);
	free(a->rows);
	free(a->ranks);
	free(a->merged);
	free(a->threads);
	free(a->sides);
	free(a->memos);
	devices_free(a->devices);
	awaited_free(&a->early);
	aggregate_memory_free(a->memory);
	free(a);
}
