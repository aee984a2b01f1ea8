/* Interning of Python stacks (symbolizer/python/python.h), with a cache keyed by the raw pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"

/* Limits for a target that keeps generating code; a training run stays far below them. */
enum {
	MAX_RAW_WORDS = 1 << 20,    /* cached raw stacks: 8 MiB */
	MAX_STACK_BYTES = 24 << 20, /* then new stacks keep one frame only */
	MAX_DEPTH = 512,
};

/* A raw stack: its pairs, then the prints of their code objects, if they are known by these, then
 * the modules called in it, innermost first. */
struct raw {
	uint64_t words[4 * MAX_DEPTH];
	size_t n, nprints, nmodules;
	size_t own;	 /* the modules are those of this many frames */
	uint32_t around; /* the nesting of modules in whose backward they are; PY_NO_MODULE: none */
	bool truncated, no_modules;
};

#define RAW_MODULES(raw) (2 * (raw)->n + (raw)->nprints)
#define RAW_WORDS(raw) (RAW_MODULES(raw) + (raw)->nmodules)

/* Frames as they come: {code object, instruction, first local variable}, and perhaps more. */
struct come {
	const uint64_t *words; /* NULL: the local variables are not known */
	size_t step;
};

/* A cached raw stack: its words start at raw_words[at]. */
struct raw_stack {
	const struct py_stack *stack;
	size_t at, nwords;
	uint32_t epoch, node; /* node: PY_NO_MODULE if none */
	uint32_t around;
	uint16_t n;
	bool truncated, no_modules, prints;
};

struct py_stacks {
	struct arena arena;
	struct map stack_index;
	struct py_stack **stacks;
	uint32_t *nodes; /* by stack: the last nesting of modules that it had */
	uint32_t nstacks;
	size_t stack_bytes;

	/* Cache that may be dropped. */
	struct map raw_index;
	struct raw_stack *raws;
	uint64_t *raw_words;
	uint32_t nraws;
	size_t nraw_words;

	struct raw raw; /* scratch */
};

struct py_stacks *py_stacks_new(void)
{
	return calloc(1, sizeof(struct py_stacks));
}

void py_stacks_free(struct py_stacks *s)
{
	if (!s)
		return;
	map_free(&s->stack_index);
	map_free(&s->raw_index);
	arena_free(&s->arena);
	free(s->stacks);
	free(s->nodes);
	free(s->raws);
	free(s->raw_words);
	free(s);
}

static void forget_raws(struct py_stacks *s)
{
	s->nraws = 0;
	s->nraw_words = 0;
	map_clear(&s->raw_index);
}

/* The key of an interned stack, besides its frames. */
struct stack {
	uint16_t depth;
	bool truncated;
	const char *module, *parameter;
};

static bool same_stack(const struct py_stack *s, const struct stack *like,
		       const struct py_frame *const *frames)
{
	return s->depth == like->depth && s->truncated == like->truncated &&
	       s->module == like->module && s->parameter == like->parameter &&
	       (s->depth == 0 || memcmp(s->frames, frames, s->depth * sizeof(*frames)) == 0);
}

static const struct py_stack *intern_frames(struct py_stacks *st, struct stack like,
					    const struct py_frame *const *frames)
{
	uint64_t hash;
	uint32_t pos = 0, i;
	struct py_stack *s;

	if (st->stack_bytes > MAX_STACK_BYTES && like.depth > 1) {
		like.depth = 1;
		like.truncated = true;
	}
	hash = map_hash(frames, like.depth * sizeof(*frames),
			(uint64_t)like.truncated ^ (uintptr_t)like.module ^
			    (uintptr_t)like.parameter << 1);
	while ((i = map_next(&st->stack_index, hash, &pos)) != MAP_NONE)
		if (same_stack(st->stacks[i], &like, frames))
			return st->stacks[i];
	s = arena_alloc(&st->arena, sizeof(*s) + like.depth * sizeof(*frames));
	if (!s || !py_reserve(&st->stacks, st->nstacks, 1, sizeof(*st->stacks)) ||
	    !py_reserve(&st->nodes, st->nstacks, 1, sizeof(*st->nodes)) ||
	    map_add(&st->stack_index, hash, st->nstacks))
		return NULL;
	*s = (struct py_stack){.id = st->nstacks,
			       .depth = like.depth,
			       .truncated = like.truncated,
			       .module = like.module,
			       .parameter = like.parameter};
	if (s->depth)
		memcpy(s->frames, frames, s->depth * sizeof(*frames));
	st->nodes[st->nstacks] = PY_NO_MODULE;
	st->stacks[st->nstacks++] = s;
	st->stack_bytes += sizeof(*s) + s->depth * sizeof(*frames);
	return s;
}

static uint64_t print_of(const struct raw *raw, size_t i)
{
	return raw->nprints ? raw->words[2 * raw->n + i] : 0;
}

/* *sure is cleared when a frame is unknown: its pair may be resolvable next time. */
static void resolve_frames(struct py_runtime *rt, const struct raw *raw,
			   const struct py_frame **frames, bool *sure)
{
	*sure = true;
	for (size_t i = 0; i < raw->n; i++) {
		uint64_t code = raw->words[2 * i], instr = raw->words[2 * i + 1];

		frames[i] = raw->nprints ? py_resolve_print(rt, code, print_of(raw, i), instr)
					 : py_resolve(rt, code, instr);
		if (!py_frame_known(rt->codes, frames[i]))
			*sure = false;
	}
}

static uint64_t hash_of(const struct raw *raw)
{
	return map_hash(raw->words, RAW_WORDS(raw) * sizeof(raw->words[0]), raw->truncated);
}

static struct raw_stack *find_raw(struct py_stacks *s, uint64_t hash, const struct raw *raw)
{
	uint32_t pos = 0, i;

	while ((i = map_next(&s->raw_index, hash, &pos)) != MAP_NONE) {
		struct raw_stack *r = &s->raws[i];

		if (r->n == raw->n && r->nwords == RAW_WORDS(raw) &&
		    r->truncated == raw->truncated && r->around == raw->around &&
		    r->no_modules == raw->no_modules && r->prints == (raw->nprints > 0) &&
		    memcmp(s->raw_words + r->at, raw->words, r->nwords * sizeof(uint64_t)) == 0)
			return r;
	}
	return NULL;
}

static void remember_raw(struct py_stacks *s, uint64_t hash, const struct raw *raw,
			 struct raw_stack like)
{
	struct raw_stack *r = find_raw(s, hash, raw);

	like.nwords = RAW_WORDS(raw);
	if (!r && s->nraw_words + like.nwords > MAX_RAW_WORDS)
		forget_raws(s);
	like.at = r ? r->at : s->nraw_words;
	if (!r) {
		if (!py_reserve(&s->raw_words, s->nraw_words, like.nwords, sizeof(uint64_t)) ||
		    !py_reserve(&s->raws, s->nraws, 1, sizeof(*s->raws)) ||
		    map_add(&s->raw_index, hash, s->nraws))
			return;
		memcpy(s->raw_words + like.at, raw->words, like.nwords * sizeof(uint64_t));
		s->nraw_words += like.nwords;
		r = &s->raws[s->nraws++];
	}
	*r = like;
}

/* The stack of a cached raw stack, with its module path updated. */
static const struct py_stack *again(struct py_runtime *rt, struct raw_stack *r, uint64_t ns)
{
	const struct py_stack *s = r->stack;
	const char *module = py_module_path(rt, r->node, ns);
	struct stack like = {.depth = s->depth, .truncated = s->truncated, .module = module};

	if (module != s->module) {
		s = intern_frames(rt->stacks, like, s->frames);
		r->stack = s ? s : r->stack;
	}
	if (s)
		rt->stacks->nodes[s->id] = r->node;
	return s;
}

/* Collect the modules called. If a call has two frames, use the outer one: in the inner one the
 * variable may be in a cell, because a closure uses it. */
static void take_modules(const struct py_codes *c, struct raw *raw, struct come frames)
{
	raw->nmodules = 0;
	for (size_t i = 0; i < raw->own; i++) {
		enum py_call call = py_code_call(c, raw->words[2 * i], print_of(raw, i));

		if (call == PY_CALL_MODULE && i + 1 < raw->n &&
		    py_code_call(c, raw->words[2 * i + 2], print_of(raw, i + 1)) == PY_CALL_WRAPPED)
			continue;
		if (call == PY_CALL_OTHER)
			continue;
		raw->words[RAW_WORDS(raw)] = frames.words[frames.step * i + 2];
		raw->nmodules++;
	}
}

/* Whether a function that a checkpoint runs again calls the op, and no module: it was in the module
 * that called the checkpoint, which is around only where the backward is the checkpoint's own. */
static bool is_of_other_module(const struct raw *raw, const struct py_frame *const *frames)
{
	if (raw->around == PY_NO_MODULE || raw->nmodules)
		return false;
	for (size_t i = 0; i < raw->own; i++)
		if (py_frame_is_checkpoint(frames[i]) &&
		    strcmp(frames[i]->function, "CheckpointFunction.backward") != 0 &&
		    strcmp(frames[i]->function, "backward") != 0)
			return true;
	return false;
}

/* Leave out the frames of what changes calls of the program. Those outside the backward's own tell
 * which call of the engine it is, and stay. Returns how many are left. */
static size_t drop_own(const struct raw *raw, const struct py_frame **frames)
{
	size_t n = 0;

	if (raw->own < raw->n)
		return raw->n;
	for (size_t i = 0; i < raw->n; i++)
		if (!frames[i]->file || !py_is_own_file(frames[i]->file))
			frames[n++] = frames[i];
	return n;
}

static uint64_t resolved;

uint64_t py_stacks_resolved(void)
{
	return resolved;
}

static const struct py_stack *intern_raw(struct py_runtime *rt, struct come frames, uint64_t ns)
{
	const struct py_frame *found[MAX_DEPTH] = {NULL};
	struct py_stacks *s = rt->stacks;
	struct raw *raw = &s->raw;
	struct stack like = {.depth = (uint16_t)raw->n, .truncated = raw->truncated};
	struct raw_stack *r = find_raw(s, hash_of(raw), raw), kept;
	bool sure;

	if (r && r->epoch == py_codes_epoch(rt->codes) && py_module_node_known(rt, r->node))
		return again(rt, r, ns);
	resolved++;
	resolve_frames(rt, raw, found, &sure);
	if (frames.words) /* resolving may have identified the module calls */
		take_modules(rt->codes, raw, frames);
	kept = (struct raw_stack){.epoch = py_codes_epoch(rt->codes),
				  .node = PY_NO_MODULE,
				  .around = raw->around,
				  .n = (uint16_t)raw->n,
				  .truncated = raw->truncated,
				  .no_modules = raw->no_modules,
				  .prints = raw->nprints > 0};
	if (!raw->no_modules && !is_of_other_module(raw, found))
		kept.node =
		    py_module_node(rt, raw->around, raw->words + RAW_MODULES(raw), raw->nmodules);
	like.module = py_module_path(rt, kept.node, ns);
	like.depth = (uint16_t)drop_own(raw, found);
	kept.stack = intern_frames(s, like, found);
	if (kept.stack)
		s->nodes[kept.stack->id] = kept.node;
	if (kept.stack && sure)
		remember_raw(s, hash_of(raw), raw, kept);
	return kept.stack;
}

const struct py_stack *py_stack_of_parameter(struct py_runtime *rt, const char *module,
					     const char *name)
{
	struct stack like = {.module = module ? py_intern_string(rt->codes, module) : NULL,
			     .parameter = py_intern_string(rt->codes, name)};

	return like.parameter ? intern_frames(rt->stacks, like, NULL) : NULL;
}

static size_t begin(struct py_runtime *rt, size_t n, bool truncated)
{
	struct raw *raw = &rt->stacks->raw;

	raw->n = n < MAX_DEPTH ? n : MAX_DEPTH;
	raw->own = raw->n;
	raw->nprints = raw->nmodules = 0;
	raw->around = PY_NO_MODULE;
	raw->truncated = raw->no_modules = truncated || n > MAX_DEPTH;
	return raw->n;
}

const struct py_stack *py_stack_intern(struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
				       bool truncated)
{
	n = begin(rt, n, truncated);
	if (n)
		memcpy(rt->stacks->raw.words, pairs, n * sizeof(*pairs));
	return intern_raw(rt, (struct come){NULL, 0}, 0);
}

static const struct py_stack *intern_words(struct py_runtime *rt, struct come frames, uint64_t ns)
{
	struct raw *raw = &rt->stacks->raw;

	for (size_t i = 0; i < raw->n; i++)
		memcpy(&raw->words[2 * i], frames.words + frames.step * i, 2 * sizeof(uint64_t));
	take_modules(rt->codes, raw, frames);
	return intern_raw(rt, frames, ns);
}

const struct py_stack *py_stack_intern_prints(struct py_runtime *rt, const uint64_t frames[][4],
					      size_t n, bool truncated, bool locals, uint64_t ns)
{
	struct raw *raw = &rt->stacks->raw;
	const struct come come = {frames ? frames[0] : NULL, 4};

	raw->nprints = begin(rt, n, truncated);
	for (size_t i = 0; i < raw->n; i++) {
		memcpy(&raw->words[2 * i], frames[i], 2 * sizeof(uint64_t));
		raw->words[2 * raw->n + i] = frames[i][3];
	}
	if (!locals)
		return intern_raw(rt, (struct come){NULL, 0}, 0);
	take_modules(rt->codes, raw, come);
	return intern_raw(rt, come, ns);
}

const struct py_stack *py_stack_intern_at(struct py_runtime *rt, const uint64_t frames[][3],
					  size_t n, bool truncated, uint64_t ns)
{
	begin(rt, n, truncated);
	return intern_words(rt, (struct come){frames[0], 3}, ns);
}

const struct py_stack *py_stack_intern_backward(struct py_runtime *rt, const uint64_t frames[][3],
						size_t n, size_t own, const struct py_stack *around,
						bool truncated, uint64_t ns)
{
	const struct py_stacks *s = rt->stacks;
	struct raw *raw = &rt->stacks->raw;

	begin(rt, n, truncated);
	raw->own = own < raw->n ? own : raw->n;
	raw->no_modules = !around || around->id >= s->nstacks || s->stacks[around->id] != around;
	if (!raw->no_modules) {
		raw->around = s->nodes[around->id];
		raw->no_modules = raw->around == PY_NO_MODULE
				      ? around->truncated
				      : !py_module_node_known(rt, raw->around);
	}
	return intern_words(rt, (struct come){frames[0], 3}, ns);
}
