#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/export/html/internal.h"

static int add_step(void *arg, const struct breakdown_step *step)
{
	struct page_steps *s = arg;
	if (array_grow(&s->list, &s->room, s->n + 1, sizeof(*s->list)))
		return -ENOMEM;
	s->list[s->n++] = (struct page_step){.step = *step};
	return 0;
}

static int by_process(const void *a, const void *b)
{
	const struct breakdown_step *x = &((const struct page_step *)a)->step;
	const struct breakdown_step *y = &((const struct page_step *)b)->step;
	if (x->pid != y->pid)
		return (x->pid > y->pid) - (x->pid < y->pid);
	return (x->number > y->number) - (x->number < y->number);
}

/* Only the steps of the process that made most. */
static void keep_longest(struct page_steps *s)
{
	size_t first = 0, n = 0;
	qsort(s->list, s->n, sizeof(*s->list), by_process);
	for (size_t i = 0, end; i < s->n; i = end) {
		for (end = i; end < s->n && s->list[end].step.pid == s->list[i].step.pid;)
			end++;
		if (end - i > n) {
			first = i;
			n = end - i;
		}
	}
	for (size_t i = 0; i < n; i++)
		s->list[i] = s->list[first + i];
	s->n = n;
	s->pid = n ? s->list[0].step.pid : 0;
}

static int read_steps(struct export_in *in, struct trace_query *q, struct breakdown *b,
		      struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	trace_query_no_values(q);
	while (!r && (n = trace_query_next(q, &item, e)) > 0) {
		if (item.type == TRACE_EVENT)
			r = breakdown_add(b, &item.event);
		r = r ? r : export_look(in, q);
	}
	return r ? err_set(e, r, "cannot read the steps of %s: %s", in->path, strerror(-r)) : 0;
}

int page_steps_read(struct page_steps *s, struct export_in *in, struct err *e)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct trace_query *q = NULL;
	struct breakdown *b = breakdown_new();
	int r = b ? trace_query(in->path, &opts, &q, e) : err_set(e, -ENOMEM, "no memory");
	if (!r) {
		breakdown_each_step(b, add_step, s);
		r = read_steps(in, q, b, e);
		/* In which steps summed up calls were is not known. */
		s->n = trace_query_has_sums(q) ? 0 : s->n;
		keep_longest(s);
	}
	breakdown_free(b);
	if (q)
		trace_query_end(q, 0, 0, NULL);
	return r;
}

struct page_step *page_steps_at(const struct page_steps *s, uint64_t ns)
{
	size_t low = 0, high = s->n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (s->list[middle].step.end_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->n && s->list[low].step.start_ns <= ns ? &s->list[low] : NULL;
}

void page_steps_count(struct page_steps *s, const struct op_event *ev)
{
	struct page_step *step = page_steps_at(s, ev->start_ns);
	if (step)
		step->ops++;
}

static uint64_t length(const struct page_step *s)
{
	return s->step.end_ns - s->step.start_ns;
}

static int by_length(const void *a, const void *b)
{
	const struct page_step *x = *(struct page_step *const *)a;
	const struct page_step *y = *(struct page_step *const *)b;
	if (length(x) != length(y))
		return length(x) < length(y) ? -1 : 1;
	return (x->step.number > y->step.number) - (x->step.number < y->step.number);
}

static void add_whole(struct page_step *s, uint64_t *ops, uint64_t most)
{
	if (s->whole || s->ops > most - *ops)
		return;
	s->whole = true;
	*ops += s->ops;
}

int page_steps_choose(struct page_steps *s, uint64_t most)
{
	struct page_step **order = malloc((s->n + 1) * sizeof(struct page_step *));
	size_t n = 0;
	uint64_t ops = 0, all = 0;
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		all += s->list[i].ops;
		if (s->list[i].ops)
			order[n++] = &s->list[i];
	}
	qsort(order, n, sizeof(struct page_step *), by_length);
	if (n) {
		s->middle = order[n / 2]->step.number;
		order[n / 2]->whole = true;
		ops = order[n / 2]->ops;
	}
	if (n && ops < most)
		add_whole(order[n - 1], &ops, most);
	size_t every = all > most ? (size_t)(all / most) + 1 : 1;
	for (size_t i = 0; i < s->n && ops < most; i += every)
		if (s->list[i].ops)
			add_whole(&s->list[i], &ops, most);
	free(order);
	return 0;
}

/* The bars of the strip: each the longest of `each` steps, so that there are not too many. */
static const struct page_step *longest(const struct page_steps *s, size_t first, size_t each)
{
	const struct page_step *best = &s->list[first];
	for (size_t i = first; i < first + each && i < s->n; i++)
		if (s->list[i].whole > best->whole ||
		    (s->list[i].whole == best->whole && length(&s->list[i]) > length(best)))
			best = &s->list[i];
	return best;
}

static void put_bar(struct json_out *j, const struct page_step *b, uint64_t origin)
{
	json_line(j);
	json_open(j, NULL, '[');
	json_u64(j, NULL, b->step.number);
	json_i64(j, NULL, (int64_t)(b->step.start_ns - origin));
	json_u64(j, NULL, length(b));
	json_u64(j, NULL, b->ops);
	for (int i = 0; i < BREAKDOWN_PARTS; i++)
		json_u64(j, NULL, b->step.parts[i]);
	json_close(j, ']');
}

void page_steps_json(const struct page_steps *s, uint64_t origin, struct json_out *j)
{
	enum { BARS = 2000 };
	size_t each = (s->n + BARS - 1) / BARS;
	json_line(j);
	json_open(j, "steps", '{');
	json_i64(j, "pid", s->pid);
	json_u64(j, "count", s->n);
	json_u64(j, "middle", s->middle);
	json_u64(j, "each", each ? each : 1);
	json_open(j, "bars", '[');
	for (size_t i = 0; i < s->n; i += each)
		put_bar(j, longest(s, i, each), origin);
	json_close(j, ']');
	json_close(j, '}');
}

void page_steps_free(struct page_steps *s)
{
	free(s->list);
}
