/* The memory layout of tensors in an unknown build of libtorch: learned from raw snapshots of live
 * tensors, C++ RTTI and libtorch's own accessors, without a table of versions. */
#ifndef SYMBOLIZER_TORCH_LAYOUT_H
#define SYMBOLIZER_TORCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/torch/accessors.h"

/* RTTI: names of the C++ classes of the target's objects, from the type_info that vtables point to.
 */

enum { RTTI_ANCESTORS = 12 };

/* A class, named as in its type_info without "_ZTS": "N3c1010TensorImplE". Lives as long as the
 * cache. */
struct rtti_class {
	uint64_t vtable; /* address in the target, as objects hold it */
	const char *name;
	uint8_t
	    nancestors; /* direct and indirect bases without duplicates, at most RTTI_ANCESTORS */
	const char *ancestors[RTTI_ANCESTORS];
	int kind;	   /* for the cache's user; initially 0 */
	const void *facts; /* likewise, initially NULL; e.g. from rtti_keep */
};

struct rtti;

/* A cache over the memory of one target; `m` is borrowed. NULL when out of memory. Not thread-safe.
 */
struct rtti *rtti_new(const struct mem *m);

void rtti_free(struct rtti *r);

/* The class whose vtable is at `vtable` (the first word of an object); NULL if it is not a vtable.
 * Itanium C++ ABI 2.9.4 and 2.9.5: the two words before a vtable are offset-to-top and the address
 * of the type_info; a type_info holds its own vtable, the name, the bases. All of it is static data
 * and read once; incomplete data, as while the library is being relocated, is not cached. */
struct rtti_class *rtti_of_vtable(struct rtti *r, uint64_t vtable);

/* The class of the object at `addr`; NULL if it is not an object or cannot be read. */
struct rtti_class *rtti_of_object(struct rtti *r, uint64_t addr);

/* Whether `c` (NULL: false) is the class `name` or derived from it. */
bool rtti_is_a(const struct rtti_class *c, const char *name);

/* A copy of `len` bytes that lives as long as the cache; NULL when out of memory. */
const void *rtti_keep(struct rtti *r, const void *data, size_t len);

enum {
	SNAPSHOT_FIRST = 0x10, /* offset of the first word followed */
	SNAPSHOT_PARTS = 3,
	SNAPSHOT_NODE = 2,
};

/* A TensorImpl at one moment: its first WIN_MAX bytes, and the objects that the words at
 * SNAPSHOT_FIRST, + 8 and + 16 point to. Zero-filled where the following page is not mapped. The
 * payload of ITEM_SNAPSHOT. */
struct tensor_snapshot {
	uint64_t impl_addr;
	uint8_t impl[WIN_MAX];
	uint64_t impl_len; /* bytes of impl that were read */
	struct {
		uint64_t addr;
		uint64_t valid; /* 0: not a pointer, or unreadable; 1: read; or SNAPSHOT_NODE + the
				   sequence number of the node of this AutogradMeta */
		uint64_t len;	/* bytes that were read */
		uint8_t bytes[PART_MAX];
	} at[SNAPSHOT_PARTS];
};

enum { LAYOUT_NONE = 0xffff, INLINE_DIMS_MAX = 8, ORDINARY_BYTES = 16 };

/* Facts that may be unknown, in tensor_layout.unknown. */
enum {
	LAYOUT_STORAGE = 1 << 0,
	LAYOUT_AUTOGRAD = 1 << 1,
	LAYOUT_SIZES = 1 << 2, /* sizes, strides, numel */
	LAYOUT_OFFSET = 1 << 3,
	LAYOUT_DTYPE = 1 << 4,
	LAYOUT_DEVICE = 1 << 5,
	LAYOUT_DATA_PTR = 1 << 6,
	LAYOUT_META = 1 << 7, /* grad_fn and requires_grad in AutogradMeta */
	LAYOUT_VIEW = 1 << 8, /* the base of a view in DifferentiableViewMeta */
	LAYOUT_NODE = 1 << 9, /* sequence_nr in Node */
	LAYOUT_KEY_SET = 1 << 10,
	LAYOUT_NBYTES = 1 << 11,
	LAYOUT_FLAGS = 1 << 12, /* no flag for customised shapes found */
};

/* Byte offsets; LAYOUT_NONE where unknown. */
struct tensor_layout {
	/* in TensorImpl (c10/core/TensorImpl.h) */
	uint16_t storage, autograd_meta; /* pointers */
	uint16_t sizes; /* SizesAndStrides: count word; inline_dims sizes and strides, or, if count
			   is larger, a pointer to count sizes and count strides */
	uint16_t inline_dims;
	uint16_t storage_offset, numel; /* int64_t, in elements */
	uint16_t dtype;			/* uint16_t, caffe2::TypeMeta */
	uint16_t device;		/* int8_t type, int8_t index */
	uint16_t device_engaged;	/* byte: there is a device */
	uint16_t key_set;		/* uint64_t */
	struct flag_tests custom_shape, custom_stride, custom_device, custom_layout;
	/* Fallback without custom_shape or custom_device: ORDINARY_BYTES bytes around the device,
	 * where the flags and keys are, with the bits seen set in tensors known to be ordinary. A
	 * tensor with any other bit set may be customised. LAYOUT_NONE: not needed or unknown. */
	uint16_t ordinary_at;
	uint8_t ordinary[ORDINARY_BYTES];
	/* in StorageImpl (c10/core/StorageImpl.h) */
	uint16_t storage_data_ptr, storage_nbytes;
	/* in AutogradMeta (torch/csrc/autograd/variable.h): Node*, bool */
	uint16_t meta_grad_fn, meta_requires_grad;
	/* in DifferentiableViewMeta: TensorImpl* of the base; byte: there is one. A view with
	 * neither requires_grad nor grad_fn set requires grad if its base does. */
	uint16_t view_base, view_has_base;
	/* in Node (torch/csrc/autograd/function.h): constant over a node's life */
	uint16_t node_sequence_nr;

	uint64_t meta_vtable;	    /* first word of an AutogradMeta; 0: none seen yet */
	uint64_t view_vtable;	    /* first word of a DifferentiableViewMeta; 0: none seen yet */
	int32_t requires_grad_slot; /* in their vtables; FACT_NONE: unknown */

	uint16_t win_len; /* bytes of a TensorImpl that hold all of the above */
	bool solved;	  /* shapes can be decoded; for the rest see `unknown` */
	uint32_t unknown; /* LAYOUT_* */
	char source[64];  /* the evidence, for users */
};

/* Solve for the layout from `n` snapshots of one process. `facts` is the static evidence (NULL:
 * none). A layout is accepted only if all usable snapshots agree with it, no other layout fits, and
 * it matches the static evidence where there is any. Fills all of `out`; `e` says what is missing.
 * Returns 0 when all that is needed to decode a tensor is known (`unknown` has at most VIEW, NODE,
 * KEY_SET, NBYTES and FLAGS); -EAGAIN when there is not enough evidence: call again with more
 * snapshots; -EPROTO when snapshots contradict each other or the static evidence; -ENOMEM. After
 * -EAGAIN and -EPROTO, if out->solved, what is known is certain and can be used.
 *
 * Fields: c10/core/TensorImpl.h, c10/core/impl/SizesAndStrides.h, c10/core/StorageImpl.h,
 * c10/util/UniqueVoidPtr.h of PyTorch 1.13.1 and 2.13.0. */
int layout_solve(const struct tensor_snapshot *s, size_t n, const struct layout_facts *facts,
		 struct rtti *r, const struct mem *m, struct tensor_layout *out, struct err *e);

/* Cached accessors_read_meta for the class with that vtable, AutogradMeta or derived from it;
 * remains available after the process has ended. `slot` as there. NULL: not understood, or not
 * there (yet). Lives as long as `r`. */
const struct meta_facts *layout_meta_facts(struct rtti *r, const struct mem *m, uint64_t vtable,
					   int32_t slot);

/* Learn the offsets within AutogradMeta from the code of requires_grad() of the class with vtable
 * `vtable` (first word of such an object). Returns 0 if the layout now covers that class, -ENOENT
 * if it is not an AutogradMeta or not understood, -EPROTO if it contradicts what was known, which
 * then becomes unknown. */
int layout_learn_meta(struct tensor_layout *l, uint64_t vtable, struct rtti *r,
		      const struct mem *m);

/* Learn node_sequence_nr from the live node at `node` (a grad_fn) and the AccumulateGrad nodes its
 * edges lead to, whose number is always UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp). May be called with any number of nodes;
 * returns 0 once it is known, else -EAGAIN. */
int layout_learn_node(struct tensor_layout *l, uint64_t node, struct rtti *r, const struct mem *m);

/* Number of dimensions a SizesAndStrides stores inline, by the accessors; without them, the number
 * it has always been. */
unsigned layout_inline_dims(const struct layout_facts *f);

/* Whether any flag in the TensorImpl window says that the property is customised. The flags must
 * lie within the window; those within win_len do. */
bool layout_custom(const struct flag_tests *f, const uint8_t *impl);

#endif
