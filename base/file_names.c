#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* The end of `path` that is longer by one folder. */
static const char *longer(const char *path, const char *end)
{
	if (end - path < 2)
		return path;
	end -= 2;
	while (end > path && *end != '/')
		end--;
	return *end == '/' && end[1] ? end + 1 : end;
}

static int share(struct file_names *n, const char *end)
{
	bool is_new;
	int64_t id = intern(&n->ends, end, (uint32_t)strlen(end), &is_new);
	if (id < 0 || array_grow(&n->shared, &n->room, (size_t)id + 1, sizeof(*n->shared)))
		return -ENOMEM;
	n->shared[id] = is_new ? 1 : n->shared[id] + 1;
	return 0;
}

int file_names_add(struct file_names *n, const char *path)
{
	bool is_new = false;
	int64_t id = path ? intern(&n->paths, path, (uint32_t)strlen(path), &is_new) : 0;
	if (id < 0 || !is_new)
		return id < 0 ? -ENOMEM : 0;
	const char *end = text_base_name(path);
	int r = share(n, end);
	while (!r && end > path) {
		end = longer(path, end);
		r = share(n, end);
	}
	return r;
}

const char *file_names_short(const struct file_names *n, const char *path)
{
	const char *base = text_base_name(path), *end = base;
	if (!n || intern_find(&n->paths, path, (uint32_t)strlen(path)) < 0)
		return base;
	for (;; end = longer(path, end)) {
		int64_t id = intern_find(&n->ends, end, (uint32_t)strlen(end));
		if (end == path || id < 0 || n->shared[id] < 2)
			return end;
	}
}

void file_names_free(struct file_names *n)
{
	intern_free(&n->paths);
	intern_free(&n->ends);
	free(n->shared);
	*n = (struct file_names){0};
}
