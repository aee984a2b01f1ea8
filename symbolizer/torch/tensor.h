/* From the raw bytes of a tensor to its metadata, by the layout found for its process. */
#ifndef SYMBOLIZER_TORCH_TENSOR_H
#define SYMBOLIZER_TORCH_TENSOR_H

#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/torch/layout.h"

/* What is known of the base of a view. */
enum base_state {
	BASE_NOT_READ,
	BASE_NO_GRAD, /* there is none, or it does not require grad */
	BASE_REQUIRES_GRAD,
};

/* The bytes that were read in the target, all at one moment. Pointers are not owned; any may be
 * NULL (not read). Offsets are those of the layout the bytes were read with. */
struct tensor_raw {
	uint64_t impl_addr;
	const uint8_t *impl; /* from the start of the TensorImpl, impl_len bytes */
	uint32_t impl_len;
	uint32_t storage_from, storage_len;
	const uint8_t *storage; /* StorageImpl from storage_from on */
	uint32_t meta_from, meta_len;
	const uint8_t *meta;  /* AutogradMeta from meta_from on */
	uint64_t meta_vtable; /* its first word; 0: not read. Not needed when meta_from is 0 */
	uint8_t base; /* enum base_state; only looked at for views without a grad of their own */
	const uint8_t *outline; /* 16 * ndim bytes that the word behind the count points to */
	uint32_t outline_len;
};

enum {
	TENSOR_OK = 0,
	TENSOR_UNDEFINED = 1, /* an undefined at::Tensor: there is no tensor, `out` has only impl */
};

struct tensor_extra {
	uint64_t grad_fn;    /* Node address; 0: none or not known */
	uint64_t learn_meta; /* a vtable to give to layout_learn_meta: the layout lacks this class;
				else 0 */
	const char *class_name; /* of the TensorImpl, mangled; NULL: not known */
};

/* Decode `raw` into `out` (shape and stride are allocated in `a`). What cannot be told for certain
 * is marked in out->meta.unknown and left 0. requires_grad and data_ptr are as Tensor.requires_grad
 * and Tensor.data_ptr() give them (torch/csrc/autograd/variable.h, AutogradMeta::requires_grad;
 * c10/core/TensorImpl.h, TensorImpl::data: 0 for an empty tensor). `x` may be NULL. Returns
 * TENSOR_OK, TENSOR_UNDEFINED, -EINVAL when the bytes are no TensorImpl at all, or -ENOMEM. */
int tensor_decode(const struct tensor_layout *l, const struct tensor_raw *raw, struct rtti *r,
		  struct arena *a, struct tensor *out, struct tensor_extra *x);

/* A snapshot seen as raw bytes, which stay those of `s`. */
struct tensor_raw tensor_raw_of_snapshot(const struct tensor_layout *l,
					 const struct tensor_snapshot *s);

#endif
