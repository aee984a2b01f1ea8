/* What the files of this folder share. */
#ifndef REPLAY_CAPTURE_INTERNAL_H
#define REPLAY_CAPTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/capture/pth.h"
#include "replay/capture/source.h"

/* A zip file of stored members as torch.save writes it, written front to back by minizip; members
 * of any size go through a small buffer. It has its final name only when it is whole. */

struct archive;

enum { ARCHIVE_ALIGN = 64 }; /* of members: kFieldAlignment, caffe2/serialize/inline_container.h */

/* Begin the file `path`, under the name "PATH.part" until archive_close. Members are put in a
 * folder of the name that the file has without its directory and extension, as torch.save does.
 * `max_bytes` is the largest size that the file may reach, 0 for no limit. Returns 0 or -errno;
 * `path` is copied. */
int archive_open(const char *path, uint64_t max_bytes, struct archive **out, struct err *e);

/* Begin a member of `bytes` bytes; its data is aligned to ARCHIVE_ALIGN. */
int archive_member(struct archive *a, const char *name, uint64_t bytes, struct err *e);

/* The next bytes of the member. -EOVERFLOW: the file would be larger than max_bytes. After a
 * failure the archive can only be aborted. */
int archive_write(struct archive *a, const void *data, size_t n, struct err *e);

/* A member in one call. */
int archive_add(struct archive *a, const char *name, const void *data, size_t n, struct err *e);

/* End the file and give it its final name, in place of any that has it already. *bytes, when not
 * NULL, is its size. Frees `a` whatever happens; on failure nothing is left of the file. It is not
 * synced to the disk: it outlives a crash of this process, not one of the machine. */
int archive_close(struct archive *a, uint64_t *bytes, struct err *e);

/* Remove what was written, free `a` (may be NULL). */
void archive_abort(struct archive *a);

/* Python pickles, protocol 2 (Lib/pickletools.py of CPython describes the opcodes): as much of it
 * as torch.save writes and the readers of torch.load(weights_only=True) know
 * (torch/_weights_only_unpickler.py). Nothing is memoized: what occurs twice is written twice. */

/* Zero-initialise. Owns `data`; pickle_free gives it back. Out of memory is remembered in `failed`,
 * and what is added then is dropped. */
struct pickle {
	uint8_t *data;
	size_t len, size;
	bool failed;
};

/* The first and the last opcode. */
void pickle_begin(struct pickle *p);
void pickle_end(struct pickle *p);

void pickle_none(struct pickle *p);
void pickle_bool(struct pickle *p, bool b);
void pickle_int(struct pickle *p, int64_t i);
void pickle_uint(struct pickle *p, uint64_t i);
void pickle_float(struct pickle *p, double f);

/* `len` bytes of UTF-8. */
void pickle_text(struct pickle *p, const char *s, size_t len);
void pickle_string(struct pickle *p, const char *s);

/* A class, function or constant of a module. */
void pickle_global(struct pickle *p, const char *module, const char *name);

/* A tuple: pickle_mark, its items, pickle_tuple. */
void pickle_mark(struct pickle *p);
void pickle_tuple(struct pickle *p);

/* A list: pickle_list, its items, pickle_appends. */
void pickle_list(struct pickle *p);
void pickle_appends(struct pickle *p);

/* A dict: pickle_dict, its keys and values in turn, pickle_setitems. */
void pickle_dict(struct pickle *p);
void pickle_setitems(struct pickle *p);

/* Call the callable with the tuple that were written last. */
void pickle_reduce(struct pickle *p);

/* The object that the tuple written last stands for in the reader (a storage). */
void pickle_persistent(struct pickle *p);

void pickle_free(struct pickle *p);

/* The storages of one file: which tensors share which, and how the file calls them. */

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

/* Values of an event as torch.save pickles them. Part of pth_write. */

/* What is known while a file is being made. */
struct pth_state {
	const struct source *src;
	struct pth_storages storages;
	struct pickle pickle;
	unsigned limits; /* PTH_* */
};

/* First pass: enter the storages of every tensor in `v` into s->storages. *refusal says why `v`
 * cannot be written, and *refused which value in it. Returns 0, -ENOTSUP or -ENOMEM. */
int pth_value_collect(struct pth_state *s, const struct value *v, enum refusal *refusal,
		      const struct value **refused);

/* Second pass, when all values were collected: append `v` to s->pickle and its limits to
 * s->limits. */
void pth_value_pickle(struct pth_state *s, const struct value *v);

#endif
