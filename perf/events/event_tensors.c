#include "perf/events/print_event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/event/names.h"

enum { SHOWN_MAX = 16 };

struct line {
	char *out;
	size_t size, len;
	unsigned shown;
};

typedef void tensor_fn(struct line *l, const struct tensor_meta *m); /* m is NULL if not decoded */

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(l->out + l->len, l->size - l->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->len += (size_t)n < l->size - l->len ? (size_t)n : l->size - l->len - 1;
}

static void put_shape(struct line *l, const struct tensor_meta *m)
{
	if (l->shown++ >= SHOWN_MAX) {
		if (l->shown == SHOWN_MAX + 1)
			put(l, " ...");
		return;
	}
	put(l, "%s", l->len ? " " : "");
	if (!m || m->unknown & TENSOR_NO_SHAPE) {
		put(l, "?");
		return;
	}
	put(l, "[");
	for (unsigned i = 0; i < m->ndim; i++)
		put(l, "%s%" PRId64, i ? "," : "", m->shape[i]);
	put(l, "]");
}

/* Append the word, unless the line has it already. */
static void put_once(struct line *l, const char *word)
{
	size_t n = strlen(word);
	for (const char *s = l->out; (s = strstr(s, word)); s += n)
		if ((s == l->out || s[-1] == ' ') && (s[n] == '\0' || s[n] == ' '))
			return;
	put(l, "%s%s", l->len ? " " : "", word);
}

static void put_dtype(struct line *l, const struct tensor_meta *m)
{
	char text[32];
	if (!m || m->unknown & TENSOR_NO_DTYPE) {
		put_once(l, "?");
		return;
	}
	const char *name = names_dtype(m->dtype);
	snprintf(text, sizeof(text), "dtype %u", m->dtype);
	put_once(l, name ? name : text);
}

static void put_device(struct line *l, const struct tensor_meta *m)
{
	char text[32];
	put_once(l, m && !(m->unknown & TENSOR_NO_DEVICE)
			? names_device(text, sizeof(text), m->device_type, m->device_index)
			: "?");
}

static void each(struct line *l, const struct value *v, tensor_fn *fn)
{
	if (v->kind == VALUE_TENSOR)
		fn(l, &v->tensor->meta);
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		each(l, &v->items[i], fn);
}

/* Whether the schema declares the argument as a tensor: an argument that was not decoded is shown
 * only then. */
static bool is_tensor(const struct op_event *ev, uint16_t i)
{
	return i >= ev->op->nargs || strstr(ev->op->args[i].type, "Tensor");
}

static const char *all(char *out, size_t size, const struct op_event *ev, tensor_fn *fn)
{
	struct line l = {.out = out, .size = size};
	out[0] = '\0';
	for (uint16_t i = 0; i < ev->nargs; i++) {
		if (ev->args[i].kind == VALUE_NOT_DECODED && is_tensor(ev, i))
			fn(&l, NULL);
		else
			each(&l, &ev->args[i], fn);
	}
	return out;
}

const char *event_shapes(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_shape);
}

const char *event_dtypes(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_dtype);
}

const char *event_devices(char *out, size_t size, const struct op_event *ev)
{
	return all(out, size, ev, put_device);
}
