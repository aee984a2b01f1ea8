/* Writes captures and statistics of tensors of another process, on command of a test: JSON objects
 * on lines of standard input, answers on lines of standard output. */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "replay/capture/capture_files.h"
#include "replay/numbers/numbers.h"
#include "symbolizer/event/names.h"
#include "symbolizer/ops/schema.h"

/* What the test knows of a tensor besides the event. */
struct known {
	struct tensor t; /* first member: the source finds `more` behind it */
	struct source_tensor more;
};

static struct arena arena;

static int read_process(void *ctx, uint64_t address, void *to, size_t n)
{
	struct iovec local = {to, n}, remote = {(void *)(uintptr_t)address, n};
	ssize_t got = process_vm_readv(*(pid_t *)ctx, &local, 1, &remote, 1, 0);
	return got < 0 ? -errno : (size_t)got < n ? -EFAULT : 0;
}

static void more_of(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	(void)ctx;
	*out = ((const struct known *)t)->more;
}

static int64_t integer(const json_t *o, const char *key, int64_t otherwise)
{
	const json_t *v = json_object_get(o, key);
	return json_is_boolean(v) ? json_is_true(v) : v ? json_integer_value(v) : otherwise;
}

static int64_t *integers(const json_t *list)
{
	size_t i, n = json_array_size(list);
	int64_t *out = arena_alloc(&arena, n * sizeof(*out) + 1);
	for (i = 0; i < n; i++)
		out[i] = json_integer_value(json_array_get(list, i));
	return out;
}

static int dtype_code(const char *name)
{
	for (int i = 0; names_dtype(i); i++)
		if (!strcmp(names_dtype(i), name))
			return i;
	fprintf(stderr, "no dtype %s\n", name);
	exit(2);
}

static struct tensor *tensor_of(const json_t *o)
{
	struct known *k = arena_alloc(&arena, sizeof(*k));
	struct tensor *t = &k->t;
	const json_t *shape = json_object_get(o, "shape");
	t->meta.dtype = (uint16_t)dtype_code(json_string_value(json_object_get(o, "dtype")));
	t->meta.device_type = (int8_t)integer(o, "device", 0);
	t->meta.device_index = (int8_t)integer(o, "index", -1);
	t->meta.layout = (int8_t)integer(o, "layout", 0);
	t->meta.requires_grad = integer(o, "requires_grad", 0);
	t->meta.ndim = (uint8_t)json_array_size(shape);
	t->meta.unknown = (uint8_t)integer(o, "unknown", 0);
	t->meta.numel = integer(o, "numel", 0);
	t->meta.shape = integers(shape);
	t->meta.stride = integers(json_object_get(o, "stride"));
	t->storage_offset = integer(o, "offset", 0);
	t->data_ptr = (uint64_t)integer(o, "data_ptr", 0);
	t->storage = (uint64_t)integer(o, "storage", 0);
	k->more.has_storage_bytes = integer(o, "storage_bytes", -1) >= 0;
	k->more.storage_bytes = (uint64_t)integer(o, "storage_bytes", 0);
	k->more.is_parameter = integer(o, "parameter", 0);
	k->more.conj = integer(o, "conj", 0);
	k->more.neg = integer(o, "neg", 0);
	return t;
}

static double number(const json_t *v)
{
	return json_is_string(v) ? strtod(json_string_value(v), NULL) : json_number_value(v);
}

static struct value value_of(const json_t *o);

static struct value *values_of(const json_t *list)
{
	size_t i, n = json_array_size(list);
	struct value *out = arena_alloc(&arena, n * sizeof(*out) + 1);
	for (i = 0; i < n; i++)
		out[i] = value_of(json_array_get(list, i));
	return out;
}

/* An empty value of the kind named. */
static struct value kind_of(const char *kind)
{
	static const struct {
		const char *kind;
		uint8_t value, scalar;
	} kinds[] = {
	    {"tensor", VALUE_TENSOR, 0},
	    {"list", VALUE_LIST, 0},
	    {"int", VALUE_INT, 0},
	    {"float", VALUE_FLOAT, 0},
	    {"bool", VALUE_BOOL, 0},
	    {"scalar_int", VALUE_SCALAR, VALUE_INT},
	    {"scalar_uint", VALUE_SCALAR, VALUE_INT},
	    {"scalar_float", VALUE_SCALAR, VALUE_FLOAT},
	    {"scalar_bool", VALUE_SCALAR, VALUE_BOOL},
	    {"complex", VALUE_COMPLEX, 0},
	    {"str", VALUE_STRING, 0},
	    {"dtype", VALUE_DTYPE, 0},
	    {"device", VALUE_DEVICE, 0},
	    {"layout", VALUE_LAYOUT, 0},
	    {"memory_format", VALUE_MEMORY_FORMAT, 0},
	    {"generator", VALUE_GENERATOR, 0},
	    {"not_decoded", VALUE_NOT_DECODED, 0},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].kind, kind))
			return (struct value){.kind = kinds[i].value, .scalar = kinds[i].scalar};
	fprintf(stderr, "no kind %s\n", kind);
	exit(2);
}

/* {"KIND": WHAT}; null is None. */
static struct value value_of(const json_t *o)
{
	if (!json_is_object(o))
		return (struct value){.kind = VALUE_NONE};
	const char *kind = json_object_iter_key(json_object_iter((json_t *)o));
	const json_t *what = json_object_get(o, kind);
	struct value v = kind_of(kind);
	switch (v.kind) {
	case VALUE_TENSOR:
		v.tensor = tensor_of(what);
		break;
	case VALUE_LIST:
		v.items = values_of(what);
		v.count = (uint32_t)json_array_size(what);
		break;
	case VALUE_COMPLEX:
		v.c.re = number(json_array_get(what, 0));
		v.c.im = number(json_array_get(what, 1));
		break;
	case VALUE_STRING:
	case VALUE_NOT_DECODED:
		v.str = json_string_value(what);
		v.count = (uint32_t)json_string_length(what);
		break;
	case VALUE_DTYPE:
		v.i = dtype_code(json_string_value(what));
		break;
	case VALUE_DEVICE:
		v.device.type = (int8_t)json_integer_value(json_array_get(what, 0));
		v.device.index = (int8_t)json_integer_value(json_array_get(what, 1));
		break;
	default:
		v.is_unsigned = !strcmp(kind, "scalar_uint");
		if (v.kind == VALUE_FLOAT || v.scalar == VALUE_FLOAT)
			v.f = number(what);
		else if (v.is_unsigned)
			v.i = (int64_t)strtoull(json_string_value(what), NULL, 10);
		else
			v.i = json_is_boolean(what) ? json_is_true(what) : json_integer_value(what);
	}
	return v;
}

/* {"op": schema text, "part": 0 .. 3, "id": n, "pid": n, "args": [...], "results": [...]} */
static json_t *capture(struct capture_files *c, const struct source *src, const json_t *o)
{
	const char *text = json_string_value(json_object_get(o, "op"));
	struct schema schema;
	struct op_desc op = {0};
	struct capture_call call;
	struct capture_saved saved;
	struct err e = {0};

	if (schema_parse(text, strlen(text), "aten", &arena, &schema) ||
	    schema_to_desc(&schema, &arena, &op)) {
		fprintf(stderr, "no schema: %s\n", text);
		exit(2);
	}
	struct op_event ev = {.id = (uint64_t)integer(o, "id", 1),
			      .pid = (int32_t)integer(o, "pid", 1),
			      .op = &op,
			      .args = values_of(json_object_get(o, "args")),
			      .results = values_of(json_object_get(o, "results")),
			      .nargs = (uint16_t)json_array_size(json_object_get(o, "args")),
			      .nresults = (uint16_t)json_array_size(json_object_get(o, "results"))};
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ev.start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	capture_call_of(c, &ev, &call);
	int rc =
	    capture_write(c, &call, (enum capture_part)integer(o, "part", 0), &ev, src, &saved, &e);
	return json_pack("{s:i, s:s, s:I, s:i, s:s, s:s, s:b, s:I}", "rc", rc, "path", saved.path,
			 "bytes", (json_int_t)saved.bytes, "limits", (int)saved.limits, "what",
			 e.what, "hint", e.hint, "over", capture_is_over(rc), "total",
			 (json_int_t)c->bytes);
}

static json_t *real(double d)
{
	return json_sprintf("%a", d);
}

/* {"stats": tensor} */
static json_t *statistics(const struct source *src, const json_t *o)
{
	enum refusal refusal;
	struct stats s = {0};
	struct err e = {0};
	int rc = stats_tensor(tensor_of(json_object_get(o, "stats")), src, &s, &refusal, &e);
	if (rc)
		return json_pack("{s:i, s:s}", "rc", rc, "what", e.what);
	char hash[24];
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)s.hash);
	return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:s, "
			 "s:I, s:I}",
			 "rc", 0, "count", (json_int_t)s.count, "nan", (json_int_t)s.nan, "pos_inf",
			 (json_int_t)s.pos_inf, "neg_inf", (json_int_t)s.neg_inf, "zeros",
			 (json_int_t)s.zeros, "min", real(s.min), "max", real(s.max), "mean",
			 real(s.mean), "std", real(s.std), "l2", real(s.l2), "is_int", s.is_int,
			 "numeric", s.is_numeric, "hash", hash, "min_int", (json_int_t)s.min_int,
			 "max_int", (json_int_t)s.max_int);
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? atoi(argv[1]) : 0;
	struct source src = {.ctx = &pid, .read = read_process, .more = more_of};
	struct capture_files c = {.root = argc > 2 ? argv[2] : "",
				  .max_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0};
	char *line = NULL;
	size_t size = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: capture_tool PID ROOT [MAX_BYTES]\n");
		return 2;
	}
	while (getline(&line, &size, stdin) > 0) {
		json_error_t why;
		json_t *o = json_loads(line, 0, &why);
		if (!o) {
			fprintf(stderr, "%s\n", why.text);
			return 2;
		}
		json_t *answer =
		    json_object_get(o, "stats") ? statistics(&src, o) : capture(&c, &src, o);
		json_dumpf(answer, stdout, JSON_COMPACT);
		putchar('\n');
		fflush(stdout);
		json_decref(answer);
		json_decref(o);
		arena_reset(&arena);
	}
	free(line);
	arena_free(&arena);
	return 0;
}
