/* The storages of one file: which tensors share which, and how the file calls them. */
#ifndef REPLAY_CAPTURE_PTH_STORAGE_H
#define REPLAY_CAPTURE_PTH_STORAGE_H

#include <stddef.h>
#include <stdint.h>

#include "replay/capture/extent.h"

struct pth_storage {
	const char *class_name; /* of the torch module, "FloatStorage"; NULL: UntypedStorage */
	uint64_t impl;		/* address of the StorageImpl, 0: not known */
	uint64_t base;		/* address of the bytes, 0 when there are none */
	uint64_t bytes;
	unsigned itemsize; /* of the class */
	int8_t device_type, device_index;
};

/* Zero-initialise. Owns `list`, which pth_storages_free gives back. */
struct pth_storages {
	struct pth_storage *list; /* number i is "data/i" in the file */
	size_t n, size;
};

/* The name of torch's storage class for a dtype, "FloatStorage"; NULL for those that torch saves as
 * UntypedStorage and rebuilds with _rebuild_tensor_v3 (torch/storage.py, _dtype_to_storage_type_map
 * and _new_dtypes of 2.13.0). */
const char *pth_storage_class(int dtype);

/* Enter the storage of `t`, whose extent is `x`, if it is new, and make it as large as `t` needs.
 * Returns its number, or -ENOMEM. */
int pth_storages_add(struct pth_storages *s, const struct tensor *t, const struct extent *x,
		     const struct source_tensor *more);

/* The number of the storage of `t` that pth_storages_add entered; -ENOENT if none. */
int pth_storages_find(const struct pth_storages *s, const struct tensor *t, const struct extent *x);

void pth_storages_free(struct pth_storages *s);

#endif
