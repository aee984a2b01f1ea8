/* Frames: an instruction of a code object resolved to its line, once, and kept with its strings. */
#include "symbolizer/python/python.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/python/internal.h"

enum {
	MAX_POINTS = 1 << 17,
	MAX_FRAMES = 1 << 17, /* then new frames resolve to the unknown frame */
	MAX_STRINGS = 8 << 20,
	MAX_TEXT = 200,
};

const char *py_intern_string(struct py_codes *c, const char *s)
{
	size_t len = strlen(s);
	uint64_t hash = map_hash(s, len, 0);
	uint32_t pos = 0, i;
	const char *copy;

	while ((i = map_next(&c->string_index, hash, &pos)) != MAP_NONE)
		if (strcmp(c->strings[i], s) == 0)
			return c->strings[i];
	if (c->string_bytes + len > MAX_STRINGS)
		return NULL;
	copy = arena_strndup(&c->arena, s, len);
	if (!copy || !py_reserve(&c->strings, c->nstrings, 1, sizeof(*c->strings)) ||
	    map_add(&c->string_index, hash, c->nstrings))
		return NULL;
	c->strings[c->nstrings++] = copy;
	c->string_bytes += len + 1;
	return copy;
}

/* The instruction's byte offset in its code; negative before the first one. */
static int64_t instr_offset(const struct py_runtime *rt, uint64_t code, uint64_t instr)
{
	switch ((enum py_instr_kind)rt->layout.instr_kind) {
	case PY_INSTR_LASTI_BYTES:
		return (int32_t)instr;
	case PY_INSTR_LASTI_UNITS:
		return (int64_t)(int32_t)instr * 2;
	case PY_INSTR_POINTER:
		return (int64_t)(instr - (code + rt->layout.obj.code_adaptive));
	}
	return INT64_MAX;
}

static struct py_frame *intern_frame(struct py_codes *c, const struct py_frame *want)
{
	const struct {
		const char *file, *function;
		int32_t where[4];
	} key = {want->file,
		 want->function,
		 {want->line, want->column, want->end_column, want->end_line}};
	uint64_t hash = map_hash(&key, sizeof(key), 0);
	uint32_t pos = 0, i;
	struct py_frame *f;

	while ((i = map_next(&c->frame_index, hash, &pos)) != MAP_NONE) {
		f = c->frames[i];
		if (f->file == want->file && f->function == want->function &&
		    f->line == want->line && f->column == want->column &&
		    f->end_column == want->end_column && f->end_line == want->end_line)
			return f;
	}
	if (c->nframes >= MAX_FRAMES)
		return NULL;
	f = arena_alloc(&c->arena, sizeof(*f));
	if (!f || !py_reserve(&c->frames, c->nframes, 1, sizeof(*c->frames)) ||
	    map_add(&c->frame_index, hash, c->nframes))
		return NULL;
	*f = *want;
	f->id = c->nframes;
	c->frames[c->nframes++] = f;
	return f;
}

static struct py_frame *make_frame(struct py_runtime *rt, const struct py_code_object *code,
				   uint64_t instr)
{
	enum { BEFORE_FIRST = -2, MAX_OFFSET = 1 << 28 };
	int64_t off = instr_offset(rt, code->addr, instr);
	struct linetable_pos pos = {.column = -1, .end_column = -1};

	if (off >= BEFORE_FIRST && off <= MAX_OFFSET)
		linetable_lookup(rt->layout.linetable, code->linetable, code->linetable_len,
				 code->firstlineno, off, &pos);
	return intern_frame(rt->codes, &(struct py_frame){.file = code->file,
							  .function = code->function,
							  .line = pos.line,
							  .end_line = pos.end_line,
							  .column = pos.column,
							  .end_column = pos.end_column,
							  .is_torch = code->is_torch});
}

static struct py_frame *find_point(struct py_runtime *rt, const struct py_code_object *code,
				   uint64_t instr)
{
	struct py_codes *c = rt->codes;
	const uint64_t key[2] = {code->serial, instr};
	uint64_t hash = map_hash(key, sizeof(key), 0);
	uint32_t pos = 0, i;
	struct py_frame *f;

	while ((i = map_next(&c->point_index, hash, &pos)) != MAP_NONE)
		if (c->points[i].serial == code->serial && c->points[i].instr == instr)
			return c->points[i].frame;
	f = make_frame(rt, code, instr);
	if (c->npoints >= MAX_POINTS) {
		c->npoints = 0;
		map_clear(&c->point_index);
	}
	if (!f || !py_reserve(&c->points, c->npoints, 1, sizeof(*c->points)) ||
	    map_add(&c->point_index, hash, c->npoints))
		return f;
	c->points[c->npoints++] =
	    (struct py_point){.serial = code->serial, .instr = instr, .frame = f};
	return f;
}

static const struct py_frame *resolve_in(struct py_runtime *rt, const struct py_code_object *code,
					 uint64_t instr)
{
	const struct py_frame *f = code ? find_point(rt, code, instr) : NULL;

	return f ? f : &rt->codes->unknown;
}

const struct py_frame *py_resolve(struct py_runtime *rt, uint64_t code_addr, uint64_t instr)
{
	return resolve_in(rt, py_code_find(rt, code_addr, 0), instr);
}

const struct py_frame *py_resolve_print(struct py_runtime *rt, uint64_t code_addr, uint64_t print,
					uint64_t instr)
{
	return resolve_in(rt, print ? py_code_find(rt, code_addr, print) : NULL, instr);
}

bool py_frame_known(const struct py_codes *c, const struct py_frame *frame)
{
	return frame != &c->unknown;
}

bool py_source_begins(struct py_runtime *rt, const char *file, const char *text)
{
	return py_sources_begins(rt->sources, file, text);
}

const char *py_frame_text(struct py_runtime *rt, const struct py_frame *frame)
{
	struct py_codes *c = rt->codes;
	char text[MAX_TEXT + 1];

	if (frame->text || frame->id >= c->nframes || c->frames[frame->id] != frame)
		return frame->text;
	if (py_sources_line(rt->sources, frame->file, frame->line, text, sizeof(text)) >= 0)
		c->frames[frame->id]->text = py_intern_string(c, text);
	return frame->text;
}
