#define _GNU_SOURCE
#include "symbolizer/native/native_stack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"

enum { SIZE_MOST = 64 << 20 };

static int by_start(const void *a, const void *b)
{
	const struct perf_map_entry *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* False if the line is malformed. */
static bool parse_line(char *line, struct perf_map_entry *out)
{
	char *end;
	errno = 0;
	uint64_t start = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return false;
	char *number = end + 1;
	uint64_t size = strtoull(number, &end, 16);
	if (errno || end == number || *end != ' ' || !end[1] || !size || start + size < start)
		return false;
	*out = (struct perf_map_entry){start, start + size, end + 1};
	return true;
}

int perf_map_parse(struct perf_map *m, char *text)
{
	off_t size = m->size;
	perf_map_free(m);
	m->text = text;
	m->size = size;
	for (char *line = text, *next; line && *line; line = next) {
		struct perf_map_entry e;
		next = strchr(line, '\n');
		if (!next)
			break; /* incomplete: still being written */
		*next++ = '\0';
		if (!parse_line(line, &e))
			continue;
		if (array_grow(&m->entries, &m->room, m->n + 1, sizeof(*m->entries)))
			return -ENOMEM;
		m->entries[m->n++] = e;
	}
	if (m->n)
		qsort(m->entries, m->n, sizeof(*m->entries), by_start);
	return 0;
}

static int open_map(struct target_files *files, pid_t ns_pid, struct stat *st)
{
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", ns_pid);
	int fd = target_files_open(files, path, false);
	if (fd >= 0 &&
	    (fstat(fd, st) || !target_files_trusts(files, st->st_uid) || st->st_size > SIZE_MOST)) {
		close(fd);
		return -1;
	}
	return fd;
}

int perf_map_read(struct perf_map *m, struct target_files *files, pid_t ns_pid)
{
	struct stat st;
	int fd = open_map(files, ns_pid, &st);
	if (fd < 0)
		return 0;
	bool grown = st.st_size > m->size;
	char *text = grown ? io_text(fd, (size_t)st.st_size) : NULL;
	close(fd);
	if (!text)
		return grown ? -ENOMEM : 0;
	m->size = st.st_size;
	return perf_map_parse(m, text);
}

const char *perf_map_find(const struct perf_map *m, uint64_t pc)
{
	size_t n = array_up_to(m->entries, m->n, sizeof(*m->entries), pc);
	return n && pc < m->entries[n - 1].end ? m->entries[n - 1].name : NULL;
}

void perf_map_free(struct perf_map *m)
{
	free(m->entries);
	free(m->text);
	*m = (struct perf_map){0};
}
