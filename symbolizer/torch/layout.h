/* Where the parts of a tensor lie in an unknown build of libtorch: found on the live target from
 * raw snapshots of its tensors, its own type information and its own accessors; no table of
 * versions. */
#ifndef SYMBOLIZER_TORCH_LAYOUT_H
#define SYMBOLIZER_TORCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/torch/accessors.h"

/* Names of C++ classes of objects in the target, by the type information that vtables point to. */

enum { RTTI_ANCESTORS = 12 };

/* A class, named as in its type_info without "_ZTS": "N3c1010TensorImplE". Lives as long as the
 * cache. */
struct rtti_class {
	uint64_t vtable; /* address in the target, as objects hold it */
	const char *name;
	uint8_t
	    nancestors; /* direct and indirect bases, each once, the first RTTI_ANCESTORS of them */
	const char *ancestors[RTTI_ANCESTORS];
	int kind;	   /* for the user of the cache; 0 at first */
	const void *facts; /* likewise, NULL at first: what rtti_keep has returned, say */
};

struct rtti;

/* A cache over the memory of one target; `m` must outlive it. NULL without memory. Not thread-safe.
 */
struct rtti *rtti_new(const struct mem *m);

/* NULL allowed. */
void rtti_free(struct rtti *r);

/* The class whose vtable is at `vtable` (the first word of an object); NULL if that is none. Read
 * once: the Itanium C++ ABI (2.9.4 and 2.9.5) puts offset-to-top and the type_info's address in the
 * two words before a vtable, and in a type_info first its own vtable, then the name, then the
 * bases; all of it is static data. What is not wholly there, as long as the library is being
 * relocated, is read again the next time. */
struct rtti_class *rtti_of_vtable(struct rtti *r, uint64_t vtable);

/* The class of the object at `addr`; NULL if it is none or cannot be read. */
struct rtti_class *rtti_of_object(struct rtti *r, uint64_t addr);

/* Whether `c` (NULL: false) is the class `name` or is derived from it. */
bool rtti_is_a(const struct rtti_class *c, const char *name);

/* A copy of `len` bytes that lives as long as the cache; NULL without memory. */
const void *rtti_keep(struct rtti *r, const void *data, size_t len);

enum {
	SNAPSHOT_FIRST = 0x10, /* offset of the first of the words followed */
	SNAPSHOT_PARTS = 3,
	SNAPSHOT_NODE = 2,
};

/* A TensorImpl as it was at one moment: its first WIN_MAX bytes, and what the words at
 * SNAPSHOT_FIRST, + 8 and + 16 point to. Of what ends before its page does, the page behind may not
 * be there: then there are fewer bytes, and zeros. The payload of ITEM_SNAPSHOT. */
struct tensor_snapshot {
	uint64_t impl_addr;
	uint8_t impl[WIN_MAX];
	uint64_t impl_len; /* bytes of impl that were there */
	struct {
		uint64_t addr;
		uint64_t valid; /* 0: no pointer, or not readable; 1; or SNAPSHOT_NODE + the
				   sequence number of the node that this AutogradMeta holds */
		uint64_t len;	/* bytes that were there */
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
	LAYOUT_FLAGS = 1 << 12, /* no flag of customised shapes was found */
};

/* Byte offsets; LAYOUT_NONE where unknown. */
struct tensor_layout {
	/* in TensorImpl (c10/core/TensorImpl.h) */
	uint16_t storage, autograd_meta; /* pointers */
	uint16_t sizes; /* SizesAndStrides: count word; inline_dims sizes, inline_dims strides, or a
			   pointer to count sizes and count strides when count > inline_dims */
	uint16_t inline_dims;
	uint16_t storage_offset, numel; /* int64_t, in elements */
	uint16_t dtype;			/* uint16_t, caffe2::TypeMeta */
	uint16_t device;		/* int8_t type, int8_t index */
	uint16_t device_engaged;	/* byte: there is a device */
	uint16_t key_set;		/* uint64_t */
	struct flag_tests custom_shape, custom_stride, custom_device, custom_layout;
	/* Without custom_shape or custom_device: the ORDINARY_BYTES bytes around the device, where
	 * the flags and keys are, and the bits that were seen set in tensors that are certainly
	 * ordinary. A tensor with any other bit set may be customised. LAYOUT_NONE: not needed or
	 * not known. */
	uint16_t ordinary_at;
	uint8_t ordinary[ORDINARY_BYTES];
	/* in StorageImpl (c10/core/StorageImpl.h) */
	uint16_t storage_data_ptr, storage_nbytes;
	/* in AutogradMeta (torch/csrc/autograd/variable.h): Node*, bool */
	uint16_t meta_grad_fn, meta_requires_grad;
	/* in DifferentiableViewMeta: TensorImpl* of the base; byte: there is one. A view whose own
	 * requires_grad and grad_fn are unset requires grad if its base does. */
	uint16_t view_base, view_has_base;
	/* in Node (torch/csrc/autograd/function.h): a word that stays the same over a node's life
	 */
	uint16_t node_sequence_nr;

	uint64_t meta_vtable;	    /* first word of an AutogradMeta; 0: none seen yet */
	uint64_t view_vtable;	    /* first word of a DifferentiableViewMeta; 0: none seen yet */
	int32_t requires_grad_slot; /* of their vtables, FACT_NONE if not known */

	uint16_t win_len; /* bytes of a TensorImpl that hold all of the above */
	bool solved;	  /* shapes can be decoded; what else can is told by `unknown` */
	uint32_t unknown; /* LAYOUT_* */
	char source[64];  /* for people: where it came from */
};

/* Find the layout from n snapshots, all of one process. `facts` is the static evidence (NULL:
 * none). Every snapshot counts: a layout is given only if all usable ones agree with it and no
 * other layout does, and where static evidence exists both must agree. Fills all of `out`. Returns
 *   0        everything needed to decode a tensor is known (of `unknown`, at most VIEW, NODE,
 * KEY_SET, NBYTES and FLAGS are set) -EAGAIN  not enough evidence yet: call again with more
 * snapshots. If out->solved, what is known is certain and can be used meanwhile. -EPROTO  the
 * snapshots contradict each other or the static evidence; out->solved as above. -ENOMEM `e` says
 * what is missing. The fields' meaning: c10/core/TensorImpl.h, c10/core/impl/SizesAndStrides.h,
 * c10/core/StorageImpl.h, c10/util/UniqueVoidPtr.h of PyTorch 1.13.1 and 2.13.0. */
int layout_solve(const struct tensor_snapshot *s, size_t n, const struct layout_facts *facts,
		 struct rtti *r, const struct mem *m, struct tensor_layout *out, struct err *e);

/* What accessors_read_meta tells of the class with that vtable, an AutogradMeta or a class derived
 * from it; read once, so that it is known of a process that is gone. `slot` as there. NULL: it is
 * not understood, or not there (yet). Lives as long as `r`. */
const struct meta_facts *layout_meta_facts(struct rtti *r, const struct mem *m, uint64_t vtable,
					   int32_t slot);

/* Learn the offsets within AutogradMeta from the class with vtable `vtable` (first word of such an
 * object), by the code of its requires_grad(). Returns 0 if the layout knows that class now,
 * -ENOENT if it is no AutogradMeta or not understood, -EPROTO if it contradicts what was known
 * (then that is unknown from now on). */
int layout_learn_meta(struct tensor_layout *l, uint64_t vtable, struct rtti *r,
		      const struct mem *m);

/* Learn node_sequence_nr from the live node at `node` (from a grad_fn) and the AccumulateGrad nodes
 * next to it, whose number is always UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp). Call with any number of nodes; returns 0
 * once it is known, else -EAGAIN. */
int layout_learn_node(struct tensor_layout *l, uint64_t node, struct rtti *r, const struct mem *m);

/* How many dimensions a SizesAndStrides holds itself, by the accessors; what it always has been
 * where they do not tell. */
unsigned layout_inline_dims(const struct layout_facts *f);

/* Whether a byte flag of the TensorImpl window says that the property is customised. The flags must
 * lie within the window (they do within win_len). */
bool layout_custom(const struct flag_tests *f, const uint8_t *impl);

#endif
