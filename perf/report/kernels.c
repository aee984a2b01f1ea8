/* Sums by kernel: found, made, sorted. kernels_print.c shows them. */
#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/report/internal.h"

enum { KEY_MAX = 8192 };

struct kernels *kernels_new(unsigned keys)
{
	struct kernels *k = calloc(1, sizeof(*k));
	if (k)
		k->keys = keys;
	return k;
}

void kernels_free(struct kernels *k)
{
	if (!k)
		return;
	intern_free(&k->row_ids);
	intern_free(&k->source_ids);
	arena_free(&k->arena);
	free(k->rows);
	free(k->sources);
	free(k);
}

static const char *copy_text(struct kernels *k, const char *s, bool *failed)
{
	const char *copy = s ? arena_strndup(&k->arena, s, strlen(s)) : NULL;
	*failed |= s && !copy;
	return copy;
}

static struct kernel_row *row_of_kernel(struct kernels *k, const struct activity *a, uint32_t *at)
{
	struct {
		int32_t pid;
		uint32_t rank1, stream;
		int8_t type, index;
		uint8_t kind, unused;
	} of = {0};
	char key[KEY_MAX];
	bool is_new, failed = false, by_name = k->keys & KERNELS_NAME;
	size_t len = by_name ? strnlen(a->name, sizeof(key) - sizeof(of)) : 0;
	if (k->keys & (KERNELS_DEVICE | KERNELS_STREAM)) {
		of.pid = a->of.pid;
		of.rank1 = a->of.rank1;
		of.type = a->device_type;
		of.index = a->device_index;
	}
	of.stream = k->keys & KERNELS_STREAM ? a->stream : 0;
	of.kind = by_name ? (uint8_t)a->kind : 0;
	memcpy(key, &of, sizeof(of));
	memcpy(key + sizeof(of), a->name, len);
	int64_t id = intern(&k->row_ids, key, (uint32_t)(sizeof(of) + len), &is_new);
	if (id < 0 || array_grow(&k->rows, &k->rows_room, (size_t)id + 1, sizeof(*k->rows)))
		return NULL;
	struct kernel_row *r = &k->rows[id];
	if (is_new)
		*r = (struct kernel_row){.name = by_name ? copy_text(k, a->name, &failed) : NULL,
					 .kind = (uint8_t)a->kind,
					 .device = {.rank1 = of.rank1,
						    .pid = of.pid,
						    .type = of.type,
						    .index = of.index},
					 .stream = of.stream};
	*at = (uint32_t)id;
	return failed ? NULL : r;
}

/* The op and line that launch it. */
static int add_source(struct kernels *k, uint32_t row, const struct activity *a, uint64_t ns)
{
	const struct py_frame *where = py_stack_where(a->of.where_stack);
	const char *parameter = py_stack_parameter(a->of.where_stack);
	const char *op = a->of.op ? a->of.op->name : report_launch_text(a->launch);
	char key[KEY_MAX];
	bool is_new, failed = false;
	int len = snprintf(key, sizeof(key), "%u %d %d %s %s", row, a->of.phase,
			   where ? where->line : 0, op,
			   where && where->file ? where->file
			   : parameter		? parameter
						: "");
	size_t used = len < 0 ? 0 : (size_t)len < sizeof(key) ? (size_t)len : sizeof(key) - 1;
	int64_t id = intern(&k->source_ids, key, (uint32_t)used, &is_new);
	if (id < 0 ||
	    array_grow(&k->sources, &k->sources_room, (size_t)id + 1, sizeof(*k->sources)))
		return -ENOMEM;
	struct kernel_source *s = &k->sources[id];
	if (is_new)
		*s = (struct kernel_source){
		    .op = copy_text(k, op, &failed),
		    .file = copy_text(k, where ? where->file : NULL, &failed),
		    .function = copy_text(k, where ? where->function : NULL, &failed),
		    .parameter = copy_text(k, parameter, &failed),
		    .line = where ? where->line : 0,
		    .phase = a->of.phase,
		    .launch = (uint8_t)a->launch};
	s->ns += ns;
	struct kernel_row *r = &k->rows[row];
	if (!r->source1 || s->ns > k->sources[r->source1 - 1].ns)
		r->source1 = (uint32_t)id + 1;
	return failed ? -ENOMEM : 0;
}

int kernels_add(struct kernels *k, const struct activity *a)
{
	uint64_t ns = a->of.end_ns > a->of.start_ns ? a->of.end_ns - a->of.start_ns : 0;
	uint32_t at;
	struct kernel_row *r = row_of_kernel(k, a, &at);
	if (!r)
		return -ENOMEM;
	r->calls++;
	r->total_ns += ns;
	r->max_ns = ns > r->max_ns ? ns : r->max_ns;
	r->bytes += a->bytes;
	return add_source(k, at, a, ns);
}

const struct kernel_source *kernels_source(const struct kernels *k, const struct kernel_row *r)
{
	static const struct kernel_source none = {.op = ""};
	return r->source1 ? &k->sources[r->source1 - 1] : &none;
}

static uint64_t sort_key(const struct kernel_row *r, enum report_sort sort)
{
	return sort == REPORT_BY_CALLS	? r->calls
	       : sort == REPORT_BY_MEAN ? kernel_mean(r)
	       : sort == REPORT_BY_MAX	? r->max_ns
					: r->total_ns;
}

static int compare_kernels(const void *a, const void *b, void *opts)
{
	const struct kernel_row *x = *(const struct kernel_row *const *)a;
	const struct kernel_row *y = *(const struct kernel_row *const *)b;
	enum report_sort sort = ((const struct report_opts *)opts)->sort;
	uint64_t kx = sort_key(x, sort), ky = sort_key(y, sort);
	return kx != ky ? (kx > ky ? -1 : 1) : (x > y) - (x < y);
}

const struct kernel_row **kernels_sorted(const struct kernels *k, const struct report_opts *opts)
{
	uint32_t n = k->row_ids.used;
	const struct kernel_row **rows = malloc((n + 1) * sizeof(*rows));
	for (uint32_t i = 0; rows && i < n; i++)
		rows[i] = &k->rows[i];
	if (rows)
		qsort_r(rows, n, sizeof(*rows), compare_kernels, (void *)opts);
	return rows;
}

static unsigned key_of(const char *word, size_t len)
{
	static const struct {
		const char *name;
		unsigned key;
	} keys[] = {
	    {"kernel", KERNELS_NAME}, {"device", KERNELS_DEVICE}, {"stream", KERNELS_STREAM}};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i].name) == len && !strncmp(word, keys[i].name, len))
			return keys[i].key;
	return 0;
}

int kernels_parse(const char *group, unsigned *keys, struct err *e)
{
	const char *other = NULL;
	size_t other_len = 0;
	*keys = 0;
	for (const char *s = group; s && *s; s += *s == ',') {
		size_t len = strcspn(s, ",");
		unsigned key = key_of(s, len);
		*keys |= key;
		if (!key) {
			other = s;
			other_len = len;
		}
		s += len;
	}
	if (!(*keys & (KERNELS_NAME | KERNELS_STREAM)))
		return 0;
	if (!other)
		return 1;
	err_set(e, -EINVAL, "--group %s: kernels and streams do not go with \"%.*s\"", group,
		(int)(other_len < 40 ? other_len : 40), other);
	return err_hint(e, "any of kernel, device, stream; or the other keys, whose rows have the "
			   "time of devices");
}

int kernels_parse_sort(const char *text, enum report_sort *sort, struct err *e)
{
	static const struct {
		const char *name;
		enum report_sort sort;
	} words[] = {{"device_time", REPORT_BY_DEVICE_TIME},
		     {"device", REPORT_BY_DEVICE_TIME},
		     {"total", REPORT_BY_DEVICE_TIME},
		     {"calls", REPORT_BY_CALLS},
		     {"mean", REPORT_BY_MEAN},
		     {"max", REPORT_BY_MAX}};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(text, words[i].name)) {
			*sort = words[i].sort;
			return 0;
		}
	err_set(e, -EINVAL, "--sort: kernels cannot be sorted by \"%.40s\"", text);
	return err_hint(e, "one of total, calls, mean, max");
}
