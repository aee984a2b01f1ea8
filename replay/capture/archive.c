#define _GNU_SOURCE
#include "replay/capture/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <minizip/zip.h>

#include "base/files.h"

struct archive {
	char *path;
	char *folder; /* of the members */
	struct new_file file;
	FILE *f;
	zipFile zip;
	uint64_t max_bytes;
	uint64_t at, end;      /* position in the file, and its size so far */
	uint64_t member_bytes; /* of the current member, not written yet */
	uint64_t member_size;
	uint32_t crc;
	int rc; /* the first failure; nothing is written after it */
};

static voidpf io_open(voidpf opaque, const void *name, int mode)
{
	(void)name;
	(void)mode;
	return opaque;
}

static uLong io_read(voidpf opaque, voidpf stream, void *buf, uLong n)
{
	(void)opaque;
	(void)stream;
	(void)buf;
	(void)n;
	return 0;
}

static uLong io_write(voidpf opaque, voidpf stream, const void *buf, uLong n)
{
	struct archive *a = opaque;
	(void)stream;
	if (a->rc)
		return 0;
	if (a->max_bytes && (n > a->max_bytes || a->at > a->max_bytes - n)) {
		a->rc = -EOVERFLOW;
		return 0;
	}
	errno = 0;
	if (fwrite(buf, 1, n, a->f) != n) {
		a->rc = errno ? -errno : -EIO;
		return 0;
	}
	a->at += n;
	if (a->at > a->end)
		a->end = a->at;
	return n;
}

static ZPOS64_T io_tell(voidpf opaque, voidpf stream)
{
	const struct archive *a = opaque;
	(void)stream;
	return a->at;
}

static long io_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
	struct archive *a = opaque;
	uint64_t from = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
			: origin == ZLIB_FILEFUNC_SEEK_CUR ? a->at
							   : a->end;
	(void)stream;
	if (a->rc)
		return -1;
	errno = 0;
	if (fseeko(a->f, (off_t)(from + offset), SEEK_SET)) {
		a->rc = errno ? -errno : -EIO;
		return -1;
	}
	a->at = from + offset;
	return 0;
}

static int io_close(voidpf opaque, voidpf stream)
{
	(void)opaque;
	(void)stream;
	return 0;
}

static int io_error(voidpf opaque, voidpf stream)
{
	const struct archive *a = opaque;
	(void)stream;
	return a->rc != 0;
}

/* Report the first failure in *e; `rc` is minizip's result. Returns 0 if there was none. */
static int failed(struct archive *a, int rc, struct err *e)
{
	if (!a->rc && rc)
		a->rc = rc == ZIP_ERRNO ? -EIO : -EINVAL;
	if (!a->rc)
		return 0;
	if (a->rc == -EOVERFLOW && a->max_bytes)
		return err_set(e, a->rc,
			       "%s: larger than the %llu bytes that are left of the limit", a->path,
			       (unsigned long long)a->max_bytes);
	return err_set(e, a->rc, "cannot write %s: %s", a->path, strerror(-a->rc));
}

static void drop(struct archive *a)
{
	free(a->path);
	free(a->folder);
	free(a);
}

static int name_it(struct archive *a, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');

	a->path = strdup(path);
	a->folder = strndup(name, dot ? (size_t)(dot - name) : strlen(name));
	return a->path && a->folder ? 0 : -ENOMEM;
}

/* *a is left to be dropped. */
static int create(struct archive *a, const char *path, struct err *e)
{
	if (name_it(a, path))
		return err_set(e, -ENOMEM, "cannot create %s: out of memory", path);
	int rc = new_file_open(&a->file, path, 0, e);
	if (rc)
		return rc;
	a->f = new_file_stream(&a->file);
	if (a->f)
		return 0;
	new_file_close(&a->file);
	return err_set(e, -ENOMEM, "cannot create %s: out of memory", path);
}

int archive_open(const char *path, uint64_t max_bytes, struct archive **out, struct err *e)
{
	struct archive *a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(e, -ENOMEM, "cannot create %s: out of memory", path);
	int rc = create(a, path, e);
	if (rc) {
		drop(a);
		return rc;
	}
	a->max_bytes = max_bytes;
	zlib_filefunc64_def io = {.zopen64_file = io_open,
				  .zread_file = io_read,
				  .zwrite_file = io_write,
				  .ztell64_file = io_tell,
				  .zseek64_file = io_seek,
				  .zclose_file = io_close,
				  .zerror_file = io_error,
				  .opaque = a};
	a->zip = zipOpen2_64(a->path, APPEND_STATUS_CREATE, NULL, &io);
	if (!a->zip) {
		archive_abort(a);
		return err_set(e, -ENOMEM, "cannot create %s: out of memory", path);
	}
	*out = a;
	return 0;
}

enum {
	LOCAL_HEADER = 30, /* bytes before the name (APPNOTE.TXT of the zip format, 4.3.7) */
	EXTRA_HEADER = 4,
	ZIP64_EXTRA = 20, /* what minizip adds to the header of a large member */
};

/* Extra field "FB" that pads the header to the alignment, as in PyTorch (getPadding,
 * caffe2/serialize/inline_container.cc). Returns its size. */
static unsigned padding(const struct archive *a, size_t name_len, bool large, uint8_t *out)
{
	uint64_t start = a->at + LOCAL_HEADER + name_len + EXTRA_HEADER + (large ? ZIP64_EXTRA : 0);
	unsigned fill = (unsigned)(-start & (ARCHIVE_ALIGN - 1));
	out[0] = 'F';
	out[1] = 'B';
	out[2] = (uint8_t)fill;
	out[3] = 0;
	memset(out + EXTRA_HEADER, 'Z', fill);
	return EXTRA_HEADER + fill;
}

int archive_member(struct archive *a, const char *name, uint64_t bytes, struct err *e)
{
	enum { UTF8_NAMES = 1 << 11 };
	const zip_fileinfo info = {.dosDate = 1 << 21 | 1 << 16}; /* 1980-01-01 */
	uint8_t extra[EXTRA_HEADER + ARCHIVE_ALIGN];
	bool large = bytes >= UINT32_MAX;
	char *full;

	if (asprintf(&full, "%s/%s", a->folder, name) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	unsigned n = padding(a, strlen(full), large, extra);
	int rc = zipOpenNewFileInZip4_64(a->zip, full, &info, extra, n, NULL, 0, NULL, 0, 0, 1,
					 -MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, NULL, 0, 0,
					 UTF8_NAMES, large);
	free(full);
	a->member_bytes = a->member_size = bytes;
	a->crc = 0;
	return failed(a, rc, e);
}

/* End the member once all its bytes are written. */
static int end_member(struct archive *a, struct err *e)
{
	if (a->member_bytes)
		return 0;
	return failed(a, zipCloseFileInZipRaw64(a->zip, a->member_size, a->crc), e);
}

int archive_write(struct archive *a, const void *data, size_t n, struct err *e)
{
	if (n > a->member_bytes)
		return err_set(e, -EINVAL, "%s: more bytes than announced", a->path);
	if (n)
		a->crc = (uint32_t)crc32_z(a->crc, data, n);
	a->member_bytes -= n;
	int rc = n ? failed(a, zipWriteInFileInZip(a->zip, data, (unsigned)n), e) : 0;
	return rc ? rc : end_member(a, e);
}

int archive_add(struct archive *a, const char *name, const void *data, size_t n, struct err *e)
{
	int rc = archive_member(a, name, n, e);
	return rc ? rc : archive_write(a, data, n, e);
}

int archive_close(struct archive *a, uint64_t *bytes, struct err *e)
{
	int rc = failed(a, zipClose(a->zip, NULL), e);

	a->zip = NULL;
	errno = 0;
	if (fclose(a->f) && !rc) {
		a->rc = errno ? -errno : -EIO;
		rc = failed(a, 0, e);
	}
	a->f = NULL;
	int named = new_file_end(&a->file, rc);
	if (!rc && named)
		rc = err_set(e, named, "cannot write %s: %s", a->path, strerror(-named));
	if (!rc && bytes)
		*bytes = a->end;
	drop(a);
	return rc;
}

void archive_abort(struct archive *a)
{
	if (!a)
		return;
	if (!a->rc)
		a->rc = -ECANCELED;
	if (a->zip)
		zipClose(a->zip, NULL);
	if (a->f)
		fclose(a->f);
	new_file_close(&a->file);
	drop(a);
}

enum { CHUNK = 1 << 20 }; /* bytes per read: fits in the L2 cache */

static int write_storage(struct archive *a, const struct pth_storage *st, size_t number,
			 const struct source *src, uint8_t *chunk, struct err *e)
{
	char name[32];
	snprintf(name, sizeof(name), "data/%zu", number);
	int rc = archive_member(a, name, st->bytes, e);
	if (!rc && !st->bytes)
		rc = archive_write(a, NULL, 0, e);
	for (uint64_t at = 0; !rc && at < st->bytes;) {
		size_t n = st->bytes - at < CHUNK ? (size_t)(st->bytes - at) : CHUNK;
		rc = src->read(src->ctx, st->base + at, chunk, n);
		if (rc)
			return err_set(e, rc, "cannot read %zu bytes at 0x%llx of the process: %s",
				       n, (unsigned long long)(st->base + at), strerror(-rc));
		rc = archive_write(a, chunk, n, e);
		at += n;
	}
	return rc;
}

static int write_members(struct archive *a, const struct pth_pickle *p,
			 const struct pth_description *d, const struct source *src, struct err *e)
{
	const char *order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
	int rc = archive_add(a, "data.pkl", p->data, p->len, e);
	uint8_t *chunk = malloc(CHUNK);

	if (!chunk)
		return err_set(e, -ENOMEM, "out of memory");
	if (!rc)
		rc = archive_add(a, "byteorder", order, strlen(order), e);
	for (size_t i = 0; i < d->nstorages && !rc; i++)
		rc = write_storage(a, &d->storages[i], i, src, chunk, e);
	if (!rc)
		rc = archive_add(a, "version", "3\n", 2, e);
	free(chunk);
	return rc;
}

/* Fail before anything is read if pickle and storages alone exceed the limit. */
static int check_size(const struct pth_pickle *p, const struct pth_description *d, const char *path,
		      uint64_t max_bytes, struct err *e)
{
	uint64_t sum = p->len;
	for (size_t i = 0; i < d->nstorages; i++)
		if (__builtin_add_overflow(sum, d->storages[i].bytes, &sum))
			sum = UINT64_MAX;
	if (!max_bytes || sum <= max_bytes)
		return 0;
	return err_set(e, -EOVERFLOW,
		       "%s: %llu bytes are more than the %llu that are left of the limit", path,
		       (unsigned long long)sum, (unsigned long long)max_bytes);
}

int pth_archive(const char *path, const struct pth_pickle *p, const struct pth_description *d,
		const struct source *src, uint64_t max_bytes, uint64_t *bytes, struct err *e)
{
	struct archive *a;
	int rc = check_size(p, d, path, max_bytes, e);
	if (!rc)
		rc = archive_open(path, max_bytes, &a, e);
	if (rc)
		return rc;
	rc = write_members(a, p, d, src, e);
	if (!rc)
		return archive_close(a, bytes, e);
	archive_abort(a);
	return rc;
}
