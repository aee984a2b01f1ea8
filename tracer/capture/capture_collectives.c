/* Captures of collectives, with the engine shim: what a rank gives is copied at the entry of the
 * call, what it gets when Gloo has written it, before anyone who waits for it is told. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collectives/collectives.h"
#include "symbolizer/python/python.h"
#include "symbolizer/torch/layout.h"
#include "tracer/capture/internal.h"
#include "tracer/engine/engine.h"

enum { AWAITED_MAX = 4096 };

static const size_t COPY_MAX = (size_t)4 << 30; /* bytes of one call */

/* What was written by a work of which it is not known yet which call it is of. */
struct early_output {
	struct early_output *next;
	uint64_t work;
	struct kept kept;
	struct value values;
};

struct collective_capture {
	struct collective_capture *next;
	struct arena arena;
	struct capture_call call;
	struct capture_collective what;
	const struct py_frame *where;
	struct kept given; /* the input, written when the call has not thrown */
	struct value input;
	bool is_given;
	struct value output; /* its tensors, without their bytes */
	uint64_t work;	     /* 0: the call has not returned yet */
	bool in_wait;	     /* what it gives is there after a wait for the work */
	bool is_over;
	bool missed; /* a work that may be its own was done, and the output not copied */
	struct early_output *early;
};

bool capture_is_of_collectives(const char *ops)
{
	static const char prefix[] = "c10d::";
	while (ops) {
		ops += strspn(ops, " ^");
		if (strncmp(ops, prefix, sizeof(prefix) - 1) != 0)
			return false;
		ops = strchr(ops, ',');
		ops += ops != NULL;
		if (!ops)
			return true;
	}
	return false;
}

/* The list of all tensors before the group is what the rank gets; one, both. */
static bool collective_arguments(const struct op_event *ev, struct collective *what,
				 const struct value **input, const struct value **output)
{
	if (!collective_of(ev, what) || !what->in_sequence || !what->group ||
	    what->group == ev->args || strstr(what->name, "barrier"))
		return false;
	*output = ev->args;
	*input = what->group - 1;
	return *input - *output < 2;
}

bool capture_collectives_wants(const struct op_event *ev)
{
	struct collective what;
	const struct value *input, *output;
	return collective_arguments(ev, &what, &input, &output);
}

static bool is_on_device(const struct value *v)
{
	if (v->kind == VALUE_TENSOR)
		return !(v->tensor->meta.unknown & TENSOR_NO_DEVICE) &&
		       v->tensor->meta.device_type != 0;
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		if (is_on_device(&v->items[i]))
			return true;
	return false;
}

static bool copy_value(struct arena *a, const struct value *v, struct value *out)
{
	*out = *v;
	if (v->kind == VALUE_TENSOR) {
		const struct tensor_meta *m = &v->tensor->meta;
		const size_t size = m->ndim * sizeof(*m->shape);
		int64_t *dims = arena_alloc(a, 2 * size + 1);
		out->tensor = arena_alloc(a, sizeof(*out->tensor));
		if (!dims || !out->tensor)
			return false;
		*out->tensor = *v->tensor;
		if (m->unknown & (TENSOR_NO_SHAPE | TENSOR_NO_STRIDE))
			return true;
		out->tensor->meta.shape = memcpy(dims, m->shape, size);
		out->tensor->meta.stride = memcpy(dims + m->ndim, m->stride, size);
	} else if (v->kind == VALUE_LIST) {
		out->items = arena_alloc(a, v->count * sizeof(*v) + 1);
		for (uint32_t i = 0; out->items && i < v->count; i++)
			if (!copy_value(a, &v->items[i], &out->items[i]))
				return false;
		return out->items;
	}
	return true;
}

/* With the bytes as they are now. What cannot be copied stays as it is, to be refused. */
static int keep_value(struct kept *k, const struct source *src, const struct value *v,
		      struct value *out)
{
	int r = 0;
	*out = *v;
	if (v->kind == VALUE_TENSOR) {
		struct tensor *copy;
		r = kept_add(k, v->tensor, src, COPY_MAX, &copy);
		if (!r)
			out->tensor = copy;
		return r == -ENOTSUP ? 0 : r;
	}
	if (v->kind != VALUE_LIST)
		return 0;
	out->items = arena_alloc(&k->arena, v->count * sizeof(*v) + 1);
	for (uint32_t i = 0; out->items && i < v->count && !r; i++)
		r = keep_value(k, src, &v->items[i], &out->items[i]);
	return out->items ? r : -ENOMEM;
}

/* False, and counted, if the bytes may be of another moment. */
static bool keep_now(struct capture *c, struct target *t, const struct value *v, struct kept *k,
		     struct value *out)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	const struct engine *g = c->engine;
	if (!keep_value(k, &live, v, out) && (!g->stood || g->stood(c->engine)))
		return true;
	c->collectives.not_read++;
	return false;
}

static void save(struct capture *c, struct collective_capture *x, const char *part,
		 struct pth_content *content, struct kept *k)
{
	struct capture_about about = {.where = x->where, .collective = &x->what};
	const struct source src = kept_source(k);
	capture_save_content(c, &x->call, part, content, &about, &src);
}

/* With what is behind the group and tells how tensors are split, as keywords. */
static void save_input(struct capture *c, struct collective_capture *x, const struct op_event *ev,
		       const struct value *group)
{
	struct pth_content content = {.args = &x->input, .nargs = 1};
	struct pth_keyword *kw = arena_alloc(&x->arena, ev->nargs * sizeof(*kw));
	content.kwargs = kw;
	for (uint16_t i = 0; kw && group && i < ev->nargs && i < ev->op->nargs; i++)
		if (&ev->args[i] > group && ev->args[i].kind == VALUE_LIST && ev->args[i].count)
			kw[content.nkwargs++] =
			    (struct pth_keyword){ev->op->args[i].name, &ev->args[i]};
	if (x->is_given)
		save(c, x, "input", &content, &x->given);
	kept_free(&x->given);
}

static void save_output(struct capture *c, struct collective_capture *x, const struct value *got,
			struct kept *k)
{
	struct pth_content content = {.args = got, .nargs = 1};
	save(c, x, "output", &content, k);
}

static void collective_capture_free(struct collective_capture *x)
{
	while (x->early) {
		struct early_output *e = x->early;
		x->early = e->next;
		kept_free(&e->kept);
		free(e);
	}
	kept_free(&x->given);
	arena_free(&x->arena);
	free(x);
}

static void drop_last(struct capture_collectives *all)
{
	struct collective_capture **at = &all->awaited;
	while ((*at)->next)
		at = &(*at)->next;
	collective_capture_free(*at);
	*at = NULL;
	all->n--;
	all->not_done++;
}

/* The name and the ranks of the group, by which the ranks' calls are matched. */
static void describe_group(struct target *t, struct collective_capture *x)
{
	struct python_group *groups = NULL;
	uint32_t count;
	const uint64_t object = x->what.group;
	int n = t->py ? python_groups(t->py, &groups) : 0;
	for (int i = 0; i < n; i++) {
		if (groups[i].object != object)
			continue;
		x->what.name = arena_strndup(&x->arena, groups[i].name, strlen(groups[i].name));
		int32_t *ranks = arena_alloc(&x->arena, groups[i].n * sizeof(*ranks) + 1);
		if (ranks && x->what.name) {
			x->what.ranks =
			    memcpy(ranks, groups[i].ranks, groups[i].n * sizeof(*ranks));
			x->what.nranks = groups[i].n;
		}
	}
	python_groups_free(groups, n > 0 ? (size_t)n : 0);
	if (!process_group_count(&t->mem, t->rtti, t->ops->elf[OPS_CPU], object, &count))
		x->what.number = (uint64_t)count + 1;
}

static void describe(struct capture *c, struct target *t, const struct op_event *ev,
		     const struct collective *what, struct collective_capture *x)
{
	x->where = collective_where(ev->where_stack);
	x->what = (struct capture_collective){.kind = what->name,
					      .reduce_op = what->reduce_op,
					      .root = what->root,
					      .group = what->group->group.address,
					      .rank = what->group->group.rank,
					      .size = what->group->group.size};
	capture_place_of(c, ev->pid, x->call.place, sizeof(x->call.place));
	describe_group(t, x);
}

void capture_collectives_begin(struct capture *c, struct target *t, const struct op_event *ev)
{
	struct collective what;
	const struct value *input, *output;
	if (!collective_arguments(ev, &what, &input, &output))
		return;
	if (is_on_device(input) || is_on_device(output)) {
		c->collectives.on_device++;
		return;
	}
	struct collective_capture *x = calloc(1, sizeof(*x));
	if (!x || !capture_call_of(&c->files, ev, &x->call) ||
	    !copy_value(&x->arena, output, &x->output)) {
		if (x)
			collective_capture_free(x);
		return;
	}
	describe(c, t, ev, &what, x);
	x->is_given = keep_now(c, t, input, &x->given, &x->input);
	x->next = c->collectives.awaited;
	c->collectives.awaited = x;
	if (++c->collectives.n > AWAITED_MAX)
		drop_last(&c->collectives);
}

/* Only the root gets something. */
static bool has_output(const struct collective_capture *x)
{
	const char *kind = x->what.kind;
	return (strcmp(kind, "reduce") != 0 && strcmp(kind, "gather") != 0) ||
	       x->what.rank == x->what.root;
}

static void take_out(struct capture *c, struct collective_capture **at)
{
	struct collective_capture *x = *at;
	*at = x->next;
	collective_capture_free(x);
	c->collectives.n--;
}

static void write_now(struct capture *c, struct target *t, struct collective_capture **at)
{
	struct kept now = {0};
	struct value got;
	if (!t)
		c->collectives.not_read++;
	else if (keep_now(c, t, &(*at)->output, &now, &got))
		save_output(c, *at, &got, &now);
	kept_free(&now);
	take_out(c, at);
}

/* The work that this call has returned is at the address of one that is gone. */
static void forget_work(struct capture *c, const struct op_event *ev, uint64_t work)
{
	for (struct collective_capture **at = &c->collectives.awaited; *at;)
		if ((*at)->work == work && (*at)->call.pid == ev->pid && (*at)->call.id != ev->id) {
			take_out(c, at);
			c->collectives.not_done++;
		} else {
			at = &(*at)->next;
		}
}

static void end_wait(struct capture *c, struct target *t, const struct op_event *ev)
{
	struct collective_capture **at = &c->collectives.awaited;
	if (!ev->nargs || ev->args[0].kind != VALUE_WORK)
		return;
	while (*at && ((*at)->call.pid != ev->pid || (*at)->work != ev->args[0].work.address))
		at = &(*at)->next;
	if (!*at)
		return;
	if (ev->thrown) {
		take_out(c, at); /* it has failed */
		c->collectives.not_done++;
	} else if ((*at)->in_wait && ev->end_ns) {
		write_now(c, t, at);
	}
}

/* Gloo's own works tell when their output is written; others, on the CPU, have it after a wait. */
static void end_call(struct capture *c, struct collective_capture *x, const struct op_event *ev,
		     const struct collective *what)
{
	struct early_output *e = x->early;
	x->work = what->work;
	save_input(c, x, ev, what->group);
	while (e && e->work != x->work)
		e = e->next;
	if (e && has_output(x))
		save_output(c, x, &e->values, &e->kept);
	const bool lost = !e && (!x->work || x->missed);
	x->is_over = e || lost || !has_output(x);
	c->collectives.not_done += lost && has_output(x);
	x->in_wait = !what->backend;
}

void capture_collectives_end(struct capture *c, struct target *t, const struct op_event *ev)
{
	struct collective what;
	struct collective_capture **at = &c->collectives.awaited, *x;
	if (!strcmp(ev->op->name, "c10d::Work::wait"))
		end_wait(c, t, ev);
	if (!collective_of(ev, &what))
		return;
	if (what.work)
		forget_work(c, ev, what.work);
	while (*at && (*at)->call.id != ev->id)
		at = &(*at)->next;
	if (!(x = *at))
		return;
	if (ev->thrown || !ev->end_ns)
		x->is_over = true;
	else
		end_call(c, x, ev, &what);
	if (x->is_over)
		take_out(c, at);
}

static void keep_early(struct capture *c, struct target *t, struct collective_capture *x,
		       uint64_t work)
{
	struct early_output *e = t ? calloc(1, sizeof(*e)) : NULL;
	if (!e || !keep_now(c, t, &x->output, &e->kept, &e->values)) {
		x->missed = true;
		if (e)
			kept_free(&e->kept);
		free(e);
		return;
	}
	e->work = work;
	e->next = x->early;
	x->early = e;
}

void capture_collectives_written(struct capture *c, struct target *t, const struct work_done *w)
{
	struct collective_capture **at = &c->collectives.awaited;
	while (*at && ((*at)->call.pid != w->pid || (*at)->in_wait || (*at)->work != w->address))
		at = &(*at)->next;
	if (*at) {
		write_now(c, t, at);
		return;
	}
	for (struct collective_capture *x = c->collectives.awaited; x; x = x->next)
		if (x->call.pid == w->pid && !x->work)
			keep_early(c, t, x, w->address);
}

void capture_collectives_summary(const struct capture_collectives *c, FILE *f)
{
	const uint64_t open = c->not_done + c->n;
	if (open)
		fprintf(f,
			"  no output of %" PRIu64
			" collective%s: when they were done was not seen\n",
			open, open == 1 ? "" : "s");
	if (c->on_device)
		fprintf(f, "  skipped %" PRIu64 " collective%s: memory on a device is not read\n",
			c->on_device, c->on_device == 1 ? "" : "s");
	if (c->no_ops)
		fprintf(f, "  skipped %" PRIu64 " collective%s: PyTorch has no operator for it\n",
			c->no_ops, c->no_ops == 1 ? "" : "s");
	if (c->not_read)
		fprintf(f, "  skipped %" PRIu64 " file%s: the thread did not wait for ditrace\n",
			c->not_read, c->not_read == 1 ? "" : "s");
}

void capture_collectives_forget(struct capture *c, pid_t pid)
{
	for (struct collective_capture **at = &c->collectives.awaited; *at;)
		if ((*at)->call.pid == pid) {
			take_out(c, at);
			c->collectives.not_done++;
		} else {
			at = &(*at)->next;
		}
}

void capture_collectives_free(struct capture_collectives *c)
{
	while (c->awaited) {
		struct collective_capture *x = c->awaited;
		c->awaited = x->next;
		collective_capture_free(x);
	}
}
