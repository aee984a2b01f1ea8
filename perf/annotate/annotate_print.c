#include "perf/annotate/annotate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/report/report.h"

enum { TEXT_MAX = 1024, AROUND = 2, TAB = 8, FIGURES = 6, NARROW = 100 };

/* Which lines of a source are shown, by index. */
struct shown {
	const struct annotate_line **figures; /* NULL: none */
	bool *is;
};

static uint64_t self_ns(const struct annotate_line *l)
{
	return l->forward_ns + l->backward_ns;
}

/* Of what workers run, of their time. */
static uint64_t whole_ns(const struct annotation *a, const struct annotate_line *l)
{
	return l->is_worker ? a->workers_ns : a->observed_ns;
}

static double self_percent(const struct annotation *a, const struct annotate_line *l)
{
	return report_percent(self_ns(l), whole_ns(a, l));
}

/* No sum with the above: in no op a thread may wait for another one that runs the backward. */
static double no_op_percent(const struct annotation *a, const struct annotate_line *l)
{
	return report_percent(l->no_op_ns, whole_ns(a, l));
}

static bool is_left_out(const struct annotation *a, const struct annotate_line *l,
			const struct annotate_opts *o)
{
	return self_percent(a, l) < o->percent_limit && no_op_percent(a, l) < o->percent_limit;
}

/* Whether anything of the file is shown. */
static bool is_chosen(const struct annotation *a, const struct annotate_file *f,
		      const struct annotate_opts *o)
{
	return o->only ? annotate_is_asked(f->path, o->only) : !is_left_out(a, &f->sum, o);
}

static enum table_style heat(double percent)
{
	return percent >= 10 ? TABLE_HOT : percent >= 3 ? TABLE_WARM : TABLE_PLAIN;
}

/* Others do not wait for what workers take. */
static enum table_style line_heat(const struct annotate_line *l, double percent)
{
	return l->is_worker ? TABLE_PLAIN : heat(percent);
}

static void time_cell(struct table *t, uint64_t ns, enum table_style style)
{
	char text[32];
	table_cell_styled(t, ns ? text_ns(text, sizeof(text), ns) : "", style);
}

/* "linear [16,64] [64,32]", and how many calls had others. */
static void op_cell(struct table *t, const struct annotate_line *l)
{
	char text[TEXT_MAX], more[32];
	if (!l->op) {
		table_cell(t, "");
		return;
	}
	snprintf(more, sizeof(more), " or %zu more", l->other_shapes);
	snprintf(text, sizeof(text), "%s %s%s", report_op_name(l->op), l->shapes ? l->shapes : "",
		 l->other_shapes ? more : "");
	table_cell(t, text);
}

static void figures_cells(struct table *t, const struct annotation *a,
			  const struct annotate_line *l)
{
	char text[32];
	double percent = self_percent(a, l);
	snprintf(text, sizeof(text), "%.1f%%", percent);
	table_cell_styled(t, l->calls ? text : "", line_heat(l, percent));
	table_cell(t, l->calls ? text_count(text, sizeof(text), l->calls) : "");
	time_cell(t, l->forward_ns, TABLE_PLAIN);
	time_cell(t, l->backward_ns, TABLE_PLAIN);
	time_cell(t, l->no_op_ns, line_heat(l, no_op_percent(a, l)));
	op_cell(t, l);
}

static const char *expand_tabs(char *out, size_t size, const char *text)
{
	size_t used = 0, column = 0;
	for (; *text && used + TAB < size; text++) {
		size_t n = *text == '\t' ? TAB - column % TAB : 1;
		if (*text == '\t')
			memset(out + used, ' ', n);
		else
			out[used] = *text;
		used += n;
		column += ((unsigned char)*text & 0xc0) == 0x80 ? 0 : n;
	}
	out[used] = '\0';
	text_drop_part(out);
	return out;
}

static void no_figures(struct table *t)
{
	for (int i = 0; i < FIGURES; i++)
		table_cell(t, "");
}

/* A line; without figures if `l` is NULL. */
static void add_line(struct table *t, const struct annotation *a, const struct annotate_line *l,
		     size_t number, const char *text)
{
	char digits[32], shown[TEXT_MAX];
	double most = !l ? 0 : fmax(self_percent(a, l), no_op_percent(a, l));
	if (l)
		figures_cells(t, a, l);
	else
		no_figures(t);
	snprintf(digits, sizeof(digits), "%zu", number);
	table_cell_styled(t, number ? digits : "?", l ? TABLE_PLAIN : TABLE_DIM);
	table_cell_styled(t, expand_tabs(shown, sizeof(shown), text),
			  l ? line_heat(l, most) : TABLE_DIM);
}

static void add_fold(struct table *t)
{
	no_figures(t);
	table_cell_styled(t, "...", TABLE_DIM);
	table_cell(t, "");
}

static size_t indent_of(const char *line)
{
	return strspn(line, " \t\f");
}

static bool begins_with_word(const char *text, const char *word)
{
	size_t n = strlen(word);
	return !strncmp(text, word, n) && (text[n] == ' ' || text[n] == '\t');
}

/* The classes and functions around line `i`, by their indentation. */
static void show_headers(const struct source *s, struct shown *w, size_t i)
{
	size_t within = indent_of(s->lines[i]);
	while (i-- && within) {
		const char *text = s->lines[i] + indent_of(s->lines[i]);
		if (indent_of(s->lines[i]) >= within)
			continue;
		if (!begins_with_word(text, "def") && !begins_with_word(text, "class") &&
		    !begins_with_word(text, "async"))
			continue;
		w->is[i] = true;
		within = indent_of(s->lines[i]);
	}
}

/* What workers took at a line that others run, too, is only in the title. */
static bool is_second(const struct annotate_file *f, size_t i)
{
	return i && f->lines[i].line == f->lines[i - 1].line;
}

static void choose_lines(const struct source *s, const struct annotation *a,
			 const struct annotate_file *f, const struct annotate_opts *o,
			 struct shown *w)
{
	for (size_t k = 0; k < f->n; k++) {
		const struct annotate_line *l = &f->lines[k];
		size_t at = (size_t)l->line - 1, i = at < AROUND ? 0 : at - AROUND;
		if (!l->line || at >= s->n || is_second(f, k))
			continue;
		w->figures[at] = l;
		if (is_left_out(a, l, o))
			continue;
		for (; i < s->n && i <= at + AROUND; i++)
			w->is[i] = true;
		show_headers(s, w, at);
	}
	for (size_t i = 1; i + 1 < s->n; i++) /* a fold would take as much room */
		if (w->is[i - 1] && w->is[i + 1])
			w->is[i] = true;
}

static void add_source(struct table *t, const struct source *s, const struct annotation *a,
		       const struct shown *w)
{
	for (size_t i = 0; i < s->n; i++) {
		if (w->is[i])
			add_line(t, a, w->figures[i], i + 1, s->lines[i]);
		else if (i == 0 || w->is[i - 1])
			add_fold(t);
	}
}

/* The lines with figures that the source has not, all of them without a source. */
static void add_known(struct table *t, const struct annotation *a, const struct annotate_file *f,
		      const struct annotate_opts *o, const struct source *s)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct annotate_line *l = &f->lines[i];
		bool has_place = s->lines && l->line && (size_t)l->line <= s->n;
		if (!has_place && !is_second(f, i) && !is_left_out(a, l, o))
			add_line(t, a, l, (size_t)l->line, l->text ? l->text : "");
	}
}

static int add_lines(struct table *t, const struct annotation *a, const struct annotate_file *f,
		     const struct annotate_opts *o, const struct source *s)
{
	add_known(t, a, f, o, s);
	if (!s->lines)
		return 0;
	struct shown w = {calloc(s->n + 1, sizeof(*w.figures)), calloc(s->n + 1, sizeof(*w.is))};
	int r = w.figures && w.is ? 0 : -ENOMEM;
	if (!r) {
		choose_lines(s, a, f, o, &w);
		add_source(t, s, a, &w);
	}
	free(w.figures);
	free(w.is);
	return r;
}

static void add_columns(struct table *t, int width)
{
	bool narrow = width && width < NARROW;
	table_column(t, narrow ? "Self%" : "Self %", TABLE_RIGHT);
	table_column_optional(t, "Calls", TABLE_RIGHT, 1);
	table_column(t, narrow ? "Fwd" : "Forward", TABLE_RIGHT);
	table_column(t, narrow ? "Bwd" : "Backward", TABLE_RIGHT);
	table_column(t, narrow ? "Gap" : "In no op", TABLE_RIGHT);
	table_column_optional(t, "Slowest op, its shapes", TABLE_LEFT, 2);
	table_column(t, narrow ? "" : "Line", TABLE_RIGHT);
	table_column(t, "", TABLE_LEFT);
}

static void print_no_op(FILE *f, uint64_t ns)
{
	char text[32];
	if (ns)
		fprintf(f, ", in no op %s", text_ns(text, sizeof(text), ns));
}

static void print_title(FILE *f, const struct annotation *a, const struct annotate_file *file,
			const struct source *s)
{
	const struct annotate_line *l = &file->sum, *workers = &file->workers;
	char took[32], whole[32];
	putc('\n', f);
	text_print_safe(f, file->path);
	fprintf(f, "\n%.1f %%, %s of %s", self_percent(a, l),
		text_ns(took, sizeof(took), self_ns(l)),
		text_ns(whole, sizeof(whole), whole_ns(a, l)));
	print_no_op(f, l->no_op_ns);
	if (l->is_worker)
		fputs(", of workers", f);
	else if (workers->is_worker) {
		fprintf(f, "; workers: %s", text_ns(took, sizeof(took), self_ns(workers)));
		print_no_op(f, workers->no_op_ns);
	}
	if (!s->lines)
		fprintf(f, "\nonly the recorded lines: %s", s->why);
	else if (s->why)
		fprintf(f, "\n%s", s->why);
	putc('\n', f);
}

static int print_file(FILE *f, const struct annotation *a, const struct annotate_file *file,
		      const struct annotate_opts *o)
{
	struct source s;
	struct table *t = table_new();
	int r = t ? source_read(&s, file, o->begun_ns) : -ENOMEM;
	if (!t)
		return r;
	if (!r) {
		print_title(f, a, file, &s);
		add_columns(t, o->terminal.width);
		r = add_lines(t, a, file, o, &s);
		r = r ? r : table_print(t, f, o->terminal.width, o->terminal.color);
	}
	source_free(&s);
	table_free(t);
	return r;
}

int annotate_print(FILE *f, const struct annotation *a, const struct annotate_opts *o)
{
	size_t left_out = 0;
	char text[32];
	for (size_t i = 0; i < a->n; i++) {
		if (!is_chosen(a, &a->files[i], o)) {
			left_out++;
			continue;
		}
		int r = print_file(f, a, &a->files[i], o);
		if (r)
			return r;
	}
	if (left_out && !o->only)
		fprintf(f, "\n%s below %g %%\n",
			text_counted(text, sizeof(text), left_out, "more file"), o->percent_limit);
	return ferror(f) ? -EIO : 0;
}

static void json_line_of(struct json_out *j, const struct annotation *a,
			 const struct annotate_line *l)
{
	json_line(j);
	json_open(j, NULL, '{');
	json_i64(j, "line", l->line);
	json_text(j, "function", l->function);
	json_text(j, "text", l->text);
	json_format(j, "self_percent", "%.3f", self_percent(a, l));
	json_u64(j, "calls", l->calls);
	json_u64(j, "forward_ns", l->forward_ns);
	json_u64(j, "backward_ns", l->backward_ns);
	json_u64(j, "no_op_ns", l->no_op_ns);
	json_bool(j, "worker", l->is_worker);
	json_text(j, "op", l->op);
	json_text(j, "shapes", l->shapes);
	json_u64(j, "other_shapes", l->other_shapes);
	json_close(j, '}');
}

int annotate_print_json(FILE *f, const struct annotation *a, const struct annotate_opts *o)
{
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_u64(&j, "observed_ns", a->observed_ns);
	json_open(&j, "files", '[');
	for (size_t i = 0; i < a->n; i++) {
		const struct annotate_file *file = &a->files[i];
		if (!is_chosen(a, file, o))
			continue;
		json_line(&j);
		json_open(&j, NULL, '{');
		json_text(&j, "file", file->path);
		json_format(&j, "self_percent", "%.3f", self_percent(a, &file->sum));
		json_open(&j, "lines", '[');
		for (size_t k = 0; k < file->n; k++)
			if (!is_left_out(a, &file->lines[k], o))
				json_line_of(&j, a, &file->lines[k]);
		json_close(&j, ']');
		json_close(&j, '}');
	}
	json_line(&j);
	json_close(&j, ']');
	json_close(&j, '}');
	putc('\n', f);
	return ferror(f) ? -EIO : 0;
}

static void csv_line_of(FILE *f, const struct annotation *a, const char *path,
			const struct annotate_line *l)
{
	const char *texts[] = {l->function, l->text};
	csv_text(f, path);
	fprintf(f, ",%" PRId32, l->line);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		putc(',', f);
		csv_text(f, texts[i] ? texts[i] : "");
	}
	fprintf(f, ",%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s,", self_percent(a, l),
		l->calls, l->forward_ns, l->backward_ns, l->no_op_ns,
		l->is_worker ? "true" : "false");
	csv_text(f, l->op ? l->op : "");
	putc(',', f);
	csv_text(f, l->shapes ? l->shapes : "");
	fprintf(f, ",%zu\n", l->other_shapes);
}

int annotate_print_csv(FILE *f, const struct annotation *a, const struct annotate_opts *o)
{
	fputs(
	    "file,line,function,text,self_percent,calls,forward_ns,backward_ns,no_op_ns,worker,op,"
	    "shapes,other_shapes\n",
	    f);
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; is_chosen(a, &a->files[i], o) && k < a->files[i].n; k++)
			if (!is_left_out(a, &a->files[i].lines[k], o))
				csv_line_of(f, a, a->files[i].path, &a->files[i].lines[k]);
	return ferror(f) ? -EIO : 0;
}
