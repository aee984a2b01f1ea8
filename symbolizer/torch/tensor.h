/* Decodes the raw bytes of a tensor into its metadata, by the layout of its process. */
#ifndef SYMBOLIZER_TORCH_TENSOR_H
#define SYMBOLIZER_TORCH_TENSOR_H

#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/torch/layout.h"

/* Gradient state of a view's base. */
enum base_state {
	BASE_NOT_READ,
	BASE_NO_GRAD, /* no base, or it does not require grad */
	BASE_REQUIRES_GRAD,
};

/* Bytes of a tensor read from the target, all at one moment. Pointers are borrowed; any may be NULL
 * (not read). Offsets are those of the layout the bytes were read with. */
struct tensor_raw {
	uint64_t impl_addr;
	const uint8_t *impl; /* from the start of the TensorImpl, impl_len bytes */
	uint32_t impl_len;
	uint32_t storage_from, storage_len;
	const uint8_t *storage; /* StorageImpl from storage_from on */
	uint32_t meta_from, meta_len;
	const uint8_t *meta;  /* AutogradMeta from meta_from on */
	uint64_t meta_vtable; /* its first word, for when meta_from is not 0; 0: not read */
	uint8_t base; /* enum base_state; used only for views without a gradient of their own */
	const uint8_t *outline; /* the 16 * ndim bytes of sizes and strides that are not inline */
	uint32_t outline_len;
};

enum {
	TENSOR_OK = 0,
	TENSOR_UNDEFINED = 1, /* an undefined at::Tensor; only out->impl is set */
};

struct tensor_extra {
	uint64_t grad_fn;    /* Node address; 0: none or unknown */
	uint64_t learn_meta; /* vtable of a class the layout lacks, for layout_learn_meta; else 0 */
	const char *class_name; /* of the TensorImpl, mangled; NULL: unknown */
};

/* Decode `raw` into `out`; shape and stride are allocated in `a`. Uncertain facts are flagged in
 * out->meta.unknown and left 0. requires_grad and data_ptr are as Tensor.requires_grad and
 * Tensor.data_ptr() return them (torch/csrc/autograd/variable.h, AutogradMeta::requires_grad;
 * c10/core/TensorImpl.h, TensorImpl::data: 0 for an empty tensor). `x` may be NULL. Returns
 * TENSOR_OK, TENSOR_UNDEFINED, -EINVAL when the bytes are not a TensorImpl, or -ENOMEM. */
int tensor_decode(const struct tensor_layout *l, const struct tensor_raw *raw, struct rtti *r,
		  struct arena *a, struct tensor *out, struct tensor_extra *x);

/* View of a snapshot as raw bytes, borrowed from `s`. */
struct tensor_raw tensor_raw_of_snapshot(const struct tensor_layout *l,
					 const struct tensor_snapshot *s);

#endif
