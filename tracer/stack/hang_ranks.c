/* The list of ranks, and where one of them is. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "symbolizer/python/python.h"
#include "tracer/stack/hang.h"
#include "tracer/stack/stack_snapshot.h"

void hang_rank_free(struct hang_rank *r)
{
	for (size_t i = 0; i < r->ngroups; i++) {
		free(r->groups[i].ranks);
		free(r->groups[i].calls);
	}
	free(r->groups);
	*r = (struct hang_rank){0};
}

void hang_ranks_free(struct hang_ranks *r)
{
	for (size_t i = 0; i < r->n; i++)
		hang_rank_free(&r->all[i]);
	free(r->all);
	*r = (struct hang_ranks){0};
}

int hang_ranks_add(struct hang_ranks *r, const struct hang_rank *one)
{
	if (array_grow(&r->all, &r->room, r->n + 1, sizeof(*r->all)))
		return -ENOMEM;
	r->all[r->n++] = *one;
	return 0;
}

static bool has_rank(const struct hang_ranks *r, int32_t rank)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->all[i].rank == rank)
			return true;
	return false;
}

int hang_ranks_add_absent(struct hang_ranks *r)
{
	enum { MOST = 1 << 16 };
	int32_t size = 0;
	int failed = 0;
	for (size_t i = 0; i < r->n; i++)
		size = r->all[i].world_size > size ? r->all[i].world_size : size;
	for (int32_t rank = 0; rank < size && rank < MOST && !failed; rank++) {
		const struct hang_rank absent = {
		    .rank = rank, .world_size = size, .state = HANG_ABSENT};
		if (!has_rank(r, rank))
			failed = hang_ranks_add(r, &absent);
	}
	return failed;
}

/* Where a process is as a whole. */

/* The function of torch.distributed that the program called: of the frames of that package above
 * the program's own the outermost that is no decorator; NULL: none. */
static const char *called_collective(const struct py_stack *s)
{
	const char *name = NULL;
	for (uint16_t i = 0; s && i < s->depth && s->frames[i]->is_torch; i++)
		if (strstr(s->frames[i]->file, "torch/distributed/distributed_c10d.py"))
			name = s->frames[i]->function;
	return name;
}

/* What the process as a whole waits for: a collective in any thread, else what its main thread
 * does. */
static const struct stack_snapshot_thread *thread_of(const struct stack_snapshot_view *v)
{
	const struct stack_snapshot_thread *main = NULL;
	for (size_t i = 0; i < v->look->n; i++) {
		const struct stack_snapshot_thread *t = &v->look->threads[i];
		if (t->wait.kind == WAIT_COLLECTIVE && t->python)
			return t;
		if (t->facts.tid == v->pid)
			main = t;
	}
	for (size_t i = 0; i < v->look->n; i++)
		if (v->look->threads[i].wait.kind == WAIT_COLLECTIVE)
			return &v->look->threads[i];
	return main;
}

/* A collective that autograd's thread runs has the line at which the main thread waits for it. */
static const struct py_stack *python_of(const struct stack_snapshot_view *v,
					const struct stack_snapshot_thread *t)
{
	for (size_t i = 0; !t->python && i < v->look->n; i++)
		if (v->look->threads[i].facts.tid == v->pid)
			return v->look->threads[i].python;
	return t->python;
}

static void set_where(const struct stack_snapshot_view *v, const struct py_stack *python,
		      struct hang_rank *out)
{
	const struct err *why;
	const struct py_frame *at = python ? py_stack_where(python) : NULL;
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	struct py_frame where = at ? *at : (struct py_frame){0};
	if (at && py)
		where.text = py_frame_text(py, at);
	where_text(out->where, sizeof(out->where), at ? &where : NULL, NULL, 0, NULL);
	if (!at)
		return;
	snprintf(out->place, sizeof(out->place), "%s:%" PRId32, text_base_name(at->file), at->line);
	snprintf(out->in, sizeof(out->in), "%s", at->function);
}

static void set_doing(const struct stack_snapshot_thread *t, const struct py_stack *python,
		      struct hang_rank *out)
{
	const char *called = called_collective(python);
	out->in_collective = t->wait.kind == WAIT_COLLECTIVE;
	if (!out->in_collective) {
		wait_reason_text(&t->wait, out->doing, sizeof(out->doing));
		return;
	}
	snprintf(out->collective, sizeof(out->collective), "%s",
		 called	      ? called
		 : t->wait.in ? t->wait.in
			      : "a collective");
	snprintf(out->doing, sizeof(out->doing), "is in %s", out->collective);
}

void stack_place_of(const struct stack_snapshot_view *v, struct hang_rank *out)
{
	const struct err *why;
	const struct stack_snapshot_thread *t = thread_of(v);
	const struct mem mem = mem_process(v->pid);
	struct process_rank rank;
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	process_rank_read(v->pid, &rank);
	*out = (struct hang_rank){.pid = v->pid, .rank = rank.rank, .world_size = rank.world_size};
	if (t) {
		set_doing(t, python_of(v, t), out);
		set_where(v, python_of(v, t), out);
	}
	if (py)
		process_groups_read(v->pid, &mem, py, out);
}
