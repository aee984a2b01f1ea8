/* The op that a hit belongs to. */
#define _GNU_SOURCE
#include "symbolizer/decode/target.h"

#include <string.h>

#include "symbolizer/ops/ops.h"
#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"

static const struct op_desc *named(struct target *t, const char *name, enum op_kind kind)
{
	static const char *const in[] = {"grad_outputs", NULL}, *const out[] = {"grad_inputs",
										NULL};
	bool node = kind == OP_BACKWARD;
	return registry_named(t->registry, name, kind, node ? in : NULL, node ? out : NULL);
}

static const struct op_desc *named_by_type(struct target *t, const struct op_probe *p,
					   uint64_t type, enum op_kind kind)
{
	char name[256];
	struct type_name *known = &t->types[(type >> 4) % TYPE_SLOTS];
	if (type && known->type == type)
		return known->desc;
	if (!t->py || !type || py_type_name(t->py, type, name, sizeof(name)) <= 0)
		return &p->desc;
	const struct op_desc *d = named(t, name, kind);
	if (!d)
		return &p->desc;
	*known = (struct type_name){type, d};
	return d;
}

static bool words_of(const struct items *it, unsigned read, uint64_t *w, unsigned n)
{
	const struct item *i = items_find(it, read, NULL);
	if (!i || i->kind != ITEM_DATA || i->len < n * sizeof(*w))
		return false;
	memcpy(w, i + 1, n * sizeof(*w));
	return true;
}

/* A string that was read completely and can be part of a name: printable ASCII without spaces.
 * Returns its length, or -1. */
static int string_of(const struct items *it, unsigned read, const char **text)
{
	const struct item *i = items_find(it, read, NULL);
	if (!i || i->kind != ITEM_STRING || i->aux != i->len)
		return -1;
	*text = (const char *)(i + 1);
	for (unsigned k = 0; k < i->len; k++)
		if ((*text)[k] <= ' ' || (*text)[k] > '~')
			return -1;
	return i->len;
}

/* The name of the operator, as read at the hit. */
static bool boxed_name(const struct items *it, char out[OPERATOR_NAME_MAX])
{
	const char *name, *overload;
	int n = string_of(it, BOXED_NAME, &name), k = string_of(it, BOXED_OVERLOAD, &overload);
	if (n <= 0 || k < 0 || !memmem(name, (size_t)n, "::", 2) || n + k + 2 > OPERATOR_NAME_MAX)
		return false;
	memcpy(out, name, (size_t)n);
	if (k)
		out[n++] = '.';
	memcpy(out + n, overload, (size_t)k);
	out[n + k] = '\0';
	return true;
}

/* Add the library's own schema of an operator to the registry: the process, or the operator, may be
 * gone. */
static void learn_schema(struct target *t, const char *name)
{
	for (uint32_t i = 0; i < t->ops->n; i++) {
		const struct op_desc *d = &t->ops->ops[i].desc;
		if (t->ops->ops[i].role != ROLE_CALL || strcmp(d->name, name) || !d->schema[0])
			continue;
		registry_add_library_schema(t->registry, d->schema);
		return;
	}
}

static const struct registered_op *boxed_op(struct target *t, const struct items *it)
{
	uint64_t w[HANDLE_WORDS] = {0};
	char text[OPERATOR_NAME_MAX];
	const struct registered_op *op = boxed_seen_find(t->boxed, it);
	if (op)
		return op;
	words_of(it, BOXED_DEF, &w[3], 2);
	if (!words_of(it, BOXED_DATA, w, 1) || !words_of(it, BOXED_HANDLE, &w[1], 2))
		return NULL;
	const char *name = boxed_name(it, text) ? text : NULL;
	if (name && !registry_knows(t->registry, w, name))
		learn_schema(t, name);
	op = registry_find(t->registry, w, name);
	if (op && name && !op->name_only)
		boxed_seen_add(t->boxed, it, op);
	return op;
}

static const struct op_desc *named_by_text(struct target *t, const struct op_probe *p,
					   const struct items *it, unsigned read, enum op_kind kind)
{
	const char *text;
	char name[OPERATOR_NAME_MAX];
	int n = string_of(it, read, &text);
	if (n <= 0 || n >= (int)sizeof(name))
		return &p->desc;
	memcpy(name, text, (size_t)n);
	name[n] = '\0';
	const struct op_desc *d = named(t, name, kind);
	return d ? d : &p->desc;
}

void target_defined(struct target *t, const struct items *it)
{
	const struct item *i = items_next(it, NULL);
	if (i && i->kind == ITEM_STRING && i->aux == i->len)
		registry_add_schema(t->registry, (const char *)(i + 1), i->len);
}

const struct op_desc *target_identify(struct target *t, const struct op_probe *p,
				      const struct items *it, const struct registered_op **reg)
{
	uint64_t w[2];
	*reg = NULL;
	switch (p->role) {
	case ROLE_BOXED:
	case ROLE_INLINED:
		*reg = boxed_op(t, it);
		return *reg ? &(*reg)->desc : &p->desc;
	case ROLE_PY_NODE:
		return named_by_type(t, p, words_of(it, PY_NODE_READ, w, 2) ? w[1] : 0,
				     OP_BACKWARD);
	case ROLE_NAMED:
		return named_by_text(t, p, it, NAMED_READ, OP_FUNCTION);
	case ROLE_NAMED_NODE:
		return named_by_text(t, p, it, NAMED_NODE_READ, OP_BACKWARD);
	case ROLE_FUNCTION:
		return named_by_type(t, p, words_of(it, 0, w, 1) ? w[0] : 0, OP_FUNCTION);
	default:
		return &p->desc;
	}
}

/* The names of the kernels that inductor generates: two modules may have one of the same code, and
 * with it the same library, by different names. So the name is that of the call. */

/* The line must call a kernel that the module defines: another program may load the library, too.
 */
static const char *kernel_name_of(struct target *t, const struct op_probe *p,
				  const struct py_frame *f, char *name, size_t size)
{
	char definition[512];
	const char *text = f && t->py ? py_frame_text(t->py, f) : NULL;
	return text && kernel_called(text, name, size) &&
		       kernel_definition(name, definition, sizeof(definition)) &&
		       py_source_begins(t->py, f->file, definition)
		   ? name
		   : p->desc.name;
}

const struct op_desc *target_kernel(struct target *t, const struct op_probe *p,
				    const struct py_stack *stack)
{
	char name[OPERATOR_NAME_MAX];
	const struct py_frame *f = stack && stack->depth ? stack->frames[0] : NULL;
	struct kernel_call *known =
	    &t->kernels[(((uintptr_t)f >> 4) ^ ((uintptr_t)p >> 4)) % KERNEL_CALLS];
	if (known->desc && known->frame == f && known->probe == p)
		return known->desc;
	const struct op_desc *d = registry_named(
	    t->registry, kernel_name_of(t, p, f, name, sizeof(name)), OP_FUNCTION, NULL, NULL);
	if (!d)
		return &p->desc;
	*known = (struct kernel_call){f, p, d};
	return d;
}
