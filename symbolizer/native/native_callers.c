#define _GNU_SOURCE
#include "symbolizer/native/native_stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text.h"
#include "symbolizer/python/python.h"

enum {
	INLINED = 16,  /* frames at one address */
	REOPENED = 64, /* times that libraries are looked for */
	STACKS_MAX = 1 << 16,
	PLACES_MAX = 1 << 17,
	TEXT_MOST = 201,
};

/* A return address: the program's frames there, interned. */
struct caller_place {
	uint32_t n;
	bool of_python;
	const struct py_frame *frame[INLINED];
};

struct native_callers {
	pid_t pid;
	uint64_t engine, engine_end;
	struct native_stacks **opened; /* the last one is the present one; strings are of all */
	size_t nopened, opened_room;
	struct py_sources *sources;
	struct arena arena;
	struct map row_index, place_index; /* by return address */
	struct native_row *rows;
	size_t nrows, rows_room;
	struct caller_place **places;
	size_t nplaces, places_room;
	struct intern frame_ids, stack_ids;
	const struct py_frame **frames;
	const struct py_stack **stacks;
	size_t frames_room, stacks_room;
};

struct native_callers *native_callers_new(pid_t pid, uint64_t engine, uint64_t engine_end)
{
	struct native_callers *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->pid = pid;
	c->engine = engine;
	c->engine_end = engine_end;
	c->sources = py_sources_new(pid, NULL);
	return c;
}

void native_callers_free(struct native_callers *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->nopened; i++)
		native_stacks_close(c->opened[i]);
	for (size_t i = 0; i < c->nplaces; i++)
		free(c->places[i]);
	py_sources_free(c->sources);
	map_free(&c->row_index);
	map_free(&c->place_index);
	intern_free(&c->frame_ids);
	intern_free(&c->stack_ids);
	free(c->opened);
	free(c->rows);
	free(c->places);
	free(c->frames);
	free(c->stacks);
	arena_free(&c->arena);
	free(c);
}

static struct native_stacks *opened_last(const struct native_callers *c)
{
	return c->nopened ? c->opened[c->nopened - 1] : NULL;
}

void native_callers_open(struct native_callers *c)
{
	struct native_stacks *s;
	if (c->nopened == REOPENED ||
	    array_grow(&c->opened, &c->opened_room, c->nopened + 1, sizeof(*c->opened)) ||
	    native_stacks_open(c->pid, &s, NULL))
		return;
	c->opened[c->nopened++] = s;
}

/* The files among which `pc` is; those that are mapped now, if it is in none that is known. */
static struct native_stacks *stacks_at(struct native_callers *c, uint64_t pc)
{
	struct native_stacks *s = opened_last(c);
	if (!s || !native_stacks_file(s, pc - 1))
		native_callers_open(c);
	return opened_last(c);
}

/* Rows. */

static struct unwind_rule unwind_row_of(struct native_callers *c, uint64_t pc)
{
	struct unwind_rule rule = {.kind = UNWIND_STUCK};
	int64_t known = map_get(&c->row_index, pc);
	if (known >= 0)
		return c->rows[known].rule;
	struct native_stacks *s = stacks_at(c, pc);
	if (s)
		native_stacks_rule(s, pc, &rule);
	const char *file = s ? native_stacks_file(s, pc - 1) : NULL;
	rule.of_python = file && native_file_is_python(file);
	if (c->nrows < UNWIND_ROWS / 2 &&
	    !array_grow(&c->rows, &c->rows_room, c->nrows + 1, sizeof(*c->rows)) &&
	    !map_put(&c->row_index, pc, (uint32_t)c->nrows))
		c->rows[c->nrows++] = (struct native_row){pc, rule};
	return rule;
}

const struct native_row *native_callers_rows(const struct native_callers *c, size_t *n)
{
	*n = c->nrows;
	return c->rows;
}

/* A slice of a stack. */
struct slice {
	const uint8_t *bytes;
	uint64_t from, len;
};

static bool slice_read(void *arg, uint64_t addr, uint64_t *word)
{
	const struct slice *s = arg;
	if (addr < s->from || addr - s->from > s->len || s->len - (addr - s->from) < sizeof(*word))
		return false;
	memcpy(word, s->bytes + (addr - s->from), sizeof(*word));
	return true;
}

/* All addresses of the stack, at most NATIVE_DEPTH; *cut: outer ones are missing. */
static uint32_t walk_on(struct native_callers *c, const struct native_raw *raw, uint64_t *pcs,
			bool *cut)
{
	enum { HEAD = 2 * sizeof(uint64_t) };
	uint32_t n = raw->n < NATIVE_DEPTH ? raw->n : NATIVE_DEPTH;
	memcpy(pcs, raw->pcs, n * sizeof(*pcs));
	*cut = raw->cut;
	if (!raw->missed || !n)
		return n;
	struct unwind_frame f = {.pc = pcs[n - 1]};
	struct unwind_rule rule = unwind_row_of(c, f.pc);
	if (!raw->slice || raw->len < HEAD)
		return n;
	memcpy(&f.sp, raw->slice, sizeof(f.sp));
	memcpy(&f.bp, raw->slice + sizeof(f.sp), sizeof(f.bp));
	struct slice s = {raw->slice + HEAD, f.sp, raw->len - HEAD};
	while (n < NATIVE_DEPTH && rule.kind < UNWIND_END && !(raw->to_python && rule.of_python) &&
	       unwind_step(&f, rule, slice_read, &s)) {
		pcs[n++] = f.pc;
		rule = unwind_row_of(c, f.pc);
	}
	*cut = rule.kind != UNWIND_END && !(raw->to_python && rule.of_python);
	return n;
}

void native_callers_learn(struct native_callers *c, const struct native_raw *raw)
{
	uint64_t pcs[NATIVE_DEPTH];
	bool cut;
	if (raw->missed)
		walk_on(c, raw, pcs, &cut);
}

/* Frames. */

static bool begins_with_any(const char *text, const char *const *with, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(text, with[i], strlen(with[i])))
			return true;
	return false;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Files of PyTorch, of the runtimes of C, C++ and OpenMP, and ditrace's own: none calls an op but
 * for somebody else. */
static bool is_library(const char *path)
{
	static const char *const names[] = {
	    "libtorch",	    "libc10",	       "libcaffe2", "libc.so",	       "libc-",
	    "libpthread",   "ld-linux",	       "libstdc++", "libc++",	       "libgcc_s",
	    "libgomp",	    "libiomp",	       "libomp",    "libditrace_shim", "libm.so",
	    "libfunctorch", "libbackend_with", "libmkl",    "libdnnl",	       "libffi",
	    "_ctypes.",
	};
	const char *name = text_base_name(path);
	return !strncmp(name, "[vdso", 5) || strstr(path, "/torch/_C.") ||
	       (strstr(name, ".so") && begins_with_any(name, names, COUNT(names)));
}

/* Functions that PyTorch's headers, or those of C++, put into the program. */
static bool is_header(const char *file)
{
	static const char *const parts[] = {"/ATen/", "/c10/", "/torch/csrc/", "/include/c++/"};
	for (size_t i = 0; i < COUNT(parts); i++)
		if (strstr(file, parts[i]))
			return true;
	return false;
}

static bool is_torch_name(const char *name)
{
	static const char *const spaces[] = {
	    "at::", "c10::", "torch::", "std::", "__gnu_cxx::", "void std::"};
	return begins_with_any(name, spaces, COUNT(spaces));
}

static const struct py_frame *intern_frame(struct native_callers *c, const char *file,
					   const char *function, int line)
{
	char key[4096], text[TEXT_MOST];
	bool is_new;
	int n = snprintf(key, sizeof(key), "%d %.1800s\1%.1800s", line, file, function);
	int64_t id = intern(&c->frame_ids, key, (uint32_t)n, &is_new);
	if (id < 0 || (!is_new && (size_t)id < c->frames_room))
		return id < 0 ? NULL : c->frames[id];
	struct py_frame *f = arena_alloc(&c->arena, sizeof(*f));
	if (!f || array_grow(&c->frames, &c->frames_room, (size_t)id + 1, sizeof(*c->frames)))
		return NULL;
	*f = (struct py_frame){.id = (uint32_t)id,
			       .file = arena_strndup(&c->arena, file, strlen(file)),
			       .function = arena_strndup(&c->arena, function, strlen(function)),
			       .line = line,
			       .column = -1,
			       .end_column = -1};
	if (line && c->sources && py_sources_line(c->sources, file, line, text, sizeof(text)) > 0)
		f->text = arena_strndup(&c->arena, text, strlen(text));
	c->frames[id] = f;
	return f->file && f->function ? f : NULL;
}

static void add_source(struct native_callers *c, struct native_stacks *s, uint64_t pc,
		       struct caller_place *to)
{
	struct native_source source[INLINED];
	unsigned n = native_stacks_source(s, pc, source, INLINED);
	struct native_frame f = {0};
	char function[1024];
	for (unsigned i = 0; i < n; i++) {
		const char *file = source[i].file, *name = source[i].function;
		const struct py_frame *frame = file && name && !is_header(file)
						   ? intern_frame(c, file, name, source[i].line)
						   : NULL;
		if (frame)
			to->frame[to->n++] = frame;
	}
	if (n)
		return;
	native_stacks_describe(s, pc, &f);
	if (!f.file || (f.symbol && is_torch_name(f.name)))
		return;
	if (f.symbol)
		snprintf(function, sizeof(function), "%.900s+0x%" PRIx64, f.name, pc - f.start);
	else
		snprintf(function, sizeof(function), "0x%" PRIx64, f.offset);
	to->frame[to->n] = intern_frame(c, f.file, function, 0);
	to->n += to->frame[to->n] != NULL;
}

static const struct caller_place *place_of(struct native_callers *c, uint64_t pc)
{
	int64_t known = map_get(&c->place_index, pc);
	if (known >= 0)
		return c->places[known];
	struct caller_place *p = c->nplaces < PLACES_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p || array_grow(&c->places, &c->places_room, c->nplaces + 1, sizeof(*c->places)) ||
	    map_put(&c->place_index, pc, (uint32_t)c->nplaces)) {
		free(p);
		return NULL;
	}
	c->places[c->nplaces++] = p;
	struct native_stacks *s = stacks_at(c, pc);
	const char *file = s ? native_stacks_file(s, pc - 1) : NULL;
	p->of_python = file && native_file_is_python(file);
	if (file && !is_library(file))
		add_source(c, s, pc - 1, p);
	return p;
}

static const struct py_stack *
intern_stack(struct native_callers *c, const struct py_frame *const *frames, uint32_t n, bool cut)
{
	uint64_t key[NATIVE_DEPTH + 1];
	bool is_new;
	for (uint32_t i = 0; i < n; i++)
		key[i] = (uint64_t)(uintptr_t)frames[i];
	key[n] = cut;
	int64_t id = intern_find(&c->stack_ids, key, (n + 1) * (uint32_t)sizeof(*key));
	if (id >= 0)
		return c->stacks[id];
	if (c->stack_ids.used >= STACKS_MAX ||
	    array_grow(&c->stacks, &c->stacks_room, c->stack_ids.used + 1, sizeof(*c->stacks)))
		return NULL;
	struct py_stack *s = arena_alloc(&c->arena, sizeof(*s) + n * sizeof(*frames));
	id = s ? intern(&c->stack_ids, key, (n + 1) * (uint32_t)sizeof(*key), &is_new) : -1;
	if (id < 0)
		return NULL;
	*s = (struct py_stack){.id = (uint32_t)id, .depth = (uint16_t)n, .truncated = cut};
	memcpy(s->frames, frames, n * sizeof(*frames));
	c->stacks[id] = s;
	return s;
}

const struct py_stack *native_callers_stack(struct native_callers *c, const struct native_raw *raw,
					    uint32_t *own)
{
	const struct py_frame *frames[NATIVE_DEPTH];
	uint64_t pcs[NATIVE_DEPTH];
	bool cut, met = false;
	uint32_t kept = 0, n = walk_on(c, raw, pcs, &cut);
	*own = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!met && pcs[i] > c->engine && pcs[i] <= c->engine_end) {
			*own = kept;
			met = true;
		}
		const struct caller_place *p = place_of(c, pcs[i]);
		if (raw->to_python && p && p->of_python)
			break;
		for (uint32_t k = 0; p && k < p->n && kept < NATIVE_DEPTH; k++)
			frames[kept++] = p->frame[k];
	}
	return kept ? intern_stack(c, frames, kept, cut) : NULL;
}
