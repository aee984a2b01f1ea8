#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/python/internal.h"

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
