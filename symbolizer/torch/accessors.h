/* Facts about the tensor layout, read from the machine code of the target's own exported accessors
 * ("static evidence"). Any fact may be missing: a build may lack the accessor, or compile it to
 * code that is not understood. */
#ifndef SYMBOLIZER_TORCH_ACCESSORS_H
#define SYMBOLIZER_TORCH_ACCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/mem.h"

/* The code of the target's libraries. `code_of` returns the code of the defined function `mangled`
 * (from whichever of libc10, libtorch_cpu, libtorch_python has it) and its length in bytes, NULL if
 * there is none. The bytes are borrowed for the duration of the call that was given the
 * code_source. */
struct code_source {
	const uint8_t *(*code_of)(void *ctx, const char *mangled, size_t *len);
	void *ctx;
};

enum {
	FACT_NONE = -1,	    /* no accessor gives it */
	FACT_CONFLICT = -2, /* two accessors disagree */
};

/* A bit-field of a TensorImpl that marks a property as customised: not the plain field, but
 * provided by a subclass, Python or symbolic shapes. Set if ((byte at off) >> shift & mask) > max.
 */
struct flag_test {
	uint16_t off;
	uint8_t shift, mask, max;
};

enum { FLAGS_MAX = 6 };

struct flag_tests {
	uint8_t n;
	bool complete; /* covers overrides by C++ subclasses */
	struct flag_test test[FLAGS_MAX];
};

/* Byte offsets within the named object, or FACT_NONE or FACT_CONFLICT. */
struct layout_facts {
	/* TensorImpl */
	int32_t storage, autograd_meta;
	int32_t sizes;	    /* the count word of SizesAndStrides */
	int32_t sizes_data; /* the first inline size */
	int32_t strides_data;
	int32_t storage_offset, numel, dtype, device, device_engaged, key_set;
	/* Bit offsets, not bytes: set if memory holds the conjugate or the negative of the values
	 */
	int32_t conj_bit, neg_bit;
	/* StorageImpl */
	int32_t data_ptr;
	/* byte offset in AutogradMeta's vtable of requires_grad() */
	int32_t requires_grad_slot;
	/* torch::autograd::PyNode: the PyObject* of the Python function */
	int32_t pynode_obj;
	struct flag_tests custom_shape, custom_stride, custom_device, custom_layout;
};

/* Read all facts into `out`. Sources: c10/core/TensorImpl.h, c10/core/TensorImpl.cpp (the *_custom
 * methods), ATen/native/TensorProperties.cpp, torch/csrc/autograd/python_function.cpp;
 * PyTorch 1.13.1 and 2.13.0. */
void accessors_read(const struct code_source *src, struct layout_facts *out);

/* Offsets within an AutogradMeta object, or FACT_NONE. */
struct meta_facts {
	bool is_view; /* the class also consults a base tensor (DifferentiableViewMeta) */
	int32_t grad_fn, requires_grad;
	int32_t view_base, view_has_base; /* TensorImpl* of the base; byte: there is one */
};

/* Read the fields that AutogradMeta::requires_grad() of the class with vtable `vtable` uses, from
 * its code in the live target. `slot` is layout_facts.requires_grad_slot, or FACT_NONE to search
 * the first slots. Returns 0, or -ENOENT when the code is not understood. */
int accessors_read_meta(const struct mem *m, uint64_t vtable, int32_t slot, struct meta_facts *out);

/* Byte offset of the PyObject* in torch::autograd::PyNode, from the code of the virtual name() in
 * the live target; `vtable` is the first word of such a node. For builds that do not export
 * PyNode::name. FACT_NONE or FACT_CONFLICT when the code is not understood. */
int32_t accessors_read_pynode(const struct mem *m, uint64_t vtable);

#endif
