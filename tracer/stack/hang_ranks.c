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
#include "tracer/stack/internal.h"
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
 * does. A thread of a backend that carries a collective out is waited for only if the main thread
 * waits, too. */
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
	if (main && main->python && main->wait.kind != WAIT_AUTOGRAD)
		return main;
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

static bool same_calls(const struct hang_rank *a, const struct hang_rank *b)
{
	bool same = a->ngroups == b->ngroups;
	for (size_t i = 0; same && i < a->ngroups; i++) {
		const struct hang_group *x = &a->groups[i], *y = &b->groups[i];
		same = x->count == y->count && x->ncalls == y->ncalls;
		for (size_t k = 0; same && k < x->ncalls; k++)
			same = x->calls[k].number == y->calls[k].number &&
			       hang_same_call(&x->calls[k], &y->calls[k]);
	}
	return same;
}

/* Its rank: a worker that a rank has forked has the rank's groups in its memory, and takes no part
 * in them. */
static struct hang_rank read_own_rank(pid_t pid, bool *has_groups)
{
	struct process_rank rank;
	process_rank_read(pid, &rank);
	enum rank_role role = process_rank_role(pid, &rank);
	*has_groups = role == RANK_OWN || role == RANK_NONE;
	return (struct hang_rank){.pid = pid,
				  .rank = *has_groups ? rank.rank : -1,
				  .world_size = *has_groups ? rank.world_size : -1};
}

/* *own with its groups as they are now. */
static struct hang_rank read_rank(const struct stack_snapshot_view *v, const struct hang_rank *own)
{
	const struct err *why;
	const struct mem mem = mem_process(v->pid);
	struct py_runtime *py = stack_reader_python(v->stack_reader, &why);
	struct hang_rank r = *own;
	if (py)
		process_groups_read(v->pid, &mem, py, &r);
	return r;
}

int stack_place_take(struct stack_snapshot_view *v, struct hang_rank *out, struct err *e)
{
	enum { TRIES = 3 };
	bool same = false, has_groups;
	const struct hang_rank own = read_own_rank(v->pid, &has_groups);
	struct hang_rank before;
	*out = has_groups ? read_rank(v, &own) : own;
	for (unsigned i = 0; i < TRIES && !same; i++) {
		int r = stack_reader_take(v->stack_reader, &v->look, e);
		if (r) {
			hang_rank_free(out);
			return r;
		}
		before = *out;
		*out = has_groups ? read_rank(v, &own) : own;
		same = same_calls(&before, out);
		hang_rank_free(&before);
	}
	const struct stack_snapshot_thread *t = thread_of(v);
	if (t) {
		set_doing(t, python_of(v, t), out);
		set_where(v, python_of(v, t), out);
	}
	out->in_collective &= same;
	return 0;
}
