/* The memory layout of tensors and other objects in an unknown build of libtorch: learned from raw
 * snapshots of live tensors, C++ RTTI and libtorch's own accessors, without a table of versions. */
#ifndef SYMBOLIZER_TORCH_LAYOUT_H
#define SYMBOLIZER_TORCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/process.h"

/* Facts about the tensor layout, read from the machine code of the target's own exported accessors
 * ("static evidence"). Any fact may be missing: a build may lack the accessor, or compile it to
 * code that is not understood. */

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

/* Decodes the raw bytes of a tensor into its metadata, by the layout of its process. */

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

/* Interned strings (c10::Symbol, ATen/core/symbol.h) of a live process: numbers for qualified
 * names, kept in one table of libtorch. */

enum { INTERNED_PLACES = 8 };

/* Candidate addresses of the table in libtorch_cpu's file: those that the code of the exported
 * c10::Symbol::toUnqualString refers to. Fills out, the rest with zeros. */
void interned_places(struct elf_file *cpu, uint64_t out[INTERNED_PLACES]);

struct interned;

/* `m` is borrowed; `cow` as in std_string_size; `places` are the candidates at their run-time
 * addresses. NULL when out of memory. Free with interned_free (NULL allowed). */
struct interned *interned_new(const struct mem *m, bool cow,
			      const uint64_t places[INTERNED_PLACES]);
void interned_free(struct interned *s);

/* The unqualified name of symbol `id`, "N" of dimname::N; valid until interned_free. NULL when `s`
 * is NULL, the table is not found, or it has no such symbol in that domain. */
const char *interned_name(struct interned *s, uint32_t id, const char *domain);

/* Whether the table cannot be read any more: the process has ended. */
bool interned_is_gone(const struct interned *s);

/* Maps autograd nodes to the forward events that created them, from an op's exit until its
 * backward. */

/* Kept small: there may be hundreds of thousands. */
struct node_owner {
	uint64_t addr;	   /* address of the Node */
	uint64_t seq : 40; /* its sequence number, which distinguishes it from a later node at the
			      same address */
	uint64_t tid : 24; /* the creating thread, which numbers its nodes; below 2^22 */
	uint64_t event;	   /* id of the forward event */
	const struct py_stack *stack;
};

/* The node with a sequence number. */
struct node_seq {
	uint64_t seq, addr; /* addr 0: empty slot; ~0: nodes of several threads have it */
	uint64_t tid;
};

struct node_table {
	struct node_owner *slots; /* by address */
	struct node_seq *seqs;	  /* by sequence number, as many; NULL: not in use */
	size_t size, used, nseqs; /* size: 0 or a power of two */
};

/* Zero-initialise. Bounded: when full, the older half is dropped, since nodes that never run
 * backward would accumulate. */
struct node_map {
	struct node_table young, old;
	bool by_seq; /* node_map_find_seq was called */
};

/* Add `o`, unless the same node (address and sequence number) is present: the innermost op that
 * returned a node created it, and exits first. 0 or -ENOMEM. */
int node_map_add(struct node_map *m, const struct node_owner *o);

/* The owner of the node at `addr` with `seq`, NULL if unknown. Valid until the next add. */
const struct node_owner *node_map_find(const struct node_map *m, uint64_t addr, uint64_t seq);

/* The owner of the only node with `seq`, whatever its address; NULL if there is none, or several
 * threads have one: each thread numbers its own nodes. */
const struct node_owner *node_map_find_seq(struct node_map *m, uint64_t seq);

void node_map_free(struct node_map *m);

/* Offset of a node's sequence number, from the code that sets it. */

/* Byte offset of sequence_nr_ within torch::autograd::Node, 0 if undetermined. The constructor of
 * AccumulateGrad sets it, and no other word, to UINT64_MAX
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_seq_offset(struct elf_file *cpu);

/* Byte offset of `variable`, the tensor whose gradient it accumulates, within AccumulateGrad; 0 if
 * undetermined. Its constructor moves its only argument there
 * (torch/csrc/autograd/functions/accumulate_grad.cpp, 1.13.1 and 2.13.0). */
uint16_t node_variable_offset(struct elf_file *cpu);

/* Groups of torch.distributed in the memory of a process: objects of C++ by their classes (RTTI),
 * and members found by the code of small functions. */

/* member_x86_64.c: which member of its object a function of `len` bytes at `code` (NULL: none)
 * returns, as its offset in bytes; MEMBER_NOT_KNOWN: it is not such a function. */

enum { MEMBER_NOT_KNOWN = -1 };

/* That only returns a member of 8 bytes. */
int32_t member_returned(const uint8_t *code, size_t len);

/* That returns a member of 4 bytes and adds 1 to it, as c10d::ProcessGroupGloo::nextTag. */
int32_t member_counted_up(const uint8_t *code, size_t len);

enum { TORCH_OBJECT_MAX = 4096 };

/* The memory of one object. */
struct torch_object {
	uint64_t at, word[TORCH_OBJECT_MAX / 8];
	size_t n;
	const struct rtti_class *class;
};

/* Read the one at `at`, which malloc of glibc has given out. False if it is implausible, as with
 * another malloc, or its class is not known. */
bool torch_object_read(const struct mem *m, struct rtti *r, uint64_t at, struct torch_object *out);

/* Whether what is at `at` is of the class, or of one derived from it. */
bool torch_object_is_a(struct rtti *r, uint64_t at, const char *class);

/* The addresses of the backends of a ProcessGroup, at most `most`. Returns their number; 0
 * before 2.x, where the group is the backend itself. */
size_t process_group_backends(const struct mem *m, struct rtti *r, const struct torch_object *group,
			      uint64_t *out, size_t most);

/* The offset in ProcessGroupGloo of collectiveCounter_, by the code of nextTag() in libtorch_cpu;
 * MEMBER_NOT_KNOWN. */
int32_t process_group_counter(struct elf_file *cpu);

/* How many collectives the ProcessGroup at `group` has begun, of Gloo: what collectiveCounter_
 * says, which is the same on all its ranks. 0; -ENODATA: another backend, or not known; -ENOMEM;
 * -errno. */
int process_group_count(const struct mem *m, struct rtti *r, struct elf_file *cpu, uint64_t group,
			uint32_t *count);

#endif
