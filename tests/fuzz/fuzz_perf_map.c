/* Fuzzes /tmp/perf-PID.map, which is read again when it has grown: a function is found where the
 * file says, by the last of its lines. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/native/native_stack.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static char *text_of(const unsigned char *data, size_t size)
{
	char *text = malloc(size + 1);
	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* As native_stack.h defines it: the entry with the highest start, of several the last line. */
static const char *expected(const struct perf_map *m, uint64_t pc)
{
	const struct perf_map_entry *best = NULL;
	for (size_t i = 0; i < m->n; i++) {
		const struct perf_map_entry *e = &m->entries[i];
		if (e->start <= pc && (!best || e->start > best->start ||
				       (e->start == best->start && e->name > best->name)))
			best = e;
	}
	return best && pc < best->end ? best->name : NULL;
}

static void check(const struct perf_map *m, const unsigned char *data, size_t size)
{
	size_t step = m->n / 16 + 1, lines = 0;
	for (size_t i = 0; i < size && data[i]; i++)
		lines += data[i] == '\n';
	if (m->n > lines)
		abort();
	for (size_t i = 0; i < m->n; i += step) {
		const struct perf_map_entry *e = &m->entries[i];
		if (e->start >= e->end || !*e->name || strchr(e->name, '\n'))
			abort();
		const uint64_t at[] = {e->start - 1, e->start, e->end - 1, e->end};
		for (unsigned k = 0; k < 4; k++)
			if (perf_map_find(m, at[k]) != expected(m, at[k]))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct perf_map m = {0};
	if (perf_map_find(&m, 0) || perf_map_parse(&m, text_of(data, size / 2)))
		abort();
	check(&m, data, size / 2);
	if (perf_map_parse(&m, text_of(data, size)))
		abort();
	check(&m, data, size);
	perf_map_free(&m);
	return 0;
}
