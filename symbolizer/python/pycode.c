#include "symbolizer/python/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/python/internal.h"

/* Limits for a target that keeps generating code; a training run stays far below them. */
enum {
	MAX_CODES = 1 << 15, /* then all code objects are dropped and read again */
	MAX_LINETABLES = 8 << 20,
	MAX_POINTS = 1 << 17,
	MAX_FRAMES = 1 << 17, /* then new frames resolve to the unknown frame */
	MAX_STRINGS = 8 << 20,
	MAX_FILE = 4096,
	MAX_FUNCTION = 1024,
	MAX_LINETABLE = 4 << 20,
	MAX_CODE = 4096, /* sizeof(PyCodeObject) is about 200 */
	MAX_TEXT = 200,
	MAX_CALLS = 8,
};

/* A code object of the target. */
struct code {
	uint64_t parts[3]; /* addresses of its file name, name and line table */
	uint64_t addr;
	const char *file, *function; /* interned */
	const char *source;	     /* co_filename; file: also which cell it is */
	uint8_t *linetable;
	uint32_t linetable_len;
	int32_t firstlineno;
	bool is_torch, freed;
	uint64_t serial; /* unique, so that entries of a freed one are never matched */
};

/* A resolved instruction of a code object. */
struct point {
	uint64_t serial, instr;
	struct py_frame *frame;
};

/* A code object that calls modules. */
struct call {
	uint64_t addr;
	enum py_call call;
};

struct py_codes {
	struct arena arena; /* strings and frames: never freed before the end */
	struct map string_index, frame_index;
	const char **strings;
	struct py_frame **frames;
	uint32_t nstrings, nframes;
	struct py_frame unknown;
	char *torch_dir;
	size_t string_bytes;

	/* Caches that may be dropped. */
	struct map code_index, point_index;
	struct code *codes;
	struct point *points;
	uint32_t ncodes, npoints;
	size_t linetable_bytes;
	uint64_t next_serial;
	struct call calls[MAX_CALLS];
	uint32_t ncalls;
	uint32_t epoch;
};

bool py_reserve(void *array, size_t count, size_t more, size_t size)
{
	size_t cap = 16, want = 16;
	void *p;

	while (cap < count)
		cap *= 2;
	while (want < count + more)
		want *= 2;
	if (want == cap && count)
		return true;
	p = realloc(*(void **)array, want * size);
	if (!p)
		return false;
	*(void **)array = p;
	return true;
}

struct py_codes *py_codes_new(void)
{
	struct py_codes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->unknown = (struct py_frame){
	    .id = 0, .file = "?", .function = "?", .column = -1, .end_column = -1};
	if (!py_reserve(&c->frames, 0, 1, sizeof(*c->frames))) {
		free(c);
		return NULL;
	}
	c->frames[c->nframes++] = &c->unknown;
	return c;
}

static void forget_codes(struct py_codes *c)
{
	for (uint32_t i = 0; i < c->ncodes; i++)
		free(c->codes[i].linetable);
	c->ncodes = c->npoints = c->ncalls = 0;
	c->linetable_bytes = 0;
	c->epoch++;
	map_clear(&c->code_index);
	map_clear(&c->point_index);
}

void py_codes_free(struct py_codes *c)
{
	if (!c)
		return;
	forget_codes(c);
	map_free(&c->string_index);
	map_free(&c->frame_index);
	map_free(&c->code_index);
	map_free(&c->point_index);
	arena_free(&c->arena);
	free(c->strings);
	free(c->frames);
	free(c->codes);
	free(c->points);
	free(c->torch_dir);
	free(c);
}

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

int py_set_torch_dir(struct py_runtime *rt, const char *path)
{
	size_t len = strlen(path);
	char *copy;

	while (len > 1 && path[len - 1] == '/')
		len--;
	copy = strndup(path, len);
	if (!copy)
		return -ENOMEM;
	free(rt->codes->torch_dir);
	rt->codes->torch_dir = copy;
	return 0;
}

bool py_is_own_file(const char *file)
{
	static const char own[] = "ditrace/modes/";

	return !strncmp(file, own, sizeof(own) - 1);
}

static bool is_torch_file(const struct py_codes *c, const char *file)
{
	size_t len = c->torch_dir ? strlen(c->torch_dir) : 0;

	if (py_is_own_file(file))
		return true;
	if (len && strncmp(file, c->torch_dir, len) == 0 && file[len] == '/')
		return true;
	return strstr(file, "/site-packages/torch/") || strstr(file, "/dist-packages/torch/");
}

static enum py_call call_of(const struct code *code)
{
	static const char file[] = "/nn/modules/module.py";
	size_t len = strlen(code->file);
	const char *name = strrchr(code->function, '.');

	name = name ? name + 1 : code->function;
	if (!code->is_torch || len < sizeof(file) ||
	    strcmp(code->file + len - (sizeof(file) - 1), file) != 0)
		return PY_CALL_OTHER;
	return strcmp(name, "_call_impl") == 0		 ? PY_CALL_MODULE
	       : strcmp(name, "_wrapped_call_impl") == 0 ? PY_CALL_WRAPPED
							 : PY_CALL_OTHER;
}

static void note_call(struct py_codes *c, uint64_t addr, enum py_call call)
{
	if (call == PY_CALL_OTHER || c->ncalls == MAX_CALLS)
		return;
	c->calls[c->ncalls++] = (struct call){addr, call};
	c->epoch++;
}

static void forget_call(struct py_codes *c, uint64_t addr)
{
	for (uint32_t i = 0; i < c->ncalls; i++)
		if (c->calls[i].addr == addr)
			c->calls[i--] = c->calls[--c->ncalls];
}

enum py_call py_code_call(const struct py_codes *c, uint64_t addr)
{
	for (uint32_t i = 0; i < c->ncalls; i++)
		if (c->calls[i].addr == addr)
			return c->calls[i].call;
	return PY_CALL_OTHER;
}

uint32_t py_codes_epoch(const struct py_codes *c)
{
	return c->epoch;
}

static uint64_t field(const uint8_t *object, uint32_t off)
{
	uint64_t v;

	memcpy(&v, object + off, sizeof(v));
	return v;
}

static const char *read_name(struct py_runtime *rt, uint64_t str, size_t max)
{
	char text[MAX_FILE];

	if (py_read_str(rt, str, text, max) < 0)
		return NULL;
	return py_intern_string(rt->codes, text);
}

static void parts_of(const struct py_objects *o, const uint8_t *object, uint64_t parts[3])
{
	parts[0] = field(object, o->code_filename);
	parts[1] = field(object, o->code_name);
	parts[2] = field(object, o->code_linetable);
}

/* Read `code` from the target. False if there is no code object at this address. */
static bool read_code(struct py_runtime *rt, uint64_t addr, struct code *code)
{
	const struct py_objects *o = &rt->layout.obj;
	uint8_t object[MAX_CODE];
	uint64_t type;
	ssize_t len;

	*code = (struct code){.addr = addr};
	if (py_live_type(rt, addr, &type) || type != rt->image.code_type ||
	    mem_read(rt->mem, addr, object, o->code_size))
		return false;
	memcpy(&code->firstlineno, object + o->code_firstlineno, sizeof(code->firstlineno));
	parts_of(o, object, code->parts);
	code->file = read_name(rt, field(object, o->code_filename), MAX_FILE);
	code->function = read_name(
	    rt, field(object, o->code_qualname == PY_NO_OFFSET ? o->code_name : o->code_qualname),
	    MAX_FUNCTION);
	if (!code->file || !code->function)
		return false;
	code->is_torch = is_torch_file(rt->codes, code->file);
	code->source = code->file;
	code->file = py_cell_name(rt, code->source);
	len = py_read_bytes(rt, field(object, o->code_linetable), MAX_LINETABLE, &code->linetable);
	if (len < 0)
		return false;
	code->linetable_len = (uint32_t)len;
	return true;
}

static bool keep_code(struct py_codes *c, const struct code *code, int64_t *i)
{
	if (*i < 0) {
		if (!py_reserve(&c->codes, c->ncodes, 1, sizeof(*c->codes)) ||
		    map_put(&c->code_index, code->addr, c->ncodes))
			return false;
		*i = c->ncodes++;
	}
	c->codes[*i] = *code;
	c->codes[*i].serial = c->next_serial++;
	c->linetable_bytes += code->linetable_len;
	note_call(c, code->addr, call_of(code));
	return true;
}

/* The code object at `addr`, read when new; NULL if there is none. */
static const struct code *find_code(struct py_runtime *rt, uint64_t addr)
{
	struct py_codes *c = rt->codes;
	int64_t i = map_get(&c->code_index, addr);
	struct code code;

	if (i >= 0 && !c->codes[i].freed)
		return &c->codes[i];
	if (c->ncodes >= MAX_CODES || c->linetable_bytes > MAX_LINETABLES) {
		forget_codes(c);
		i = -ENOENT;
	}
	if (read_code(rt, addr, &code) && keep_code(c, &code, &i))
		return &c->codes[i];
	free(code.linetable);
	return NULL;
}

void py_code_freed(struct py_runtime *rt, uint64_t addr)
{
	struct py_codes *c = rt->codes;
	int64_t i = map_get(&c->code_index, addr);
	struct code *code;

	if (i < 0 || c->codes[i].freed)
		return;
	code = &c->codes[i];
	code->freed = true;
	c->linetable_bytes -= code->linetable_len;
	free(code->linetable);
	code->linetable = NULL;
	code->linetable_len = 0;
	forget_call(c, addr);
	c->epoch++;
}

/* Code of a cell that is run again may get the addresses that it had before. */
static bool is_of_cell(struct py_runtime *rt, const struct code *code)
{
	return code->file == code->source || py_cell_name(rt, code->source) == code->file;
}

void py_code_check(struct py_runtime *rt, uint64_t addr)
{
	const struct py_objects *o = &rt->layout.obj;
	const struct py_codes *c = rt->codes;
	int64_t i = map_get(&c->code_index, addr);
	uint8_t object[MAX_CODE];
	uint64_t parts[3];
	int32_t line;

	if (i < 0 || c->codes[i].freed)
		return;
	if (!mem_read(rt->mem, addr, object, o->code_size)) {
		parts_of(o, object, parts);
		memcpy(&line, object + o->code_firstlineno, sizeof(line));
		if (line == c->codes[i].firstlineno &&
		    !memcmp(parts, c->codes[i].parts, sizeof(parts)) &&
		    is_of_cell(rt, &c->codes[i]))
			return;
	}
	py_code_freed(rt, addr);
}

int py_code_dealloc_addr(struct py_runtime *rt, uint64_t *addr)
{
	return mem_read_u64(rt->mem, rt->image.code_type + rt->layout.obj.type_dealloc, addr);
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

const struct py_frame *py_frame_of_parameter(struct py_codes *c, const char *name)
{
	struct py_frame want = {.function = accumulation_function, .column = -1, .end_column = -1};
	char text[sizeof("gradient accumulation of ") + PY_PATH_MAX];

	snprintf(text, sizeof(text), "gradient accumulation of %s", name);
	want.file = py_intern_string(c, text);
	return want.file ? intern_frame(c, &want) : NULL;
}

static struct py_frame *make_frame(struct py_runtime *rt, const struct code *code, uint64_t instr)
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

static struct py_frame *find_point(struct py_runtime *rt, const struct code *code, uint64_t instr)
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
	    (struct point){.serial = code->serial, .instr = instr, .frame = f};
	return f;
}

const struct py_frame *py_resolve(struct py_runtime *rt, uint64_t code_addr, uint64_t instr)
{
	const struct code *code = find_code(rt, code_addr);
	const struct py_frame *f = code ? find_point(rt, code, instr) : NULL;

	return f ? f : &rt->codes->unknown;
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
