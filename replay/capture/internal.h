/* Internal to replay/capture: the four steps of writing a .pth file, and its zip format. */
#ifndef REPLAY_CAPTURE_INTERNAL_H
#define REPLAY_CAPTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "replay/capture/capture_files.h"

struct pth_result {
	uint64_t bytes;	      /* size of the file */
	unsigned limits;      /* PTH_* */
	enum refusal refusal; /* when pth_write returned -ENOTSUP */
};

/* First step, choose.c: choose the values of the event `ev` that belong to `part`, and their names.
 * Other members of `out` stay unchanged; it refers to `ev` and to memory of `a`. Returns 0 or
 * -ENOMEM. */
int pth_choose(enum capture_part part, const struct op_event *ev, struct arena *a,
	       struct pth_content *out);

/* Second step, describe.c. */

/* Tensors of different dtypes that share memory get separate storages (torch.save refuses such
 * tensors). */
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
	int storage; /* index of its storage; NO_STORAGE: it is on the meta device */
};

/* The tensors and storages of a file. Zero-initialise; free with pth_description_free. */
struct pth_description {
	struct pth_storage *storages; /* number i is "data/i" in the file */
	size_t nstorages, storages_room;
	struct pth_tensor *tensors; /* of args and kwargs, depth first */
	size_t ntensors, tensors_room;
};

/* Check every value of `c` and describe its tensors. Returns 0; -ENOTSUP if a value cannot be
 * written, with *e and the reason in *refusal; -ENOMEM with *e. */
int pth_describe(const struct pth_content *c, const struct source *src, struct pth_description *out,
		 enum refusal *refusal, struct err *e);

void pth_description_free(struct pth_description *d);

/* Third step, pickle.c: data.pkl, a Python pickle of protocol 2. */

/* Zero-initialise; free with pth_pickle_free. */
struct pth_pickle {
	uint8_t *data;
	size_t len, room;
	unsigned limits; /* PTH_* of its values */
	bool failed;	 /* out of memory: further data is dropped */
};

/* Pickle the dict of `c`, which `d` describes. Returns 0, or -ENOMEM with *e. */
int pth_pickle(const struct pth_content *c, const struct pth_description *d, struct pth_pickle *out,
	       struct err *e);

void pth_pickle_free(struct pth_pickle *p);

/* Last step, archive.c: write `path`, reading the storages from `src` chunk by chunk. *bytes gets
 * the size of the file. Returns 0; -EOVERFLOW if the file would exceed `max_bytes` (0: no limit),
 * before anything is read if pickle and storages alone do; the -errno of the file system or of
 * src->read. */
int pth_archive(const char *path, const struct pth_pickle *p, const struct pth_description *d,
		const struct source *src, uint64_t max_bytes, uint64_t *bytes, struct err *e);

/* All steps but the first: write `c` to `path`, which appears once complete. Each storage is
 * written once, however many tensors share it: whole if the source knows its size, else from its
 * first byte to the last that one of the tensors reaches. Tensors keep their offset and strides.
 * requires_grad is False where it is unknown. Returns 0 or the error of the failing step; `out`
 * must not be NULL. */
int pth_write(const char *path, const struct pth_content *c, const struct source *src,
	      uint64_t max_bytes, struct pth_result *out, struct err *e);

/* A zip file of stored members, as torch.save writes it, written front to back by minizip. Members
 * of any size go through a small buffer. The file gets its final name only once complete. */

struct archive;

enum { ARCHIVE_ALIGN = 64 }; /* of members: kFieldAlignment, caffe2/serialize/inline_container.h */

/* Create the file `path`, named "PATH.part" until archive_close. As with torch.save, members are in
 * a folder named like the file without its directory and extension. `max_bytes` is the maximum size
 * of the file, 0: no limit. `path` is copied. Returns 0 or -errno. */
int archive_open(const char *path, uint64_t max_bytes, struct archive **out, struct err *e);

/* Begin a member of `bytes` bytes; its data is aligned to ARCHIVE_ALIGN. */
int archive_member(struct archive *a, const char *name, uint64_t bytes, struct err *e);

/* Append bytes to the member. -EOVERFLOW: the file would exceed max_bytes. After a failure the
 * archive can only be aborted. */
int archive_write(struct archive *a, const void *data, size_t n, struct err *e);

/* Write a whole member. */
int archive_add(struct archive *a, const char *name, const void *data, size_t n, struct err *e);

/* End the file and rename it to its final name, replacing any file there. *bytes, if not NULL, gets
 * its size. Frees `a` in any case; on failure nothing is left of the file. Does not sync: the file
 * survives a crash of this process, not one of the machine. */
int archive_close(struct archive *a, uint64_t *bytes, struct err *e);

/* Delete what was written, and free `a` (may be NULL). */
void archive_abort(struct archive *a);

#endif
