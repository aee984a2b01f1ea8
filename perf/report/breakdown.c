/* What whole training steps consist of, and the lines at which they wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "perf/report/internal.h"
#include "symbolizer/ops/filter.h"

enum { STACKS = 4096 };

/* What was found out about a stack. */
struct stack_memo {
	const struct py_stack *stack;
	uint32_t id;
	uint32_t line,
	    data_line; /* index of its line + 1, and of that which asks for data; 0: none */
	uint8_t part;  /* FORWARD, OPTIMIZER or DATA */
	bool loads;    /* data, itself */
	bool optim;    /* has a file of torch/optim */
};

struct line_time {
	struct breakdown_line line; /* ns: of whole steps */
	bool is_data;
	uint64_t before;  /* in the first step, whose start is not known */
	uint64_t pending; /* in step number `step` of process `process` */
	uint64_t step;
	uint32_t process;
};

/* Sums of whole steps, and of the one that has not ended. */
struct breakdown_sums {
	uint64_t wall_ns, parts[BREAKDOWN_PARTS];
};

struct breakdown_process {
	struct steps steps;
	uint64_t seen;		  /* steps */
	uint64_t whole, first_ns; /* whole steps; the start of the first */
	int32_t pid;
	uint32_t rank1;
	int32_t tid; /* that trains, see is_of_main; 0: not known */
	bool is_worker;
	bool in_data;		  /* the last op was a DataLoader's */
	uint64_t last_ns;	  /* end of the last op of the thread that trains, 0: none */
	uint64_t step_ns;	  /* end of the last step, 0: none */
	uint64_t inside_ns;	  /* end of the last op in the optimizer's step */
	uint64_t compile_ns;	  /* within the op that has not ended, */
	uint64_t step_compile_ns; /* and in the step: in none of the sums */
	uint64_t elsewhere_ns;	  /* of backward nodes of other threads since last_ns */
	struct breakdown_sums pending;
};

struct breakdown {
	struct stack_memo memos[STACKS];
	struct intern pids, line_ids;
	struct breakdown_process *processes;
	struct line_time *lines;
	size_t processes_room, lines_room;
	struct breakdown_sums whole, steps;
	uint64_t compilations, compile_ns, compile_steps;
	uint64_t samples, unknown, python_ns; /* in steps; of these not known where; in no op */
	struct histogram times;
	struct arena arena;
	bool loads_itself;
	breakdown_step_fn *on_step;
	void *on_step_arg;
};

struct breakdown *breakdown_new(void)
{
	return calloc(1, sizeof(struct breakdown));
}

void breakdown_each_step(struct breakdown *b, breakdown_step_fn *fn, void *arg)
{
	b->on_step = fn;
	b->on_step_arg = arg;
}

void breakdown_free(struct breakdown *b)
{
	if (!b)
		return;
	intern_free(&b->pids);
	intern_free(&b->line_ids);
	histogram_free(&b->times);
	arena_free(&b->arena);
	free(b->processes);
	free(b->lines);
	free(b);
}

void breakdown_forget(struct breakdown *b)
{
	memset(b->memos, 0, sizeof(b->memos));
}

/* The index of the line + 1, or -ENOMEM. */
static int64_t line_of(struct breakdown *b, const struct py_frame *f, bool is_data)
{
	char key[4096];
	bool is_new;
	int n = snprintf(key, sizeof(key), "%d %d %s", f->line, is_data, f->file ? f->file : "");
	size_t len = n < 0 ? 0 : (size_t)n < sizeof(key) ? (size_t)n : sizeof(key) - 1;
	int64_t id = intern(&b->line_ids, key, (uint32_t)len, &is_new);
	if (id < 0 || !is_new)
		return id < 0 ? id : id + 1;
	if (array_grow(&b->lines, &b->lines_room, (size_t)id + 1, sizeof(*b->lines)))
		return -ENOMEM;
	b->lines[id] = (struct line_time){.line.file = ""};
	const char *const from[] = {f->file ? f->file : "", f->function, f->text};
	const char *to[3] = {NULL};
	for (int i = 0; i < 3; i++)
		if (from[i] && !(to[i] = arena_strndup(&b->arena, from[i], strlen(from[i]))))
			return -ENOMEM;
	b->lines[id] = (struct line_time){
	    .line = {.file = to[0], .function = to[1], .text = to[2], .line = f->line},
	    .is_data = is_data};
	return id + 1;
}

/* What is known of the event's stack; NULL: no memory. */
static const struct stack_memo *memo_of(struct breakdown *b, const struct op_event *ev)
{
	static const struct stack_memo none = {.part = BREAKDOWN_FORWARD};
	const struct py_stack *s = ev->stack;
	if (!s || !s->depth)
		return &none;
	struct stack_memo *m = &b->memos[((uintptr_t)s >> 4) * 0x9e3779b97f4a7c15u >> 52];
	if (m->stack == s && m->id == s->id)
		return m;
	const struct py_frame *asks = breakdown_asks_for_data(s);
	int64_t data = asks ? line_of(b, asks, true) : 0;
	int64_t line = line_of(b, asks ? asks : py_stack_where(s), false);
	if (line < 0 || data < 0)
		return NULL;
	*m = (struct stack_memo){.stack = s,
				 .id = s->id,
				 .line = (uint32_t)line,
				 .data_line = (uint32_t)data,
				 .part = asks				? BREAKDOWN_DATA
					 : breakdown_is_of_optimizer(s) ? BREAKDOWN_OPTIMIZER
									: BREAKDOWN_FORWARD,
				 .optim = breakdown_passes(s, "torch/optim/"),
				 .loads = asks &&
					  breakdown_passes(s, "torch/utils/data/_utils/fetch.py")};
	return m;
}

static struct breakdown_process *process_of(struct breakdown *b, const struct op_event *ev)
{
	const int32_t key[2] = {ev->pid, (int32_t)ev->rank1};
	bool is_new;
	int64_t id = intern(&b->pids, key, sizeof(key), &is_new);
	if (id < 0 ||
	    array_grow(&b->processes, &b->processes_room, (size_t)id + 1, sizeof(*b->processes)))
		return NULL;
	if (is_new)
		b->processes[id] = (struct breakdown_process){.pid = ev->pid, .rank1 = ev->rank1};
	return &b->processes[id];
}

static void count_part(struct breakdown *b, struct breakdown_process *p, enum breakdown_part part,
		       uint64_t ns)
{
	b->whole.parts[part] += ns;
	p->pending.parts[part] += ns;
}

static void count_line(struct breakdown *b, const struct breakdown_process *p, uint32_t line,
		       uint64_t ns)
{
	struct line_time *l = line ? &b->lines[line - 1] : NULL;
	uint32_t process = (uint32_t)(p - b->processes);
	if (!l || !ns)
		return;
	if (l->step != p->seen || l->process != process) {
		*(l->step ? &l->line.ns : &l->before) += l->pending;
		l->pending = 0;
		l->step = p->seen;
		l->process = process;
	}
	l->pending += ns;
}

/* A DataLoader's first call is the mark of record_function (__next__,
 * torch/utils/data/dataloader.py, 1.7 to 2.13), before it waits: what precedes it is not its time,
 * what follows is.
 *
 * The time since the last op: of the backward as far as other threads ran nodes of it. */
static void count_gap(struct breakdown *b, struct breakdown_process *p, const struct stack_memo *m,
		      enum breakdown_part part, uint64_t ns)
{
	uint64_t elsewhere = p->elsewhere_ns < ns ? p->elsewhere_ns : ns;
	p->elsewhere_ns = 0;
	count_part(b, p, BREAKDOWN_BACKWARD, elsewhere);
	ns -= elsewhere;
	bool loads = part == BREAKDOWN_DATA && p->in_data;
	count_part(b, p, loads ? part : BREAKDOWN_NO_OP, ns);
	count_line(b, p, loads ? m->data_line : m->line, ns);
}

static int tell_step(const struct breakdown *b, const struct breakdown_process *p)
{
	struct breakdown_step s = {.pid = p->pid,
				   .rank1 = p->rank1,
				   .number = p->steps.done,
				   .start_ns = p->step_ns,
				   .end_ns = p->inside_ns};
	memcpy(s.parts, p->pending.parts, sizeof(s.parts));
	return b->on_step ? b->on_step(b->on_step_arg, &s) : 0;
}

/* A step that compiled tells nothing of others: leave out what was counted of it. */
static void leave_out_step(struct breakdown *b, const struct breakdown_process *p)
{
	const uint32_t process = (uint32_t)(p - b->processes);
	for (uint32_t i = 0; i < b->line_ids.used && i < b->lines_room; i++)
		if (b->lines[i].step == p->seen && b->lines[i].process == process)
			b->lines[i].pending = 0;
	b->compile_steps++;
}

static int end_step(struct breakdown *b, struct breakdown_process *p)
{
	int r = 0;
	if (p->step_ns && p->inside_ns > p->step_ns && p->step_compile_ns) {
		leave_out_step(b, p);
	} else if (p->step_ns && p->inside_ns > p->step_ns) {
		p->first_ns = p->whole++ ? p->first_ns : p->step_ns;
		r = histogram_add(&b->times, p->inside_ns - p->step_ns);
		b->steps.wall_ns += p->inside_ns - p->step_ns;
		for (int i = 0; i < BREAKDOWN_PARTS; i++)
			b->steps.parts[i] += p->pending.parts[i];
		r = r ? r : tell_step(b, p);
	}
	p->step_ns = p->inside_ns;
	p->pending = (struct breakdown_sums){0};
	p->step_compile_ns = 0;
	return r;
}

static void add_elsewhere(struct breakdown_process *p, const struct op_event *ev)
{
	uint64_t from = ev->start_ns > p->last_ns ? ev->start_ns : p->last_ns;
	if (p->last_ns && phase_is_backward(ev->phase) && ev->end_ns > from)
		p->elsewhere_ns += ev->end_ns - from;
}

/* Like steps_see, with the stack's memo. */
static void see_step(struct breakdown_process *p, const struct stack_memo *m,
		     const struct op_event *ev)
{
	if (m->optim || p->steps.inside)
		steps_see(&p->steps, ev);
}

/* Whether it is of the thread that trains: until an optimizer is met, the first one. */
static bool is_of_main(struct breakdown_process *p, const struct stack_memo *m,
		       const struct op_event *ev)
{
	if (!p->steps.tid && ev->tid != p->tid) {
		see_step(p, m, ev);
		if (p->steps.tid) {
			p->tid = ev->tid;
			p->last_ns = 0;
		}
	}
	return ev->tid == p->tid;
}

/* An outermost op of that thread. */
static int add_op(struct breakdown *b, struct breakdown_process *p, const struct stack_memo *m,
		  const struct op_event *ev)
{
	/* Of a mark the ops that it calls. */
	uint64_t ended = op_mark(ev->op) ? ev->start_ns + ev->child_ns : ev->end_ns;
	uint64_t end = ended > ev->start_ns ? ended : ev->start_ns;
	enum breakdown_part part = m->part;
	if (part == BREAKDOWN_FORWARD && phase_is_backward(ev->phase))
		part = BREAKDOWN_BACKWARD;
	b->loads_itself |= m->loads;
	see_step(p, m, ev);
	int r = p->steps.done != p->seen ? end_step(b, p) : 0;
	p->seen = p->steps.done;
	if (!p->last_ns)
		p->last_ns = ev->start_ns;
	if (ev->start_ns > p->last_ns)
		count_gap(b, p, m, part, ev->start_ns - p->last_ns);
	p->elsewhere_ns = 0;
	uint64_t ns = end - ev->start_ns, compiled = p->compile_ns < ns ? p->compile_ns : ns;
	p->step_compile_ns += p->compile_ns;
	p->compile_ns = 0;
	count_part(b, p, part, ns - compiled);
	if (part == BREAKDOWN_DATA)
		count_line(b, p, m->data_line, ns - compiled);
	p->in_data = part == BREAKDOWN_DATA;
	if (end > p->last_ns) {
		ns = end - p->last_ns;
		b->whole.wall_ns += ns > compiled ? ns - compiled : 0;
		p->last_ns = end;
	}
	if (p->steps.inside)
		p->inside_ns = end;
	return r;
}

/* Before the op that encloses it comes, or itself as an outermost op. */
static void add_compilation(struct breakdown *b, struct breakdown_process *p,
			    const struct op_event *ev)
{
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	b->compilations++;
	b->compile_ns += ns;
	if (!p->tid || ev->tid == p->tid)
		p->compile_ns += ns;
}

int breakdown_add(struct breakdown *b, const struct op_event *ev)
{
	const bool compiles = event_is_compilation(ev);
	if (ev->depth && !compiles)
		return 0;
	struct breakdown_process *p = process_of(b, ev);
	if (p && compiles)
		add_compilation(b, p, ev);
	if (p && ev->depth)
		return 0;
	const struct stack_memo *m = p ? memo_of(b, ev) : NULL;
	if (!m)
		return -ENOMEM;
	if (!p->tid && ev->stack && !breakdown_is_helper(ev->stack)) {
		p->tid = ev->tid;
		p->is_worker = breakdown_is_worker(ev->stack);
	}
	if (p->is_worker)
		return 0;
	if (is_of_main(p, m, ev))
		return add_op(b, p, m, ev);
	add_elsewhere(p, ev);
	return 0;
}

int breakdown_add_sample(struct breakdown *b, const struct sample *s)
{
	const int32_t key[2] = {s->pid, (int32_t)s->rank1};
	int64_t id = intern_find(&b->pids, key, sizeof(key));
	const struct breakdown_process *p = id < 0 ? NULL : &b->processes[id];
	if (!p || !p->seen || s->tid != p->tid)
		return 0;
	const char *op = sample_op_name(s);
	b->samples++;
	b->unknown += !strcmp(op, "(op not known)");
	const struct op_event ev = {.stack = s->python};
	const struct stack_memo *m = memo_of(b, &ev);
	if (!m)
		return -ENOMEM;
	if (!s->op && !strcmp(op, "(in no op)") && m->part != BREAKDOWN_DATA)
		b->python_ns += s->weight;
	return 0;
}

bool breakdown_span(const struct breakdown *b, int32_t pid, uint32_t rank1,
		    struct breakdown_span *out)
{
	const int32_t key[2] = {pid, (int32_t)rank1};
	int64_t id = intern_find(&b->pids, key, sizeof(key));
	const struct breakdown_process *p =
	    id < 0 || (size_t)id >= b->processes_room ? NULL : &b->processes[id];
	if (!p || !p->whole)
		return false;
	*out = (struct breakdown_span){
	    .steps = p->whole, .start_ns = p->first_ns, .end_ns = p->step_ns};
	return true;
}

/* Fewer samples, or many of unknown places, would tell a wrong share. */
static bool has_samples(const struct breakdown *b)
{
	enum { FEWEST = 100, MOST_UNKNOWN = 20 };
	return b->samples >= FEWEST && b->unknown * MOST_UNKNOWN <= b->samples;
}

void breakdown_get(const struct breakdown *b, struct breakdown_result *out)
{
	*out = (struct breakdown_result){.steps = b->times.count,
					 .median_ns = histogram_quantile(&b->times, 0.5),
					 .p99_ns = histogram_quantile(&b->times, 0.99),
					 .loads_itself = b->loads_itself,
					 .compilations = b->compilations,
					 .compile_ns = b->compile_ns,
					 .compile_steps = b->compile_steps};
	const struct breakdown_sums *sums = out->steps ? &b->steps : &b->whole;
	out->wall_ns = sums->wall_ns;
	memcpy(out->parts, sums->parts, sizeof(out->parts));
	uint64_t no_op = out->parts[BREAKDOWN_NO_OP];
	if (out->steps && has_samples(b))
		out->python_ns = b->python_ns < no_op ? b->python_ns : no_op;
	/* After an error some have an id only. */
	for (uint32_t i = 0; i < b->pids.used && i < b->processes_room; i++)
		out->processes += b->processes[i].seen > 1;
	for (uint32_t i = 0; i < b->line_ids.used && i < b->lines_room; i++) {
		const struct line_time *l = &b->lines[i];
		struct breakdown_line *longest = l->is_data ? &out->data : &out->no_op;
		struct breakdown_line line = l->line;
		if (!out->steps)
			line.ns += l->before + l->pending;
		else if (l->step && l->step < b->processes[l->process].seen)
			line.ns += l->pending;
		if (line.ns > longest->ns)
			*longest = line;
	}
}
