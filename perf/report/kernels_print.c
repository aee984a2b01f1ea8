#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/report/internal.h"
#include "symbolizer/event/names.h"

enum { NAME_MAX_BYTES = 2048, WHOLE_FROM = 200 };

static const char *const kinds[ACTIVITY_KINDS] = {"kernel", "copy", "set"};

/* Without what it returns, and without its parameters: "(int, float*)" at its end. */
static void drop_types(char *name)
{
	size_t len = strlen(name), at = len;
	int depth = 0;
	if (!strncmp(name, "void ", 5))
		memmove(name, name + 5, len + 1 - 5);
	len = at = strlen(name);
	if (!len || name[len - 1] != ')')
		return;
	do {
		at--;
		depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
	} while (at && depth);
	if (at)
		name[at] = '\0';
}

static void drop_all(char *name, const char *part)
{
	size_t len = strlen(part);
	for (char *at = name; (at = strstr(at, part));)
		memmove(at, at + len, strlen(at + len) + 1);
}

/* As short as it need be: wide terminals and files have it whole. Memcpy's parentheses are no
 * parameters. */
static const char *name_text(char *out, size_t size, const struct kernel_row *r, int width)
{
	char name[NAME_MAX_BYTES];
	bool whole = !width || width >= WHOLE_FROM || r->kind != ACTIVITY_KERNEL;
	snprintf(name, sizeof(name), "%s", r->name);
	if (!whole) {
		drop_types(name);
		drop_all(name, "(anonymous namespace)::");
		drop_all(name, "at::native::");
	}
	return whole ? strcpy(out, name) : text_without_templates(out, size, name);
}

static const char *per_step(char *out, size_t size, const struct report_opts *opts, uint64_t ns)
{
	return text_ns(out, size, opts->per_step ? ns / opts->per_step : ns);
}

static void add_source(struct table *t, const struct kernel_source *s,
		       const struct file_names *files)
{
	static const char *const phases[PHASES] = {"", "backward ", "recomputed ", "compiling "};
	char text[512], line[256] = "";
	if (s->parameter)
		parameter_text(line, sizeof(line), s->parameter);
	else if (s->file)
		place_text(line, sizeof(line), s->file, s->line, files);
	snprintf(text, sizeof(text), "%s%s%s%s", phases[s->phase], report_op_name(s->op),
		 *line ? " " : "", line);
	table_cell(t, text);
}

/* What is copied, and how fast. */
static void add_name(struct table *t, const struct kernel_row *r, int width)
{
	char text[NAME_MAX_BYTES + 80], bytes[32], rate[32];
	name_text(text, NAME_MAX_BYTES, r, width);
	size_t used = strlen(text);
	if (r->kind == ACTIVITY_COPY && r->bytes && r->total_ns)
		snprintf(text + used, sizeof(text) - used, ", %s, %s/s",
			 text_bytes(bytes, sizeof(bytes), r->bytes),
			 text_bytes(rate, sizeof(rate),
				    (uint64_t)((double)r->bytes * 1e9 / (double)r->total_ns)));
	table_cell(t, text);
}

static void add_row(struct table *t, const struct kernels *k, const struct kernel_row *r,
		    const struct devices *devices, const struct report_opts *opts,
		    const struct file_names *files)
{
	char text[80];
	double part = report_percent(r->total_ns, opts->busy_ns);
	snprintf(text, sizeof(text), "%.1f%%", part);
	table_cell_styled(t, text, part >= 10 ? TABLE_HOT : part >= 3 ? TABLE_WARM : TABLE_PLAIN);
	table_cell(t, per_step(text, sizeof(text), opts, r->total_ns));
	table_cell(t, report_count_text(text, sizeof(text), r->calls, opts->per_step));
	table_cell(t, text_ns(text, sizeof(text), kernel_mean(r)));
	table_cell(t, text_ns(text, sizeof(text), r->max_ns));
	if (k->keys & (KERNELS_DEVICE | KERNELS_STREAM))
		table_cell(t, device_text(text, sizeof(text), devices, &r->device));
	if (k->keys & KERNELS_STREAM) {
		snprintf(text, sizeof(text), "%" PRIu32, r->stream);
		table_cell(t, text);
	}
	add_source(t, kernels_source(k, r), files);
	if (k->keys & KERNELS_NAME)
		add_name(t, r, opts->terminal.width);
}

static void add_head(struct table *t, const struct kernels *k, enum report_sort sort)
{
	const struct {
		const char *header;
		enum report_sort sort;
		int order;
	} numbers[] = {{"Device %", REPORT_BY_DEVICE_TIME, 0},
		       {"Total", REPORT_BY_SELF, 0},
		       {"Calls", REPORT_BY_CALLS, 2},
		       {"Mean", REPORT_BY_MEAN, 7},
		       {"Max", REPORT_BY_MAX, 8}};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		char header[32];
		snprintf(header, sizeof(header), "%s%s", numbers[i].header,
			 numbers[i].sort == sort ? " v" : "");
		table_column_optional(t, header, TABLE_RIGHT,
				      numbers[i].sort == sort ? 0 : numbers[i].order);
	}
	if (k->keys & (KERNELS_DEVICE | KERNELS_STREAM))
		table_column(t, "Device", TABLE_LEFT);
	if (k->keys & KERNELS_STREAM)
		table_column(t, "Stream", TABLE_RIGHT);
	table_column(t, "Most launched by", TABLE_LEFT);
	if (k->keys & KERNELS_NAME)
		table_column(t, "Kernel", TABLE_LEFT);
}

static void add_rest(struct table *t, uint64_t n, uint64_t ns, const struct report_opts *opts)
{
	char line[120], rows[48], time[32];
	snprintf(line, sizeof(line), "%s: %.1f %%, %s",
		 text_counted(rows, sizeof(rows), n, "more row"), report_percent(ns, opts->busy_ns),
		 per_step(time, sizeof(time), opts, ns));
	if (n)
		table_line(t, line);
}

static bool is_shown(const struct kernel_row *r, const struct report_opts *opts, size_t shown)
{
	return report_percent(r->total_ns, opts->busy_ns) >= opts->percent_limit &&
	       (!opts->limit || shown < opts->limit);
}

int kernels_print(FILE *f, const struct kernels *k, const struct aggregate *a,
		  const struct report_opts *opts)
{
	const struct kernel_row **rows = kernels_sorted(k, opts);
	struct table *t = table_new();
	struct file_names files = {0};
	size_t shown = 0, n = k->row_ids.used;
	uint64_t rest_ns = 0;
	int r = -ENOMEM;
	if (rows && t) {
		for (uint32_t i = 0; i < k->source_ids.used; i++)
			file_names_add(&files, k->sources[i].file);
		add_head(t, k, opts->sort);
		for (size_t i = 0; i < n; i++) {
			if (!is_shown(rows[i], opts, shown)) {
				rest_ns += rows[i]->total_ns;
				continue;
			}
			add_row(t, k, rows[i], aggregate_devices(a), opts, &files);
			shown++;
		}
		add_rest(t, n - shown, rest_ns, opts);
		r = n ? table_print(t, f, opts->terminal.width, opts->terminal.color) : 0;
	}
	if (!r && !n)
		fputs("nothing is known of what devices did\n", f);
	file_names_free(&files);
	table_free(t);
	free(rows);
	return r;
}

/* A field for programs: a text, or the digits of a number. text NULL: not known, or not of these
 * rows. */
struct kernel_field {
	const char *name, *text;
	bool is_number;
	char digits[32];
};

enum { KERNEL_FIELDS = 19 };

struct kernel_fields {
	struct kernel_field list[KERNEL_FIELDS];
	size_t n;
};

static void word(struct kernel_fields *to, const char *name, const char *text)
{
	to->list[to->n++] = (struct kernel_field){.name = name, .text = text};
}

static void number(struct kernel_fields *to, const char *name, bool known, uint64_t n)
{
	struct kernel_field *d = &to->list[to->n++];
	*d = (struct kernel_field){.name = name, .is_number = known};
	snprintf(d->digits, sizeof(d->digits), "%" PRIu64, n);
	d->text = known ? d->digits : NULL;
}

static void fields_of(struct kernel_fields *to, const struct kernels *k, const struct kernel_row *r,
		      const struct report_opts *opts)
{
	const struct kernel_source *s = kernels_source(k, r);
	bool by_device = k->keys & (KERNELS_DEVICE | KERNELS_STREAM);
	to->n = 0;
	word(to, "kernel", r->name);
	word(to, "kind", r->name ? kinds[r->kind] : NULL);
	word(to, "device", NULL);
	if (by_device)
		to->list[to->n - 1].text =
		    names_device(to->list[to->n - 1].digits, sizeof(to->list->digits),
				 r->device.type, r->device.index);
	number(to, "pid", by_device, (uint64_t)r->device.pid);
	number(to, "rank", r->device.rank1, r->device.rank1 - 1);
	number(to, "stream", k->keys & KERNELS_STREAM, r->stream);
	number(to, "calls", true, r->calls);
	number(to, "total_ns", true, r->total_ns);
	number(to, "mean_ns", true, kernel_mean(r));
	number(to, "max_ns", true, r->max_ns);
	number(to, "device_percent", true, 0);
	snprintf(to->list[to->n - 1].digits, sizeof(to->list->digits), "%.4f",
		 report_percent(r->total_ns, opts->busy_ns));
	number(to, "bytes", true, r->bytes);
	word(to, "op", s->op);
	word(to, "phase", s->launch == LAUNCH_IN_OP ? op_phase_names[s->phase] : NULL);
	word(to, "file", s->file);
	number(to, "line", s->file, (uint64_t)s->line);
	word(to, "function", s->function);
	word(to, "parameter", s->parameter);
	number(to, "op_ns", true, s->ns);
}

int kernels_json(struct json_out *j, const char *key, const struct kernels *k,
		 const struct report_opts *opts)
{
	const struct kernel_row **rows = kernels_sorted(k, opts);
	struct kernel_fields row;
	if (!rows)
		return -ENOMEM;
	json_open(j, key, '[');
	for (uint32_t i = 0; i < k->row_ids.used; i++) {
		if (!is_shown(rows[i], opts, 0))
			continue;
		json_line(j);
		json_open(j, NULL, '{');
		fields_of(&row, k, rows[i], opts);
		for (size_t d = 0; d < row.n; d++)
			if (row.list[d].is_number)
				json_format(j, row.list[d].name, "%s", row.list[d].text);
			else
				json_text(j, row.list[d].name, row.list[d].text);
		json_close(j, '}');
	}
	json_line(j);
	json_close(j, ']');
	free(rows);
	return 0;
}

int kernels_print_csv(FILE *f, const struct kernels *k, const struct report_opts *opts)
{
	static const struct kernel_row none;
	const struct kernel_row **rows = kernels_sorted(k, opts);
	struct kernel_fields row;
	if (!rows)
		return -ENOMEM;
	fields_of(&row, k, &none, opts);
	for (size_t d = 0; d < row.n; d++)
		fprintf(f, "%s%s", d ? "," : "", row.list[d].name);
	putc('\n', f);
	for (uint32_t i = 0; i < k->row_ids.used; i++) {
		if (!is_shown(rows[i], opts, 0))
			continue;
		fields_of(&row, k, rows[i], opts);
		for (size_t d = 0; d < row.n; d++) {
			fputs(d ? "," : "", f);
			csv_text(f, row.list[d].text ? row.list[d].text : "");
		}
		putc('\n', f);
	}
	free(rows);
	return ferror(f) ? -EIO : 0;
}
