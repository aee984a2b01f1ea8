/* A zip file of stored members as torch.save writes it, written front to back by minizip; members
 * of any size go through a small buffer. It has its final name only when it is whole. */
#ifndef REPLAY_CAPTURE_ARCHIVE_H
#define REPLAY_CAPTURE_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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
