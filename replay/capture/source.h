/* Where the bytes of tensors come from, and what of a tensor the event does not say. */
#ifndef REPLAY_CAPTURE_SOURCE_H
#define REPLAY_CAPTURE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"

/* Why a value cannot be written or measured. */

enum refusal {
	REFUSED_NOT,
	REFUSED_UNKNOWN,     /* a fact of the tensor is not known */
	REFUSED_STRANGE,     /* facts of the tensor that contradict each other */
	REFUSED_DEVICE,	     /* its memory is on a device */
	REFUSED_LAYOUT,	     /* it is not strided: sparse, nested, mkldnn */
	REFUSED_NO_MEMORY,   /* it has elements and no memory */
	REFUSED_NOT_DECODED, /* the value could not be decoded */
	REFUSED_LAZY,	     /* the memory may hold the conjugate or negative of the values */
	REFUSED_GENERATOR,   /* a random number generator, whose state is not known */
	REFUSED_TEXT,	     /* a string that is not UTF-8, which Python cannot have */
	REFUSAL_COUNT,
};

/* A few words for a summary, "memory on a device". Static. */
const char *refusal_text(enum refusal r);

struct tensor;

/* Zero-initialised: nothing more is known. */
struct source_tensor {
	bool has_storage_bytes;
	uint64_t storage_bytes; /* size of the whole storage */
	bool is_parameter;	/* a torch.nn.Parameter */
	bool conj, neg;	  /* Tensor.is_conj(), Tensor.is_neg(): the memory holds the conjugate, the
			     negative, of the values */
	bool may_be_lazy; /* it cannot be told whether it has one of these bits */
};

struct source {
	void *ctx;
	/* Copy `n` bytes at `address` of the target to `to`, all of them. Returns 0 or -errno. */
	int (*read)(void *ctx, uint64_t address, void *to, size_t n);
	/* What more is known of `t`; `out` is zero-initialised. NULL: nothing ever. Called once or
	 * more for each tensor. */
	void (*more)(void *ctx, const struct tensor *t, struct source_tensor *out);
	bool devices; /* read() can also read the memory of devices */
};

/* Which bytes of memory belong to a tensor. */

struct extent {
	uint64_t base;	/* address of the first byte of the storage; 0 for a tensor without elements
			   or on the meta device */
	uint64_t bytes; /* from there to behind the last byte that belongs to an element */
	unsigned itemsize;
	bool is_meta;
};

/* The extent of `t`, or why there is none. All of the metadata is checked: shape and numel agree,
 * strides and offset are not negative, nothing overflows. */
enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out);

/* Tensors kept with their bytes, each as it was at its own moment, until they are written together.
 */

struct kept_tensor;

/* Zero-initialise. */
struct kept {
	struct arena arena;
	struct kept_tensor *last;
	size_t bytes; /* of memory copied */
};

/* Copy `t` and its bytes, from the first of its storage to its last, as `src` has them now. *out is
 * the copy, which lives as long as `k`. 0; -ENOTSUP when there are no bytes to read (extent_of);
 * -EFBIG for more than `max` bytes; -EEXIST when it lies where another kept tensor lay, with other
 * bytes; -ENOMEM; the -errno of src->read. */
int kept_add(struct kept *k, const struct tensor *t, const struct source *src, size_t max,
	     struct tensor **out);

/* A source that reads the tensors of `k`, which must outlive it, and nothing else. */
struct source kept_source(struct kept *k);

void kept_free(struct kept *k);

/* The bytes of tensors as they were at one moment, for what may be overwritten later. */

struct snapshot_range {
	uint64_t address;
	size_t n, at; /* bytes; where in `bytes` they are */
};

/* Zero-initialise. */
struct snapshot {
	struct snapshot_range *ranges;
	size_t nranges, ranges_room;
	unsigned char *bytes;
	size_t len, room;
	struct source live;
};

/* Copy what lies between the first and the last element of `t`, unless that is known already, or is
 * more than `max` bytes with what is there, or much more than the elements are. 0; -EFBIG for the
 * last two; -ENOTSUP when it has no bytes that can be read (extent_of); -ENOMEM; the -errno of
 * src->read. */
int snapshot_add(struct snapshot *s, const struct tensor *t, const struct source *src, size_t max);

/* A source that reads `live` as it is now, and what was copied as it was then. `s` must outlive it.
 */
struct source snapshot_source(struct snapshot *s, const struct source *live);

/* Forget what was copied, and keep some memory for the next time. */
void snapshot_clear(struct snapshot *s);

void snapshot_free(struct snapshot *s);

#endif
