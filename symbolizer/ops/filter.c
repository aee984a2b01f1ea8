#include "symbolizer/ops/filter.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/event/event.h"

struct filter_item {
	char *text;
	bool is_regex;
	regex_t re; /* when is_regex */
};

enum { NAME_SIZE = 512 };

/* The components of "ns::base.overload". */
struct parts {
	const char *ns, *base, *overload; /* NULL if absent */
	size_t ns_len, base_len;
};

static struct parts parts_of(const char *name)
{
	struct parts p = {.base = name};
	const char *colons = strstr(name, "::");
	if (colons) {
		p.ns = name;
		p.ns_len = (size_t)(colons - name);
		p.base = colons + 2;
	}
	p.base_len = strcspn(p.base, ".");
	if (p.base[p.base_len] == '.')
		p.overload = p.base + p.base_len + 1;
	return p;
}

static bool same(const char *a, size_t na, const char *b, size_t nb)
{
	return na == nb && !memcmp(a, b, na);
}

static bool matches_operator(const char *item, const char *name)
{
	struct parts want = parts_of(item), have = parts_of(name);
	if (want.ns && !(have.ns && same(want.ns, want.ns_len, have.ns, have.ns_len)))
		return false;
	if (!same(want.base, want.base_len, have.base, have.base_len))
		return false;
	return !want.overload || (have.overload && !strcmp(want.overload, have.overload));
}

static bool matches_node(const char *item, const char *name)
{
	static const char space[] = "torch::autograd::";
	const size_t n = strlen(item), len = sizeof(space) - 1;
	if (!strcmp(item, op_text(name)))
		return true;
	if (!strncmp(name, space, len) && strncmp(item, space, len))
		name += len;
	if (strncmp(item, name, n))
		return false;
	return !name[n] ||
	       (n > 8 && !strcmp(item + n - 8, "Backward") && isdigit((unsigned char)name[n]));
}

static bool matches_name(const char *item, const struct op_desc *op)
{
	if (opnames_is_ditorch(item))
		return opnames_match(item, op);
	if (op->kind == OP_DISPATCHED)
		return matches_operator(item, op->name);
	return matches_node(item, op->name);
}

static bool finds(const regex_t *re, const char *s)
{
	return !regexec(re, s, 0, NULL, 0);
}

static bool finds_ditorch(const regex_t *re, const struct op_desc *op)
{
	char name[NAME_SIZE], method[NAME_SIZE + 16];
	if (!opnames_ditorch(op, name, sizeof(name)))
		return false;
	if (finds(re, name))
		return true;
	snprintf(method, sizeof(method), "torch.Tensor.%s", strrchr(name, '.') + 1);
	return opnames_match(method, op) && finds(re, method);
}

static bool matches_regex(const regex_t *re, const struct op_desc *op)
{
	char bare[NAME_SIZE];

	if (finds(re, op->name))
		return true;
	if (op->kind != OP_DISPATCHED)
		return false;
	struct parts p = parts_of(op->name);
	if (p.ns && finds(re, p.base))
		return true;
	snprintf(bare, sizeof(bare), "%.*s", (int)(p.base + p.base_len - op->name), op->name);
	return finds(re, bare) || finds(re, strrchr(bare, ':') ? strrchr(bare, ':') + 1 : bare) ||
	       finds_ditorch(re, op);
}

static bool item_matches(const struct filter_item *i, const struct op_desc *op)
{
	return i->is_regex ? matches_regex(&i->re, op) : matches_name(i->text, op);
}

bool filter_match(const struct filter *f, const struct op_desc *op)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_matches(&f->items[i], op))
			return true;
	return false;
}

/* The "]" that closes the bracket expression at s (in "[^]a]" the first "]" is a member), or the
 * end. */
static const char *bracket_end(const char *s)
{
	s += s[1] == '^' ? 2 : 1;
	if (*s == ']')
		s++;
	return s + strcspn(s, "]");
}

/* The end of the item at s: a comma at its nesting level, or the end of the list. */
static const char *item_end(const char *s)
{
	for (int depth = 0; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '[')
			s = bracket_end(s);
		else if (*s == '(' || *s == '{')
			depth++;
		else if ((*s == ')' || *s == '}') && depth > 0)
			depth--;
		else if (*s == ',' && depth == 0)
			break;
		if (!*s)
			break;
	}
	return s;
}

static int bad_regex(const char *option, const struct filter_item *i, size_t at, int code,
		     struct err *e)
{
	char why[128];
	regerror(code, &i->re, why, sizeof(why));
	err_set(e, -EINVAL, "%s: item %zu, \"%s\", is not a regular expression: %s", option, at,
		i->text, why);
	err_hint(e, "put a backslash before a character that is meant literally: add\\(; names "
		    "need none: aten::add.Tensor");
	return -EINVAL;
}

static int add_item(const char *s, size_t len, struct filter *out, struct err *e)
{
	struct filter_item *items = reallocarray(out->items, out->n + 1, sizeof(*items));
	if (!items)
		return err_set(e, -ENOMEM, "%s: out of memory", out->option);
	out->items = items;
	struct filter_item *i = &items[out->n];
	*i = (struct filter_item){.text = strndup(s, len)};
	if (!i->text)
		return err_set(e, -ENOMEM, "%s: out of memory", out->option);
	if (strpbrk(i->text, "*+?()[]{}|^$\\")) {
		int code = regcomp(&i->re, i->text, REG_EXTENDED | REG_NOSUB);
		if (code) {
			bad_regex(out->option, i, out->n + 1, code, e);
			free(i->text);
			return -EINVAL;
		}
		i->is_regex = true;
	}
	out->n++;
	return 0;
}

int filter_compile(const char *option, const char *list, struct filter *out, struct err *e)
{
	*out = (struct filter){.option = option};
	for (const char *s = list; *s;) {
		const char *end = item_end(s), *next = *end ? end + 1 : end;
		while (s < end && isspace((unsigned char)*s))
			s++;
		while (end > s && isspace((unsigned char)end[-1]))
			end--;
		int rc = end > s ? add_item(s, (size_t)(end - s), out, e) : 0;
		if (rc) {
			filter_free(out);
			return rc;
		}
		s = next;
	}
	if (out->n)
		return 0;
	err_set(e, -EINVAL, "%s: the list is empty", option);
	err_hint(e, "%s add,aten::mm.out,torch.nn.functional.linear,'_foreach_.*'", option);
	return -EINVAL;
}

static bool matches_any(const struct filter_item *i, const struct op_desc *const *ops, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (item_matches(i, ops[k]))
			return true;
	return false;
}

/* What is called boxed alone, and met when it is (op_mark). */
static bool matches_mark(const struct filter_item *i)
{
	static const char *const names[] = {
	    "profiler::_record_function_enter", "profiler::_record_function_enter_new",
	    "profiler::_record_function_exit", "profiler::_record_function_exit._RecordFunction"};
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
		if (item_matches(i, &(struct op_desc){.name = names[k], .schema = ""}))
			return true;
	return false;
}

/* The namespace with which an item begins; an expression may begin with a literal one. */
static struct parts namespace_of(const struct filter_item *i)
{
	struct parts want = parts_of(i->text + (i->is_regex && i->text[0] == '^'));
	for (size_t k = 0; k < want.ns_len && i->is_regex; k++)
		if (!isalnum((unsigned char)want.ns[k]) && want.ns[k] != '_')
			return (struct parts){0};
	return want;
}

/* Whether the item may match an op that is not known yet. */
static bool may_come(const struct filter_item *i, const struct op_desc *const *ops, size_t n)
{
	/* Kernels of inductor (torch/_inductor/codegen/cpp.py); collectives, which are not among
	 * the symbols of a libtorch. */
	static const char *const later[] = {"cpp_fused", "c10d::"};
	struct parts want = namespace_of(i);
	size_t len = strlen(i->text);

	for (size_t k = 0; k < sizeof(later) / sizeof(later[0]); k++)
		if (!strncmp(i->text + (i->text[0] == '^'), later[k], strlen(later[k])))
			return true;
	if (matches_mark(i))
		return true;
	if (!i->is_regex && len > 8 && !strcmp(i->text + len - 8, "Backward"))
		return true;
	for (size_t k = 0; want.ns && k < n; k++) {
		struct parts have = parts_of(ops[k]->name);
		if (have.ns && same(want.ns, want.ns_len, have.ns, have.ns_len))
			return false;
	}
	return want.ns != NULL;
}

/* The name of an op in the style of `item`: with or without namespace and overload, or as ditorch
 * does. */
static void written_like(const char *item, const struct op_desc *op, char *out, size_t size)
{
	if (opnames_is_ditorch(item)) {
		opnames_ditorch(op, out, size);
		return;
	}
	struct parts want = parts_of(item), have = parts_of(op->name);
	const char *begin = want.ns ? op->name : have.base;
	const char *end = have.base + have.base_len;
	if (want.overload)
		end += strlen(end);
	snprintf(out, size, "%.*s", (int)(end - begin), begin);
}

static int matches_nothing(const struct filter *f, const struct filter_item *i,
			   const struct op_desc *const *ops, size_t n, struct err *e)
{
	struct suggestions near = {.word = i->text};
	char name[NAME_SIZE], list[256];

	for (size_t k = 0; k < n && !i->is_regex; k++) {
		written_like(i->text, ops[k], name, sizeof(name));
		suggestions_add(&near, name);
	}
	err_set(e, -ENOENT, "%s: \"%s\" matches none of the %zu ops", f->option, i->text, n);
	if (suggestions_list(&near, list, sizeof(list)))
		err_hint(e, "near it: %s", list);
	else if (i->is_regex)
		err_hint(e, "an expression is searched for in names like aten::add.Tensor and "
			    "AddmmBackward0; "
			    "'.*' alone matches all of them");
	else
		err_hint(e, "names are written like add, aten::add.Tensor, "
			    "torch.nn.functional.linear or AddmmBackward0");
	return -ENOENT;
}

int filter_check(const struct filter *f, const struct op_desc *const *ops, size_t n, struct err *e)
{
	for (size_t i = 0; i < f->n; i++)
		if (!matches_any(&f->items[i], ops, n) && !may_come(&f->items[i], ops, n))
			return matches_nothing(f, &f->items[i], ops, n, e);
	return 0;
}

bool filter_may_come(const struct filter *f, const struct op_desc *const *ops, size_t n)
{
	for (size_t i = 0; i < f->n; i++)
		if (!matches_any(&f->items[i], ops, n) && may_come(&f->items[i], ops, n))
			return true;
	return false;
}

void filter_free(struct filter *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->items[i].text);
		if (f->items[i].is_regex)
			regfree(&f->items[i].re);
	}
	free(f->items);
	*f = (struct filter){.option = f->option};
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && !strcmp(s + n - k, end);
}

/* Whether `f` is the step of an optimizer of PyTorch, or the wrapper around the step of any
 * optimizer (profile_hook_step, torch/optim/optimizer.py). Function names may be qualified. */
static bool is_step(const struct py_frame *f)
{
	const char *dot = f->function ? strrchr(f->function, '.') : NULL;
	const char *name = dot ? dot + 1 : f->function;
	if (!f->file || !name)
		return false;
	if (ends_with(f->file, "torch/optim/optimizer.py"))
		return !strcmp(name, "wrapper") || !strcmp(name, "step");
	return strstr(f->file, "torch/optim/") && !ends_with(f->file, "/lr_scheduler.py") &&
	       !strcmp(name, "step");
}

/* The frame that called the optimizer, the innermost one outside it: its id + 1; 0 when `stack` is
 * not in an optimizer's step; UINT32_MAX when the stack does not reach that far. */
static uint32_t caller_of_step(const struct py_stack *stack)
{
	uint16_t i, last = 0;
	bool found = false;
	for (i = 0; stack && i < stack->depth; i++)
		if (is_step(stack->frames[i])) {
			found = true;
			last = i;
		}
	if (!found)
		return 0;
	for (i = (uint16_t)(last + 1); i < stack->depth; i++)
		if (!stack->frames[i]->is_torch)
			return stack->frames[i]->id + 1;
	return UINT32_MAX;
}

static void end_step(struct steps *s)
{
	s->done++;
	s->inside = false;
}

static void see_optimizer(struct steps *s, const struct op_event *ev)
{
	uint32_t caller = caller_of_step(ev->stack);
	if (s->tid && s->tid != ev->tid)
		return;
	if (s->inside && caller != s->caller)
		end_step(s);
	if (!s->inside && caller) {
		s->inside = true;
		s->caller = caller;
		s->tid = ev->tid;
	}
}

static void see_op(struct steps *s, const struct op_event *ev)
{
	if (s->inside && s->tid == ev->tid && ev->depth <= s->depth)
		end_step(s);
	if (!s->inside && filter_match(s->op, ev->op)) {
		s->inside = true;
		s->tid = ev->tid;
		s->depth = ev->depth;
	}
}

uint64_t steps_see(struct steps *s, const struct op_event *ev)
{
	if (s->op)
		see_op(s, ev);
	else
		see_optimizer(s, ev);
	return s->done + 1;
}
