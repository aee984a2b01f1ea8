#define _GNU_SOURCE
#include "tracer/sample/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"

static const uint64_t PAUSE_NS = 300000000; /* least time between searches for Python or stacks */

enum { NS_TIDS = 256 };

struct sampler_process {
	pid_t pid, ns_pid;
	bool other_ns;
	struct target_files *files;
	struct mem mem;
	struct known_maps known;
	struct native_stacks *natives;
	struct native_ops ops;
	struct perf_map jit;
	struct py_runtime *py;
	uint64_t stacks_ns, python_ns; /* when they were last looked for */
	bool unread;		       /* /proc/PID/maps is to be read (again) */
	bool mapped;		       /* there are new mappings since `natives` was opened */
	bool told;		       /* the eBPF program knows how to walk it */
	bool python_gone;	       /* there is no Python that ditrace can read */
	struct {
		pid_t tid, ns_tid;
	} ns_tids[NS_TIDS]; /* a cache, by tid modulo its size */
};

struct sampler_process *sampler_process_new(pid_t pid)
{
	struct process facts;
	struct sampler_process *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->files = target_files_new(pid);
	if (!p->files) {
		free(p);
		return NULL;
	}
	p->pid = p->ns_pid = pid;
	p->other_ns = true;
	p->mem = mem_process(pid);
	p->unread = p->mapped = true;
	if (process_read(pid, &facts, NULL))
		return p;
	p->ns_pid = facts.status.ns_pid ? facts.status.ns_pid : pid;
	p->other_ns = facts.status.ns_levels != 1;
	return p;
}

void sampler_process_free(struct sampler_process *p)
{
	if (!p)
		return;
	native_stacks_close(p->natives);
	native_ops_free(&p->ops);
	perf_map_free(&p->jit);
	python_close(p->py);
	known_maps_free(&p->known);
	target_files_free(p->files);
	free(p);
}

pid_t sampler_process_pid(const struct sampler_process *p)
{
	return p->pid;
}

void sampler_process_forked(struct sampler_process *p, const struct sampler_process *from)
{
	known_maps_inherit(&p->known, &from->known);
}

bool sampler_process_replaces(const struct sampler_process *p, const struct mapping *m)
{
	return known_maps_replaces(&p->known, m);
}

void sampler_process_map(struct sampler_process *p, const struct mapping *m)
{
	bool replaced = known_maps_replaces(&p->known, m);
	if (known_maps_add(&p->known, p->files, m) <= 0)
		return;
	p->mapped = true;
	if (!replaced)
		return;
	native_stacks_close(p->natives);
	p->natives = NULL;
}

void sampler_process_missed(struct sampler_process *p)
{
	p->unread = p->mapped = true;
}

static bool due(uint64_t *last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (*last && now - *last < PAUSE_NS)
		return false;
	*last = now;
	return true;
}

static void open_python(struct sampler_process *p)
{
	struct err e = {0};
	if (p->py || p->python_gone || !due(&p->python_ns))
		return;
	int r = python_open(p->pid, &p->mem, &p->py, &e);
	p->python_gone = r == -ENOTSUP || r == -EPROTO;
}

/* torch may be mapped only after Python. */
static void find_torch(struct sampler_process *p)
{
	struct torch_package package;
	if (!p->py)
		return;
	torch_package_find(p->pid, &p->known.maps, &package);
	if (package.dir[0])
		py_set_torch_dir(p->py, package.dir);
}

struct of_process {
	struct sampler_process *p;
	struct native_symbols *symbols;
};

static uint64_t base_of(void *arg, const struct mapping *code)
{
	const struct of_process *of = arg;
	return native_symbols_base(of->symbols, of->p->files, code);
}

static void open_natives(struct sampler_process *p, struct native_symbols *symbols)
{
	struct of_process of = {p, symbols};
	struct native_stacks *natives;
	if (p->unread)
		known_maps_read(&p->known, p->pid);
	p->unread = p->mapped = false;
	if (native_stacks_open_maps(p->files, &p->known.maps, base_of, &of, &natives, NULL))
		return;
	native_stacks_close(p->natives);
	p->natives = natives;
	find_torch(p);
}

/* The tid in the innermost PID namespace, as Python stores it. */
static pid_t ns_tid(struct sampler_process *p, pid_t tid)
{
	struct thread_facts facts;
	size_t at = (size_t)tid % NS_TIDS;
	if (!p->other_ns)
		return tid;
	if (p->ns_tids[at].tid == tid)
		return p->ns_tids[at].ns_tid;
	if (thread_facts_read(p->pid, tid, &facts))
		return tid;
	p->ns_tids[at].tid = tid;
	p->ns_tids[at].ns_tid = facts.ns_tid;
	return facts.ns_tid;
}

/* The mapping of the stack; the main thread's may have grown since it was read. */
static const struct mapping *stack_at(const struct maps *maps, uint64_t sp)
{
	for (size_t i = maps->n; i--;)
		if (!strcmp(maps->map[i].path, "[stack]") && sp < maps->map[i].end &&
		    (!i || sp >= maps->map[i - 1].end))
			return &maps->map[i];
	return maps_find(maps, sp);
}

/* Read the stack, beyond the sample's part if it goes on: frames of numeric kernels can be large.
 */
static void read_stack(struct sampler_process *p, struct taken_sample *t)
{
	uint64_t sp = t->sample.regs[ARCH_SP];
	if (!stack_at(&p->known.maps, sp) && due(&p->stacks_ns)) /* of a new thread */
		known_maps_read(&p->known, p->pid);
	const struct mapping *map = stack_at(&p->known.maps, sp);
	size_t most = t->sample.len + SAMPLED_MORE, left = map ? map->end - sp : 0;
	size_t len = left > most ? most : left > t->sample.len ? left : t->sample.len;
	if (mem_read(&p->mem, sp, t->now, len))
		len = 0;
	t->now_len = len;
}

/* Use the frames that the kernel read; false: there are none. */
static bool take_frames(struct sampler_process *p, struct taken_sample *t,
			struct sample_frames *frames)
{
	struct sampled_frames f;
	if (!frames)
		return false;
	if (!p->told)
		p->told = !sample_frames_set(frames, p->pid, python_walk(p->py));
	if (!sample_frames_take(frames, t->sample.tid, t->sample.time, &f) || !f.top.tstate)
		return false;
	t->top = f.top;
	t->npairs = f.n;
	t->cut = f.cut;
	for (int i = 0; i < f.n; i++) {
		memcpy(t->pairs[i], f.frames[i], sizeof(t->pairs[i]));
		t->locals[i] = f.frames[i][2];
	}
	return true;
}

void sampler_process_catch(struct sampler_process *p, struct taken_sample *t,
			   struct sample_frames *frames)
{
	const struct perf_sample *s = &t->sample;
	open_python(p);
	t->python_known = p->py && s->has_regs;
	t->at_once = t->python_known && take_frames(p, t, frames);
	if (t->python_known && !t->at_once)
		t->npairs = py_walk_from(p->py, 0, ns_tid(p, s->tid), &t->top, t->pairs,
					 SAMPLED_PYTHON, &t->cut);
	for (int i = 0; i < t->npairs && t->python_known; i++)
		py_code_check(p->py, t->pairs[i][0]);
	if (s->len)
		read_stack(p, t);
	if (t->npairs > 0 && py_code_range(p->py, t->pairs[0][0], &t->code_start, &t->code_end))
		t->code_start = t->code_end = 0;
}

/* The stack bytes of a sample, for unwinding. */
struct sample_mem {
	struct mem mem; /* first */
	uint64_t start;
	size_t len;
	const uint8_t *bytes;
};

static int read_sample(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct sample_mem *s = (const struct sample_mem *)m;
	if (addr < s->start || addr - s->start > s->len || len > s->len - (addr - s->start))
		return -EFAULT;
	memcpy(buf, s->bytes + (addr - s->start), len);
	return 0;
}

struct unwound {
	struct native_place places[SAMPLED_FRAMES];
	struct native_frame frames[SAMPLED_FRAMES];
	const uint8_t *builds[SAMPLED_FRAMES];
	size_t nbuilds[SAMPLED_FRAMES];
	unsigned n;
	bool whole;
	size_t len; /* stack bytes that were used */
};

static void name_frames(struct sampler_process *p, struct native_symbols *symbols,
			struct unwound *u)
{
	for (unsigned i = 0; i < u->n; i++)
		native_symbols_find(symbols, p->files, &p->known.maps, u->places[i].pc,
				    &u->frames[i], &u->builds[i], &u->nbuilds[i]);
}

static bool function_bounds(void *arg, uint64_t pc, uint64_t *start, uint64_t *size)
{
	const struct of_process *b = arg;
	return native_symbols_bounds(b->symbols, b->p->files, &b->p->known.maps, pc, start, size);
}

static void walk(struct sampler_process *p, const struct taken_sample *t, size_t len,
		 struct native_symbols *symbols, struct unwound *u)
{
	const struct perf_sample *s = &t->sample;
	const struct sample_mem mem = {
	    .mem = {.read = read_sample}, .start = s->regs[ARCH_SP], .len = len, .bytes = t->then};
	struct of_process bounds = {p, symbols};
	const struct native_thread thread = {.tid = s->tid,
					     .regs = s->regs,
					     .mem = &mem.mem,
					     .bounds = function_bounds,
					     .arg = &bounds};
	int n =
	    native_stacks_places(p->natives, &thread, u->places, SAMPLED_FRAMES, &u->whole, NULL);
	u->n = n > 0 ? (unsigned)n : 0;
	name_frames(p, symbols, u);
}

/* Whether the last frame reached in the sample was still the same when the rest was read: its
 * callee's return address and its own first words. */
static bool stands_still(const struct taken_sample *t, const struct unwound *u)
{
	enum { FIRST = 64 };
	uint64_t start = t->sample.regs[ARCH_SP];
	uint64_t from = u->n > 1 ? u->places[u->n - 1].sp - 8 : start, to = from + FIRST;
	return u->n && from >= start && to > from && to - start <= t->sample.len &&
	       to - start <= t->now_len &&
	       !memcmp(t->then + (from - start), t->now + (from - start), to - from);
}

/* If the sample has too little of the stack, continue in what was read afterwards. */
static void walk_on(struct sampler_process *p, struct taken_sample *t,
		    struct native_symbols *symbols, struct unwound *u)
{
	static const size_t least = 1024;
	size_t len = t->sample.len;
	if (u->whole || t->now_len <= len || len < least || !stands_still(t, u))
		return;
	memcpy(t->then + len, t->now + len, t->now_len - len);
	u->len = t->now_len;
	walk(p, t, u->len, symbols, u);
}

static void unwind(struct sampler_process *p, struct taken_sample *t,
		   struct native_symbols *symbols, struct unwound *u)
{
	for (unsigned tries = 0; tries < 2; tries++) {
		if (!p->natives)
			open_natives(p, symbols);
		if (!p->natives)
			return;
		u->len = t->sample.len;
		walk(p, t, u->len, symbols, u);
		walk_on(p, t, symbols, u);
		if (u->whole || !p->mapped)
			return;
		open_natives(p, symbols);
	}
}

static bool is_interpreter(const struct native_frame *f)
{
	static const char name[] = "_PyEval_EvalFrameDefault";
	return f->symbol && !strncmp(f->symbol, name, sizeof(name) - 1);
}

static enum sample_python check(struct sampler_process *p, struct taken_sample *t,
				const struct unwound *u)
{
	struct sample_check c = {.regs = t->sample.regs,
				 .stack = {.start = t->sample.regs[ARCH_SP],
					   .len = u->len,
					   .then = t->then,
					   .now = t->now_len >= u->len ? t->now : NULL},
				 .places = u->places,
				 .nplaces = u->n,
				 .interpreter = -1,
				 .whole = u->whole,
				 .at_once = t->at_once,
				 .walk = python_walk(p->py),
				 .top = &t->top,
				 .pairs = t->pairs,
				 .n = t->npairs,
				 .code_start = t->code_start,
				 .code_end = t->code_end};
	for (unsigned i = 0; i < u->n; i++) {
		if (!is_interpreter(&u->frames[i]))
			continue;
		if (c.interpreter < 0)
			c.interpreter = (int)i;
		c.interpreters++;
	}
	return sample_check(&c);
}

static const struct py_stack *with_module(struct sampler_process *p, const struct taken_sample *t)
{
	uint64_t frames[SAMPLED_PYTHON][3];
	for (int i = 0; i < t->npairs; i++) {
		memcpy(frames[i], t->pairs[i], sizeof(t->pairs[i]));
		frames[i][2] = t->locals[i];
	}
	return py_stack_intern_at(p->py, (const uint64_t(*)[3])frames, (size_t)t->npairs, t->cut,
				  t->sample.time);
}

static void put_python(struct sampler_process *p, struct taken_sample *t, const struct unwound *u,
		       struct sample *out)
{
	if (!t->python_known || !p->py)
		return;
	enum sample_python how = check(p, t, u);
	out->mismatched = how == SAMPLE_MOVED;
	if (how != SAMPLE_PYTHON)
		return;
	out->python = t->at_once ? with_module(p, t)
				 : py_stack_intern(p->py, (const uint64_t(*)[2])t->pairs,
						   (size_t)t->npairs, t->cut);
	const struct py_frame *where = py_stack_where(out->python);
	if (where && !where->text)
		py_frame_text(p->py, where);
}

/* A JIT writes its perf map before the code runs, or some time later. */
static const char *jit_name(struct sampler_process *p, uint64_t pc)
{
	const char *name = perf_map_find(&p->jit, pc);
	if (name)
		return name;
	perf_map_read(&p->jit, p->files, p->ns_pid);
	return perf_map_find(&p->jit, pc);
}

/* A frame in anonymous memory: by its address if the PID alone identifies the process. */
static const struct py_frame *anon_frame(struct sampler_process *p, uint64_t pc,
					 struct sample_names *names)
{
	char file[64], where[32];
	const char *name = jit_name(p, pc);
	if (name || p->other_ns)
		return sample_frame(names, name ? "[JIT]" : "[anon]", name ? name : "(unknown)",
				    NULL);
	sample_anon_file(p->pid, file, sizeof(file));
	snprintf(where, sizeof(where), "0x%" PRIx64, pc);
	return sample_frame(names, file, where, NULL);
}

static const struct py_frame *frame_of(struct sampler_process *p, const struct unwound *u,
				       unsigned i, struct sampler_shared *all)
{
	char where[32];
	bool is_new;
	const struct native_frame *f = &u->frames[i];
	if (!f->file)
		return anon_frame(p, f->pc, &all->names);
	/* After its build ID was reported the file is known by name. */
	if (!sample_frame(&all->names, f->file, "", &is_new))
		return NULL;
	if (is_new && u->nbuilds[i])
		all->sink.build(f->file, u->builds[i], u->nbuilds[i], all->sink.arg);
	snprintf(where, sizeof(where), "%s0x%" PRIx64,
		 f->is_second ? "+"
		 : f->in_file ? "@"
			      : "",
		 f->offset);
	return sample_frame(&all->names, f->file, f->name ? f->name : where, NULL);
}

static void put_native(struct sampler_process *p, const struct unwound *u,
		       struct sampler_shared *all, struct sample *out)
{
	const struct py_frame *frames[SAMPLED_FRAMES + 1];
	unsigned n = 0;
	if (out->in_kernel)
		frames[n++] = sample_frame(&all->names, "[kernel]", "[kernel]", NULL);
	for (unsigned i = 0; i < u->n; i++)
		frames[n++] = frame_of(p, u, i, all);
	for (unsigned i = 0; i < n; i++)
		if (!frames[i])
			return;
	if (n)
		out->native = sample_stack(&all->names, frames, n, !u->whole);
}

static void put_op(struct sampler_process *p, const struct unwound *u, struct sample_names *names,
		   struct sample *out)
{
	struct in_op in = native_op_find(&p->ops, p->pid, &p->known.maps, u->frames, u->n);
	if (in.op || in.node)
		out->op =
		    sample_op(names, in.op ? in.op : in.node, in.op ? OP_DISPATCHED : OP_BACKWARD);
	out->phase = in.node ? PHASE_BACKWARD : PHASE_FORWARD;
}

void sampler_process_resolve(struct sampler_process *p, struct taken_sample *t,
			     struct sampler_shared *all, struct sample *out)
{
	struct unwound u = {0};
	if (t->sample.has_regs && t->sample.len)
		unwind(p, t, &all->symbols, &u);
	put_op(p, &u, &all->names, out);
	put_python(p, t, &u, out);
	if (out->phase == PHASE_BACKWARD)
		out->phase = (uint8_t)py_stack_backward_phase(out->python);
	put_native(p, &u, all, out);
}
