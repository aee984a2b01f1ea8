#include "tracer/engine/plan_reader.h"

#include <stddef.h>

#include "symbolizer/code/arch_x86_64.h"

/* The reads are tried without sending until all the memory they need is cached, which takes few
 * system calls; then the record is made. Only a pointer cycle takes more rounds than this. */
enum { MAX_ROUNDS = 24 };

static struct open_op *top(struct shadow_stack *t)
{
	return t->depth ? &t->open[t->depth - 1] : NULL;
}

static bool is_shown(const struct open_op *f)
{
	return !f->muted && !f->aside;
}

/* The innermost op around index `i` that is shown; NULL: none is. */
static struct open_op *shown_around(struct shadow_stack *t, uint32_t i)
{
	while (i > 0 && !is_shown(&t->open[i - 1]))
		i--;
	return i ? &t->open[i - 1] : NULL;
}

/* The innermost op ends; add it up if it is not recorded. */
static void sum_top(struct shadow_stack *t, const struct op_hit *h, bool thrown)
{
	struct open_op *f = top(t), *up = shown_around(t, t->depth - 1);
	if (!f->row)
		return;
	sums_leave(t->sums, t->sums_writer, f->row, f->ts, h->ts, f->inner_ns, thrown);
	if (up && h->ts > f->ts)
		up->inner_ns += h->ts - f->ts;
}

static void drop_top(struct shadow_stack *t, const struct op_hit *h)
{
	sum_top(t, h, true);
	t->thrown |= !top(t)->row && !top(t)->muted;
	t->shown -= is_shown(top(t));
	t->depth--;
}

/* Drop ops that an exception unwound: their stack pointer is below `sp`, where the thread is now.
 */
static void prune(struct shadow_stack *t, const struct op_hit *h, uint64_t sp)
{
	while (t->depth && top(t)->sp <= sp)
		drop_top(t, h);
}

/* Drop ops that the stack pointer does not show to be over, but the Python frames do. */
static void prune_moved(struct shadow_stack *t, const struct op_hit *h, struct py_place now)
{
	while (t->depth && pyframes_moved_on(&h->conf->py, h->mem, now, top(t)->py))
		drop_top(t, h);
}

static uint64_t sp_at_entry(const struct op_hit *h)
{
	return h->regs[ARCH_SP] + h->plan->entry_sp;
}

static void keep_words(const struct op_hit *h, struct open_op *f)
{
	uint8_t n = h->plan->nstack; /* words of the argument area that are used */
	bool moved = h->plan->flags & PLAN_MOVED;
	for (unsigned i = 0; i < ARCH_INT_ARGS; i++) {
		unsigned r = moved ? h->plan->arg_reg[i] & 31 : arch_int_arg[i];
		f->w[i] = r < ARCH_REGS ? h->regs[r] : 0;
	}
	f->w[0] += (uint64_t)(int64_t)h->plan->near;
	for (uint32_t i = 0; i < h->plan->loads && i < PLAN_LOADS; i++)
		if (remote_live(h->mem, f->w[0], &f->w[0], sizeof(f->w[0])))
			f->w[0] = 0;
	if (n && n <= LOC_MAX - LOC_STACK)
		remote_live(h->mem, f->sp + 8, &f->w[LOC_STACK], n * 8U);
}

static bool is_own_work(const struct op_hit *h)
{
	uint64_t set[OWN_WAYS] = {0};
	if (!h->conf->own_work ||
	    remote_live(h->mem, h->conf->own_work + own_work_set(h->fsbase), set, sizeof(set)))
		return false;
	for (unsigned i = 0; i < OWN_WAYS; i++)
		if (set[i] == h->fsbase)
			return true;
	return false;
}

static bool is_muted(const struct shadow_stack *t, const struct op_hit *h, const struct open_op *f)
{
	if (h->plan->flags & PLAN_MARK || is_own_work(h))
		return true;
	if (h->conf->phase == 1 && f->backward)
		return true;
	if (h->conf->phase == 2 && !f->backward)
		return true;
	return h->conf->max_depth && t->shown >= h->conf->max_depth &&
	       !(h->plan->flags & PLAN_ASIDE);
}

static void begin_hit(struct shadow_stack *t, const struct op_hit *h, const struct open_op *f,
		      uint8_t kind, uint16_t generation)
{
	struct hit *hit = hit_buf_begin(h->out, &t->gap);
	/* Member by member: with general registers alone all of it is cleared by a slow instruction
	 * first. */
	hit->size = 0;
	hit->kind = kind;
	hit->flags = f->backward ? HIT_BACKWARD : 0;
	hit->depth = (uint16_t)t->shown;
	hit->op = f->op;
	hit->proc = h->proc;
	hit->generation = generation;
	hit->tid = t->tid;
	hit->stop = 0;
	hit->ts = h->ts;
	hit->seq = f->seq;
	hit->sp = f->sp;
}

/* An op called by another without Python in between has the same Python stack: the frame that
 * called the outer op cannot have advanced. */
static void put_python(struct shadow_stack *t, const struct op_hit *h, bool up_sent,
		       const struct open_op *up, struct open_op *f)
{
	f->py_sent = !f->aside; /* in what is recorded, it encloses nothing */
	if (!f->py.frame)
		hit_buf_item(h->out, ITEM_STACK, 0, STACK_NONE);
	else if (up_sent && up->py.frame == f->py.frame && up->py.instr == f->py.instr)
		hit_buf_item(h->out, ITEM_STACK, 0, STACK_SAME);
	else
		pyframes_put(&t->py, &h->conf->py, h->mem, h->out, f->py.frame, f->backward,
			     f->base);
}

static struct reading reading_of(const struct op_hit *h, const struct open_op *f, bool is_exit)
{
	return (struct reading){
	    .mem = h->mem,
	    .out = h->out,
	    .conf = h->conf,
	    .plan = h->plan,
	    .w = f->w,
	    .regs = h->regs,
	    .fp = h->fp,
	    .sp = f->sp,
	    .is_exit = is_exit,
	};
}

/* One dry round of what the entry will read. */
static void try_entry(struct shadow_stack *t, const struct op_hit *h)
{
	struct open_op f = {.sp = sp_at_entry(h), .op = h->op};
	keep_words(h, &f);
	begin_hit(t, h, &f, HIT_ENTRY, 0);
	struct reading r = reading_of(h, &f, false);
	if (!(h->plan->flags & PLAN_MARK))
		plan_reader_run(&r);
	if (!h->conf->py_on)
		return;
	struct py_place now = pyframes_innermost(&t->py, &h->conf->py, h->mem, true);
	const struct open_op *up = top(t);
	bool same = up && up->py_sent && up->py.frame == now.frame && up->py.instr == now.instr;
	if (now.frame && (h->plan->flags & PLAN_PY) && !same)
		pyframes_put(&t->py, &h->conf->py, h->mem, h->out, now.frame, false, 0);
}

static void gather_entry(struct shadow_stack *t, const struct op_hit *h)
{
	if (!remote_collects(h->mem))
		return;
	h->out->dry = true;
	remote_collect(h->mem, true);
	if (h->conf->py_on)
		pyframes_foresee(&t->py, &h->conf->py, h->mem);
	for (unsigned i = 0; i < MAX_ROUNDS; i++) {
		try_entry(t, h);
		if (!remote_fetch(h->mem))
			break;
	}
	remote_collect(h->mem, false);
	h->out->dry = false;
}

/* How a call that is summed up lies within others with the same Python stack: HIT_NESTED,
 * HIT_AGAIN. */
static uint8_t nesting(const struct shadow_stack *t, const struct open_op *f)
{
	uint8_t flags = 0;
	for (const struct open_op *o = f; o-- > t->open;)
		if (is_shown(o) && o->py.frame == f->py.frame && o->py.instr == f->py.instr)
			flags |= o->op == f->op ? HIT_NESTED | HIT_AGAIN : HIT_NESTED;
	return flags;
}

static bool wants_native(const struct op_hit *h, const struct open_op *f)
{
	if (!h->native || !(h->plan->flags & PLAN_PY))
		return false;
	return !f->py.frame || (h->conf->native == NATIVE_OF_ALL && !h->out->lean);
}

static void send_entry(struct shadow_stack *t, const struct op_hit *h, const struct open_op *up,
		       struct open_op *f)
{
	const struct open_op *shown = shown_around(t, t->depth);
	/* Of what is summed up no record says that it encloses others. */
	h->out->inner = shown && shown->row;
	h->out->ends = t->thrown && !h->out->inner;
	begin_hit(t, h, f, HIT_ENTRY, (uint16_t)h->conf->generation);
	struct reading r = reading_of(h, f, false);
	plan_reader_run(&r);
	const bool sums = h->out->lean && !h->out->placed;
	if (sums)
		h->out->hit->flags |= nesting(t, f);
	if (h->conf->py_on && (h->plan->flags & PLAN_PY))
		put_python(t, h, !sums && up && up->py_sent, up, f);
	if (wants_native(h, f))
		native_walk_put(h, f->py.frame);
	hit_buf_send(h->out);
	f->row = h->out->row;
	t->thrown &= f->row || t->gap;
	h->out->inner = h->out->ends = false;
}

static void put_region(const struct op_hit *h, uint64_t addr, uint32_t len)
{
	uint8_t bytes[CODE_LINES];
	struct item *it = hit_buf_item(h->out, ITEM_DATA, 0, 0);
	hit_buf_word(h->out, addr);
	len = len > sizeof(bytes) ? 0 : remote_read_most(h->mem, addr, bytes, len);
	hit_buf_put(h->out, bytes, len);
	it->len = (uint16_t)(8 + len);
}

/* The bytes object at `at`. */
static void put_lines(const struct op_hit *h, uint64_t at)
{
	const struct py_code_read *c = &h->conf->code;
	uint64_t left = remote_word(h->mem, at + c->bytes_size) + c->bytes_data;
	for (unsigned i = 0; i < CODE_PIECES && left; i++) {
		uint64_t n = left < CODE_LINES ? left : CODE_LINES;
		put_region(h, at + (uint64_t)i * CODE_LINES, (uint32_t)n);
		left -= n;
	}
}

/* A Python code object, and what it points to, as it may not be there any more when the record is
 * read: code that runs once, as by exec(), is freed, and processes end. */
static void send_code(struct shadow_stack *t, const struct op_hit *h, uint64_t code, uint8_t kind,
		      uint32_t number)
{
	const struct py_code_read *c = &h->conf->code;
	const struct open_op none = {.sp = code, .seq = number};
	begin_hit(t, h, &none, kind, 0);
	put_region(h, code, c->size & 0x1ff);
	put_region(h, remote_word(h->mem, code + c->filename), CODE_STRING);
	put_region(h, remote_word(h->mem, code + c->name), CODE_STRING);
	put_lines(h, remote_word(h->mem, code + c->linetable));
	hit_buf_send(h->out);
}

/* They are no part of the op: it does not wait for them, nor is anything of it lost with them. */
static void send_met(struct shadow_stack *t, const struct op_hit *h)
{
	const bool stop = h->out->stop, gap = t->gap;
	h->out->stop = t->gap = false;
	for (uint32_t i = 0; i < t->py.nmet; i++)
		send_code(t, h, t->py.met[i], HIT_CODE_MET, 0);
	h->out->stop = stop;
	t->gap = gap;
	t->py.nmet = 0;
}

bool shadow_stack_entry(struct shadow_stack *t, const struct op_hit *h)
{
	struct py_place now = {0};
	uint64_t sp = sp_at_entry(h);
	t->py.fsbase = h->fsbase;
	/* In the backward it must be certain whether Python runs. */
	if (h->plan->flags & PLAN_BACKWARD || (t->depth && top(t)->backward))
		t->py.wait = 0;
	gather_entry(t, h);
	if (h->conf->py_on)
		now = pyframes_innermost(&t->py, &h->conf->py, h->mem, false);
	prune(t, h, sp);
	if (now.frame)
		prune_moved(t, h, now);
	if (t->depth >= OPEN_MAX)
		return false;
	struct open_op *up = top(t), *f = &t->open[t->depth];
	f->sp = sp;
	f->seq = ++t->seq;
	f->op = h->op;
	f->py = now;
	f->py_sent = f->counted = false;
	f->row = NULL;
	f->ts = h->ts;
	f->inner_ns = 0;
	f->backward = (h->plan->flags & PLAN_BACKWARD) || (up && up->backward);
	f->base = h->plan->flags & PLAN_BACKWARD || !up ? now.frame : up->base;
	f->muted = is_muted(t, h, f);
	f->aside = h->plan->flags & PLAN_ASIDE;
	keep_words(h, f);
	if (!f->muted)
		send_entry(t, h, up, f);
	if (t->py.nmet)
		send_met(t, h);
	t->shown += is_shown(f);
	t->depth++;
	return true;
}

static void gather_exit(struct shadow_stack *t, const struct op_hit *h, const struct open_op *f,
			const struct reading *r)
{
	h->out->dry = true;
	remote_collect(h->mem, true);
	for (unsigned i = 0; i < MAX_ROUNDS; i++) {
		begin_hit(t, h, f, HIT_EXIT, 0);
		plan_reader_run(r);
		if (!remote_fetch(h->mem))
			break;
	}
	remote_collect(h->mem, false);
	h->out->dry = false;
}

static void send_exit(struct shadow_stack *t, const struct op_hit *h, const struct open_op *f)
{
	struct reading r = reading_of(h, f, true);
	if (remote_collects(h->mem))
		gather_exit(t, h, f, &r);
	begin_hit(t, h, f, HIT_EXIT, (uint16_t)h->conf->generation);
	plan_reader_run(&r);
	if (f->inner_ns) {
		struct item *it = hit_buf_item(h->out, ITEM_INNER, ITEM_NO_READ, 0);
		hit_buf_word(h->out, f->inner_ns);
		it->len = sizeof(f->inner_ns);
	}
	hit_buf_send(h->out);
}

static bool is_open(const struct shadow_stack *t, uint32_t op, uint64_t sp)
{
	for (uint32_t d = t->depth; d-- > 0;)
		if (t->open[d].op == op && t->open[d].sp >= sp)
			return true;
	return false;
}

void shadow_stack_exit(struct shadow_stack *t, const struct op_hit *h)
{
	uint64_t sp = h->regs[ARCH_SP];
	if (!is_open(t, h->op, sp))
		return;
	while (top(t)->op != h->op || top(t)->sp < sp)
		drop_top(t, h);
	struct open_op *f = top(t);
	t->shown -= is_shown(f);
	if (f->row)
		sum_top(t, h, false);
	else if (!f->muted)
		send_exit(t, h, f);
	t->thrown &= f->row || f->muted || t->gap;
	t->depth--;
}

/* Of the tens of thousands freed when a process ends, few were in a record. */
bool shadow_stack_code_freed(struct shadow_stack *t, const struct op_hit *h)
{
	if (!pyframes_may_have_named(h->regs[ARCH_ARG0]))
		return false;
	send_code(t, h, h->regs[ARCH_ARG0], HIT_CODE_FREED, t->code ? sums_code_freed(t->code) : 0);
	pyframes_unsent(h->regs[ARCH_ARG0]);
	return true;
}

void shadow_stack_schema(struct shadow_stack *t, const struct op_hit *h)
{
	const struct open_op none = {0};
	const struct reading r = {.mem = h->mem, .conf = h->conf, .unsure = true};
	uint64_t s[2];
	char text[STRING_MAX];
	if (plan_reader_std_string(&r, h->regs[arch_int_arg[1]], s))
		return;
	begin_hit(t, h, &none, HIT_SCHEMA, 0);
	struct item *it =
	    hit_buf_item(h->out, ITEM_STRING, 0, s[1] > UINT32_MAX ? UINT32_MAX : (uint32_t)s[1]);
	uint32_t len = s[1] > STRING_MAX ? STRING_MAX : (uint32_t)s[1];
	if (remote_read(h->mem, s[0], text, len)) {
		it->kind = ITEM_FAULT;
	} else {
		hit_buf_put(h->out, text, len);
		it->len = (uint16_t)len;
	}
	hit_buf_send(h->out);
}

/* It returns through a hidden pointer, so the scope is the second argument; FUNCTION is 0
 * (ATen/record_function.h). */
bool shadow_stack_dispatched(struct shadow_stack *t, const uint64_t *regs, bool *seen)
{
	struct open_op *f = top(t);
	*seen = false;
	if ((uint32_t)regs[arch_int_arg[1]] != 0)
		return false;
	/* An op's own call comes once, before any that it makes; `counted`: it has come. */
	if (f && f->sp > regs[ARCH_SP] && !f->counted)
		f->counted = *seen = true;
	return true;
}
