#include "replay/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/table.h"
#include "base/text.h"

#define FOLDER "op_tools_results/op_time_measure_result"

static int take_list(json_t *array, uint64_t **out, size_t *n)
{
	*n = json_array_size(array);
	*out = calloc(*n ? *n : 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < *n; i++)
		(*out)[i] = (uint64_t)json_integer_value(json_array_get(array, i));
	return 0;
}

static char *take_text(json_t *m, const char *key)
{
	const char *s = json_string_value(json_object_get(m, key));
	return s ? strdup(s) : NULL;
}

int times_add(struct times_list *l, size_t place, json_t *m)
{
	static const char *const keys[] = {"input", "output", "grad_inputs", "grad_outputs"};
	const char *device = json_string_value(json_object_get(m, "device"));
	if (array_grow(&l->list, &l->size, l->n + 1, sizeof(*l->list)))
		return -ENOMEM;
	struct times *t = &l->list[l->n++];
	*t = (struct times){.place = place};
	snprintf(t->device, sizeof(t->device), "%s", device ? device : "");
	for (int i = 0; i < 4; i++)
		t->texts[i] = take_text(m, keys[i]);
	t->why_no_backward = take_text(m, "why_no_backward");
	int r = take_list(json_object_get(m, "forward"), &t->forward, &t->nforward);
	return r ? r : take_list(json_object_get(m, "backward"), &t->backward, &t->nbackward);
}

void times_free(struct times_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->list[i].forward);
		free(l->list[i].backward);
		free(l->list[i].why_no_backward);
		for (int k = 0; k < 4; k++)
			free(l->list[i].texts[k]);
	}
	free(l->list);
	*l = (struct times_list){0};
}

/* "12.34500000" ms, in ditorch's format; "-" for none. */
static void ms(char *out, size_t size, const uint64_t *ns, size_t n, size_t i)
{
	if (i < n)
		snprintf(out, size, "%.8f", (double)ns[i] / 1e6);
	else
		snprintf(out, size, "-");
}

int times_print_runs(FILE *f, const struct times_list *l, const struct capture_places *p)
{
	static const char *const columns[] = {"name", "forward_id", "forward_elasped",
					      "backward_elasped", "unit"};
	struct table *t = table_new();
	char text[64];
	if (!t)
		return -ENOMEM;
	for (int i = 0; i < 5; i++)
		table_column(t, columns[i], TABLE_CENTER);
	for (size_t i = 0; i < l->n; i++) {
		const struct times *x = &l->list[i];
		for (size_t run = 0; run < x->nforward; run++) {
			table_cell(t, p->list[x->place].op);
			snprintf(text, sizeof(text), "%" PRId64, p->list[x->place].id);
			table_cell(t, text);
			ms(text, sizeof(text), x->forward, x->nforward, run);
			table_cell(t, text);
			ms(text, sizeof(text), x->backward, x->nbackward, run);
			table_cell(t, text);
			table_cell(t, "ms");
		}
	}
	int r = table_print_boxed(t, f, 0);
	table_free(t);
	return r;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* First, min, median, p99: four cells. The first run is not in the others, unless it is the only
 * one. */
static int summary_cells(struct table *t, const uint64_t *ns, size_t n)
{
	char text[32];
	size_t rest = n > 1 ? n - 1 : n;
	uint64_t *sorted = malloc((rest ? rest : 1) * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	if (rest) {
		memcpy(sorted, ns + (n - rest), rest * sizeof(*sorted));
		qsort(sorted, rest, sizeof(*sorted), by_size);
	}
	size_t p99 = rest ? (rest * 99 + 99) / 100 - 1 : 0; /* nearest rank */
	const size_t places[] = {0, rest / 2, p99};
	table_cell(t, n ? text_ns(text, sizeof(text), ns[0]) : "");
	for (int i = 0; i < 3; i++)
		table_cell(t, n ? text_ns(text, sizeof(text), sorted[places[i]]) : "");
	free(sorted);
	return 0;
}

int times_print_summary(FILE *f, const struct times_list *l, const struct capture_places *p,
			int width, bool color)
{
	static const char *const columns[] = {"Forward: first",	 "min", "median", "p99",
					      "Backward: first", "min", "median", "p99"};
	static const int orders[] = {0, 7, 0, 8, 0, 9, 0, 10};
	struct table *t = table_new();
	char text[160];
	int r = 0;
	if (!t)
		return -ENOMEM;
	table_columns(t, ">Id|>Runs");
	for (int i = 0; i < 8; i++)
		table_column_optional(t, columns[i], TABLE_RIGHT, orders[i]);
	table_columns(t, "Device|Op");
	for (size_t i = 0; i < l->n && !r; i++) {
		const struct times *x = &l->list[i];
		snprintf(text, sizeof(text), "%" PRId64, p->list[x->place].id);
		table_cell(t, text);
		table_cell(t, text_count(text, sizeof(text), x->nforward));
		r = summary_cells(t, x->forward, x->nforward);
		r = r ? r : summary_cells(t, x->backward, x->nbackward);
		table_cell(t, x->device);
		snprintf(text, sizeof(text), "%s%s%s%s", p->list[x->place].op,
			 x->why_no_backward ? "  (no backward: " : "",
			 x->why_no_backward ? x->why_no_backward : "",
			 x->why_no_backward ? ")" : "");
		table_cell(t, text);
	}
	r = r ? r : table_print(t, f, width, color);
	table_free(t);
	return r;
}

void times_csv_rows(FILE *f, const struct times_list *l, const struct capture_places *p, bool head)
{
	char text[64];
	if (head)
		fputs("name,forward_id,forward_elasped,backward_elasped,unit,input,output,"
		      "grad_inputs,grad_outputs\r\n",
		      f);
	for (size_t i = 0; i < l->n; i++) {
		const struct times *x = &l->list[i];
		for (size_t run = 0; run < x->nforward; run++) {
			csv_field(f, p->list[x->place].op);
			fprintf(f, ",%" PRId64 ",", p->list[x->place].id);
			ms(text, sizeof(text), x->forward, x->nforward, run);
			fprintf(f, "%s,", text);
			ms(text, sizeof(text), x->backward, x->nbackward, run);
			fprintf(f, "%s,ms", text);
			for (int k = 0; k < 4; k++) {
				putc(',', f);
				csv_field(f, x->texts[k] ? x->texts[k] : "-");
			}
			fputs("\r\n", f);
		}
	}
}

FILE *times_open_csv(char *path, size_t size, struct err *e)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;
	strftime(when, sizeof(when), "%Y-%m-%d-%H-%M-%S", localtime_r(&now, &tm));
	snprintf(path, size, FOLDER "/op_elasped_info_pid%d_%s.csv", (int)getpid(), when);
	return folders_make(FOLDER, e) ? NULL : file_replace_stream(path, e);
}

int times_write_csv(const struct times_list *l, const struct capture_places *p, char *path,
		    size_t size, struct err *e)
{
	FILE *f = times_open_csv(path, size, e);
	if (!f)
		return e->code;
	times_csv_rows(f, l, p, true);
	if (fclose(f))
		return err_set(e, -errno, "cannot write %s: %s", path, strerror(errno));
	return 0;
}
