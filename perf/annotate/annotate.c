#include "perf/annotate/annotate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "symbolizer/target/target_files.h"

struct line_row {
	const struct aggregate_row *r;
	bool is_gap;
};

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static const char *shapes_of(const struct aggregate_row *r)
{
	return r->shape ? r->shape : "";
}

/* The rows of a line stand together, those of workers last, of each those of the forward first, of
 * these the rows of an op, and of these the rows of the same shapes. */
static int compare_line_rows(const void *a, const void *b)
{
	const struct line_row *x = a, *y = b;
	int c = strcmp(x->r->file, y->r->file);
	c = c ? c : compare_numbers(x->r->line, y->r->line);
	c = c ? c : compare_numbers(x->r->worker, y->r->worker);
	c = c ? c : compare_numbers(x->is_gap, y->is_gap);
	c = c || x->is_gap
		? c
		: compare_numbers(x->r->phase != PHASE_FORWARD, y->r->phase != PHASE_FORWARD);
	c = c || x->is_gap ? c : strcmp(x->r->op, y->r->op);
	return c || x->is_gap ? c : strcmp(shapes_of(x->r), shapes_of(y->r));
}

static size_t collect_rows(struct line_row *out, const struct aggregate *a, bool gaps)
{
	size_t n, used = 0;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++)
		if (rows[i]->file && rows[i]->phase != PHASE_COMPILE)
			out[used++] = (struct line_row){rows[i], gaps};
	return used;
}

static void add_row(struct annotate_line *l, const struct line_row *row)
{
	const struct aggregate_row *r = row->r;
	uint64_t *sum = row->is_gap		    ? &l->no_op_ns
			: r->phase == PHASE_FORWARD ? &l->forward_ns
						    : &l->backward_ns;
	*sum += row->is_gap ? r->total_ns : r->self_ns;
	l->is_worker = r->worker;
	l->calls += row->is_gap ? 0 : r->calls;
	l->function = l->function ? l->function : r->function;
	l->text = l->text ? l->text : r->text;
}

/* The rows of an op: it is that of the line if it took more than *most. */
static void take_op(struct annotate_line *l, const struct line_row *rows, size_t n, uint64_t *most)
{
	const struct aggregate_row *longest = rows[0].r;
	uint64_t total = 0, longest_ns = 0;
	size_t kinds = 0;
	for (size_t first = 0, end; first < n; first = end, kinds++) {
		uint64_t ns = 0;
		for (end = first;
		     end < n && !strcmp(shapes_of(rows[first].r), shapes_of(rows[end].r)); end++)
			ns += rows[end].r->total_ns;
		if (ns > longest_ns)
			longest = rows[first].r;
		longest_ns = ns > longest_ns ? ns : longest_ns;
		total += ns;
	}
	if (l->op && total <= *most)
		return;
	*most = total;
	l->op = longest->op;
	l->shapes = longest->shape;
	l->other_shapes = kinds - 1;
}

static void find_op(struct annotate_line *l, const struct line_row *rows, size_t n)
{
	bool forward = rows[0].r->phase == PHASE_FORWARD;
	uint64_t most = 0;
	for (size_t first = 0, end; first < n && !rows[first].is_gap; first = end) {
		const struct aggregate_row *r = rows[first].r;
		if (forward && r->phase != PHASE_FORWARD)
			return;
		for (end = first; end < n && !rows[end].is_gap && !strcmp(rows[end].r->op, r->op) &&
				  (rows[end].r->phase == PHASE_FORWARD) == forward;)
			end++;
		take_op(l, rows + first, end - first, &most);
	}
}

static bool is_same_file(const struct line_row *a, const struct line_row *b)
{
	return !strcmp(a->r->file, b->r->file);
}

static bool is_same_line(const struct line_row *a, const struct line_row *b)
{
	return is_same_file(a, b) && a->r->line == b->r->line && a->r->worker == b->r->worker;
}

/* The lines of the file that begins with rows[0]. Returns the number of its rows. */
static size_t add_lines(struct annotate_file *f, const struct line_row *rows, size_t n)
{
	size_t first = 0, end;
	bool others = false;
	for (; first < n && is_same_file(&rows[0], &rows[first]); first = end) {
		struct annotate_line *l = &f->lines[f->n++];
		l->line = rows[first].r->line;
		for (end = first; end < n && is_same_line(&rows[first], &rows[end]); end++) {
			add_row(l, &rows[end]);
			add_row(rows[end].r->worker ? &f->workers : &f->sum, &rows[end]);
		}
		others |= !l->is_worker;
		find_op(l, rows + first, end - first);
	}
	if (!others) {
		f->sum = f->workers;
		f->workers = (struct annotate_line){0};
	}
	return first;
}

static uint64_t time_of(const struct annotate_line *l)
{
	return l->forward_ns + l->backward_ns + l->no_op_ns;
}

static int compare_files(const void *a, const void *b)
{
	const struct annotate_file *x = a, *y = b;
	uint64_t tx = time_of(&x->sum), ty = time_of(&y->sum);
	return tx != ty ? (tx > ty ? -1 : 1) : strcmp(x->path, y->path);
}

int annotation_make(const struct aggregate *ops, const struct aggregate *gaps,
		    const struct aggregate_totals *totals, struct annotation *out)
{
	size_t n, ngaps, lines = 0;
	aggregate_rows(ops, &n);
	aggregate_rows(gaps, &ngaps);
	n += ngaps;
	struct line_row *rows = calloc(n + 1, sizeof(*rows));
	*out = (struct annotation){.files = calloc(n + 1, sizeof(*out->files)),
				   .lines = calloc(n + 1, sizeof(*out->lines)),
				   .observed_ns = totals->observed_ns,
				   .workers_ns = totals->workers_ns};
	if (!rows || !out->files || !out->lines) {
		free(rows);
		annotation_free(out);
		return -ENOMEM;
	}
	n = collect_rows(rows, ops, false);
	n += collect_rows(rows + n, gaps, true);
	qsort(rows, n, sizeof(*rows), compare_line_rows);
	for (size_t i = 0; i < n;) {
		struct annotate_file *f = &out->files[out->n++];
		f->path = rows[i].r->file;
		f->lines = out->lines + lines;
		i += add_lines(f, rows + i, n - i);
		lines += f->n;
	}
	qsort(out->files, out->n, sizeof(*out->files), compare_files);
	free(rows);
	return 0;
}

void annotation_free(struct annotation *a)
{
	free(a->files);
	free(a->lines);
	*a = (struct annotation){0};
}

bool annotate_is_asked(const char *path, const char *asked)
{
	size_t len = strlen(path), n;
	while (!strncmp(asked, "./", 2))
		asked += 2;
	n = strlen(asked);
	return n && n <= len && !strcmp(path + len - n, asked) &&
	       (n == len || asked[0] == '/' || path[len - n - 1] == '/');
}

enum {
	BYTES_MAX = 16 << 20,
	/* A recorded text of that many bytes may have been cut, before a character of up to 4
	 * (py_frame_text). */
	TEXT_CUT = 200 - 3,
};

/* Python ends lines at \n, \r\n and \r. */
static int split_lines(struct source *s)
{
	size_t n = 1;
	for (const char *p = s->bytes; *p; p++)
		n += *p == '\n' || *p == '\r';
	s->lines = malloc(n * sizeof(*s->lines));
	if (!s->lines)
		return -ENOMEM;
	for (char *p = s->bytes; *p;) {
		s->lines[s->n++] = p;
		p += strcspn(p, "\r\n");
		bool both = p[0] == '\r' && p[1] == '\n';
		if (*p)
			*p++ = '\0';
		p += both;
	}
	return 0;
}

/* Bytes that are no character were recorded as '?'. */
static bool is_same_byte(char now, char recorded)
{
	return now == recorded || (recorded == '?' && (unsigned char)now >= 0x80);
}

static bool is_same_text(const char *now, const char *recorded)
{
	size_t i = 0;
	now += strspn(now, " \t\f");
	while (recorded[i] && is_same_byte(now[i], recorded[i]))
		i++;
	return !recorded[i] && (i >= TEXT_CUT || !now[i + strspn(now + i, " \t\f")]);
}

/* Whether the recorded lines are there, one of them at least. */
static bool has_lines(const struct source *s, const struct annotate_file *file)
{
	bool any = false;
	for (size_t i = 0; i < file->n; i++) {
		const struct annotate_line *l = &file->lines[i];
		if (!l->line || !l->text)
			continue;
		any = true;
		if ((size_t)l->line > s->n || !is_same_text(s->lines[l->line - 1], l->text))
			return false;
	}
	return any;
}

static uint64_t changed_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

int source_read(struct source *s, const struct annotate_file *file, uint64_t begun_ns)
{
	struct stat st = {0};
	*s = (struct source){.why = "the file cannot be read now"};
	int fd = file->path[0] == '<' ? -1 : regular_open(file->path);
	if (fd < 0)
		return 0;
	bool known = !fstat(fd, &st);
	s->bytes = io_text(fd, BYTES_MAX);
	close(fd);
	if (!s->bytes || split_lines(s))
		return -ENOMEM;
	s->why = !known || changed_ns(&st) > begun_ns
		     ? "the file was written since; the lines with figures are the recorded ones"
		     : NULL;
	if (has_lines(s, file))
		return 0;
	free(s->lines);
	s->lines = NULL;
	s->why = "the file has changed since";
	return 0;
}

void source_free(struct source *s)
{
	free(s->lines);
	free(s->bytes);
	*s = (struct source){0};
}
