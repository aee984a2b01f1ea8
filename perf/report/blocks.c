/* Blocks of record_function: marks paired, and sums of blocks by name and line. */
#include "perf/report/blocks.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/report/internal.h"

static bool is_same_thread(const struct code_block *a, const struct code_block *b)
{
	return a->pid == b->pid && a->tid == b->tid && a->rank1 == b->rank1;
}

/* A place beside those that are open on its thread. */
static uint32_t free_slot(const struct block_pairs *p, const struct code_block *b)
{
	uint32_t slot = 0;
	for (size_t i = 0; i < p->nnow; i++) {
		const struct code_block *o = &p->open[p->now[i]];
		if (!is_same_thread(o, b) || o->slot != slot)
			continue;
		slot++;
		i = (size_t)-1; /* others may have that one */
	}
	return slot;
}

/* Whether one that began later, on the same thread, has not ended: they are not nested. Takes it
 * from the list of those that are open. */
static bool leave(struct block_pairs *p, const struct code_block *b)
{
	const uint32_t id = (uint32_t)(b - p->open);
	bool crosses = false;
	size_t i = 0;
	while (i < p->nnow && p->now[i] != id)
		i++;
	for (size_t k = i + 1; k < p->nnow; k++)
		crosses |= is_same_thread(&p->open[p->now[k]], b);
	memmove(p->now + i, p->now + i + 1, (p->nnow - i - 1) * sizeof(*p->now));
	p->nnow--;
	return crosses;
}

static int end_block(struct block_pairs *p, struct code_block *b, uint64_t end_ns)
{
	struct code_block ended = *b;
	ended.lane = leave(p, b) && end_ns ? 1 + b->slot : 0;
	b->name = NULL;
	ended.end_ns = end_ns > b->start_ns ? end_ns : end_ns ? b->start_ns : 0;
	return p->end ? p->end(p->arg, &ended) : 0;
}

/* Interned: names are few, and blocks many. */
static const char *name_of(struct block_pairs *p, const struct op_event *ev)
{
	const struct value *v = ev->args;
	return ev->nargs && v->kind == VALUE_STRING ? intern_text(&p->names, v->str) : "";
}

static int begin_block(struct block_pairs *p, struct code_block *b, const struct op_event *ev)
{
	const char *name = name_of(p, ev);
	int r = b->name ? end_block(p, b, 0) : 0;
	if (r || !name)
		return r ? r : -ENOMEM;
	if (!*name) {
		p->nameless++;
		return 0;
	}
	*b = (struct code_block){.name = name,
				 .pid = ev->pid,
				 .tid = ev->tid,
				 .rank1 = ev->rank1,
				 .start_ns = ev->end_ns,
				 .stack = ev->stack};
	b->slot = free_slot(p, b);
	if (array_grow(&p->now, &p->now_room, p->nnow + 1, sizeof(*p->now)))
		return -ENOMEM;
	p->now[p->nnow++] = (uint32_t)(b - p->open);
	return p->begin ? p->begin(p->arg, b) : 0;
}

/* What identifies a block while it is open. */
struct block_key {
	int32_t pid;
	uint32_t rank1;
	char record[MARK_BLOCK_MAX];
};

int block_pairs_add(struct block_pairs *p, const struct op_event *ev)
{
	const enum op_mark mark = op_mark(ev->op);
	struct block_key key = {.pid = ev->pid, .rank1 = ev->rank1};
	bool is_new = false;
	if (!mark || !ev->end_ns || ev->thrown)
		return 0;
	if (!event_mark_block(ev, key.record)) {
		p->nameless += mark == MARK_ENTER;
		return 0;
	}
	const uint32_t len = (uint32_t)(offsetof(struct block_key, record) + strlen(key.record));
	int64_t id = mark == MARK_ENTER ? intern(&p->ids, &key, len, &is_new)
					: intern_find(&p->ids, &key, len);
	if (mark == MARK_EXIT && (id < 0 || !p->open[id].name)) {
		p->ends++;
		return 0;
	}
	if (id < 0 || array_grow(&p->open, &p->room, (size_t)id + 1, sizeof(*p->open)))
		return -ENOMEM;
	if (is_new)
		p->open[id] = (struct code_block){0};
	return mark == MARK_EXIT ? end_block(p, &p->open[id], ev->end_ns)
				 : begin_block(p, &p->open[id], ev);
}

int block_pairs_finish(struct block_pairs *p)
{
	int r = 0;
	for (uint32_t i = 0; i < p->ids.used && i < p->room && !r; i++)
		r = p->open[i].name ? end_block(p, &p->open[i], 0) : 0;
	return r;
}

void block_pairs_free(struct block_pairs *p)
{
	intern_free(&p->ids);
	intern_free(&p->names);
	free(p->now);
	free(p->open);
}

/* "ProfilerStep*" for "ProfilerStep#3" (torch/autograd/profiler_util.py). */
static size_t common_name(const char *name, char *out, size_t size)
{
	static const char step[] = "ProfilerStep#";
	const size_t n = sizeof(step) - 1;
	bool counts = !strncmp(name, step, n) && isdigit((unsigned char)name[n]);
	int len = counts ? snprintf(out, size, "%.*s*", (int)n - 1, step)
			 : snprintf(out, size, "%s", name);
	return (size_t)len < size ? (size_t)len : size - 1;
}

static struct block_row *new_row(struct code_blocks *b, int64_t id, const char *name,
				 const struct py_frame *where)
{
	if (array_grow(&b->rows, &b->rows_room, (size_t)id + 1, sizeof(*b->rows)))
		return NULL;
	struct block_row *r = &b->rows[id];
	*r = (struct block_row){.line = where ? where->line : 0, .min_ns = UINT64_MAX};
	const char *const from[] = {name, where ? where->file : NULL,
				    where ? where->function : NULL, where ? where->text : NULL};
	const char **const to[] = {&r->name, &r->file, &r->function, &r->text};
	for (int i = 0; i < 4; i++)
		if (from[i] && !(*to[i] = arena_strndup(&b->arena, from[i], strlen(from[i]))))
			return NULL;
	return r;
}

/* The index of the block's row, or -ENOMEM. */
static int64_t row_of(struct code_blocks *b, const struct code_block *x)
{
	const struct py_frame *where = py_stack_where(x->stack);
	char key[4096];
	bool is_new;
	size_t len = common_name(x->name, key, sizeof(key) / 2);
	int n = snprintf(key + len + 1, sizeof(key) - len - 1, "%d %s", where ? where->line : 0,
			 where && where->file ? where->file : "");
	size_t more = n < 0 ? 0 : (size_t)n < sizeof(key) - len - 1 ? (size_t)n : 0;
	int64_t id = intern(&b->row_ids, key, (uint32_t)(len + 1 + more), &is_new);
	return id >= 0 && is_new && !new_row(b, id, key, where) ? -ENOMEM : id;
}

static int begin_in_row(void *arg, struct code_block *x)
{
	struct code_blocks *b = arg;
	bool is_new;
	int64_t row = row_of(b, x);
	if (row < 0)
		return -ENOMEM;
	const int64_t key[] = {row, x->pid, x->tid, x->rank1};
	int64_t id = intern(&b->nest_ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&b->nests, &b->nests_room, (size_t)id + 1, sizeof(*b->nests)))
		return -ENOMEM;
	if (is_new)
		b->nests[id] = (struct block_nest){.row = (uint32_t)row};
	struct block_nest *n = &b->nests[id];
	n->since_ns = n->open++ ? n->since_ns : x->start_ns;
	x->number = (uint32_t)id;
	return 0;
}

static int end_in_row(void *arg, const struct code_block *x)
{
	struct code_blocks *b = arg;
	struct block_nest *n = &b->nests[x->number];
	struct block_row *r = &b->rows[n->row];
	n->open--;
	if (!x->end_ns) {
		r->unended++;
		r->total_ns += n->open ? 0 : n->inner_ns;
		n->inner_ns = n->open ? n->inner_ns : 0;
		return 0;
	}
	const uint64_t ns = x->end_ns - x->start_ns;
	n->inner_ns += ns;
	if (!n->open) {
		r->total_ns += x->end_ns > n->since_ns ? x->end_ns - n->since_ns : 0;
		n->inner_ns = 0;
	}
	r->calls++;
	r->sum_ns += ns;
	r->min_ns = ns < r->min_ns ? ns : r->min_ns;
	r->max_ns = ns > r->max_ns ? ns : r->max_ns;
	return histogram_add(&r->times, ns);
}

struct code_blocks *code_blocks_new(void)
{
	struct code_blocks *b = calloc(1, sizeof(*b));
	if (b)
		b->pairs = (struct block_pairs){.begin = begin_in_row, .end = end_in_row, .arg = b};
	return b;
}

int code_blocks_add(struct code_blocks *b, const struct op_event *ev)
{
	return block_pairs_add(&b->pairs, ev);
}

int code_blocks_finish(struct code_blocks *b)
{
	return block_pairs_finish(&b->pairs);
}

void code_blocks_free(struct code_blocks *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->row_ids.used && i < b->rows_room; i++)
		histogram_free(&b->rows[i].times);
	block_pairs_free(&b->pairs);
	intern_free(&b->row_ids);
	intern_free(&b->nest_ids);
	arena_free(&b->arena);
	free(b->rows);
	free(b->nests);
	free(b);
}
