/* Groups of processes of torch.distributed, as its distributed_c10d.py keeps them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/python/internal.h"

enum { GROUPS_MAX = 1024, VALUE = 16 };

static const char module[] = "torch.distributed.distributed_c10d";

/* A snapshot of a dict of that module; *pairs is from malloc. */
static int read_dict(const struct py_runtime *rt, uint64_t dict, struct py_dict *d,
		     uint64_t (**pairs)[2])
{
	int r = py_dict_open(rt, dict, d);
	*pairs = r ? NULL : calloc(d->n + 1, sizeof(**pairs));
	if (!r)
		r = *pairs ? py_dict_read(rt, d, *pairs) : -ENOMEM;
	return r;
}

static int compare_ranks(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* The keys of the dict at `dict`, ints, in ascending order. */
static int read_ranks(const struct py_runtime *rt, uint64_t dict, struct python_group *out)
{
	struct py_dict d;
	uint64_t(*pairs)[2];
	int r = read_dict(rt, dict, &d, &pairs);
	out->ranks = r ? NULL : calloc(d.n + 1, sizeof(*out->ranks));
	r = r || out->ranks ? r : -ENOMEM;
	for (size_t i = 0; i < d.n && !r; i++) {
		if (!pairs[i][1])
			continue;
		int64_t rank = py_read_int(rt, pairs[i][0]);
		r = rank < 0 ? (int)rank : 0;
		out->ranks[out->n++] = (int32_t)rank;
	}
	if (!r)
		qsort(out->ranks, out->n, sizeof(*out->ranks), compare_ranks);
	free(pairs);
	return r;
}

/* The group whose Python object is the key, and whose ranks are the value. */
static int read_group(const struct py_runtime *rt, uint64_t names, const uint64_t pair[2],
		      struct python_group *out)
{
	struct py_dict d;
	uint64_t(*pairs)[2];
	int r = py_read_word(rt, pair[0] + VALUE, &out->object);
	if (!r)
		r = read_ranks(rt, pair[1], out);
	if (r)
		return r;
	r = read_dict(rt, names, &d, &pairs);
	for (size_t i = 0; !r && i < d.n; i++)
		if (pairs[i][1] && pairs[i][0] == pair[0] &&
		    py_read_str(rt, pairs[i][1], out->name, sizeof(out->name)) < 0)
			out->name[0] = '\0';
	free(pairs);
	return r ? r : out->name[0] ? 0 : -ENOENT;
}

void python_groups_free(struct python_group *groups, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(groups[i].ranks);
	free(groups);
}

static int read_groups(const struct py_runtime *rt, uint64_t names, const struct py_dict *d,
		       const uint64_t (*pairs)[2], struct python_group *all)
{
	int n = 0, r = 0;
	for (size_t i = 0; i < d->n && !r; i++) {
		if (!pairs[i][1])
			continue;
		r = read_group(rt, names, pairs[i], &all[n]);
		/* What stands for the groups that the process is not in has no name. */
		if (r == -ENOENT) {
			free(all[n].ranks);
			all[n] = (struct python_group){0};
			r = 0;
		} else {
			n++;
		}
	}
	return r ? r : n;
}

int python_groups(const struct py_runtime *rt, struct python_group **out)
{
	uint64_t names, ranks, (*pairs)[2] = NULL;
	struct py_dict d = {0};
	*out = NULL;
	int r = py_module_get(rt, module, "_pg_names", &names);
	if (!r)
		r = py_module_get(rt, module, "_pg_group_ranks", &ranks);
	if (!r)
		r = read_dict(rt, ranks, &d, &pairs);
	if (!r && d.n > GROUPS_MAX)
		r = -E2BIG;
	if (!r)
		*out = calloc(d.n + 1, sizeof(**out));
	if (!r)
		r = *out ? read_groups(rt, names, &d, (const uint64_t(*)[2])pairs, *out) : -ENOMEM;
	if (r < 0 && *out) {
		python_groups_free(*out, d.n);
		*out = NULL;
	}
	free(pairs);
	return r;
}

/* An entry is only ever added behind the last one, unless all are moved to other memory. */
int python_groups_changed(const struct py_runtime *rt, struct python_groups_mark *mark)
{
	struct py_dict d;
	int r = mark->dict ? 0 : py_module_get(rt, module, "_pg_group_ranks", &mark->dict);
	r = r ? r : py_dict_open(rt, mark->dict, &d);
	if (r)
		return r;
	bool changed = d.entries != mark->entries || d.n != mark->n;
	mark->entries = d.entries;
	mark->n = d.n;
	return changed;
}
