#include "symbolizer/python/python.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/system.h"
#include "symbolizer/plan/code_print.h"
#include "symbolizer/python/internal.h"

/* Limits for a target that keeps generating code; a training run stays far below them. */
enum {
	MAX_CODES = 1 << 15, /* then all code objects are dropped and read again */
	MAX_LINETABLES = 8 << 20,
	MAX_FILE = 4096,
	MAX_FUNCTION = 1024,
	MAX_LINETABLE = 4 << 20,
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
	map_clear(&c->last_index);
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
	map_free(&c->last_index);
	arena_free(&c->arena);
	free(c->strings);
	free(c->frames);
	free(c->codes);
	free(c->points);
	free(c->torch_dir);
	free(c);
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
	static const char importlib[] = "<frozen importlib";
	size_t len = c->torch_dir ? strlen(c->torch_dir) : 0;

	if (py_is_own_file(file) || !strncmp(file, importlib, sizeof(importlib) - 1))
		return true;
	if (len && strncmp(file, c->torch_dir, len) == 0 && file[len] == '/')
		return true;
	return strstr(file, "/site-packages/torch/") || strstr(file, "/dist-packages/torch/");
}

static enum py_call call_of(const struct py_code_object *code)
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

static void note_call(struct py_codes *c, const struct py_code_object *code)
{
	enum py_call call = call_of(code);

	if (call == PY_CALL_OTHER || c->ncalls == PY_CALLS_MAX)
		return;
	c->calls[c->ncalls++] = (struct py_module_caller){code->addr, code->asked, call};
	c->epoch++;
}

static void forget_call(struct py_codes *c, const struct py_code_object *code)
{
	for (uint32_t i = 0; i < c->ncalls; i++)
		if (c->calls[i].addr == code->addr && c->calls[i].asked == code->asked)
			c->calls[i--] = c->calls[--c->ncalls];
}

enum py_call py_code_call(const struct py_codes *c, uint64_t addr, uint64_t print)
{
	for (uint32_t i = 0; i < c->ncalls; i++)
		if (c->calls[i].addr == addr && c->calls[i].asked == print)
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
static bool read_parts(struct py_runtime *rt, uint64_t addr, struct py_code_object *code)
{
	const struct py_objects *o = &rt->layout.obj;
	uint8_t object[MAX_CODE];
	uint64_t type;
	ssize_t len;

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

/* The same, of the code object that has print `asked`, if it is not 0: what was read is of that one
 * if it is there before and afterwards. */
static bool read_code(struct py_runtime *rt, uint64_t addr, uint64_t asked,
		      struct py_code_object *code)
{
	*code = (struct py_code_object){
	    .addr = addr, .asked = asked, .print = py_code_print(rt, addr, PRINT_PARTS)};
	if (asked && py_code_print(rt, addr, asked) != asked)
		return false;
	code->since = clock_ns(CLOCK_MONOTONIC);
	return read_parts(rt, addr, code) &&
	       (!asked || py_code_print(rt, addr, PRINT_PARTS) == code->print);
}

static uint64_t code_key(uint64_t addr, uint64_t print)
{
	return addr ^ print;
}

/* The cached code object; -ENOENT: none. */
static int64_t find_code(const struct py_codes *c, uint64_t addr, uint64_t print)
{
	int64_t i = map_get(&c->code_index, code_key(addr, print));

	return i >= 0 && c->codes[i].addr == addr && c->codes[i].asked == print ? i : -ENOENT;
}

/* Note that number `i` is at its address now: where another one was, it is new there. */
static void note_there(struct py_codes *c, uint32_t i)
{
	struct py_code_object *code = &c->codes[i];
	int64_t last = map_get(&c->last_index, code->addr);

	if (last == i)
		return;
	if (last >= 0 && c->codes[last].print != code->print) {
		code->shares = true;
		code->since = clock_ns(CLOCK_MONOTONIC);
	} else if (last >= 0) {
		code->shares = c->codes[last].shares;
		code->since = c->codes[last].since;
	}
	if (map_put(&c->last_index, code->addr, i))
		code->since = UINT64_MAX;
}

static bool keep_code(struct py_codes *c, const struct py_code_object *code, int64_t *i)
{
	if (*i < 0) {
		if (!py_reserve(&c->codes, c->ncodes, 1, sizeof(*c->codes)) ||
		    map_put(&c->code_index, code_key(code->addr, code->asked), c->ncodes))
			return false;
		*i = c->ncodes++;
	}
	c->codes[*i] = *code;
	c->codes[*i].serial = c->next_serial++;
	c->linetable_bytes += code->linetable_len;
	note_call(c, code);
	return true;
}

const struct py_code_object *py_code_find(struct py_runtime *rt, uint64_t addr, uint64_t print)
{
	struct py_codes *c = rt->codes;
	int64_t i = find_code(c, addr, print);
	struct py_code_object code;

	if (i >= 0 && !c->codes[i].freed)
		return &c->codes[i];
	if (c->ncodes >= MAX_CODES || c->linetable_bytes > MAX_LINETABLES) {
		forget_codes(c);
		i = -ENOENT;
	}
	if (read_code(rt, addr, print, &code) && keep_code(c, &code, &i))
		return &c->codes[i];
	free(code.linetable);
	return NULL;
}

/* Drop what is cached as number `i`. */
static void drop_code(struct py_codes *c, int64_t i)
{
	struct py_code_object *code;

	if (i < 0 || c->codes[i].freed)
		return;
	code = &c->codes[i];
	code->freed = true;
	c->linetable_bytes -= code->linetable_len;
	free(code->linetable);
	code->linetable = NULL;
	code->linetable_len = 0;
	forget_call(c, code);
	c->epoch++;
}

void py_code_freed(struct py_runtime *rt, uint64_t addr)
{
	drop_code(rt->codes, find_code(rt->codes, addr, 0));
}

/* Code of a cell that is run again may get the addresses that it had before. */
static bool is_of_cell(struct py_runtime *rt, const struct py_code_object *code)
{
	return code->file == code->source || py_cell_name(rt, code->source) == code->file;
}

/* Whether what is at the address of `code` now has the same parts and shows the same. */
static bool is_same(struct py_runtime *rt, const struct py_code_object *code)
{
	const struct py_objects *o = &rt->layout.obj;
	uint8_t object[MAX_CODE];
	uint64_t parts[3], print;
	int32_t line;

	if (mem_read(rt->mem, code->addr, object, o->code_size))
		return false;
	parts_of(o, object, parts);
	memcpy(&line, object + o->code_firstlineno, sizeof(line));
	if (line != code->firstlineno || memcmp(parts, code->parts, sizeof(parts)) != 0)
		return false;
	print = py_code_print(rt, code->addr, PRINT_PARTS);
	/* Copies of long texts are not whole. */
	return (print & code->print & PRINT_PARTS) != PRINT_PARTS || print == code->print;
}

void py_code_check(struct py_runtime *rt, uint64_t addr)
{
	int64_t i = find_code(rt->codes, addr, 0);

	if (i >= 0 && !rt->codes->codes[i].freed &&
	    !(is_same(rt, &rt->codes->codes[i]) && is_of_cell(rt, &rt->codes->codes[i])))
		drop_code(rt->codes, i);
}

bool py_code_see(struct py_runtime *rt, uint64_t addr, uint64_t print)
{
	struct py_codes *c = rt->codes;
	int64_t i = print ? find_code(c, addr, print) : -ENOENT;

	if (i >= 0 && !c->codes[i].freed && !is_of_cell(rt, &c->codes[i]))
		drop_code(c, i);
	if (!print || !py_code_find(rt, addr, print))
		return false;
	note_there(c, (uint32_t)find_code(c, addr, print));
	return true;
}

bool py_code_stays(const struct py_runtime *rt, uint64_t addr, uint64_t print, uint64_t ns)
{
	int64_t i = print ? find_code(rt->codes, addr, print) : -ENOENT;
	const struct py_code_object *code = i < 0 ? NULL : &rt->codes->codes[i];
	const uint64_t wait = code && code->shares ? 1000000000 : 0;

	return code && !code->freed && code->since < ns && ns - code->since > wait;
}

int py_code_dealloc_addr(struct py_runtime *rt, uint64_t *addr)
{
	return mem_read_u64(rt->mem, rt->image.code_type + rt->layout.obj.type_dealloc, addr);
}
