#include "symbolizer/ops/filter.h"

#include <stdio.h>
#include <string.h>

#include "symbolizer/event/event.h"
#include "symbolizer/ops/internal.h"

/* Modules whose name prefixes that of the operator: torch.linalg.det is aten::linalg_det. */
static const char *const prefixed[] = {"linalg", "fft", "special"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool equal(struct name_span a, const char *b)
{
	return strlen(b) == a.len && !memcmp(a.s, b, a.len);
}

/* "add_" of "aten::add_.Tensor"; empty for other namespaces. */
static struct name_span base_of(const struct op_desc *op)
{
	struct name_span b = {"", 0};
	if (op->kind == OP_DISPATCHED && !strncmp(op->name, "aten::", 6)) {
		b.s = op->name + 6;
		b.len = strcspn(b.s, ".");
	}
	return b;
}

bool opnames_is_ditorch(const char *name)
{
	return !strncmp(name, "torch.", 6);
}

static bool is_named(const struct op_desc *op, struct name_span base)
{
	struct name_span b = base_of(op);
	return b.len == base.len && b.len && !memcmp(b.s, base.s, b.len);
}

static bool is_any_of(const struct op_desc *op, const char *names)
{
	while (*names) {
		struct name_span one = {names, strcspn(names, " ")};
		if (is_named(op, one))
			return true;
		names += one.len;
		names += strspn(names, " ");
	}
	return false;
}

/* "linear" of "torch.nn.functional.linear", with the module before it ("nn.functional", or nothing)
 * in `module`. An attribute getter, "torch.Tensor.T.__get__", is treated as the attribute. */
static struct name_span split(struct name_span name, struct name_span *module)
{
	static const char get[] = ".__get__";
	if (name.len > sizeof(get) &&
	    !memcmp(name.s + name.len - sizeof(get) + 1, get, sizeof(get) - 1))
		name.len -= sizeof(get) - 1;
	struct name_span last = {name.s + name.len, 0};
	while (last.s > name.s && last.s[-1] != '.')
		last.s--, last.len++;
	size_t skip = strlen("torch.");
	*module = (struct name_span){name.s + skip, 0};
	if ((size_t)(last.s - name.s) > skip)
		module->len = (size_t)(last.s - name.s) - skip - 1;
	return last;
}

static bool is_prefixed(struct name_span module)
{
	for (size_t i = 0; i < COUNT(prefixed); i++)
		if (equal(module, prefixed[i]))
			return true;
	return false;
}

bool opnames_match(const char *name, const struct op_desc *op)
{
	struct name_span module, whole = {name, strlen(name)};
	char buffer[256];

	if (!opnames_is_ditorch(name) || op->kind != OP_DISPATCHED)
		return false;
	if (opnames_ditorch(op, buffer, sizeof(buffer)) && !strcmp(name, buffer))
		return true;
	struct name_span last = split(whole, &module);
	whole.len = (size_t)(last.s + last.len - name);
	const char *others = python_name_operators(whole);
	if (others)
		return is_any_of(op, others);
	if (is_prefixed(module)) {
		int n = snprintf(buffer, sizeof(buffer), "%.*s_%.*s", (int)module.len, module.s,
				 (int)last.len, last.s);
		return n > 0 && (size_t)n < sizeof(buffer) &&
		       is_named(op, (struct name_span){buffer, (size_t)n});
	}
	if (is_named(op, last))
		return true;
	struct name_span b = base_of(op);
	return equal(module, "nn.functional") && b.len == last.len + 1 && b.s[last.len] == '_' &&
	       !memcmp(b.s, last.s, last.len);
}

/* Operators without a public name in Python: "_to_copy", "tanh_backward". */
static bool is_internal(struct name_span b)
{
	bool is_dunder = b.len > 4 && !memcmp(b.s, "__", 2) && !memcmp(b.s + b.len - 2, "__", 2);
	char text[256];
	if (b.len >= sizeof(text))
		return true;
	memcpy(text, b.s, b.len);
	text[b.len] = '\0';
	return (b.s[0] == '_' && !is_dunder) || strstr(text, "_backward");
}

static const char *module_of(struct name_span *b)
{
	struct name_span bare = {b->s, b->len - 1};

	for (size_t i = 0; i < COUNT(prefixed); i++) {
		size_t n = strlen(prefixed[i]);
		if (b->len > n + 1 && !memcmp(b->s, prefixed[i], n) && b->s[n] == '_') {
			b->s += n + 1;
			b->len -= n + 1;
			return prefixed[i];
		}
	}
	if (python_name_is_functional(*b))
		return "nn.functional";
	if (b->s[b->len - 1] == '_' && python_name_is_functional(bare)) {
		*b = bare; /* torch.nn.functional.silu(x, inplace=True) */
		return "nn.functional";
	}
	if (b->s[b->len - 1] == '_' || python_name_is_method(*b))
		return "Tensor";
	return "";
}

bool opnames_ditorch(const struct op_desc *op, char *out, size_t size)
{
	struct name_span b = base_of(op);

	if (size)
		out[0] = '\0';
	if (!b.len || !size)
		return false;
	const char *other = python_name_other(b);
	if (other) {
		int n = snprintf(out, size, "%s", other);
		return n > 0 && (size_t)n < size;
	}
	if (is_internal(b))
		return false;
	const char *module = module_of(&b);
	int n = snprintf(out, size, "torch.%s%s%.*s", module, *module ? "." : "", (int)b.len, b.s);
	return n > 0 && (size_t)n < size;
}

/* The dispatcher's name, or a backward node's own name. */
static bool name_of_operator(const struct op_desc *op, char *out, size_t size)
{
	const char *colons = strstr(op->name, "::");
	int n;

	if (op->kind != OP_DISPATCHED || !colons)
		n = snprintf(out, size, "%s", op->name);
	else
		n = snprintf(out, size, "torch.ops.%.*s.%s%s", (int)(colons - op->name), op->name,
			     colons + 2, strchr(colons + 2, '.') ? "" : ".default");
	if (n > 0 && (size_t)n < size)
		return true;
	if (size)
		out[0] = '\0';
	return false;
}

bool opnames_python(const struct op_desc *op, char *out, size_t size)
{
	return opnames_ditorch(op, out, size) || name_of_operator(op, out, size);
}

/* Whether Python's function differs from the operator in name only: not if its arguments differ, or
 * an argument makes it in-place. */
static bool is_operator_itself(struct name_span b)
{
	struct name_span bare = {b.s, b.len - 1};

	if (python_name_other(b) || python_name_takes_others(b))
		return false;
	return b.s[b.len - 1] != '_' || python_name_is_functional(b) ||
	       !python_name_is_functional(bare);
}

bool opnames_callable(const struct op_desc *op, char *out, size_t size)
{
	struct name_span b = base_of(op);

	if (b.len && is_operator_itself(b) && opnames_ditorch(op, out, size))
		return true;
	return name_of_operator(op, out, size);
}
