/* What the files of this folder share: the four steps in which a .pth file is made, and the zip
 * that it is. */
#ifndef REPLAY_CAPTURE_INTERNAL_H
#define REPLAY_CAPTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "replay/capture/capture_files.h"
#include "replay/capture/source.h"

struct pth_result {
	uint64_t bytes;	      /* size of the file */
	unsigned limits;      /* PTH_* */
	enum refusal refusal; /* when pth_write returned -ENOTSUP */
};

/* The first step, choose.c: which values of the event `ev` are in `part`, and their names, into
 * `out`, whose other members stay; it refers to `ev` and to what is in `a`. Returns 0 or -ENOMEM.
 */
int pth_choose(enum capture_part part, const struct op_event *ev, struct arena *a,
	       struct pth_content *out);

/* The second step, describe.c. */

/* Tensors of different dtypes that share memory get storages of their own (torch.save refuses
 * them). */
struct pth_storage {
	const char *class_name; /* of the torch module, "FloatStorage"; NULL: UntypedStorage */
	uint64_t impl;		/* address of the StorageImpl, 0: not known */
	uint64_t base;		/* address of the bytes, 0 when there are none */
	uint64_t bytes;
	unsigned itemsize; /* of the class */
	int8_t device_type, device_index;
};

enum { NO_STORAGE = -1 };

struct pth_tensor {
	struct source_tensor more;
	int storage; /* its number; NO_STORAGE: it is on the meta device */
};

/* What a file has of its tensors. Zero-initialise; pth_description_free gives it back. */
struct pth_description {
	struct pth_storage *storages; /* number i is "data/i" in the file */
	size_t nstorages, storages_room;
	struct pth_tensor *tensors; /* of args and kwargs, depth first */
	size_t ntensors, tensors_room;
};

/* Check every value of `c` and describe its tensors. Returns 0; -ENOTSUP when a value cannot be
 * written, with *e and why in *refusal; -ENOMEM with *e. */
int pth_describe(const struct pth_content *c, const struct source *src, struct pth_description *out,
		 enum refusal *refusal, struct err *e);

void pth_description_free(struct pth_description *d);

/* The third step, pickle.c: data.pkl, a Python pickle of protocol 2. */

/* Zero-initialise. Owns `data`; pth_pickle_free gives it back. */
struct pth_pickle {
	uint8_t *data;
	size_t len, room;
	unsigned limits; /* PTH_* of what is in it */
	bool failed;	 /* without memory: what is added then is dropped */
};

/* Pickle the dict of `c`, which `d` describes. Returns 0, or -ENOMEM with *e. */
int pth_pickle(const struct pth_content *c, const struct pth_description *d, struct pth_pickle *out,
	       struct err *e);

void pth_pickle_free(struct pth_pickle *p);

/* The last step, archive.c: write `path`, with the storages as `src` reads them, a chunk at a time.
 * *bytes is the size of the file. Returns 0; -EOVERFLOW when the file would be larger than
 * `max_bytes` (0: no limit), before anything is read if pickle and storages alone are; the -errno
 * of the file system or of src->read. */
int pth_archive(const char *path, const struct pth_pickle *p, const struct pth_description *d,
		const struct source *src, uint64_t max_bytes, uint64_t *bytes, struct err *e);

/* The steps after the first: write `c` to `path`, which appears when it is whole. Every storage is
 * written once whatever number of tensors share it, from its first byte to the last that one of
 * them reaches, or whole when the source knows its size; tensors keep their offset and strides in
 * it. requires_grad is False where it is not known. Returns 0 or what the failing step did; `out`
 * may not be NULL. */
int pth_write(const char *path, const struct pth_content *c, const struct source *src,
	      uint64_t max_bytes, struct pth_result *out, struct err *e);

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

#endif
