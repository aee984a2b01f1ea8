/* Rows by module as a tree: made, and printed as a table and as JSON. */
#define _GNU_SOURCE
#include "perf/report/module_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

enum { NONE = MODULE_TREE_NONE, PATH_SIZE = 1024 };

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
		path = "(in no known module)";
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

/* What is printed, and the base of percentages. */
struct printed {
	const struct report_opts *opts;
	const struct module_node *nodes;
	struct module_tree *tree;
	uint64_t observed_ns;
	bool devices; /* there is time of devices, and it comes first */
};

static int compare_modules(const struct module_node *a, const struct module_node *b,
			   const void *printed)
{
	const struct printed *p = printed;
	int c =
	    p->devices ? module_largest_first(a->all[MODULE_DEVICES], b->all[MODULE_DEVICES]) : 0;
	return c ? c : module_largest_first(module_total_ns(a), module_total_ns(b));
}

/* The tree of the rows of an aggregate, less those of threads that load data and of
 * compilations; NULL without memory. */
static struct module_tree *tree_of(const struct aggregate *a)
{
	size_t n, used = 0;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	struct module_row *list = calloc(n + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *r = rows[i];
		const char *launch = report_launch_text(r->launch);
		if (!r->worker && r->phase != PHASE_COMPILE)
			list[used++] = (struct module_row){.path = launch ? launch : r->module,
							   .phase = (enum op_phase)r->phase,
							   .calls = r->calls,
							   .self_ns = r->self_ns,
							   .device_ns = r->device_ns};
	}
	struct module_tree *t = module_tree_new(list, used);
	free(list);
	return t;
}

static void add_time(struct table *to, uint64_t ns, const struct report_opts *opts)
{
	char text[32];
	table_cell(to, text_ns(text, sizeof(text), opts->per_step ? ns / opts->per_step : ns));
}

static void add_percent(struct table *to, double part)
{
	char text[32];
	snprintf(text, sizeof(text), "%.1f%%", part);
	table_cell_styled(to, text, part >= 10 ? TABLE_HOT : part >= 3 ? TABLE_WARM : TABLE_PLAIN);
}

static void add_module(struct table *to, const struct printed *p, const struct module_node *m,
		       int indent)
{
	char text[PATH_SIZE];
	bool of_host = module_total_ns(m) || !m->all[MODULE_DEVICES];
	if (of_host)
		add_percent(to, report_percent(module_total_ns(m), p->observed_ns));
	else
		table_cell(to, "-");
	if (p->devices) {
		add_percent(to, report_percent(m->all[MODULE_DEVICES], p->opts->busy_ns));
		add_time(to, m->all[MODULE_DEVICES], p->opts);
	}
	const uint64_t times[] = {m->all[MODULE_FORWARD], m->all[MODULE_BACKWARD],
				  module_total_ns(m), module_own_ns(m)};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (of_host)
			add_time(to, times[i], p->opts);
		else
			table_cell(to, "-");
	snprintf(text, sizeof(text), "%*s%s", indent, "", m->name);
	table_cell(to, text);
}

/* Returns how many modules are shown. */
static size_t add_below(struct table *to, const struct printed *p, uint32_t parent, int indent)
{
	enum { DEEPEST = 200 };
	size_t shown = 0;
	uint32_t i = indent > DEEPEST ? NONE : module_tree_first(p->tree, parent);
	for (; i != NONE; i = module_tree_next(p->tree, i)) {
		const struct module_node *m = &p->nodes[i];
		double host = report_percent(module_total_ns(m), p->observed_ns);
		double device = report_percent(m->all[MODULE_DEVICES], p->opts->busy_ns);
		if (host < p->opts->percent_limit && device < p->opts->percent_limit)
			continue;
		add_module(to, p, m, indent);
		shown += 1 + add_below(to, p, i, indent + 2);
	}
	return shown;
}

static void add_columns(struct table *to, bool devices)
{
	const struct {
		const char *header;
		int order;
		bool of_devices;
	} numbers[] = {{devices ? "Total %" : "Total % v", 0, false},
		       {"Device % v", 0, true},
		       {"Device", 0, true},
		       {"Forward", 3, false},
		       {"Backward", 2, false},
		       {"Total", 0, false},
		       {"Own", 4, false}};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (devices || !numbers[i].of_devices)
			table_column_optional(to, numbers[i].header, TABLE_RIGHT,
					      devices || numbers[i].order == 4 ? numbers[i].order
									       : 0);
	table_column(to, "Module", TABLE_LEFT);
}

int module_tree_print(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct aggregate_totals totals;
	struct table *to = table_new();
	char line[64];
	uint32_t n;
	aggregate_totals(a, &totals);
	struct printed p = {.opts = opts,
			    .tree = tree_of(a),
			    .observed_ns = totals.observed_ns,
			    .devices = aggregate_keys(a) & AGGREGATE_ACTIVITIES};
	int r = -ENOMEM;
	if (to && p.tree) {
		p.nodes = module_tree_nodes(p.tree, &n);
		module_tree_sort(p.tree, compare_modules, &p);
		add_columns(to, p.devices);
		size_t left = n - add_below(to, &p, NONE, 0);
		if (left)
			table_line(to, text_counted(line, sizeof(line), left, "more module"));
		r = table_print(to, f, opts->terminal.width, opts->terminal.color);
	}
	table_free(to);
	module_tree_free(p.tree);
	return r;
}

static void put_below(struct json_out *j, const char *key, const struct printed *p, uint32_t parent,
		      int depth)
{
	enum { DEEPEST = 100 };
	json_open(j, key, '[');
	uint32_t i = depth < DEEPEST ? module_tree_first(p->tree, parent) : NONE;
	for (; i != NONE; i = module_tree_next(p->tree, i)) {
		const struct module_node *m = &p->nodes[i];
		json_open(j, NULL, '{');
		json_text(j, "name", m->name);
		json_u64(j, "forward_ns", m->all[MODULE_FORWARD]);
		json_u64(j, "backward_ns", m->all[MODULE_BACKWARD]);
		json_u64(j, "own_ns", module_own_ns(m));
		put_below(j, "modules", p, i, depth + 1);
		json_close(j, '}');
	}
	json_close(j, ']');
}

int module_tree_json(struct json_out *j, const char *key, const struct aggregate *a)
{
	uint32_t n;
	struct printed p = {.tree = tree_of(a)};
	if (!p.tree)
		return -ENOMEM;
	p.nodes = module_tree_nodes(p.tree, &n);
	module_tree_sort(p.tree, compare_modules, &p);
	put_below(j, key, &p, NONE, 0);
	module_tree_free(p.tree);
	return 0;
}
