#define _GNU_SOURCE
#include "perf/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "perf/export/internal.h"

int export_look(struct export_in *in, const struct trace_query *q)
{
	enum { EACH = 1024 };
	struct export_watch *w = &in->watch;
	if (!w->look || ++w->items % EACH)
		return 0;
	return w->look(w->arg, trace_query_share(q));
}

int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	while (!r && (n = trace_query_next(in->query, &item, e)) > 0) {
		r = fn(arg, &item);
		r = r ? r : export_look(in, in->query);
	}
	return r ? err_set(e, r, "cannot write the events of %s: %s", in->path, strerror(-r)) : n;
}

struct export_notes *export_notes(struct export_in *in)
{
	if (!in->notes)
		in->notes = calloc(1, sizeof(*in->notes));
	return in->notes;
}

void export_notes_free(struct export_notes *n)
{
	if (!n)
		return;
	if (n->spill)
		fclose(n->spill);
	intern_free(&n->ids);
	free(n->backwards);
	export_flows_free(&n->nodes);
	export_flows_free(&n->launches);
	breakdown_free(n->breakdown);
	free(n->steps);
	free(n);
}

static ssize_t gzip_write(void *cookie, const char *buf, size_t size)
{
	return gzwrite(cookie, buf, (unsigned)size);
}

/* Only tells where it is, before compression. */
static int gzip_seek(void *cookie, off64_t *offset, int whence)
{
	if (whence != SEEK_CUR || *offset)
		return -1;
	*offset = gztell(cookie);
	return 0;
}

static int gzip_close(void *cookie)
{
	return gzclose(cookie) == Z_OK ? 0 : -1;
}

FILE *export_gzip(int fd)
{
	/* Level 4: a tenth larger than by default, in two thirds of the time. */
	gzFile gz = gzdopen(fd, "wb4");
	if (!gz) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	FILE *f = fopencookie(
	    gz, "w",
	    (cookie_io_functions_t){.write = gzip_write, .seek = gzip_seek, .close = gzip_close});
	if (!f)
		gzclose(gz);
	return f;
}
