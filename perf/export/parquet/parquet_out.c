/* Rows on their way to the Python that writes Parquet (writer.py). Both agree on this:
 *
 *     OPEN   with the descriptor of an empty file: the columns as text, "id INT\nop TEXT\n"
 *     ROWS   of each column `rows` int64, then a bitmap of those that are known; then the texts,
 *            which columns of type TEXT refer to by number: their count (int64), count + 1 int32
 *            where each begins, the bytes. Each part is padded to a multiple of 8.
 *     END    complete the files
 *
 * The answer to END is "ok"; to anything, what went wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/map.h"
#include "base/run_python.h"
#include "base/text.h"
#include "perf/export/parquet/internal.h"

/* Rows of a file that become a row group; of all files that wait; bytes of texts of a file. */
enum { GROUP_ROWS = 1 << 17, WAITING_ROWS = 1 << 20, TEXT_BYTES = 64 << 20 };

enum { OPEN, ROWS, END };

struct message {
	uint32_t kind, file;
	uint64_t rows, size; /* size: of what follows */
};

struct parquet_file {
	struct parquet_out *out;
	struct new_file made;
	char *path;
	uint32_t number;
	size_t ncolumns, column; /* column: the next one to fill */
	const struct parquet_table *table;
	int64_t *values; /* by row, ncolumns each */
	uint8_t *known;
	size_t rows, values_room, known_room;
	struct intern texts;
	int32_t *starts; /* of texts.used texts, and the end */
	char *bytes;
	size_t nbytes, starts_room, bytes_room;
};

struct parquet_out {
	struct parquet_python to;
	struct parquet_file **files;
	size_t nfiles, files_room;
	uint64_t waiting; /* rows */
	int64_t *column;  /* one, as it is sent */
	size_t column_room;
};

static int fail_out(struct parquet_out *o, int code, const char *what)
{
	return o->to.failed.code ? o->to.failed.code
				 : err_set(&o->to.failed, code, "%s: %s", what, strerror(-code));
}

static size_t padded(size_t n)
{
	return (n + 7) / 8 * 8;
}

static void send_padded(struct parquet_out *o, const void *bytes, size_t len)
{
	static const char zeros[8];
	parquet_python_send(&o->to, bytes, len, -1);
	parquet_python_send(&o->to, zeros, padded(len) - len, -1);
}

static void send_column(struct parquet_file *f, size_t column)
{
	struct parquet_out *o = f->out;
	size_t bits = padded((f->rows + 7) / 8);
	if (array_grow(&o->column, &o->column_room, f->rows + bits / 8, sizeof(*o->column))) {
		fail_out(o, -ENOMEM, "cannot write Parquet");
		return;
	}
	uint8_t *bitmap = (uint8_t *)(o->column + f->rows);
	memset(bitmap, 0, bits);
	for (size_t i = 0; i < f->rows; i++) {
		size_t at = i * f->ncolumns + column;
		o->column[i] = f->values[at];
		bitmap[i / 8] |= (uint8_t)(f->known[at] << i % 8);
	}
	parquet_python_send(&o->to, o->column, f->rows * sizeof(*o->column) + bits, -1);
}

static void send_texts(struct parquet_file *f)
{
	int64_t n = f->texts.used;
	int32_t none = 0;
	parquet_python_send(&f->out->to, &n, sizeof(n), -1);
	send_padded(f->out, n ? f->starts : &none, ((size_t)n + 1) * sizeof(int32_t));
	send_padded(f->out, f->bytes, f->nbytes);
}

static void send_rows(struct parquet_file *f)
{
	size_t column = f->rows * sizeof(int64_t) + padded((f->rows + 7) / 8);
	size_t texts = sizeof(int64_t) + padded(((size_t)f->texts.used + 1) * sizeof(int32_t)) +
		       padded(f->nbytes);
	const struct message m = {
	    .kind = ROWS, .file = f->number, .rows = f->rows, .size = f->ncolumns * column + texts};
	if (!f->rows)
		return;
	parquet_python_send(&f->out->to, &m, sizeof(m), -1);
	for (size_t i = 0; i < f->ncolumns; i++)
		send_column(f, i);
	send_texts(f);
	f->out->waiting -= f->rows;
	f->rows = 0;
	f->nbytes = 0;
	intern_free(&f->texts);
}

static void send_fullest(struct parquet_out *o)
{
	struct parquet_file *most = o->files[0];
	for (size_t i = 1; i < o->nfiles; i++)
		if (o->files[i]->rows > most->rows)
			most = o->files[i];
	send_rows(most);
}

int parquet_out_open(const char *python, struct parquet_out **out, struct err *e)
{
	struct parquet_out *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, -ENOMEM, "no memory");
	o->to.python = python;
	o->to.talk = -1;
	int r = parquet_python_start(&o->to, e);
	if (!r)
		*out = o;
	else if (o->to.talk >= 0)
		close(o->to.talk);
	if (r)
		free(o);
	return r;
}

static void file_free(struct parquet_file *f)
{
	intern_free(&f->texts);
	free(f->values);
	free(f->known);
	free(f->starts);
	free(f->bytes);
	free(f->path);
	free(f);
}

static void send_open(struct parquet_file *f)
{
	static const char *const types[] = {"INT", "TIME", "BOOL", "TEXT"};
	char text[2048];
	size_t len = 0;
	for (size_t i = 0; i < f->ncolumns && len < sizeof(text); i++)
		len +=
		    (size_t)snprintf(text + len, sizeof(text) - len, "%s %s\n",
				     f->table->columns[i].name, types[f->table->columns[i].type]);
	const struct message m = {.kind = OPEN, .file = f->number, .size = len};
	parquet_python_send(&f->out->to, &m, sizeof(m), f->made.fd);
	parquet_python_send(&f->out->to, text, len, -1);
}

struct parquet_file *parquet_file_open(struct parquet_out *o, const char *path,
				       const struct parquet_table *t)
{
	struct parquet_file *f = calloc(1, sizeof(*f));
	if (o->to.failed.code || !f || !(f->path = strdup(path)) ||
	    array_grow(&o->files, &o->files_room, o->nfiles + 1, sizeof(struct parquet_file *))) {
		fail_out(o, -ENOMEM, "cannot write Parquet");
	} else if (!new_file_open(&f->made, path, 0, &o->to.failed)) {
		f->out = o;
		f->table = t;
		f->number = (uint32_t)o->nfiles;
		while (t->columns[f->ncolumns].name)
			f->ncolumns++;
		o->files[o->nfiles++] = f;
		send_open(f);
		return f;
	}
	if (f)
		file_free(f);
	return NULL;
}

static void put_value(struct parquet_file *f, int64_t n, bool known)
{
	size_t at = f->rows * f->ncolumns + f->column++;
	if (array_grow(&f->values, &f->values_room, at + 1, sizeof(*f->values)) ||
	    array_grow(&f->known, &f->known_room, at + 1, 1)) {
		fail_out(f->out, -ENOMEM, "cannot write Parquet");
		f->column--;
		return;
	}
	f->values[at] = n;
	f->known[at] = known;
}

void parquet_int(struct parquet_file *f, int64_t n)
{
	put_value(f, n, true);
}

void parquet_known(struct parquet_file *f, uint64_t n)
{
	put_value(f, (int64_t)n, n != 0);
}

void parquet_null(struct parquet_file *f)
{
	put_value(f, 0, false);
}

/* The number of a text of this file; 0 with a failure. */
static int64_t text_of(struct parquet_file *f, const char *s, size_t len)
{
	bool is_new;
	int64_t id = intern(&f->texts, s, (uint32_t)len, &is_new);
	if (id >= 0 && !is_new)
		return id;
	if (id < 0 || array_grow(&f->starts, &f->starts_room, (size_t)id + 2, sizeof(*f->starts)) ||
	    array_grow(&f->bytes, &f->bytes_room, f->nbytes + len + 1, 1)) {
		fail_out(f->out, -ENOMEM, "cannot write Parquet");
		return 0;
	}
	memcpy(f->bytes + f->nbytes, s, len);
	f->starts[id] = (int32_t)f->nbytes;
	f->nbytes += len;
	f->starts[id + 1] = (int32_t)f->nbytes;
	return id;
}

void parquet_text(struct parquet_file *f, const char *s)
{
	enum { MOST = 16 << 10 };
	char safe[MOST];
	if (s)
		put_value(f, text_of(f, safe, text_safe(safe, sizeof(safe), s)), true);
	else
		parquet_null(f);
}

void parquet_row_end(struct parquet_file *f)
{
	struct parquet_out *o = f->out;
	f->column = 0;
	if (o->to.failed.code)
		return;
	f->rows++;
	o->waiting++;
	if (f->rows == GROUP_ROWS || f->nbytes > TEXT_BYTES)
		send_rows(f);
	else if (o->waiting > WAITING_ROWS)
		send_fullest(o);
}

int parquet_out_error(const struct parquet_out *o)
{
	return o->to.failed.code;
}

static void complete(struct parquet_out *o)
{
	const struct message m = {.kind = END};
	for (size_t i = 0; i < o->nfiles; i++)
		send_rows(o->files[i]);
	if (!parquet_python_send(&o->to, &m, sizeof(m), -1))
		parquet_python_end(&o->to);
}

/* A file cannot be taken back once it has its name, but then it is whole. */
static void name_all(struct parquet_out *o)
{
	for (size_t i = 0; i < o->nfiles; i++) {
		int r = o->to.failed.code ? 0 : new_file_name(&o->files[i]->made);
		if (r)
			err_set(&o->to.failed, r, "cannot write %s: %s", o->files[i]->path,
				strerror(-r));
		new_file_close(&o->files[i]->made);
	}
}

int parquet_out_end(struct parquet_out *o, int r, struct err *e)
{
	if (!r && !o->to.failed.code)
		complete(o);
	if (r && !o->to.failed.code)
		o->to.failed.code = r;
	close(o->to.talk);
	while (waitpid(o->to.pid, NULL, 0) < 0 && errno == EINTR)
		;
	name_all(o);
	if (!r && o->to.failed.code) {
		*e = o->to.failed;
		r = e->code;
	}
	for (size_t i = 0; i < o->nfiles; i++)
		file_free(o->files[i]);
	free(o->files);
	free(o->column);
	free(o);
	return r;
}
