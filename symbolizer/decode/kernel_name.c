/* The names of the kernels that inductor generates: two modules may have one of the same code, and
 * with it the same library, by different names. So the name is that of the call. */
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/ops/kernels.h"
#include "symbolizer/python/python.h"

/* The line must call a kernel that the module defines: another program may load the library, too.
 */
static const char *name_of(struct target *t, const struct op_probe *p, const struct py_frame *f,
			   char *name, size_t size)
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
	const struct op_desc *d = registry_named(t->registry, name_of(t, p, f, name, sizeof(name)),
						 OP_FUNCTION, NULL, NULL);
	if (!d)
		return &p->desc;
	*known = (struct kernel_call){f, p, d};
	return d;
}
