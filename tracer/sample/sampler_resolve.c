/* What a sample means: its native stack, its Python frames, its op. */
#define _GNU_SOURCE
#include "tracer/sample/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"

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
	const struct symbols_of_process *b = arg;
	return native_symbols_bounds(b->symbols, b->p->files, &b->p->known.maps, pc, start, size);
}

static void walk_sample(struct sampler_process *p, const struct taken_sample *t, size_t len,
			struct native_symbols *symbols, struct unwound *u)
{
	const struct perf_sample *s = &t->sample;
	const struct mem_copy mem = {.mem = {.read = mem_copy_read},
				     .start = s->regs[ARCH_SP],
				     .len = len,
				     .bytes = t->then};
	struct symbols_of_process bounds = {p, symbols};
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
static void walk_further(struct sampler_process *p, struct taken_sample *t,
			 struct native_symbols *symbols, struct unwound *u)
{
	static const size_t least = 1024;
	size_t len = t->sample.len;
	if (u->whole || t->now_len <= len || len < least || !stands_still(t, u))
		return;
	memcpy(t->then + len, t->now + len, t->now_len - len);
	u->len = t->now_len;
	walk_sample(p, t, u->len, symbols, u);
}

static void unwind(struct sampler_process *p, struct taken_sample *t,
		   struct native_symbols *symbols, struct unwound *u)
{
	for (unsigned tries = 0; tries < 2; tries++) {
		if (!p->natives)
			sampler_process_open_natives(p, symbols);
		if (!p->natives)
			return;
		u->len = t->sample.len;
		walk_sample(p, t, u->len, symbols, u);
		walk_further(p, t, symbols, u);
		if (u->whole || !p->mapped)
			return;
		sampler_process_open_natives(p, symbols);
	}
}

static bool is_interpreter(const struct native_frame *f)
{
	static const char name[] = "_PyEval_EvalFrameDefault";
	return f->symbol && !strncmp(f->symbol, name, sizeof(name) - 1);
}

static enum sample_python check_python(struct sampler_process *p, struct taken_sample *t,
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
				 .codes_stay = t->codes_stay,
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

static const struct py_stack *intern_python(struct sampler_process *p, const struct taken_sample *t)
{
	uint64_t frames[SAMPLED_PYTHON][4];
	for (int i = 0; i < t->npairs; i++) {
		memcpy(frames[i], t->pairs[i], sizeof(t->pairs[i]));
		frames[i][2] = t->at_once ? t->locals[i] : 0;
		frames[i][3] = t->prints[i];
	}
	return py_stack_intern_prints(p->py, (const uint64_t(*)[4])frames, (size_t)t->npairs,
				      t->cut, t->at_once, t->sample.time);
}

static void put_python(struct sampler_process *p, struct taken_sample *t, const struct unwound *u,
		       struct sample *out)
{
	if (!t->python_known || !p->py)
		return;
	enum sample_python how = check_python(p, t, u);
	out->mismatched = how == SAMPLE_MOVED;
	if (how != SAMPLE_PYTHON)
		return;
	out->python = intern_python(p, t);
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
	out->phase = in.backward ? PHASE_BACKWARD : PHASE_FORWARD;
}

void sampler_process_resolve(struct sampler_process *p, struct taken_sample *t,
			     struct sampler_shared *all, struct sample *out)
{
	struct unwound u = {0};
	if (t->sample.has_regs && t->sample.len)
		unwind(p, t, &all->symbols, &u);
	put_op(p, &u, &all->names, out);
	put_python(p, t, &u, out);
	if (!u.whole && py_stack_is_in_backward(out->python))
		out->phase = PHASE_BACKWARD;
	if (py_stack_compiles(out->python))
		out->phase = PHASE_COMPILE;
	else if (out->phase == PHASE_BACKWARD)
		out->phase = (uint8_t)py_stack_backward_phase(out->python);
	put_native(p, &u, all, out);
}

enum { KEY_MOST = 4096, PART_MOST = 1900 };

/* Two strings as one key, truncated. */
static uint32_t key_of(char *key, const char *a, const char *b)
{
	int n = snprintf(key, KEY_MOST, "%.*s%c%.*s", PART_MOST, a, 1, PART_MOST, b);
	return (uint32_t)n;
}

static const char *names_copy_text(struct sample_names *n, const char *text)
{
	return arena_strndup(&n->arena, text, strnlen(text, PART_MOST));
}

const struct py_frame *sample_frame(struct sample_names *n, const char *file, const char *function,
				    bool *is_new)
{
	char key[KEY_MOST];
	bool fresh;
	int64_t id = intern(&n->frame_ids, key, key_of(key, file, function), &fresh);
	if (is_new)
		*is_new = id >= 0 && fresh;
	if (id < 0 || (!fresh && (size_t)id < n->frames_room))
		return id < 0 ? NULL : n->frames[id];
	struct py_frame *f = arena_alloc(&n->arena, sizeof(*f));
	if (!f || array_grow(&n->frames, &n->frames_room, (size_t)id + 1, sizeof(*n->frames)))
		return NULL;
	*f = (struct py_frame){.id = (uint32_t)id,
			       .file = names_copy_text(n, file),
			       .function = names_copy_text(n, function),
			       .column = -1,
			       .end_column = -1};
	n->frames[id] = f->file && f->function ? f : NULL;
	return n->frames[id];
}

const struct py_stack *sample_stack(struct sample_names *n, const struct py_frame *const *frames,
				    unsigned depth, bool truncated)
{
	struct py_stack *s = arena_alloc(&n->arena, sizeof(*s) + depth * sizeof(s->frames[0]));
	size_t size = depth * sizeof(s->frames[0]);
	bool fresh;
	if (!s)
		return NULL;
	/* The struct itself is the key, so set nothing in it that may differ between equal stacks.
	 */
	s->depth = (uint16_t)depth;
	s->truncated = truncated;
	memcpy(s->frames, frames, size);
	int64_t id = intern(&n->stack_ids, s, (uint32_t)(sizeof(*s) + size), &fresh);
	if (id < 0 || (!fresh && (size_t)id < n->stacks_room))
		return id < 0 ? NULL : n->stacks[id];
	if (array_grow(&n->stacks, &n->stacks_room, (size_t)id + 1, sizeof(*n->stacks)))
		return NULL;
	s->id = (uint32_t)id;
	n->stacks[id] = s;
	return s;
}

const struct op_desc *sample_op(struct sample_names *n, const char *name, enum op_kind kind)
{
	char key[KEY_MOST];
	bool fresh;
	int64_t id =
	    intern(&n->op_ids, key, key_of(key, name, kind == OP_BACKWARD ? "b" : ""), &fresh);
	if (id < 0 || (!fresh && (size_t)id < n->ops_room))
		return id < 0 ? NULL : n->ops[id];
	struct op_desc *op = arena_alloc(&n->arena, sizeof(*op));
	if (!op || array_grow(&n->ops, &n->ops_room, (size_t)id + 1, sizeof(*n->ops)))
		return NULL;
	*op = (struct op_desc){.id = (uint32_t)id,
			       .kind = (uint8_t)kind,
			       .name = names_copy_text(n, name),
			       .schema = ""};
	n->ops[id] = op->name ? op : NULL;
	return n->ops[id];
}

void sample_names_free(struct sample_names *n)
{
	intern_free(&n->frame_ids);
	intern_free(&n->stack_ids);
	intern_free(&n->op_ids);
	arena_free(&n->arena);
	free(n->frames);
	free(n->stacks);
	free(n->ops);
	*n = (struct sample_names){0};
}
