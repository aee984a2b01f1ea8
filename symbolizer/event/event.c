#include "symbolizer/event/event.h"

#include <stddef.h>

const struct py_frame *py_stack_where(const struct py_stack *s)
{
	if (!s || s->depth == 0)
		return NULL;
	for (uint16_t i = 0; i < s->depth; i++)
		if (!s->frames[i]->is_torch && s->frames[i]->line > 0)
			return s->frames[i];
	return s->frames[0];
}
