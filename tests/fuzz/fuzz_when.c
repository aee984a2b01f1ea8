/* Fuzzes conditions and the calls they are evaluated on. The input is a condition, a NUL, and bytes
 * for values. A decision at the entry must hold at the exit, and the position of an error must be
 * within the text. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/when/when.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct source {
	const unsigned char *p, *end;
	struct arena arena;
};

static unsigned byte(struct source *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static int64_t number(struct source *s)
{
	int64_t n = 0;
	for (unsigned i = byte(s) % 9; i; i--)
		n = (int64_t)((uint64_t)n << 8 | byte(s));
	return n;
}

static const int64_t *numbers(struct source *s, unsigned n)
{
	int64_t *out = arena_alloc(&s->arena, n * sizeof(*out) + 1);
	for (unsigned i = 0; out && i < n; i++)
		out[i] = number(s);
	return out;
}

static struct tensor *make_tensor(struct source *s)
{
	struct tensor *t = arena_alloc(&s->arena, sizeof(*t));
	if (!t)
		abort();
	t->meta.unknown = (uint8_t)byte(s);
	t->meta.dtype = (uint16_t)byte(s);
	t->meta.device_type = (int8_t)byte(s);
	t->meta.device_index = (int8_t)byte(s);
	t->meta.layout = (int8_t)byte(s);
	t->meta.requires_grad = byte(s) & 1;
	t->meta.ndim = (uint8_t)(byte(s) % 6);
	t->meta.numel = number(s);
	t->meta.shape = numbers(s, t->meta.ndim);
	t->meta.stride = numbers(s, t->meta.ndim);
	t->data_ptr = (uint64_t)number(s);
	return t;
}

static struct value *make_values(struct source *s, unsigned n, unsigned depth);

static struct value make_value(struct source *s, unsigned depth)
{
	struct value v = {.kind = (uint8_t)(byte(s) % (VALUE_NOT_DECODED + 2))};
	switch (v.kind) {
	case VALUE_TENSOR:
		v.tensor = make_tensor(s);
		break;
	case VALUE_LIST:
		v.count = depth ? byte(s) % 5 : 0;
		v.items = make_values(s, v.count, depth - 1);
		break;
	case VALUE_FLOAT:
		v.f = (double)number(s) / (double)number(s);
		break;
	case VALUE_COMPLEX:
		v.c.re = (double)number(s);
		v.c.im = (double)number(s);
		break;
	case VALUE_SCALAR:
		v.scalar = (uint8_t)(VALUE_INT + byte(s) % 3);
		v.is_unsigned = byte(s) & 1;
		v.i = number(s);
		break;
	case VALUE_STRING:
		v.str = "a\0norm.py";
		v.count = byte(s) % 10;
		break;
	case VALUE_DEVICE:
		v.device.type = (int8_t)byte(s);
		v.device.index = (int8_t)byte(s);
		break;
	case VALUE_NOT_DECODED:
		v.str = "why not";
		break;
	default:
		v.i = number(s);
	}
	return v;
}

static struct value *make_values(struct source *s, unsigned n, unsigned depth)
{
	struct value *v = arena_alloc(&s->arena, n * sizeof(*v) + 1);
	if (!v)
		abort();
	for (unsigned i = 0; i < n; i++)
		v[i] = make_value(s, depth);
	return v;
}

static const struct op_arg names[] = {
    {"self", "Tensor"}, {"other", "Scalar?"}, {"tensors", "Tensor?[]"}, {"a", ""},
    {"b", "Any"},	{"c", "int[2]"},      {"out", "Tensor(a!)"},	{"x", "(Tensor, str)[]"}};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static struct op_desc make_op(struct source *s)
{
	struct op_desc op = {.name = "aten::add.out", .schema = byte(s) & 1 ? "add" : ""};
	op.nargs = (uint16_t)(byte(s) % (NAMES + 1));
	op.nresults = (uint16_t)(byte(s) % 3);
	op.args = names;
	op.results = names + byte(s) % (NAMES - 2);
	return op;
}

static struct op_event make_event(struct source *s, const struct op_desc *op,
				  const struct py_stack *stack)
{
	struct op_event ev = {.op = op, .id = 7, .start_ns = 5, .pid = 41, .tid = 42};
	ev.nargs = byte(s) % 4 ? op->nargs : 0;
	ev.nresults = byte(s) % 4 ? op->nresults : 0;
	ev.args = make_values(s, ev.nargs, 3);
	ev.results = make_values(s, ev.nresults, 3);
	ev.where_stack = byte(s) & 1 ? stack : NULL;
	ev.phase = byte(s) & 1 ? PHASE_BACKWARD : PHASE_FORWARD;
	ev.thrown = byte(s) & 1;
	ev.end_ns = (uint64_t)number(s);
	ev.forward_id = (uint64_t)number(s);
	return ev;
}

static void check_error(const struct err *e)
{
	if (!e->what[0] || !e->hint[0] || e->quote_at + (size_t)e->quote_len > strlen(e->quote))
		abort();
}

static void evaluate(struct when *w, struct source *s)
{
	static const struct py_frame frame = {.file = "/x/norm.py", .function = "f", .line = 3};
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)];
	struct py_stack *stack = (struct py_stack *)memory;
	struct op_desc op = make_op(s);
	const struct op_desc *ops = &op;
	struct err e = {0};
	stack->depth = 1;
	stack->frames[0] = &frame;
	struct op_event ev = make_event(s, &op, stack);
	if (when_check(w, &ops, 1, byte(s) & 1, &e))
		check_error(&e);
	enum when_result entry = when_eval(w, &ev, WHEN_AT_ENTRY);
	enum when_result exit = when_eval(w, &ev, WHEN_AT_EXIT);
	if (exit == WHEN_LATER || (entry != WHEN_LATER && entry != exit))
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	size_t len = strnlen((const char *)data, size);
	struct source s = {.p = data + (len < size ? len + 1 : size), .end = data + size};
	char *text = malloc(len + 1);
	struct when *w = NULL;
	struct err e = {0};

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = '\0';
	if (when_compile("--when", text, &w, &e))
		check_error(&e);
	else
		evaluate(w, &s);
	when_free(w);
	free(text);
	arena_free(&s.arena);
	return 0;
}
