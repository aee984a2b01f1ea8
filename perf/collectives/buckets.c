/* Buckets of DistributedDataParallel: which parameters they have, when they were ready, and which
 * collective sent them, as the methods of its c10d::Reducer tell (symbolizer/ops/ops_c10d.c); their
 * rows as a table and as JSON. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collectives/internal.h"
#include "perf/events/print_event.h"
#include "symbolizer/event/names.h"

enum { NUMBERS_MAX = 1 << 16, NAMES_MAX = 1 << 17 };

/* A bucket whose gradients are all there. */
struct ready {
	uint64_t ns;
	const char *filled_by; /* the parameter that came last; NULL: not known */
};

/* A Reducer in one process, between the ends of two backwards. */
struct collective_reducer {
	uint32_t process;
	uint64_t address;
	struct ready *ready; /* by number; ns 0: it is not */
	size_t nready, ready_room;
	size_t first;	 /* of the buckets that were sent */
	int64_t highest; /* number of these; -1: none */
};

bool collective_is_reducers(const struct op_desc *op)
{
	return !strncmp(op->name, "c10d::Reducer::", 15);
}

static struct collective_reducer *reducer_of(struct collectives *c, uint32_t process,
					     uint64_t address)
{
	struct buckets *b = &c->buckets;
	const uint64_t key[] = {process, address}, hash = map_hash(key, sizeof(key), 0);
	uint32_t pos = 0, i;
	while ((i = map_next(&b->by_reducer, hash, &pos)) != MAP_NONE)
		if (b->reducers[i].process == process && b->reducers[i].address == address)
			return &b->reducers[i];
	i = (uint32_t)b->nreducers;
	if (array_grow(&b->reducers, &b->reducers_room, b->nreducers + 1, sizeof(*b->reducers)) ||
	    map_add(&b->by_reducer, hash, i))
		return NULL;
	b->nreducers++;
	b->reducers[i] = (struct collective_reducer){
	    .process = process, .address = address, .first = b->n, .highest = -1};
	return &b->reducers[i];
}

static int mark_ready(struct collective_reducer *r, const struct op_event *ev, int64_t number)
{
	size_t n = r->nready;
	if (array_grow(&r->ready, &r->ready_room, (size_t)number + 1, sizeof(*r->ready)))
		return -ENOMEM;
	for (; n <= (size_t)number; n++)
		r->ready[n] = (struct ready){0};
	r->nready = n;
	r->ready[number] = (struct ready){ev->start_ns, py_stack_parameter(ev->where_stack)};
	return 0;
}

/* The name, else the shape: "(64, 3) float32". */
static void print_parameter(FILE *f, const struct value *v, const struct value *name)
{
	const struct tensor_meta *m = v->kind == VALUE_TENSOR ? &v->tensor->meta : NULL;
	const char *dtype = m && !(m->unknown & TENSOR_NO_DTYPE) ? names_dtype(m->dtype) : NULL;
	if (name && name->kind == VALUE_STRING) {
		fputs(name->str, f);
		return;
	}
	putc('(', f);
	if (!m || m->unknown & TENSOR_NO_SHAPE)
		putc('?', f);
	else
		for (unsigned i = 0; i < m->ndim; i++)
			fprintf(f, "%s%" PRId64 "%s", i ? ", " : "", m->shape[i],
				m->ndim == 1 ? "," : "");
	fprintf(f, ")%s%s", dtype ? " " : "", dtype ? dtype : "");
}

/* The parameters, each on a line, to be freed; "": not known, or too much to keep. NULL: no memory.
 */
static char *parameters_text(const struct op_event *ev)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	const struct value *v = ev->nresults ? &ev->results[0] : NULL;
	const struct value *names =
	    ev->nresults > 1 && ev->results[1].kind == VALUE_LIST ? &ev->results[1] : NULL;
	if (!f)
		return NULL;
	for (uint32_t i = 0; v && v->kind == VALUE_LIST && i < v->count; i++) {
		if (i)
			putc('\n', f);
		print_parameter(f, &v->items[i],
				names && i < names->count ? &names->items[i] : NULL);
	}
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	if (size > NAMES_MAX)
		text[0] = '\0';
	return text;
}

static int64_t row_of(struct collectives *c, const struct op_event *ev, int64_t number)
{
	struct buckets *b = &c->buckets;
	bool is_new;
	char key[32], *text = parameters_text(ev);
	snprintf(key, sizeof(key), "%" PRId64 "\n", number);
	size_t n = strlen(key), len = text ? strlen(text) : 0;
	char *both = text ? realloc(text, n + len + 1) : NULL;
	if (!both) {
		free(text);
		return -ENOMEM;
	}
	memmove(both + n, both, len + 1);
	memcpy(both, key, n);
	int64_t id = intern(&b->keys, both, (uint32_t)(n + len), &is_new);
	if (id >= 0 && is_new) {
		if (array_grow(&b->rows, &b->rows_room, b->nrows + 1, sizeof(*b->rows)))
			id = -ENOMEM;
		else
			b->rows[b->nrows++] = (struct bucket_row){
			    .number = number,
			    .parameters = arena_strndup(&c->arena, both + n, len)};
		if (id >= 0 && !b->rows[id].parameters)
			id = -ENOMEM;
	}
	free(both);
	return id;
}

static uint64_t thread_key(uint32_t process, const struct op_event *ev)
{
	return (uint64_t)process << 32 | (uint32_t)ev->tid;
}

/* The thread's next collective sends the bucket. */
static int await_call(struct buckets *b, uint32_t process, const struct op_event *ev)
{
	int64_t i = map_get(&b->by_thread, thread_key(process, ev));
	if (i < 0) {
		i = (int64_t)b->nsending;
		if (array_grow(&b->sending, &b->sending_room, b->nsending + 1,
			       sizeof(*b->sending)) ||
		    map_put(&b->by_thread, thread_key(process, ev), (uint32_t)i))
			return -ENOMEM;
		b->nsending++;
	}
	b->sending[i] = (struct bucket_sending){ev->end_ns, (uint32_t)b->n, ev->stack};
	return 0;
}

/* In the first backward with static_graph=True all buckets are told to be the first one. */
static int mark_sent(struct collectives *c, size_t reducer, const struct op_event *ev,
		     int64_t number)
{
	struct buckets *b = &c->buckets;
	struct collective_reducer *r = &b->reducers[reducer];
	number = number > r->highest ? number : r->highest + 1;
	r->highest = number;
	int64_t row = row_of(c, ev, number);
	if (row < 0 || array_grow(&b->all, &b->room, b->n + 1, sizeof(*b->all)))
		return -ENOMEM;
	const struct ready *ready =
	    (size_t)number < r->nready && r->ready[number].ns ? &r->ready[number] : NULL;
	b->all[b->n++] = (struct collective_bucket){.row = (uint32_t)row,
						    .reducer = (uint32_t)reducer,
						    .ready_ns = ready ? ready->ns : 0,
						    .filled_by = ready ? ready->filled_by : NULL};
	return await_call(b, r->process, ev);
}

/* The backward is over, but for what is waited for. */
static void mark_over(struct buckets *b, struct collective_reducer *r, uint64_t ns)
{
	for (size_t i = r->first; i < b->n; i++)
		if (b->all[i].reducer == (size_t)(r - b->reducers))
			b->all[i].over_ns = ns;
	r->first = b->n;
	r->nready = 0;
	r->highest = -1;
}

int collectives_see_reducer(struct collectives *c, uint32_t process, const struct op_event *ev)
{
	const char *method = ev->op->name + 15;
	if (!ev->nargs || ev->args[0].kind != VALUE_INT)
		return 0;
	struct collective_reducer *r = reducer_of(c, process, (uint64_t)ev->args[0].i);
	if (!r)
		return -ENOMEM;
	if (!strcmp(method, "finalize_backward")) {
		mark_over(&c->buckets, r, ev->start_ns);
		return 0;
	}
	if (ev->nargs < 2 || ev->args[1].kind != VALUE_INT || ev->args[1].i < 0 ||
	    ev->args[1].i >= NUMBERS_MAX)
		return 0;
	if (!strcmp(method, "mark_bucket_ready"))
		return mark_ready(r, ev, ev->args[1].i);
	if (!strcmp(method, "get_variables_for_bucket") && ev->end_ns && !ev->thrown)
		return mark_sent(c, (size_t)(r - c->buckets.reducers), ev, ev->args[1].i);
	return 0;
}

/* A hook of the program for communication has frames of its own. */
static bool is_within(const struct py_stack *stack, const struct py_stack *outer)
{
	return stack == outer || (stack && outer && py_stack_lies_within(stack, outer));
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

uint32_t collective_bucket_sent(struct collectives *c, uint32_t process, const struct op_event *ev)
{
	int64_t i = map_get(&c->buckets.by_thread, thread_key(process, ev));
	struct bucket_sending *s = i < 0 ? NULL : &c->buckets.sending[i];
	if (!s || !s->bucket1 || ev->start_ns < s->since_ns || !is_within(ev->stack, s->stack))
		return 0;
	uint32_t found = s->bucket1;
	s->bucket1 = 0;
	return found;
}

static int add_time(struct histogram *h, bool known, uint64_t ns)
{
	return known ? histogram_add(h, ns) : 0;
}

static uint64_t after(uint64_t ns, uint64_t since)
{
	return ns > since ? ns - since : 0;
}

int collective_bucket_sum(struct collectives *c, const struct collective_call *call)
{
	const struct collective_bucket *b = &c->buckets.all[call->bucket1 - 1];
	struct bucket_row *r = &c->buckets.rows[b->row];
	const struct collective *what = &c->rows[call->row].what;
	bool over = b->over_ns && b->over_ns >= b->ready_ns;
	r->bytes = !r->calls || r->bytes == what->bytes ? what->bytes : 0;
	r->filled_differ |= r->calls && !is_same(b->filled_by, r->filled_by);
	r->filled_by = r->calls ? r->filled_by : b->filled_by;
	r->calls++;
	r->left += b->ready_ns && over;
	r->done += call->done_ns && b->ready_ns;
	r->lates += call->done_ns && over;
	int code = add_time(&r->left_ns, b->ready_ns && over, after(b->over_ns, b->ready_ns));
	code = code ? code
		    : add_time(&r->done_ns, call->done_ns && b->ready_ns,
			       after(call->done_ns, b->ready_ns));
	return code
		   ? code
		   : add_time(&r->late_ns, call->done_ns && over, after(call->done_ns, b->over_ns));
}

void buckets_free(struct buckets *b)
{
	for (size_t i = 0; i < b->nreducers; i++)
		free(b->reducers[i].ready);
	for (size_t i = 0; i < b->nrows; i++) {
		histogram_free(&b->rows[i].left_ns);
		histogram_free(&b->rows[i].done_ns);
		histogram_free(&b->rows[i].late_ns);
	}
	intern_free(&b->keys);
	map_free(&b->by_reducer);
	map_free(&b->by_thread);
	free(b->reducers);
	free(b->rows);
	free(b->all);
	free(b->sending);
}

static uint64_t median(const struct histogram *h)
{
	return histogram_quantile(h, 0.5);
}

static void time_cell(struct table *t, uint64_t known, const struct histogram *h)
{
	char text[32];
	table_cell(t, known ? text_ns(text, sizeof(text), median(h)) : "");
}

/* "fc.weight, fc.bias and 12 more" */
static void parameters_cell(struct table *t, const char *all)
{
	enum { SHOWN = 4 };
	char text[512] = "";
	size_t n = 0, shown = 0, more = 0;
	for (const char *p = all, *end; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		if (shown < SHOWN && n + (size_t)(end - p) + 32 < sizeof(text)) {
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s",
					      shown ? ", " : "", (int)(end - p), p);
			shown++;
		} else {
			more++;
		}
	}
	if (more)
		snprintf(text + n, sizeof(text) - n, "%s%zu more", shown ? " and " : "", more);
	table_cell(t, *all ? text : "?");
}

static void add_row(struct table *t, const struct bucket_row *r)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRId64, r->number);
	table_cell(t, text);
	table_cell(t, text_count(text, sizeof(text), r->calls));
	table_cell(t, r->bytes ? text_bytes(text, sizeof(text), r->bytes) : "");
	time_cell(t, r->left, &r->left_ns);
	time_cell(t, r->done, &r->done_ns);
	time_cell(t, r->lates, &r->late_ns);
	table_cell(t, r->filled_differ ? "(several)" : r->filled_by ? r->filled_by : "?");
	parameters_cell(t, r->parameters);
}

int buckets_print(const struct collectives *c, FILE *f, const struct collectives_opts *opts)
{
	size_t n;
	const struct bucket_row **rows =
	    collectives_sort(c->buckets.rows, c->buckets.nrows, sizeof(*c->buckets.rows), &n);
	struct table *t = rows && n ? table_new() : NULL;
	int r = rows && (t || !n) ? 0 : -ENOMEM;
	if (t) {
		table_columns(t, ">Bucket|>Calls|>Bytes|>Left|>Done|>Late|Filled by|Parameters");
		for (size_t i = 0; i < n && (!opts->limit || i < opts->limit); i++)
			add_row(t, rows[i]);
		fputs("\nbuckets of DistributedDataParallel; Left: from when all gradients are "
		      "there to the end of what the backward computes; Done: until it is reduced; "
		      "Late: after that end, medians\n\n",
		      f);
		r = table_print(t, f, opts->terminal.width, false);
	}
	table_free(t);
	free(rows);
	return r;
}

static void json_parameters(struct json_out *j, const char *all)
{
	json_open(j, "parameters", '[');
	for (const char *p = all, *end; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		json_bytes(j, NULL, p, (size_t)(end - p));
	}
	json_close(j, ']');
}

int buckets_json(const struct collectives *c, struct json_out *j)
{
	size_t n;
	const struct bucket_row **rows =
	    collectives_sort(c->buckets.rows, c->buckets.nrows, sizeof(*c->buckets.rows), &n);
	if (!rows)
		return -ENOMEM;
	json_open(j, "buckets", '[');
	for (size_t i = 0; i < n; i++) {
		const struct bucket_row *r = rows[i];
		json_line(j);
		json_open(j, NULL, '{');
		json_i64(j, "bucket", r->number);
		json_u64(j, "calls", r->calls);
		json_number(j, "bytes", r->bytes, (int64_t)r->bytes);
		json_number(j, "left_p50_ns", r->left, (int64_t)median(&r->left_ns));
		json_number(j, "done_p50_ns", r->done, (int64_t)median(&r->done_ns));
		json_number(j, "late_p50_ns", r->lates, (int64_t)median(&r->late_ns));
		json_text(j, "filled_by", r->filled_differ ? NULL : r->filled_by);
		json_parameters(j, r->parameters);
		json_close(j, '}');
	}
	json_line(j);
	json_close(j, ']');
	free(rows);
	return 0;
}
