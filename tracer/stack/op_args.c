#define _GNU_SOURCE
#include "tracer/stack/stack_snapshot.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/maps.h"
#include "tracer/engine/plan_reader.h"
#include "tracer/engine/remote.h"
#include "tracer/session/session.h"
#include "tracer/stack/internal.h"

/* An at::_ops function, by its address in libtorch_cpu. */
struct op_code {
	uint64_t start; /* first */
	uint64_t size;
	uint32_t op; /* index of the table */
	bool looked;
	struct frame_code *steps; /* NULL: not analysed yet, or that failed */
};

struct op_args {
	struct op_table *table;
	struct target *target;
	struct remote *mem;
	struct cfg_reader reader;
	struct op_code *codes; /* by start */
	size_t n;
	struct op_code *found; /* by the current walk */
	struct hit_buf out;
	uint8_t *items; /* of the call being read */
	size_t nitems, room;
};

struct op_caught {
	uint32_t op;
	uint16_t generation;
	uint32_t nitems;
	bool known[PLAN_READS]; /* the reads that were done */
	_Alignas(8) uint8_t items[];
};

static int take_items(void *arg, const struct hit *h)
{
	struct op_args *a = arg;
	size_t n = h->size - sizeof(*h);
	if (array_grow(&a->items, &a->room, a->nitems + n, 1))
		return -1;
	memcpy(a->items + a->nitems, h + 1, n);
	a->nitems += n;
	return 0;
}

static int by_start(const void *x, const void *y)
{
	const struct op_code *a = x, *b = y;
	return (a->start > b->start) - (a->start < b->start);
}

static int list_codes(struct op_args *a)
{
	const struct op_table *t = a->table;
	a->codes = calloc(t->n, sizeof(*a->codes));
	if (!a->codes)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct op_probe *p = &t->ops[i];
		if (p->role != ROLE_CALL || p->file != OPS_CPU)
			continue;
		a->codes[a->n++] = (struct op_code){
		    .start = p->vaddr,
		    .size = elf_function_size(t->elf[OPS_CPU], p->vaddr),
		    .op = i,
		};
	}
	qsort(a->codes, a->n, sizeof(*a->codes), by_start);
	return 0;
}

static int get_ready(struct op_args *a, pid_t pid, const struct maps *maps, struct err *e)
{
	struct libraries l;
	struct err no_python = {0};
	libraries_find(maps, &l);
	if (!l.torch)
		return err_set(e, -ENODATA, "process %d has no PyTorch loaded", pid);
	int r = load_ops(pid, &l, OPS_LAZY, &a->table, e);
	r = r ? r : target_open(pid, a->table, maps, &a->target, &no_python, e);
	if (r)
		return r;
	const struct return_sites_ops ops = callees_ops(a->table->callees);
	a->reader = (struct cfg_reader){.read = ops.read, .piece = ops.piece, .arg = ops.arg};
	a->out.sink = take_items;
	a->out.arg = a;
	a->mem = remote_new();
	return a->mem && !list_codes(a) ? 0 : err_set(e, -ENOMEM, "no memory");
}

int op_args_open(pid_t pid, const struct maps *maps, struct op_args **out, struct err *e)
{
	struct op_args *a = calloc(1, sizeof(*a));
	int r = a ? get_ready(a, pid, maps, e) : err_set(e, -ENOMEM, "no memory");
	if (r)
		op_args_close(a);
	else
		*out = a;
	return r;
}

void op_args_close(struct op_args *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		frame_code_free(a->codes[i].steps);
	free(a->codes);
	free(a->items);
	remote_free(a->mem);
	target_close(a->target);
	op_table_free(a->table);
	free(a);
}

static bool is_call(void *arg, uint64_t pc)
{
	struct op_args *a = arg;
	uint64_t at = pc - a->target->bias[OPS_CPU];
	size_t low = array_up_to(a->codes, a->n, sizeof(*a->codes), at);
	a->found = low && at - a->codes[low - 1].start < a->codes[low - 1].size ? &a->codes[low - 1]
										: NULL;
	return a->found;
}

static struct frame_code *steps_of(struct op_args *a, struct op_code *c)
{
	const struct frame_step_code f = {
	    .code = elf_bytes(a->table->elf[OPS_CPU], c->start, c->size),
	    .len = c->size,
	    .vaddr = c->start,
	    .reader = &a->reader,
	};
	if (!c->looked && (!f.code || frame_code_new(&f, &c->steps)))
		c->steps = NULL;
	c->looked = true;
	return c->steps;
}

static bool has_word(const struct frame_args *f, unsigned loc)
{
	if (loc < LOC_STACK)
		return f->known >> loc & 1;
	return loc < LOC_MAX && f->stack_known >> (loc - LOC_STACK) & 1;
}

/* Whether the words that a read needs are known. Slots in the function's own frame are not read,
 * since they may have been reused by now. */
static bool can_read(const struct frame_args *f, const struct probe_read *r)
{
	switch (r->kind) {
	case READ_TENSORS:
		return has_word(f, r->a) && has_word(f, r->b);
	case READ_ARRAY:
		return has_word(f, r->a) && (r->deref || has_word(f, r->b)) &&
		       (r->deref || r->c == LOC_NONE || has_word(f, r->c));
	case READ_WORD:
	case READ_MEM:
	case READ_TENSOR:
	case READ_OPT_TENSOR:
	case READ_VECTOR:
	case READ_LIST:
	case READ_ILIST:
		return has_word(f, r->a);
	default:
		return false;
	}
}

static void read_call(struct op_args *a, const struct native_thread *t, const struct frame_args *f,
		      struct op_caught *c)
{
	struct op_plan plan = a->table->plans[c->op];
	uint64_t w[LOC_MAX];
	bool gap = false;
	memcpy(w, f->reg, sizeof(f->reg));
	memcpy(w + LOC_STACK, f->stack, sizeof(f->stack));
	for (unsigned i = 0; i < plan.nentry && i < PLAN_READS; i++) {
		c->known[i] = can_read(f, &plan.read[i]);
		if (!c->known[i])
			plan.read[i].kind = READ_END;
	}
	const struct reading r = {.mem = a->mem,
				  .out = &a->out,
				  .conf = &a->target->conf,
				  .plan = &plan,
				  .w = w,
				  .regs = t->regs,
				  .sp = f->sp};
	a->nitems = 0;
	remote_begin(a->mem, t->tid);
	*hit_buf_begin(&a->out, &gap) = (struct hit){.kind = HIT_ENTRY};
	plan_reader_run(&r);
	hit_buf_send(&a->out);
	if (gap)
		memset(c->known, 0, sizeof(c->known));
}

struct op_caught *op_args_catch(struct op_args *a, struct native_stacks *stacks,
				const struct native_thread *t, struct arena *arena)
{
	enum { DEEPEST = 256 };
	uint64_t regs[ARCH_REGS];
	uint32_t known;
	struct frame_args f = {0};
	struct op_caught c = {.generation = (uint16_t)a->target->conf.generation};
	if (native_stacks_find(stacks, t, DEEPEST, is_call, a, regs, &known))
		return NULL;
	struct frame_code *steps = steps_of(a, a->found);
	c.op = a->found->op;
	if (op_table_plan(a->table, c.op))
		return NULL;
	if (steps)
		frame_code_args(steps, t->mem, regs[ARCH_IP] - a->target->bias[OPS_CPU], regs,
				known, &f);
	read_call(a, t, &f, &c);
	struct op_caught *kept = arena_alloc(arena, sizeof(c) + a->nitems);
	if (!kept)
		return NULL;
	*kept = c;
	kept->nitems = (uint32_t)a->nitems;
	memcpy(kept->items, a->items, a->nitems);
	return kept;
}

void op_args_learn(struct op_args *a, const struct op_caught *c)
{
	const struct items it = {.data = c->items, .len = c->nitems};
	target_learn(a->target, &it);
}

static bool is_known(const struct op_caught *c, const struct abi_value *v)
{
	if (v->how == ABI_UNKNOWN)
		return false;
	return (v->read >= PLAN_READS || c->known[v->read]) &&
	       (v->how != ABI_WORDS || v->flag_read >= PLAN_READS || c->known[v->flag_read]);
}

static struct value argument(struct op_args *a, const struct op_caught *c,
			     const struct abi_value *v, struct arena *arena)
{
	const struct items it = {.data = c->items, .len = c->nitems};
	struct decode d = {.target = a->target, .arena = arena};
	if (!is_known(c, v))
		return value_not_decoded("the frame of the call does not tell any more");
	struct value out = decode_value(&d, v, &it);
	/* One passed by value may have been moved from. */
	return out.kind == VALUE_GENERATOR
		   ? value_not_decoded("the frame of the call does not tell any more")
		   : out;
}

struct op_call op_args_decode(struct op_args *a, const struct op_caught *c, struct arena *arena)
{
	const struct op_probe *p = &a->table->ops[c->op];
	struct op_call call = {.op = arena_strndup(arena, p->desc.name, strlen(p->desc.name))};
	const unsigned n = p->values_known ? p->desc.nargs : 0;
	struct value *args = arena_alloc(arena, (n + 1) * sizeof(*args));
	call.names = arena_alloc(arena, (n + 1) * sizeof(*call.names));
	if (!args || !call.names)
		return call;
	target_settle(a->target);
	a->target->reading = c->generation;
	for (unsigned i = 0; i < n; i++) {
		const char *name = p->desc.args[i].name;
		call.names[i] = arena_strndup(arena, name, strlen(name));
		args[i] = argument(a, c, &p->abi.args[i], arena);
		if (!call.names[i])
			return call;
	}
	call.args = args;
	call.nargs = n;
	return call;
}

static void watched_begin(struct op_watched *x, pid_t tid, uint64_t entry)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_BREAKPOINT,
	    .size = sizeof(attr),
	    .bp_type = HW_BREAKPOINT_X,
	    .bp_addr = entry,
	    .bp_len = sizeof(long),
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	    .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	if (x->tid)
		close(x->fd);
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	*x = (struct op_watched){0};
	if (fd >= 0)
		*x = (struct op_watched){tid, fd, entry, clock_ns(CLOCK_MONOTONIC)};
}

static struct op_watched *watch_find(struct op_watch *w, pid_t tid)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].tid == tid)
			return &w->at[i];
	for (unsigned i = 0; i < w->n; i++)
		if (!w->at[i].tid)
			return &w->at[i];
	return w->n < OP_WATCH_THREADS ? &w->at[w->n++] : NULL;
}

/* Whether there was no entry, and the counting had no gap. */
static bool has_stayed(const struct op_watched *x)
{
	uint64_t count[3]; /* entries, time enabled, time running */
	return read(x->fd, count, sizeof(count)) == sizeof(count) && !count[0] &&
	       count[1] == count[2];
}

uint64_t op_watch_in(struct op_watch *w, pid_t tid, uint64_t entry, uint64_t now_ns)
{
	struct op_watched *x = watch_find(w, tid);
	if (!x || !entry)
		return 0;
	if (x->tid == tid && x->entry == entry && has_stayed(x))
		return now_ns > x->since_ns ? now_ns - x->since_ns : 0;
	watched_begin(x, tid, entry);
	return 0;
}

void op_watch_free(struct op_watch *w)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].tid)
			close(w->at[i].fd);
	*w = (struct op_watch){0};
}
