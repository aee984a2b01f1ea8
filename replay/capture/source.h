/* Where the bytes of tensors come from, and what of a tensor the event does not say. */
#ifndef REPLAY_CAPTURE_SOURCE_H
#define REPLAY_CAPTURE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
