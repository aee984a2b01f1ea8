#define _GNU_SOURCE
#include "tracer/stack/stack_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "tracer/proc/seize.h"
#include "tracer/stack/internal.h"

enum { PYTHON_FRAMES = 512, LOOKS = 2, STOP_MS = 1000 };

/* A snapshot with the memory it owns. */
struct taken {
	struct stack_snapshot look;
	struct maps maps;
	struct arena arena;
};

struct stack_reader {
	pid_t pid;
	struct mem mem;
	bool native;
	struct err native_note, python_note;
	struct py_runtime *py;
	uint64_t python_mapped; /* a hash of the files mapped when `py` was looked for */
	struct stack_copy copy;
	struct native_ops ops;
	struct op_args *args; /* NULL: no thread was in an op yet, or opening it failed */
	bool args_tried, catches;
	struct op_watch watch;
	/* For the files mapped now, and for those mapped before, whose names a snapshot may use. */
	struct native_stacks *natives, *old_natives;
	uint64_t mapped;		     /* a hash of the mapped files that `natives` covers */
	uint64_t pairs[2][PYTHON_FRAMES][2]; /* of two successive reads */
	struct taken taken[LOOKS];
	unsigned next; /* of `taken` */
	bool looked;
};

static uint64_t hash_of(const struct maps *maps)
{
	uint64_t hash = 1;
	for (const struct mapping *m = NULL; (m = maps_next_exec(maps, m));) {
		const uint64_t key[] = {m->start, m->end, m->offset, m->inode};
		hash = map_hash(key, sizeof(key), hash);
	}
	return hash;
}

static void open_python(struct stack_reader *l, const struct maps *maps)
{
	struct torch_package package;
	l->python_mapped = hash_of(maps);
	l->python_note = (struct err){0};
	int r = python_open(l->pid, &l->mem, &l->py, &l->python_note);
	/* Candidates that were rejected leave their errors behind. */
	if (!r || r == -ENOENT)
		l->python_note = (struct err){0};
	if (r)
		return;
	torch_package_find(l->pid, maps, &package);
	if (package.dir[0])
		py_set_torch_dir(l->py, package.dir);
}

/* It may have been starting, or the process was another program's. */
static void renew_python(struct stack_reader *l, const struct maps *maps)
{
	if (!l->py && (l->python_note.code == -EAGAIN || l->python_mapped != hash_of(maps)))
		open_python(l, maps);
}

int stack_reader_open(pid_t pid, bool native, struct stack_reader **out, struct err *e)
{
	struct maps maps;
	int r = stack_access(pid, e);
	if (r)
		return r;
	struct stack_reader *l = calloc(1, sizeof(*l));
	if (!l || stack_copy_init(&l->copy)) {
		free(l);
		return err_set(e, -ENOMEM, "no memory");
	}
	l->pid = pid;
	l->mem = mem_process(pid);
	l->native = native && !stack_tracer(pid, &l->native_note);
	if (!maps_read(pid, &maps, NULL))
		open_python(l, &maps);
	maps_free(&maps);
	*out = l;
	return 0;
}

static void forget(struct taken *t)
{
	maps_free(&t->maps);
	free(t->look.threads);
	arena_free(&t->arena);
	*t = (struct taken){0};
}

void stack_reader_close(struct stack_reader *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < LOOKS; i++)
		forget(&l->taken[i]);
	native_stacks_close(l->natives);
	native_stacks_close(l->old_natives);
	native_ops_free(&l->ops);
	op_args_close(l->args);
	op_watch_free(&l->watch);
	stack_copy_free(&l->copy);
	python_close(l->py);
	free(l);
}

struct py_runtime *stack_reader_python(struct stack_reader *l, const struct err **why)
{
	*why = &l->python_note;
	return l->py;
}

const struct err *stack_reader_native_note(const struct stack_reader *l)
{
	return &l->native_note;
}

static void *copy_of(struct taken *t, const void *from, size_t size)
{
	void *p = size ? arena_alloc(&t->arena, size) : NULL;
	if (p)
		memcpy(p, from, size);
	return p;
}

/* The stack of the `n` frames in l->pairs[0]. Call it while they keep their code objects alive. */
static const struct py_stack *intern_python(struct stack_reader *l, int n, bool cut)
{
	uint64_t(*pairs)[2] = l->pairs[0];
	for (int i = 0; i < n; i++)
		py_code_check(l->py, pairs[i][0]);
	return n > 0 ? py_stack_intern(l->py, (const uint64_t(*)[2])pairs, (size_t)n, cut) : NULL;
}

static void keep_python(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x,
			int n, const struct py_stack *stack, enum python_read how)
{
	if (n <= 0)
		return;
	x->pairs = copy_of(t, l->pairs[0], (size_t)n * sizeof(l->pairs[0][0]));
	x->npairs = x->pairs ? (unsigned)n : 0;
	x->python = stack;
	x->python_read = x->python ? how : PYTHON_NONE;
}

static bool holds_gil(struct stack_reader *l, uint64_t self, pid_t tid, struct py_gil *gil)
{
	uint64_t state;
	return !py_find_tstate(l->py, self, tid, &state) && !py_gil_read(l->py, state, gil) &&
	       gil->holder == state;
}

static bool unchanged(const struct thread_facts *a, const struct thread_facts *b)
{
	return a->state != 'R' && b->state != 'R' && a->switches == b->switches;
}

/* Read a thread that is not stopped; /proc tells whether it ran meanwhile. */
static void read_running(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x)
{
	enum { TRIES = 40, MISSES = 3 };
	struct thread_facts before, after;
	bool cut = false, again;
	size_t each = sizeof(l->pairs[0][0]);
	for (unsigned i = 0; i < TRIES; i++) {
		if (thread_facts_read(l->pid, x->facts.tid, &before))
			return;
		int n = py_walk_thread(l->py, 0, x->facts.ns_tid, l->pairs[0], PYTHON_FRAMES, &cut);
		if (!n || (n == -ENOENT && i + 1 >= MISSES))
			return;
		const struct py_stack *stack = intern_python(l, n, cut);
		int m =
		    py_walk_thread(l->py, 0, x->facts.ns_tid, l->pairs[1], PYTHON_FRAMES, &again);
		if (n < 0 || n != m || memcmp(l->pairs[0], l->pairs[1], (size_t)n * each) ||
		    thread_facts_read(l->pid, x->facts.tid, &after))
			continue;
		bool exact = unchanged(&before, &after);
		keep_python(l, t, x, n, stack, exact ? PYTHON_EXACT : PYTHON_RUNNING);
		return;
	}
	x->python_note = "it changes too fast to be read while the thread runs";
}

static void read_held(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x,
		      uint64_t self)
{
	enum { TRIES = 3 };
	bool cut = false;
	int n = -ENOENT;
	/* Its frames do not change, but the list of threads that leads to them may. */
	for (unsigned i = 0; i < TRIES && n < 0; i++)
		n = py_walk_thread(l->py, self, 0, l->pairs[0], PYTHON_FRAMES, &cut);
	if (n < 0 && n != -ENOENT)
		x->python_note = "it cannot be read: the list of Python's threads changes too fast";
	/* Before the thread resumes, after which code objects may be freed. */
	keep_python(l, t, x, n, intern_python(l, n, cut), PYTHON_EXACT);
}

static void unwind(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x,
		   const uint64_t *regs)
{
	struct native_frame frames[STACK_SNAPSHOT_FRAMES];
	const struct native_thread thread = {
	    .tid = x->facts.tid, .regs = regs, .mem = &l->copy.of.mem};
	struct err e = {0};
	int n = native_stacks_walk(l->natives, &thread, frames, STACK_SNAPSHOT_FRAMES,
				   &x->native_whole, &e);
	if (n < 0)
		snprintf(x->native_note, sizeof(x->native_note), "%.150s", e.what);
	else
		x->frames = copy_of(t, frames, (size_t)n * sizeof(*frames));
	x->nframes = x->frames ? (unsigned)n : 0;
	x->in = native_op_find(&l->ops, l->pid, &t->maps, x->frames, x->nframes);
}

static const char *why_not_held(int r)
{
	switch (r) {
	case -ETIMEDOUT:
		return "it does not stop: it sleeps in the kernel and cannot be interrupted";
	case -EPERM:
		return "it cannot be stopped: somebody else traces it, or that is forbidden";
	case -ESRCH:
		return "it has ended";
	}
	return strerror(-r);
}

/* The thread may have moved since /proc was read: make the system call match the stack. */
static void catch_up(struct thread_facts *f, const uint64_t *regs)
{
	if (f->state != 'S' && f->state != 'D')
		return;
	f->syscall = regs_syscall(regs, f->arg);
	f->in_syscall = f->syscall >= 0;
	if (!f->in_syscall)
		f->state = 'R';
}

static struct op_caught *catch_op(struct stack_reader *l, struct taken *t,
				  const struct stack_snapshot_thread *x, const uint64_t *regs)
{
	const struct native_thread thread = {
	    .tid = x->facts.tid, .regs = regs, .mem = &l->copy.of.mem};
	return op_args_catch(l->args, l->natives, &thread, &t->arena);
}

/* Take the thread's part of the snapshot while it is stopped. False: it could not be stopped. */
static bool look_held(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x,
		      struct py_gil *gil)
{
	struct freeze *h;
	uint64_t self = 0, regs[ARCH_REGS] = {0};
	bool holds = false;
	int r = freeze_thread(x->facts.tid, STOP_MS, &h);
	if (r) {
		snprintf(x->native_note, sizeof(x->native_note), "%s", why_not_held(r));
		return false;
	}
	const uint64_t *got = freeze_registers(h, &self);
	if (got)
		memcpy(regs, got, sizeof(regs));
	if (got && l->py) {
		holds = holds_gil(l, self, 0, gil);
		read_held(l, t, x, self);
		x->holds_gil = holds && holds_gil(l, self, 0, gil);
	}
	r = got ? stack_copy_take(&l->copy, &t->maps, &l->mem, regs[ARCH_SP]) : -ESRCH;
	if (!r && l->catches)
		x->caught = catch_op(l, t, x, regs);
	uint64_t held_ns = clock_ns(CLOCK_MONOTONIC);
	freeze_release(h);
	x->pc = regs[ARCH_IP];
	x->sp = regs[ARCH_SP];
	if (got)
		catch_up(&x->facts, regs);
	if (!r)
		unwind(l, t, x, regs);
	if (x->in.op)
		x->in_op_ns = op_watch_in(&l->watch, x->facts.tid, x->in.entry, held_ns);
	if (r)
		snprintf(x->native_note, sizeof(x->native_note), "its stack cannot be read: %s",
			 strerror(-r));
	return got;
}

static void look_at(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x)
{
	struct py_gil gil = {0};
	bool holds;
	if (!(l->natives && look_held(l, t, x, &gil)) && l->py) {
		holds = holds_gil(l, 0, x->facts.ns_tid, &gil);
		read_running(l, t, x);
		x->holds_gil = holds && x->python_read == PYTHON_EXACT &&
			       holds_gil(l, 0, x->facts.ns_tid, &gil);
	}
	const struct wait_reason_input in = {.facts = &x->facts,
					     .frames = x->frames,
					     .nframes = x->nframes,
					     .python = x->python,
					     .gil = gil.addr ? &gil : NULL,
					     .mem = &l->mem,
					     .pid = l->pid};
	x->wait = wait_reason_of(&in);
	/* A waiter is not the holder: it was about to release the GIL, or has just taken it. */
	x->holds_gil &= x->wait.kind != WAIT_GIL;
}

/* Stop a thread in an op once more, now that the op's functions have been analysed: its arguments
 * exist only while the op runs. */
static void look_again(struct stack_reader *l, struct taken *t, struct stack_snapshot_thread *x)
{
	struct stack_snapshot_thread again = {0};
	if (thread_facts_read(l->pid, x->facts.tid, &again.facts))
		return;
	look_at(l, t, &again);
	if (again.nframes)
		*x = again;
}

static bool op_known(struct stack_reader *l, const struct taken *t)
{
	struct err why = {0};
	if (!l->args_tried)
		op_args_open(l->pid, &t->maps, &l->args, &why);
	l->args_tried = true;
	return l->args;
}

static void look_at_ops(struct stack_reader *l, struct taken *t)
{
	struct stack_snapshot *look = &t->look;
	for (size_t i = 0; i < look->n; i++) {
		struct stack_snapshot_thread *x = &look->threads[i];
		if (!x->in.op || !op_known(l, t))
			continue;
		l->catches = true;
		look_again(l, t, x);
		l->catches = false;
		if (x->caught)
			op_args_learn(l->args, x->caught);
	}
	for (size_t i = 0; i < look->n; i++) {
		struct stack_snapshot_thread *x = &look->threads[i];
		if (!x->caught || !x->in.op)
			continue;
		struct op_call call = op_args_decode(l->args, x->caught, &t->arena);
		if (call.op && !strcmp(call.op, x->in.op))
			x->call = call;
	}
}

/* Mutexes hold their owners' tids as seen in the innermost PID namespace: translate them. */
static void name_holders(struct stack_snapshot *l)
{
	for (size_t i = 0; i < l->n; i++) {
		pid_t holder = l->threads[i].wait.holder, found = 0;
		for (size_t k = 0; holder && k < l->n; k++)
			if (l->threads[k].facts.ns_tid == holder)
				found = l->threads[k].facts.tid;
		l->threads[i].wait.holder = found;
	}
}

static int list_threads(struct stack_reader *l, struct taken *t)
{
	pid_t *tids;
	ssize_t n = process_threads(l->pid, &tids);
	if (n <= 0)
		return n ? (int)n : -ESRCH;
	t->look.threads = calloc((size_t)n, sizeof(*t->look.threads));
	for (ssize_t i = 0; t->look.threads && i < n; i++)
		if (!thread_facts_read(l->pid, tids[i], &t->look.threads[t->look.n].facts))
			t->look.n++;
	free(tids);
	return !t->look.threads ? -ENOMEM : t->look.n ? 0 : -ESRCH;
}

/* Reopened only when the mapped files have changed, since that is expensive. */
static void renew_natives(struct stack_reader *l, const struct maps *maps)
{
	uint64_t mapped = hash_of(maps);
	if (l->natives && mapped == l->mapped)
		return;
	native_stacks_close(l->old_natives);
	op_args_close(l->args);
	l->args = NULL;
	l->args_tried = false;
	l->old_natives = l->natives;
	l->mapped = mapped;
	if (native_stacks_open(l->pid, &l->natives, &l->native_note))
		l->natives = NULL;
}

static const struct stack_snapshot_thread *thread_of(const struct stack_snapshot *l, pid_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->threads[i].facts.tid == tid)
			return &l->threads[i];
	return NULL;
}

/* The same place, and no more CPU time spent than a snapshot costs. */
static bool same_place(const struct stack_snapshot_thread *a, const struct stack_snapshot_thread *b)
{
	enum { LOOKED_AT_NS = 2000000 };
	return a->npairs == b->npairs && a->python_read == b->python_read &&
	       (!a->npairs || !memcmp(a->pairs, b->pairs, a->npairs * sizeof(*a->pairs))) &&
	       a->pc == b->pc && a->sp == b->sp && a->facts.run_ns - b->facts.run_ns < LOOKED_AT_NS;
}

/* Set `still` of the threads that have not moved since the snapshot before, which was the first one
 * if `second`: the same frames at the same instructions, and no more CPU time than being stopped
 * costs. */
static void compare(struct stack_snapshot *now, const struct stack_snapshot *before, bool second)
{
	for (size_t i = 0; i < now->n; i++) {
		struct stack_snapshot_thread *x = &now->threads[i];
		const struct stack_snapshot_thread *was = thread_of(before, x->facts.tid);
		x->still = was && (was->still || second) && same_place(x, was);
	}
}

int stack_reader_take(struct stack_reader *l, const struct stack_snapshot **out, struct err *e)
{
	struct taken *t = &l->taken[l->next], *before = &l->taken[1 - l->next];
	forget(t);
	t->look.at_ns = clock_ns(CLOCK_MONOTONIC);
	int r = list_threads(l, t);
	if (!r)
		r = maps_read(l->pid, &t->maps, NULL);
	if (r)
		return process_error(l->pid, r, "look at", e);
	renew_python(l, &t->maps);
	if (l->native)
		renew_natives(l, &t->maps);
	for (size_t i = 0; i < t->look.n; i++)
		look_at(l, t, &t->look.threads[i]);
	look_at_ops(l, t);
	name_holders(&t->look);
	if (before->look.n)
		compare(&t->look, &before->look, !l->looked);
	l->looked = before->look.n;
	l->next = 1 - l->next;
	*out = &t->look;
	return 0;
}
