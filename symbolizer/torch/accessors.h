/* Facts about the layout of tensors, read from the machine code of the target's own exported
 * accessors
 * ("static evidence"). Every fact may be missing: a build may lack the accessor or have compiled it
 * in a way that is not understood. */
#ifndef SYMBOLIZER_TORCH_ACCESSORS_H
#define SYMBOLIZER_TORCH_ACCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/mem.h"

/* The code of the target's libraries. `code_of` gives the bytes of the defined function `mangled`
 * (of whichever of libc10, libtorch_cpu, libtorch_python has it) and their number, NULL when there
 * is none. The bytes must stay valid during the call that got the code_source. */
struct code_source {
	const uint8_t *(*code_of)(void *ctx, const char *mangled, size_t *len);
	void *ctx;
};

enum {
	FACT_NONE = -1,	    /* no accessor tells */
	FACT_CONFLICT = -2, /* two accessors tell different things */
};

/* A bit-field of a TensorImpl that says that a property is not the plain field but asked of
 * somebody else (a subclass, Python, symbolic shapes): so if ((byte at off) >> shift & mask) > max.
 */
struct flag_test {
	uint16_t off;
	uint8_t shift, mask, max;
};

enum { FLAGS_MAX = 6 };

struct flag_tests {
	uint8_t n;
	bool complete; /* overrides by C++ subclasses are among them */
	struct flag_test test[FLAGS_MAX];
};

/* Byte offsets within the object named, or FACT_NONE or FACT_CONFLICT. */
struct layout_facts {
	/* TensorImpl */
	int32_t storage, autograd_meta;
	int32_t sizes;	    /* the count word of SizesAndStrides */
	int32_t sizes_data; /* the first inline size */
	int32_t strides_data;
	int32_t storage_offset, numel, dtype, device, device_engaged, key_set;
	/* Bits, not bytes, from the start of TensorImpl: its memory holds the conjugate, the
	 * negative, of its values */
	int32_t conj_bit, neg_bit;
	/* StorageImpl */
	int32_t data_ptr;
	/* byte offset in AutogradMeta's vtable of requires_grad() */
	int32_t requires_grad_slot;
	/* torch::autograd::PyNode: the PyObject* of the Python function */
	int32_t pynode_obj;
	struct flag_tests custom_shape, custom_stride, custom_device, custom_layout;
};

/* Fills all of `out`. Sources: c10/core/TensorImpl.h, c10/core/TensorImpl.cpp (the *_custom
 * methods), ATen/native/TensorProperties.cpp, torch/csrc/autograd/python_function.cpp;
 * PyTorch 1.13.1 and 2.13.0. */
void accessors_read(const struct code_source *src, struct layout_facts *out);

/* Offsets within an AutogradMeta object, or FACT_NONE. */
struct meta_facts {
	bool is_view; /* the class looks at a base tensor, too (DifferentiableViewMeta) */
	int32_t grad_fn, requires_grad;
	int32_t view_base, view_has_base; /* TensorImpl* of the base; byte that says there is one */
};

/* What AutogradMeta::requires_grad() of the class with vtable `vtable` looks at, by its code in the
 * live target. `slot` is layout_facts.requires_grad_slot or FACT_NONE (then the first slots are
 * searched). Returns 0 or -ENOENT when it is not understood. */
int accessors_read_meta(const struct mem *m, uint64_t vtable, int32_t slot, struct meta_facts *out);

/* Offset of the PyObject* in torch::autograd::PyNode, by the code of the virtual name() in the live
 * target; `vtable` is the first word of such a node. For builds that do not export PyNode::name.
 * FACT_NONE or FACT_CONFLICT when it is not understood. */
int32_t accessors_read_pynode(const struct mem *m, uint64_t vtable);

#endif
