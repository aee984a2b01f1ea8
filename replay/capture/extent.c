#include <string.h>

#include "replay/capture/source.h"
#include "symbolizer/event/names.h"

const char *refusal_text(enum refusal r)
{
	static const char *const texts[REFUSAL_COUNT] = {
	    [REFUSED_NOT] = "nothing",
	    [REFUSED_UNKNOWN] = "a tensor of which not all is known",
	    [REFUSED_STRANGE] = "a tensor whose shape, stride and storage contradict each other",
	    [REFUSED_DEVICE] = "memory on a device",
	    [REFUSED_LAYOUT] = "a layout that is not strided",
	    [REFUSED_NO_MEMORY] = "a tensor without memory",
	    [REFUSED_NOT_DECODED] = "a value that was not decoded",
	    [REFUSED_LAZY] = "a tensor that may be a lazy conjugate or negative",
	    [REFUSED_GENERATOR] = "a random number generator",
	    [REFUSED_TEXT] = "a string that is not UTF-8",
	};
	return texts[r < REFUSAL_COUNT ? r : REFUSED_UNKNOWN];
}

/* c10::DeviceType, c10::Layout */
enum { CPU = 0, META = 14, STRIDED = 0 };

/* Everything that the bytes of a tensor depend on. */
static const unsigned needed = TENSOR_NO_SHAPE | TENSOR_NO_STRIDE | TENSOR_NO_DTYPE |
			       TENSOR_NO_DEVICE | TENSOR_NO_LAYOUT | TENSOR_NO_DATA_PTR |
			       TENSOR_NO_OFFSET;

/* Elements from the first of the storage to behind the last of the tensor; -1: contradictions. */
static int64_t reach(const struct tensor *t)
{
	int64_t numel = 1, last = t->storage_offset, step;
	bool empty = false;

	if (t->storage_offset < 0)
		return -1;
	for (unsigned i = 0; i < t->meta.ndim; i++) {
		int64_t size = t->meta.shape[i], stride = t->meta.stride[i];
		if (size < 0 || __builtin_mul_overflow(numel, size, &numel))
			return -1;
		empty |= size == 0;
		if (size > 1 && (stride < 0 || __builtin_mul_overflow(size - 1, stride, &step) ||
				 __builtin_add_overflow(last, step, &last)))
			return -1;
	}
	if (empty)
		return t->meta.numel == 0 ? 0 : -1;
	if (numel != t->meta.numel || __builtin_add_overflow(last, 1, &last))
		return -1;
	return last;
}

enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out)
{
	const struct tensor_meta *m = &t->meta;
	*out = (struct extent){.itemsize = (unsigned)names_itemsize(m->dtype)};
	out->is_meta = !(m->unknown & TENSOR_NO_DEVICE) && m->device_type == META;
	if (m->unknown & needed & (out->is_meta ? ~(unsigned)TENSOR_NO_DATA_PTR : ~0u))
		return REFUSED_UNKNOWN;
	if (!out->itemsize || m->ndim > TENSOR_MAX_DIM)
		return REFUSED_UNKNOWN;
	if (m->layout != STRIDED)
		return REFUSED_LAYOUT;
	if (m->device_type != CPU && !out->is_meta && !devices)
		return REFUSED_DEVICE;
	int64_t n = reach(t);
	if (n < 0)
		return REFUSED_STRANGE;
	if (n == 0 || out->is_meta)
		return REFUSED_NOT;
	if (!t->data_ptr)
		return REFUSED_NO_MEMORY;
	uint64_t before;
	if (__builtin_mul_overflow((uint64_t)n, out->itemsize, &out->bytes) ||
	    __builtin_mul_overflow((uint64_t)t->storage_offset, out->itemsize, &before) ||
	    before > t->data_ptr || out->bytes > INT64_MAX)
		return REFUSED_STRANGE;
	int per_byte = names_elements_per_byte(m->dtype);
	out->bytes = (out->bytes + (uint64_t)per_byte - 1) / (uint64_t)per_byte;
	out->base = t->data_ptr - before;
	return REFUSED_NOT;
}
