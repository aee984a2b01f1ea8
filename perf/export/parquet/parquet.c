/* The rows of export --to parquet: of each table, as of ditrace-export(1). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/collectives/collectives.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/parquet/internal.h"
#include "perf/report/blocks.h"
#include "perf/report/report.h"
#include "symbolizer/event/names.h"

/* The sum of an op's calls in a process, in one phase. */
struct op_total {
	size_t process;
	const struct op_desc *op;
	uint8_t phase;
	uint64_t calls, unfinished, summed, thrown, total_ns, self_ns, min_ns, max_ns;
};

struct parquet_notes {
	struct collectives *collectives;
	struct breakdown *breakdown;
	struct breakdown_step *steps;
	size_t nsteps, room;
	bool has_left_out; /* the recording left ops out: what is in no op is not known */
};

struct parquet_export {
	struct parquet_set set;
	const struct export_in *in;
	struct parquet_notes *notes;
	struct block_pairs blocks;
	uint64_t origin_ns;
	struct op_total *totals;
	size_t ntotals, totals_room;
	struct intern total_ids, stacks;
	int error;
};

static int keep_step(void *arg, const struct breakdown_step *s)
{
	struct parquet_notes *n = arg;
	if (array_grow(&n->steps, &n->room, n->nsteps + 1, sizeof(*n->steps)))
		return -ENOMEM;
	n->steps[n->nsteps++] = *s;
	return 0;
}

struct parquet_notes *parquet_notes_new(void)
{
	struct parquet_notes *n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->collectives = collectives_new();
	n->breakdown = breakdown_new();
	if (n->collectives && n->breakdown) {
		breakdown_each_step(n->breakdown, keep_step, n);
		return n;
	}
	parquet_notes_free(n);
	return NULL;
}

void parquet_notes_free(struct parquet_notes *n)
{
	if (!n)
		return;
	collectives_free(n->collectives);
	breakdown_free(n->breakdown);
	free(n->steps);
	free(n);
}

int export_parquet_note(void *arg, const struct trace_item *item, struct err *e)
{
	struct parquet_notes *n = arg;
	int r = collectives_see(n->collectives, item);
	n->has_left_out |=
	    item->type == TRACE_CHOSEN || item->type == TRACE_SUM || item->type == TRACE_LOST;
	if (!r && item->type == TRACE_EVENT)
		r = breakdown_add(n->breakdown, &item->event);
	return r ? err_set(e, r, "no memory for the steps and collectives") : 0;
}

static int64_t process_by_pid(struct parquet_export *x, int32_t pid, uint32_t rank1)
{
	int64_t known = parquet_process_find(&x->set, pid, rank1);
	return known >= 0 ? known : parquet_process_new(&x->set, pid, rank1, "");
}

static int64_t process_of(struct parquet_export *x, const struct op_event *ev)
{
	return process_by_pid(x, ev->pid, ev->rank1);
}

static void put_time(struct parquet_export *x, struct parquet_file *f, uint64_t ns)
{
	parquet_int(f, ((int64_t)x->set.begun_ns + (int64_t)(ns - x->origin_ns)) / 1000);
	parquet_int(f, (int64_t)ns);
}

static void put_span(struct parquet_export *x, struct parquet_file *f, uint64_t start_ns,
		     uint64_t end_ns)
{
	put_time(x, f, start_ns);
	if (end_ns)
		parquet_int(f, end_ns > start_ns ? (int64_t)(end_ns - start_ns) : 0);
	else
		parquet_null(f);
}

static void put_where(struct parquet_file *f, const struct py_frame *where)
{
	parquet_text(f, where ? where->file : NULL);
	parquet_known(f, where && where->line > 0 ? (uint64_t)where->line : 0);
}

static void put_stack(struct parquet_export *x, size_t process, const struct py_stack *s)
{
	const uint64_t key[2] = {process, s ? s->id : 0};
	bool is_new;
	int64_t id = s ? intern(&x->stacks, key, sizeof(key), &is_new) : 0;
	if (id < 0)
		x->error = (int)id;
	if (!s || id < 0 || !is_new)
		return;
	for (uint16_t i = 0; i < s->depth; i++) {
		struct parquet_file *f = parquet_row(&x->set, STACKS, process);
		if (!f)
			return;
		parquet_int(f, (int64_t)s->id + 1);
		parquet_int(f, i);
		put_where(f, s->frames[i]);
		parquet_text(f, s->frames[i]->function);
		parquet_text(f, s->frames[i]->text);
		parquet_int(f, s->frames[i]->is_torch);
		parquet_row_end(f);
	}
}

static uint64_t self_ns(const struct op_event *ev)
{
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	return ns > ev->child_ns ? ns - ev->child_ns : 0;
}

static void put_event(struct parquet_export *x, size_t process, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	char text[EVENT_TENSORS_MAX];
	struct parquet_file *f = parquet_row(&x->set, EVENTS, process);
	if (!f)
		return;
	parquet_int(f, (int64_t)ev->id);
	parquet_known(f, ev->parent);
	parquet_int(f, ev->depth);
	parquet_int(f, ev->tid);
	parquet_text(f, op_phase_names[ev->phase]);
	parquet_text(f, ev->op->name);
	put_span(x, f, ev->start_ns, ev->end_ns);
	if (ev->end_ns)
		parquet_int(f, (int64_t)self_ns(ev));
	else
		parquet_null(f);
	parquet_int(f, ev->thrown);
	parquet_known(f, ev->forward_id);
	parquet_known(f, ev->stack ? (uint64_t)ev->stack->id + 1 : 0);
	put_where(f, where);
	parquet_text(f, where ? where->function : NULL);
	parquet_text(f, py_stack_module(ev->where_stack));
	parquet_text(f, py_stack_parameter(ev->where_stack));
	parquet_text(f, event_shapes(text, sizeof(text), ev));
	parquet_text(f, event_dtypes(text, sizeof(text), ev));
	parquet_text(f, event_devices(text, sizeof(text), ev));
	parquet_row_end(f);
}

static void put_number(struct parquet_file *f, bool known, int64_t n)
{
	if (known)
		parquet_int(f, n);
	else
		parquet_null(f);
}

static void put_collective(struct parquet_export *x, size_t process, const struct op_event *ev)
{
	struct collective what;
	struct parquet_file *f =
	    collective_of(ev, &what) ? parquet_row(&x->set, COLLECTIVES, process) : NULL;
	if (!f)
		return;
	unsigned group = 0;
	uint64_t number = 0;
	bool numbered = collectives_number(x->notes->collectives, ev, &group, &number);
	parquet_int(f, (int64_t)ev->id);
	parquet_int(f, ev->tid);
	parquet_text(f, what.name);
	put_span(x, f, ev->start_ns, ev->end_ns);
	put_number(f, numbered, group);
	put_number(f, what.group && what.group->group.size >= 0,
		   what.group ? what.group->group.size : 0);
	parquet_text(f, what.group && what.group->group.of ? what.group->group.of->name : NULL);
	put_number(f, numbered, (int64_t)number);
	put_number(f, what.has_bytes, (int64_t)what.bytes);
	parquet_text(f, what.dtype >= 0 ? names_dtype(what.dtype) : NULL);
	parquet_text(f, what.reduce_op);
	put_number(f, what.root_rank >= 0, what.root_rank);
	put_number(f, what.async >= 0, what.async > 0);
	put_where(f, py_stack_where(ev->stack));
	parquet_row_end(f);
}

static void put_memory(struct parquet_export *x, const struct memory_event *m)
{
	const struct op_event *of = &m->of;
	const struct py_frame *where = py_stack_where(of->where_stack);
	int64_t process = process_of(x, of);
	char device[32];
	if (process < 0) {
		x->error = -ENOMEM;
		return;
	}
	put_stack(x, (size_t)process, of->stack);
	struct parquet_file *f = parquet_row(&x->set, MEMORY, (size_t)process);
	if (!f)
		return;
	parquet_known(f, (uint64_t)of->tid);
	put_time(x, f, of->start_ns);
	parquet_text(f, names_device(device, sizeof(device), m->device_type, m->device_index));
	parquet_int(f, (int64_t)m->address);
	parquet_known(f, m->bytes);
	parquet_int(f, m->freed);
	parquet_int(f, (int64_t)m->total);
	parquet_known(f, m->reserved);
	parquet_text(f, activity_launch_names[m->launch]);
	parquet_known(f, of->id);
	parquet_text(f, of->op ? of->op->name : NULL);
	parquet_text(f, of->op ? op_phase_names[of->phase] : NULL);
	parquet_known(f, of->stack ? (uint64_t)of->stack->id + 1 : 0);
	put_where(f, where);
	parquet_text(f, where ? where->function : NULL);
	parquet_text(f, py_stack_module(of->where_stack));
	parquet_text(f, py_stack_parameter(of->where_stack));
	parquet_row_end(f);
}

static int put_block(void *arg, const struct code_block *b)
{
	struct parquet_export *x = arg;
	const struct py_frame *where = py_stack_where(b->stack);
	int64_t process = process_by_pid(x, b->pid, b->rank1);
	if (process < 0)
		return -ENOMEM;
	put_stack(x, (size_t)process, b->stack);
	struct parquet_file *f = parquet_row(&x->set, BLOCKS, (size_t)process);
	if (!f)
		return 0;
	parquet_int(f, b->tid);
	parquet_text(f, b->name);
	put_span(x, f, b->start_ns, b->end_ns);
	parquet_known(f, b->stack ? (uint64_t)b->stack->id + 1 : 0);
	put_where(f, where);
	parquet_text(f, where ? where->function : NULL);
	parquet_row_end(f);
	return 0;
}

static struct op_total *total_of(struct parquet_export *x, size_t process,
				 const struct op_event *ev)
{
	const uint64_t key[3] = {process, (uintptr_t)ev->op, ev->phase};
	bool is_new;
	int64_t id = intern(&x->total_ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&x->totals, &x->totals_room, (size_t)id + 1, sizeof(*x->totals))) {
		x->error = -ENOMEM;
		return NULL;
	}
	if (is_new) {
		x->totals[id] = (struct op_total){
		    .process = process, .op = ev->op, .phase = ev->phase, .min_ns = UINT64_MAX};
		x->ntotals++;
	}
	return &x->totals[id];
}

static void add_times(struct op_total *t, uint64_t total_ns, uint64_t own_ns, uint64_t min_ns,
		      uint64_t max_ns)
{
	t->total_ns += total_ns;
	t->self_ns += own_ns;
	t->min_ns = min_ns < t->min_ns ? min_ns : t->min_ns;
	t->max_ns = max_ns > t->max_ns ? max_ns : t->max_ns;
}

static void take_event(struct parquet_export *x, const struct op_event *ev)
{
	int64_t process = process_of(x, ev);
	struct op_total *t = process < 0 ? NULL : total_of(x, (size_t)process, ev);
	if (!t) {
		x->error = -ENOMEM;
		return;
	}
	struct parquet_process *p = &x->set.processes[process];
	uint64_t end_ns = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns;
	p->from_ns = ev->start_ns < p->from_ns ? ev->start_ns : p->from_ns;
	p->to_ns = end_ns > p->to_ns ? end_ns : p->to_ns;
	t->calls++;
	t->thrown += ev->thrown;
	t->unfinished += !ev->end_ns;
	if (ev->end_ns)
		add_times(t, end_ns - ev->start_ns, self_ns(ev), end_ns - ev->start_ns,
			  end_ns - ev->start_ns);
	put_stack(x, (size_t)process, ev->stack);
	put_event(x, (size_t)process, ev);
	put_collective(x, (size_t)process, ev);
}

static void take_sum(struct parquet_export *x, const struct op_sum *s)
{
	int64_t process = process_of(x, &s->of);
	struct op_total *t = process < 0 ? NULL : total_of(x, (size_t)process, &s->of);
	if (!t) {
		x->error = -ENOMEM;
		return;
	}
	t->calls += s->calls;
	t->summed += s->calls;
	t->thrown += s->thrown;
	add_times(t, s->total_ns, s->total_ns > s->child_ns ? s->total_ns - s->child_ns : 0,
		  s->min_ns, s->max_ns);
}

static int take_item(void *arg, const struct trace_item *item)
{
	struct parquet_export *x = arg;
	const struct process_rank *rank = &item->process.rank;
	if (item->type == TRACE_PROCESS)
		x->error = parquet_process_new(&x->set, item->process.pid,
					       (uint32_t)(rank->rank + 1), rank->host) < 0
			       ? -ENOMEM
			       : x->error;
	else if (item->type == TRACE_EVENT && export_is_mark(x->in, &item->event))
		x->error = block_pairs_add(&x->blocks, &item->event) ? -ENOMEM : x->error;
	else if (item->type == TRACE_EVENT)
		take_event(x, &item->event);
	else if (item->type == TRACE_SUM)
		take_sum(x, &item->sum);
	else if (item->type == TRACE_MEMORY)
		put_memory(x, &item->memory);
	x->error = x->error ? x->error : x->set.failed.code;
	return x->error ? x->error : parquet_out_error(x->set.out);
}

static void put_total(struct parquet_export *x, const struct op_total *t)
{
	struct parquet_file *f = parquet_row(&x->set, OPS, t->process);
	bool timed = t->calls > t->unfinished;
	if (!f)
		return;
	parquet_text(f, t->op->name);
	parquet_text(f, op_phase_names[t->phase]);
	parquet_text(f, t->op->schema[0] ? t->op->schema : NULL);
	parquet_int(f, (int64_t)t->calls);
	parquet_int(f, (int64_t)t->unfinished);
	parquet_int(f, (int64_t)t->summed);
	parquet_int(f, (int64_t)t->thrown);
	parquet_int(f, (int64_t)t->total_ns);
	parquet_int(f, (int64_t)t->self_ns);
	put_number(f, timed, (int64_t)t->min_ns);
	put_number(f, timed, (int64_t)t->max_ns);
	parquet_row_end(f);
}

/* A step that the chosen events of its process reach into. */
static void put_step(struct parquet_export *x, const struct breakdown_step *s)
{
	int64_t process = parquet_process_find(&x->set, s->pid, s->rank1);
	const struct parquet_process *p = process < 0 ? NULL : &x->set.processes[process];
	if (!p || s->start_ns >= p->to_ns || s->end_ns <= p->from_ns)
		return;
	struct parquet_file *f = parquet_row(&x->set, STEPS, (size_t)process);
	if (!f)
		return;
	bool known = !x->notes->has_left_out;
	parquet_int(f, (int64_t)s->number);
	put_span(x, f, s->start_ns, s->end_ns);
	put_number(f, known, (int64_t)s->parts[BREAKDOWN_FORWARD]);
	put_number(f, known, (int64_t)s->parts[BREAKDOWN_BACKWARD]);
	put_number(f, known, (int64_t)s->parts[BREAKDOWN_OPTIMIZER]);
	put_number(f, known, (int64_t)s->parts[BREAKDOWN_DATA]);
	put_number(f, known, (int64_t)s->parts[BREAKDOWN_NO_OP]);
	parquet_row_end(f);
}

static int write_rows(struct parquet_export *x, struct export_in *in, struct err *e)
{
	int r = collectives_match(x->notes->collectives);
	if (r)
		return err_set(e, r, "no memory for the collectives");
	int end = export_each(in, take_item, x, e);
	x->error = block_pairs_finish(&x->blocks) ? -ENOMEM : x->error;
	for (size_t i = 0; i < x->ntotals && !x->set.failed.code; i++)
		put_total(x, &x->totals[i]);
	for (size_t i = 0; i < x->notes->nsteps && !x->set.failed.code; i++)
		put_step(x, &x->notes->steps[i]);
	if (x->set.failed.code) {
		*e = x->set.failed;
		return e->code;
	}
	return x->error ? err_set(e, x->error, "no memory for the rows of %s", in->path) : end;
}

static bool could_read(int r)
{
	return r == 0 || r == -EAGAIN || r == -EBADMSG || r == -ENODATA;
}

int export_parquet(struct export_in *in, struct parquet_notes *notes, const char *python,
		   const char *folder, struct err *e)
{
	struct parquet_export x = {.set = {.folder = folder,
					   .was_there = !access(folder, F_OK),
					   .begun_ns = trace_query_begun(in->query)},
				   .in = in,
				   .notes = notes,
				   .blocks = {.end = put_block, .arg = &x},
				   .origin_ns = trace_query_origin(in->query)};
	int r = parquet_out_open(python, &x.set.out, e);
	if (r)
		return r;
	int end = write_rows(&x, in, e);
	bool refused = parquet_out_error(x.set.out);
	r = parquet_out_end(x.set.out, could_read(end) || refused ? 0 : end, e);
	if (r)
		parquet_remove_folders(&x.set);
	block_pairs_free(&x.blocks);
	parquet_set_free(&x.set);
	free(x.totals);
	intern_free(&x.total_ids);
	intern_free(&x.stacks);
	return r ? r : end;
}
