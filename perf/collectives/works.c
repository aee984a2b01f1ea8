/* When collectives were done, and how long the program waited for them: both are told of a Work,
 * which the call returned. */
#include "perf/collectives/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* A call by its Work. */
struct work {
	uint32_t process;
	uint64_t address;
	struct collective_call *call;
	uint64_t
	    again_ns; /* when a Work there was done again, of a call that is not known; 0: never */
};

static int add_mark(struct collectives *c, struct collective_mark m)
{
	if (array_grow(&c->marks, &c->marks_room, c->nmarks + 1, sizeof(*c->marks)))
		return -ENOMEM;
	c->marks[c->nmarks++] = m;
	return 0;
}

bool collective_is_wait(const struct op_desc *op)
{
	return !strcmp(op->name, "c10d::Work::wait");
}

int collectives_see_wait(struct collectives *c, uint32_t process, const struct op_event *ev)
{
	bool known = ev->nargs && ev->args[0].kind == VALUE_WORK;
	if (!known || !ev->end_ns)
		c->waits_not_known++;
	if (!known)
		return 0;
	return add_mark(c, (struct collective_mark){.process = process,
						    .address = ev->args[0].work.address,
						    .start_ns = ev->start_ns,
						    .end_ns = ev->end_ns});
}

int collectives_see_done(struct collectives *c, uint32_t process, const struct work_done *d)
{
	return add_mark(
	    c, (struct collective_mark){
		   .process = process, .address = d->address, .start_ns = d->ns, .is_done = true});
}

static int compare_works(const void *a, const void *b)
{
	const struct work *x = a, *y = b;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->call->start_ns > y->call->start_ns) - (x->call->start_ns < y->call->start_ns);
}

static int compare_marks(const void *a, const void *b)
{
	const struct collective_mark *x = a, *y = b;
	if (x->is_done != y->is_done)
		return x->is_done ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void add_works(const struct collectives *c, struct work *works, size_t *n)
{
	for (size_t i = 0; i < c->ngroups; i++)
		for (unsigned k = 0; k < 2; k++)
			for (size_t j = 0; j < c->groups[i].calls[k].n; j++) {
				struct collective_call *call = &c->groups[i].calls[k].all[j];
				if (call->work)
					works[(*n)++] = (struct work){c->groups[i].process,
								      call->work, call, 0};
			}
	if (*n)
		qsort(works, *n, sizeof(*works), compare_works);
}

static size_t count_works(const struct collectives *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->ngroups; i++)
		n += c->groups[i].calls[0].n + c->groups[i].calls[1].n;
	return n;
}

/* The latest call with that Work that began by then; NULL: none. */
static struct work *work_at(struct work *works, size_t n, const struct collective_mark *m)
{
	struct collective_call until = {.start_ns = m->start_ns};
	const struct work key = {.process = m->process, .address = m->address, .call = &until};
	size_t low = 0;
	for (size_t high = n; low < high;) {
		size_t middle = low + (high - low) / 2;
		if (compare_works(&works[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	struct work *w = low ? &works[low - 1] : NULL;
	return w && w->process == m->process && w->address == m->address ? w : NULL;
}

/* What has a Work at the address of one that is gone is another one, of a call that was not
 * recorded. */
static void note_done(struct work *w, const struct collective_mark *m)
{
	if (!w->call->done_ns)
		w->call->done_ns = m->start_ns;
	else if (!w->again_ns)
		w->again_ns = m->start_ns;
}

static void note_wait(struct work *w, const struct collective_mark *m)
{
	struct collective_call *call = w->call;
	if (!m->end_ns || m->start_ns < call->start_ns + call->ns ||
	    (w->again_ns && w->again_ns <= m->end_ns))
		return;
	call->wait_ns = call->wait_ns ? call->wait_ns : m->start_ns;
	call->waited_ns += m->end_ns - m->start_ns;
}

/* Where it is not certain that a Work says when the collective is done, that is not shown: NCCL's
 * never does; Gloo's of tensors on a device does before they are copied there. */
static void forget_uncertain(const struct collectives *c, struct collective_call *call)
{
	const struct collective *what = &c->rows[call->row].what;
	if (!what->on_host || !what->backend || strcmp(what->backend, "gloo") != 0)
		call->done_ns = 0;
}

int collectives_join_works(struct collectives *c)
{
	struct work *works = calloc(count_works(c) + 1, sizeof(*works));
	size_t n = 0;
	if (!works)
		return -ENOMEM;
	add_works(c, works, &n);
	if (c->nmarks)
		qsort(c->marks, c->nmarks, sizeof(*c->marks), compare_marks);
	for (size_t i = 0; i < c->nmarks && !c->lost; i++) {
		const struct collective_mark *m = &c->marks[i];
		struct work *w = work_at(works, n, m);
		if (w && m->is_done)
			note_done(w, m);
		else if (w && !c->waits_not_known)
			note_wait(w, m);
	}
	for (size_t i = 0; i < n; i++)
		forget_uncertain(c, works[i].call);
	free(works);
	return 0;
}

/* "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", before NCCL 2.19 "ncclKernel_AllReduce_...". */
bool collective_is_kernel(const struct activity *a)
{
	return a->kind == ACTIVITY_KERNEL && a->launched_ns && a->name &&
	       (!strncmp(a->name, "ncclDevKernel", 13) || !strncmp(a->name, "ncclKernel", 10));
}

int collectives_see_kernel(struct collectives *c, uint32_t process, const struct activity *a)
{
	if (array_grow(&c->kernels, &c->kernels_room, c->nkernels + 1, sizeof(*c->kernels)))
		return -ENOMEM;
	c->kernels[c->nkernels++] = (struct collective_kernel){.process = process,
							       .launched_ns = a->launched_ns,
							       .start_ns = a->of.start_ns,
							       .end_ns = a->of.end_ns};
	return 0;
}

/* The call during which it was launched; NULL: none, or calls of several groups were under way. */
static struct collective_call *launched_by(const struct collectives *c,
					   const struct collective_kernel *k)
{
	struct collective_call *found = NULL;
	for (size_t i = 0; i < c->ngroups; i++) {
		const struct collective_calls *calls = &c->groups[i].calls[NUMBERED];
		bool is_own = c->groups[i].process == k->process;
		size_t n =
		    is_own ? array_up_to(calls->all, calls->n, sizeof(*calls->all), k->launched_ns)
			   : 0;
		struct collective_call *call = n ? &calls->all[n - 1] : NULL;
		if (!call || k->launched_ns - call->start_ns >= call->ns)
			continue;
		if (found)
			return NULL;
		found = call;
	}
	return found;
}

void collectives_join_kernels(struct collectives *c)
{
	for (size_t i = 0; i < c->nkernels; i++) {
		const struct collective_kernel *k = &c->kernels[i];
		struct collective_call *call = launched_by(c, k);
		if (!call)
			continue;
		if (!call->device_start_ns || k->start_ns < call->device_start_ns)
			call->device_start_ns = k->start_ns;
		if (k->end_ns > call->device_end_ns)
			call->device_end_ns = k->end_ns;
	}
}
