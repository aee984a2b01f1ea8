/* Reads the elements of a tensor in another process in row-major order. */
#include "replay/numbers/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/capture_files.h"
#include "symbolizer/event/names.h"

enum { CHUNK = 1 << 20 };

/* A loop nest over the elements: dimensions of size 1 are dropped, contiguous neighbours merged. */
struct tensor_walk {
	unsigned ndim;
	uint64_t size[TENSOR_MAX_DIM], stride[TENSOR_MAX_DIM]; /* stride in bytes */
	uint64_t run;					       /* bytes of a contiguous run */
	uint64_t runs;					       /* number of runs */
};

static struct tensor_walk walk_of(const struct tensor *t, const struct extent *x)
{
	struct tensor_walk w = {.run = x->itemsize, .runs = 1};
	uint64_t size[TENSOR_MAX_DIM], stride[TENSOR_MAX_DIM];
	unsigned n = 0;

	for (unsigned i = t->meta.ndim; i-- > 0;) {
		uint64_t s = (uint64_t)t->meta.shape[i], st = (uint64_t)t->meta.stride[i];
		if (s == 1)
			continue;
		if (!n && st * x->itemsize == w.run) {
			w.run *= s;
			continue;
		}
		size[n] = s;
		stride[n++] = st * x->itemsize;
	}
	w.ndim = n;
	for (unsigned i = 0; i < n; i++) {
		w.size[i] = size[n - 1 - i];
		w.stride[i] = stride[n - 1 - i];
		w.runs *= w.size[i];
	}
	return w;
}

static int read_failed(uint64_t address, uint64_t n, int rc, struct err *e)
{
	return err_set(e, rc, "cannot read %llu bytes at 0x%llx of the process: %s",
		       (unsigned long long)n, (unsigned long long)address, strerror(-rc));
}

static int add_run(struct stats_sum *s, const struct source *src, uint64_t address, uint64_t bytes,
		   unsigned itemsize, struct err *e)
{
	unsigned char *chunk = malloc(bytes < CHUNK ? bytes : CHUNK);
	int rc = chunk ? 0 : err_set(e, -ENOMEM, "out of memory");

	for (uint64_t at = 0; at < bytes && !rc;) {
		size_t n = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;
		rc = src->read(src->ctx, address + at, chunk, n);
		if (rc)
			read_failed(address + at, n, rc, e);
		else
			stats_add(s, chunk, n / itemsize);
		at += n;
	}
	free(chunk);
	return rc;
}

/* Add every run, from `memory`, a copy of what begins at `base`; if NULL each run is read from the
 * source. */
static int add_runs(struct stats_sum *s, const struct tensor_walk *w, const struct source *src,
		    const unsigned char *memory, uint64_t base, unsigned itemsize, struct err *e)
{
	uint64_t index[TENSOR_MAX_DIM] = {0}, offset = 0;

	for (;;) {
		int rc = 0;
		if (memory)
			stats_add(s, memory + offset, w->run / itemsize);
		else
			rc = add_run(s, src, base + offset, w->run, itemsize, e);
		if (rc)
			return rc;
		unsigned i = w->ndim;
		while (i-- > 0) {
			offset += w->stride[i];
			if (++index[i] < w->size[i])
				break;
			offset -= w->stride[i] * w->size[i];
			index[i] = 0;
		}
		if (i == UINT32_MAX)
			return 0;
	}
}

static int add_all(struct stats_sum *s, const struct tensor *t, const struct extent *x,
		   const struct source *src, struct err *e)
{
	/* The storage before the first element is not needed. */
	uint64_t span = x->base + x->bytes - t->data_ptr;
	struct tensor_walk w = walk_of(t, x);

	if (!w.ndim)
		return add_run(s, src, t->data_ptr, w.run, x->itemsize, e);
	if (w.run >= CHUNK || span / 16 > w.run * w.runs)
		return add_runs(s, &w, src, NULL, t->data_ptr, x->itemsize, e);
	unsigned char *memory = malloc(span);
	if (!memory)
		return err_set(e, -ENOMEM, "out of memory for the %llu bytes of a tensor",
			       (unsigned long long)span);
	int rc = src->read(src->ctx, t->data_ptr, memory, span);
	if (rc)
		read_failed(t->data_ptr, span, rc, e);
	else
		rc = add_runs(s, &w, src, memory, t->data_ptr, x->itemsize, e);
	free(memory);
	return rc;
}

int stats_tensor(const struct tensor *t, const struct source *src, struct stats *out,
		 enum refusal *refusal, struct err *e)
{
	struct extent x;
	int rc = 0;

	*refusal = extent_of(t, src->devices, &x);
	if (!*refusal && x.is_meta)
		*refusal = REFUSED_NO_MEMORY;
	if (*refusal)
		return err_set(e, -ENOTSUP, "%s", refusal_text(*refusal));
	struct stats_sum *s = stats_begin(t->meta.dtype);
	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	if (x.base && names_elements_per_byte(t->meta.dtype) > 1)
		rc = add_run(s, src, t->data_ptr, x.base + x.bytes - t->data_ptr, 1, e);
	else if (x.base)
		rc = add_all(s, t, &x, src, e);
	stats_end(s, out);
	if (!rc)
		out->count = (uint64_t)t->meta.numel;
	return rc;
}
