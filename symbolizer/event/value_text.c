#include "symbolizer/event/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

/* Text builder; output that does not fit is dropped and sets `full`. */
struct buf {
	char *out;
	size_t size, len;
	bool full;
};

static void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	if (b->full)
		return;
	va_start(ap, fmt);
	int n = vsnprintf(b->out + b->len, b->size - b->len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= b->size - b->len) {
		b->full = true;
		b->out[b->len] = '\0';
		return;
	}
	b->len += (size_t)n;
}

static const char *finish(struct buf *b)
{
	if (b->full && b->size > 4) {
		size_t at = b->len < b->size - 4 ? b->len : b->size - 4;
		memcpy(b->out + at, "...", 4);
	}
	return b->out;
}

static void add_dims(struct buf *b, const int64_t *dims, unsigned n)
{
	buf_printf(b, "(");
	for (unsigned i = 0; i < n; i++)
		buf_printf(b, "%s%" PRId64, i ? ", " : "", dims[i]);
	buf_printf(b, n == 1 ? ",)" : ")");
}

const char *value_dims(char *out, size_t size, const int64_t *dims, unsigned n)
{
	struct buf b = {.out = out, .size = size};
	add_dims(&b, dims, n);
	return finish(&b);
}

static void add_name(struct buf *b, const char *what, const char *name, int64_t code)
{
	if (name)
		buf_printf(b, "torch.%s", name);
	else
		buf_printf(b, "%s %" PRId64, what, code);
}

static void add_int(struct buf *b, const struct value *v)
{
	if (v->is_unsigned)
		buf_printf(b, "%" PRIu64, (uint64_t)v->i);
	else
		buf_printf(b, "%" PRId64, v->i);
}

/* One part of a complex number; whole numbers without ".0". */
static const char *part(char *out, size_t size, double f)
{
	text_float(out, size, f);
	size_t n = strlen(out);
	if (n > 2 && !strcmp(out + n - 2, ".0"))
		out[n - 2] = '\0';
	return out;
}

static void add_complex(struct buf *b, const struct value *v)
{
	char re[32], im[32];
	part(re, sizeof(re), v->c.re);
	part(im, sizeof(im), v->c.im);
	if (v->c.re == 0 && !signbit(v->c.re))
		buf_printf(b, "%sj", im);
	else
		buf_printf(b, "(%s%s%sj)", re, im[0] == '-' ? "" : "+", im);
}

static void add_value(struct buf *b, const struct value *v);

static void add_list(struct buf *b, const struct value *v)
{
	buf_printf(b, "[");
	for (uint32_t i = 0; i < v->count && !b->full; i++) {
		if (i)
			buf_printf(b, ", ");
		add_value(b, &v->items[i]);
	}
	buf_printf(b, "]");
}

static void add_tensor(struct buf *b, const struct tensor *t)
{
	buf_printf(b, "Tensor");
	if (!(t->meta.unknown & TENSOR_NO_SHAPE))
		add_dims(b, t->meta.shape, t->meta.ndim);
}

static void add_scalar(struct buf *b, const struct value *v)
{
	char text[32];
	if (v->scalar == VALUE_FLOAT)
		buf_printf(b, "%s", text_float(text, sizeof(text), v->f));
	else if (v->scalar == VALUE_BOOL)
		buf_printf(b, v->i ? "True" : "False");
	else
		add_int(b, v);
}

static void add_object(struct buf *b, const struct value *v)
{
	if (v->kind == VALUE_GENERATOR)
		buf_printf(b, "<generator at 0x%" PRIx64 ">", (uint64_t)v->i);
	else if (v->kind == VALUE_WORK)
		buf_printf(b, "<work%s%s at 0x%" PRIx64 ">", v->work.backend ? " of " : "",
			   v->work.backend ? v->work.backend : "", v->work.address);
	else if (v->group.rank >= 0)
		buf_printf(b, "<process group at 0x%" PRIx64 ", rank %" PRId32 " of %" PRId32 ">",
			   v->group.address, v->group.rank, v->group.size);
	else
		buf_printf(b, "<process group at 0x%" PRIx64 ">", v->group.address);
}

static void add_value(struct buf *b, const struct value *v)
{
	char text[48];
	switch (v->kind) {
	case VALUE_NONE:
		buf_printf(b, "None");
		break;
	case VALUE_TENSOR:
		add_tensor(b, v->tensor);
		break;
	case VALUE_LIST:
		add_list(b, v);
		break;
	case VALUE_INT:
		add_int(b, v);
		break;
	case VALUE_FLOAT:
		buf_printf(b, "%s", text_float(text, sizeof(text), v->f));
		break;
	case VALUE_BOOL:
		buf_printf(b, v->i ? "True" : "False");
		break;
	case VALUE_SCALAR:
		add_scalar(b, v);
		break;
	case VALUE_COMPLEX:
		add_complex(b, v);
		break;
	case VALUE_STRING:
		buf_printf(b, "'%.*s'", (int)(v->count < 65536 ? v->count : 65536), v->str);
		break;
	case VALUE_DTYPE:
		add_name(b, "dtype", names_dtype((int)v->i), v->i);
		break;
	case VALUE_DEVICE:
		buf_printf(b, "%s",
			   names_device(text, sizeof(text), v->device.type, v->device.index));
		break;
	case VALUE_LAYOUT:
		add_name(b, "layout", names_layout((int)v->i), v->i);
		break;
	case VALUE_MEMORY_FORMAT:
		add_name(b, "memory format", names_memory_format((int)v->i), v->i);
		break;
	case VALUE_GENERATOR:
	case VALUE_GROUP:
	case VALUE_WORK:
		add_object(b, v);
		break;
	default:
		buf_printf(b, "not decoded: %s",
			   v->kind == VALUE_NOT_DECODED && v->str ? v->str : "unknown kind");
	}
}

const char *value_text(char *out, size_t size, const struct value *v)
{
	struct buf b = {.out = out, .size = size};
	add_value(&b, v);
	return finish(&b);
}

bool value_has_tensor(const struct value *v)
{
	if (v->kind == VALUE_TENSOR)
		return true;
	if (v->kind != VALUE_LIST)
		return false;
	for (uint32_t i = 0; i < v->count; i++)
		if (value_has_tensor(&v->items[i]))
			return true;
	return false;
}
