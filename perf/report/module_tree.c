#define _GNU_SOURCE
#include "perf/report/module_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"

enum { NONE = MODULE_TREE_NONE };

struct module_tree {
	struct intern ids; /* by path */
	struct arena arena;
	struct module_node *list;
	size_t room;
	uint32_t root; /* of all paths; NONE */
	/* By parent, those of one in the order asked for, and where each node stands there. */
	uint32_t *order, *place;
	int (*compare)(const struct module_node *a, const struct module_node *b, const void *arg);
	const void *arg;
};

/* The module with the path of `len` bytes, new below `parent` if need be; or -ENOMEM. */
static int64_t module_at(struct module_tree *t, const char *path, size_t len, size_t name,
			 uint32_t parent)
{
	bool is_new;
	int64_t id = intern(&t->ids, path, (uint32_t)len, &is_new);
	if (id < 0 || !is_new)
		return id;
	const char *text = arena_strndup(&t->arena, path, len);
	if (!text || array_grow(&t->list, &t->room, (size_t)id + 1, sizeof(*t->list)))
		return -ENOMEM;
	t->list[id] = (struct module_node){.path = text, .name = text + name, .parent = parent};
	return id;
}

/* Where the component ends that begins at `at`; the numbers of a list belong to its name. */
static size_t component_end(const char *path, size_t at)
{
	size_t end = at + strcspn(path + at, ".");
	while (path[end] == '.' && path[end + 1] >= '0' && path[end + 1] <= '9')
		end += 1 + strcspn(path + end + 1, ".");
	return end;
}

/* The module of a row, and those that contain it. */
static int64_t module_of(struct module_tree *t, const char *path)
{
	if (!path || !path[0])
		path = "(in no module)";
	if (path[0] == '(')
		return module_at(t, path, strlen(path), 0, NONE);
	int64_t id = t->root;
	for (size_t at = 0; path[at];) {
		size_t end = component_end(path, at);
		id = module_at(t, path, end, at, (uint32_t)id);
		if (id < 0)
			return id;
		at = end + (path[end] == '.');
	}
	return id;
}

/* The only module that no other contains is the one that all paths begin at. Of several it is not
 * known which. */
static int find_root(struct module_tree *t, const struct module_row *rows, size_t n)
{
	t->root = NONE;
	for (size_t i = 0; i < n; i++)
		if (rows[i].path && rows[i].path[0] == '(' && module_of(t, rows[i].path) < 0)
			return -ENOMEM;
	t->root = t->ids.used == 1 ? 0 : NONE;
	return 0;
}

static int add_rows(struct module_tree *t, const struct module_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct module_row *r = &rows[i];
		int64_t id = module_of(t, r->path);
		if (id < 0)
			return -ENOMEM;
		uint64_t *own = t->list[id].own;
		own[phase_is_backward(r->phase) ? MODULE_BACKWARD : MODULE_FORWARD] += r->self_ns;
		own[MODULE_DEVICES] += r->device_ns;
		own[MODULE_CALLS] += r->calls;
	}
	return 0;
}

static void add_up(struct module_tree *t)
{
	for (uint32_t i = t->ids.used; i-- > 0;)
		for (int f = 0; f < MODULE_FIGURES; f++) {
			struct module_node *m = &t->list[i];
			m->all[f] += m->own[f];
			if (m->parent != NONE)
				t->list[m->parent].all[f] += m->all[f];
		}
}

static int build(struct module_tree *t, const struct module_row *rows, size_t n)
{
	if (find_root(t, rows, n) || add_rows(t, rows, n))
		return -ENOMEM;
	t->order = calloc(t->ids.used + 1, sizeof(*t->order));
	t->place = calloc(t->ids.used + 1, sizeof(*t->place));
	if (!t->order || !t->place)
		return -ENOMEM;
	add_up(t);
	module_tree_sort(t, NULL, NULL);
	return 0;
}

struct module_tree *module_tree_new(const struct module_row *rows, size_t n)
{
	struct module_tree *t = calloc(1, sizeof(*t));
	if (!t || !build(t, rows, n))
		return t;
	module_tree_free(t);
	return NULL;
}

const struct module_node *module_tree_nodes(const struct module_tree *t, uint32_t *n)
{
	*n = t->ids.used;
	return t->list;
}

static int by_parent(const void *a, const void *b, void *tree)
{
	const struct module_tree *t = tree;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct module_node *x = &t->list[i], *y = &t->list[k];
	if (x->parent != y->parent) /* NONE comes first */
		return x->parent + 1 < y->parent + 1 ? -1 : 1;
	int c = t->compare ? t->compare(x, y, t->arg) : 0;
	return c ? c : (i > k) - (i < k);
}

void module_tree_sort(struct module_tree *t,
		      int (*compare)(const struct module_node *a, const struct module_node *b,
				     const void *arg),
		      const void *arg)
{
	uint32_t n = t->ids.used;
	t->compare = compare;
	t->arg = arg;
	for (uint32_t i = 0; i < n; i++)
		t->order[i] = i;
	qsort_r(t->order, n, sizeof(*t->order), by_parent, t);
	for (uint32_t i = 0; i < n; i++)
		t->place[t->order[i]] = i;
}

/* The node at that place of the order, if it is below `parent`. */
static uint32_t node_below(const struct module_tree *t, uint32_t place, uint32_t parent)
{
	if (place >= t->ids.used || t->list[t->order[place]].parent != parent)
		return NONE;
	return t->order[place];
}

uint32_t module_tree_first(const struct module_tree *t, uint32_t parent)
{
	uint32_t low = 0, high = t->ids.used;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (t->list[t->order[middle]].parent + 1 < parent + 1)
			low = middle + 1;
		else
			high = middle;
	}
	return node_below(t, low, parent);
}

uint32_t module_tree_next(const struct module_tree *t, uint32_t node)
{
	return node_below(t, t->place[node] + 1, t->list[node].parent);
}

void module_tree_free(struct module_tree *t)
{
	if (!t)
		return;
	intern_free(&t->ids);
	arena_free(&t->arena);
	free(t->list);
	free(t->order);
	free(t->place);
	free(t);
}
