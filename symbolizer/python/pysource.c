#define _GNU_SOURCE
#include "symbolizer/python/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "symbolizer/target/target_files.h"

enum {
	MAX_FILES = 64,
	MAX_BYTES = 16 << 20,
	MAX_TEXT = MAX_BYTES / 5,
};

struct source {
	char *name;
	char *data; /* NULL: unreadable; cached so that it is not retried */
	size_t size;
	uint32_t *start; /* offset of each line, and of the end of the last */
	uint32_t lines;
	uint64_t used;
};

struct py_sources {
	struct target_files *files;
	const struct py_runtime *rt;
	struct source file[MAX_FILES];
	unsigned count;
	size_t bytes;
	uint64_t clock;
};

struct py_sources *py_sources_new(pid_t pid, const struct py_runtime *rt)
{
	struct py_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rt = rt;
	s->files = target_files_new(pid);
	if (!s->files) {
		free(s);
		return NULL;
	}
	return s;
}

static size_t source_bytes(const struct source *f)
{
	return f->size + (f->data ? (f->lines + 1) * sizeof(*f->start) : 0);
}

static void drop(struct py_sources *s, unsigned i)
{
	struct source *f = &s->file[i];

	s->bytes -= source_bytes(f);
	free(f->name);
	free(f->data);
	free(f->start);
	*f = s->file[--s->count];
}

void py_sources_free(struct py_sources *s)
{
	if (!s)
		return;
	while (s->count)
		drop(s, s->count - 1);
	target_files_free(s->files);
	free(s);
}

static char *read_all(int fd, size_t size)
{
	char *data = malloc(size + 1);
	size_t have = 0;

	while (data && have < size) {
		ssize_t n = read(fd, data + have, size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) { /* truncated since fstat */
			free(data);
			return NULL;
		}
		have += (size_t)n;
	}
	return data;
}

/* Python ends lines at \n, \r\n and \r. */
static bool ends_line(const struct source *f, size_t i)
{
	return f->data[i] == '\n' ||
	       (f->data[i] == '\r' && (i + 1 == f->size || f->data[i + 1] != '\n'));
}

static bool index_lines(struct source *f)
{
	uint32_t n = 1;

	for (size_t i = 0; i < f->size; i++)
		n += ends_line(f, i);
	f->start = malloc((n + 1) * sizeof(*f->start));
	if (!f->start)
		return false;
	f->lines = n;
	f->start[0] = 0;
	n = 0;
	for (size_t i = 0; i < f->size; i++)
		if (ends_line(f, i))
			f->start[++n] = (uint32_t)i + 1;
	f->start[n + 1] = (uint32_t)f->size;
	return true;
}

static void load_file(const struct py_sources *s, struct source *f)
{
	struct stat st;
	int fd = target_files_open(s->files, f->name, true);

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_size <= MAX_TEXT) {
		f->data = read_all(fd, (size_t)st.st_size);
		f->size = f->data ? (size_t)st.st_size : 0;
	}
	close(fd);
}

static void load_cached(const struct py_sources *s, struct source *f)
{
	size_t cell = py_cell_file(f->name);
	char *file = s->rt ? strndup(f->name, cell ? cell : strlen(f->name)) : NULL;
	ssize_t n = file ? py_linecache_text(s->rt, file, MAX_TEXT, &f->data) : -ENOENT;

	f->size = n < 0 ? 0 : (size_t)n;
	free(file);
}

static void load(const struct py_sources *s, struct source *f)
{
	if (f->name[0] != '<' && !py_cell_file(f->name))
		load_file(s, f);
	if (!f->data)
		load_cached(s, f);
	if (f->data && !index_lines(f)) {
		free(f->data);
		f->data = NULL;
		f->size = 0;
	}
}

static void make_room(struct py_sources *s)
{
	while (s->count > 1 && (s->count > MAX_FILES - 1 || s->bytes > MAX_BYTES)) {
		unsigned oldest = 0;

		for (unsigned i = 1; i < s->count; i++)
			if (s->file[i].used < s->file[oldest].used)
				oldest = i;
		drop(s, oldest);
	}
}

static struct source *sources_find(struct py_sources *s, const char *name)
{
	struct source *f;

	for (unsigned i = 0; i < s->count; i++) {
		if (strcmp(s->file[i].name, name) == 0) {
			s->file[i].used = ++s->clock;
			return &s->file[i];
		}
	}
	make_room(s);
	f = &s->file[s->count];
	*f = (struct source){.name = strdup(name), .used = ++s->clock};
	if (!f->name)
		return NULL;
	load(s, f);
	s->count++;
	s->bytes += source_bytes(f);
	return f;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\f' || c == '\n' || c == '\r';
}

static size_t copy_clean(char *out, size_t size, const char *p, const char *end)
{
	size_t len = 0;

	while (p < end) {
		uint32_t cp;
		size_t n = text_utf8(p, (size_t)(end - p), &cp);
		bool bad = n == 0 || *p == '\0';

		n = n ? n : 1;
		if (len + n >= size)
			break;
		memcpy(out + len, bad ? "?" : p, n);
		len += n;
		p += n;
	}
	out[len] = '\0';
	return len;
}

ssize_t py_sources_line(struct py_sources *s, const char *file, int32_t line, char *out,
			size_t size)
{
	const struct source *f = file[0] && line > 0 && size ? sources_find(s, file) : NULL;
	const char *p, *end;

	if (!f || !f->data || (uint32_t)line > f->lines)
		return -ENOENT;
	p = f->data + f->start[line - 1];
	end = f->data + f->start[line];
	while (p < end && is_space(*p))
		p++;
	while (end > p && is_space(end[-1]))
		end--;
	return (ssize_t)copy_clean(out, size, p, end);
}

bool py_sources_begins(struct py_sources *s, const char *file, const char *text)
{
	const struct source *f = file[0] ? sources_find(s, file) : NULL;
	const size_t len = strlen(text);

	for (uint32_t i = 0; f && f->data && i < f->lines; i++)
		if (f->start[i + 1] - f->start[i] >= len &&
		    !memcmp(f->data + f->start[i], text, len))
			return true;
	return false;
}

/* Join the str objects of a list. */
static ssize_t join_lines(const struct py_runtime *rt, uint64_t list, size_t max, char **out)
{
	enum { MAX_LINES = 1 << 16 };
	uint64_t items, line;
	ssize_t n = py_sequence(rt, list, MAX_LINES, &items);
	size_t len = 0;
	char *text = n < 0 ? NULL : malloc(max + 1);

	if (!text)
		return n < 0 ? n : -ENOMEM;
	for (ssize_t i = 0; i < n; i++) {
		ssize_t some = mem_read_u64(rt->mem, items + 8 * (uint64_t)i, &line);

		if (!some)
			some = py_read_str(rt, line, text + len, max + 1 - len);
		if (some < 0) {
			free(text);
			return some;
		}
		len += (size_t)some;
	}
	text[len] = '\0';
	*out = text;
	return (ssize_t)len;
}

/* An entry of linecache.cache without text yet, (get_source,), is left to its loader. torch.fx has
 * one: torch/fx/graph_module.py, _EvalCacheLoader. */
static ssize_t lazy_text(const struct py_runtime *rt, const char *file, size_t max, char **out)
{
	uint64_t loader, cache, text;
	int rc = py_module_get(rt, "torch.fx.graph_module", "_loader", &loader);

	if (!rc)
		rc = py_attribute_get(rt, loader, "eval_cache", &cache);
	if (!rc)
		rc = py_dict_get(rt, cache, file, &text);
	return rc ? rc : py_read_text(rt, text, max / 4, out);
}

/* linecache.cache: file name to (size, mtime, lines, full name). */
ssize_t py_linecache_text(const struct py_runtime *rt, const char *file, size_t max, char **out)
{
	enum { LINES = 2, FULL = 4, LAZY = 1 };
	uint64_t cache, entry, items, lines;
	ssize_t n;
	int rc = py_module_get(rt, "linecache", "cache", &cache);

	if (!rc)
		rc = py_dict_get(rt, cache, file, &entry);
	if (rc)
		return rc;
	n = py_sequence(rt, entry, FULL, &items);
	if (n == LAZY)
		return lazy_text(rt, file, max, out);
	if (n != FULL)
		return n < 0 ? n : -EPROTO;
	rc = mem_read_u64(rt->mem, items + 8 * LINES, &lines);
	return rc ? rc : join_lines(rt, lines, max, out);
}
