/* Where the bytes of tensors come from, and what the event does not say about a tensor. */
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
	REFUSED_UNKNOWN,     /* some of the tensor's metadata is unknown */
	REFUSED_STRANGE,     /* the tensor's metadata is contradictory */
	REFUSED_DEVICE,	     /* its memory is on a device */
	REFUSED_LAYOUT,	     /* it is not strided: sparse, nested, mkldnn */
	REFUSED_NO_MEMORY,   /* it has elements but no memory */
	REFUSED_NOT_DECODED, /* the value could not be decoded */
	REFUSED_LAZY,	     /* the memory may hold the conjugate or negative of the values */
	REFUSED_GENERATOR,   /* a random number generator, whose state is not known */
	REFUSED_TEXT,	     /* a string that is not UTF-8, which Python cannot have */
	REFUSAL_COUNT,
};

/* A few words for a summary, "memory on a device". Static. */
const char *refusal_text(enum refusal r);

struct tensor;

/* Zero-initialised: nothing further is known. */
struct source_tensor {
	bool has_storage_bytes;
	uint64_t storage_bytes; /* size of the whole storage */
	bool is_parameter;	/* a torch.nn.Parameter */
	bool conj, neg;	  /* Tensor.is_conj(), Tensor.is_neg(): the memory holds the conjugate, the
			     negative, of the values */
	bool may_be_lazy; /* whether it has one of these bits is unknown */
};

struct source {
	void *ctx;
	/* Copy all `n` bytes at `address` of the target to `to`. Returns 0 or -errno. */
	int (*read)(void *ctx, uint64_t address, void *to, size_t n);
	/* Report what else is known about `t`; `out` is zero-initialised. Called once or more for
	 * each tensor. NULL: nothing is known about any. */
	void (*more)(void *ctx, const struct tensor *t, struct source_tensor *out);
	bool devices; /* read() can also read device memory */
};

/* Which bytes of memory belong to a tensor. */

struct extent {
	uint64_t base;	/* address of the first byte of the storage; 0 for a tensor without elements
			   or on the meta device */
	uint64_t bytes; /* from there through the last byte of an element */
	unsigned itemsize;
	bool is_meta;
};

/* The extent of `t`, or why it has none. `devices`: device memory counts, too. Checks all metadata:
 * shape and numel agree, strides and offset are not negative, nothing overflows. */
enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out);

/* Copies of tensors with their bytes, taken at different times to be written together. */

struct kept_tensor;

/* Zero-initialise. */
struct kept {
	struct arena arena;
	struct kept_tensor *last;
	size_t bytes; /* of memory copied */
};

/* Copy `t`, and the bytes from its storage's first to its own last, as `src` has them now. *out is
 * the copy, which lives as long as `k`. 0; -ENOTSUP if there are no bytes to read (extent_of);
 * -EFBIG for more than `max` bytes; -EEXIST if it overlaps a kept tensor that had other bytes
 * there; -ENOMEM; the -errno of src->read. */
int kept_add(struct kept *k, const struct tensor *t, const struct source *src, size_t max,
	     struct tensor **out);

/* A source that reads the tensors of `k`, which must outlive it, and nothing else. */
struct source kept_source(struct kept *k);

void kept_free(struct kept *k);

/* Copies of tensors' bytes at one time, because they may be overwritten later. */

struct snapshot_range {
	uint64_t address;
	size_t n, at; /* size, and offset in `bytes` */
};

/* Zero-initialise. */
struct snapshot {
	struct snapshot_range *ranges;
	size_t nranges, ranges_room;
	unsigned char *bytes;
	size_t len, room;
	struct source live;
};

/* Copy the bytes between the first and the last element of `t`, unless `s` has them already. 0;
 * -EFBIG if all copies together would exceed `max` bytes, or if they are far larger than the
 * elements; -ENOTSUP if it has no readable bytes (extent_of); -ENOMEM; the -errno of src->read. */
int snapshot_add(struct snapshot *s, const struct tensor *t, const struct source *src, size_t max);

/* A source that reads the copies, and from `live` what was not copied. `s` must outlive it. */
struct source snapshot_source(struct snapshot *s, const struct source *live);

/* Drop the copies; some memory is kept for reuse. */
void snapshot_clear(struct snapshot *s);

void snapshot_free(struct snapshot *s);

#endif
