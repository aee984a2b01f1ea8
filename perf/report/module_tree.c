/* Rows by module as a tree: each module with what its submodules took, forward and backward. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

enum { NONE = UINT32_MAX, PATH_SIZE = 1024, DEVICES = 2, SIDES = 3 };

/* A module. Its index is greater than its parent's. */
struct module {
	const char *name; /* "blocks.0", below its parent */
	uint32_t parent;
	/* Forward, backward, and what devices did for both, ns; all: with its submodules. */
	uint64_t own[SIDES], all[SIDES];
};

struct module_tree {
	struct intern ids; /* by path */
	struct arena arena;
	struct module *list;
	size_t room;
	uint32_t root;	 /* of all paths; NONE */
	uint32_t *order; /* by parent, then by time */
	bool devices;	 /* that time is of devices */
};

static uint64_t time_of(const struct module *m)
{
	return m->all[0] + m->all[1];
}

/* The module with the path of `len` bytes, new below `parent` if need be; or -ENOMEM. */
static int64_t module_at(struct module_tree *t, const char *path, size_t len, size_t name,
			 uint32_t parent)
{
	bool is_new;
	int64_t id = intern(&t->ids, path, (uint32_t)len, &is_new);
	if (id < 0 || !is_new)
		return id;
	char *text = arena_strndup(&t->arena, path + name, len - name);
	if (!text || array_grow(&t->list, &t->room, (size_t)id + 1, sizeof(*t->list)))
		return -ENOMEM;
	t->list[id] = (struct module){.name = text, .parent = parent};
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
static int find_root(struct module_tree *t, const struct aggregate_row *const *rows, size_t n)
{
	t->root = NONE;
	for (size_t i = 0; i < n; i++) {
		const char *m = rows[i]->module;
		if (!m || m[0] != '(')
			continue;
		int64_t id = module_of(t, m);
		if (id < 0)
			return -ENOMEM;
	}
	t->root = t->ids.used == 1 ? 0 : NONE;
	return 0;
}

static uint64_t sort_key(const struct module_tree *t, uint32_t i)
{
	return t->devices ? t->list[i].all[DEVICES] : time_of(&t->list[i]);
}

static int compare(const void *a, const void *b, void *tree)
{
	const struct module_tree *t = tree;
	const struct module *list = t->list;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	if (list[i].parent != list[k].parent) /* NONE comes first */
		return list[i].parent + 1 < list[k].parent + 1 ? -1 : 1;
	if (sort_key(t, i) != sort_key(t, k))
		return sort_key(t, i) > sort_key(t, k) ? -1 : 1;
	if (time_of(&list[i]) != time_of(&list[k]))
		return time_of(&list[i]) > time_of(&list[k]) ? -1 : 1;
	return (i > k) - (i < k);
}

static bool is_left_out(const struct aggregate_row *r)
{
	return r->worker || r->phase == PHASE_COMPILE;
}

static int build(struct module_tree *t, const struct aggregate_row *const *rows, size_t n)
{
	if (find_root(t, rows, n))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *r = rows[i];
		const char *launch = report_launch_text(r->launch);
		int64_t id = is_left_out(r) ? -1 : module_of(t, launch ? launch : r->module);
		if (id < 0 && !is_left_out(r))
			return -ENOMEM;
		if (id < 0)
			continue;
		t->list[id].own[phase_is_backward(r->phase)] += r->self_ns;
		t->list[id].own[DEVICES] += r->device_ns;
	}
	uint32_t all = t->ids.used;
	t->order = malloc((all + 1) * sizeof(*t->order));
	if (!t->order)
		return -ENOMEM;
	for (uint32_t i = all; i-- > 0;)
		for (int side = 0; side < SIDES; side++) {
			struct module *m = &t->list[i];
			m->all[side] += m->own[side];
			if (m->parent != NONE)
				t->list[m->parent].all[side] += m->all[side];
		}
	for (uint32_t i = 0; i < all; i++)
		t->order[i] = i;
	qsort_r(t->order, all, sizeof(*t->order), compare, t);
	return 0;
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

static void add_module(struct table *to, const struct module_tree *t, const struct module *m,
		       int indent, uint64_t observed_ns, const struct report_opts *opts)
{
	char text[PATH_SIZE];
	bool of_host = time_of(m) || !m->all[DEVICES];
	if (of_host)
		add_percent(to, report_percent(time_of(m), observed_ns));
	else
		table_cell(to, "-");
	if (t->devices) {
		add_percent(to, report_percent(m->all[DEVICES], opts->busy_ns));
		add_time(to, m->all[DEVICES], opts);
	}
	const uint64_t times[] = {m->all[0], m->all[1], time_of(m), m->own[0] + m->own[1]};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (of_host)
			add_time(to, times[i], opts);
		else
			table_cell(to, "-");
	snprintf(text, sizeof(text), "%*s%s", indent, "", m->name);
	table_cell(to, text);
}

/* The index in `order` of the first module below `parent`. */
static uint32_t first_below(const struct module_tree *t, uint32_t parent)
{
	uint32_t low = 0, high = t->ids.used;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (t->list[t->order[middle]].parent + 1 < parent + 1)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns how many modules are shown. */
static size_t add_below(struct table *to, const struct module_tree *t, uint32_t parent, int indent,
			uint64_t observed_ns, const struct report_opts *opts)
{
	enum { DEEPEST = 200 };
	size_t shown = 0;
	for (uint32_t i = first_below(t, parent); i < t->ids.used; i++) {
		const struct module *m = &t->list[t->order[i]];
		double host = report_percent(time_of(m), observed_ns);
		double device = report_percent(m->all[DEVICES], opts->busy_ns);
		if (m->parent != parent || indent > DEEPEST)
			break;
		if (host < opts->percent_limit && device < opts->percent_limit)
			continue;
		add_module(to, t, m, indent, observed_ns, opts);
		shown += 1 + add_below(to, t, t->order[i], indent + 2, observed_ns, opts);
	}
	return shown;
}

static int print(FILE *f, const struct module_tree *t, uint64_t observed_ns,
		 const struct report_opts *opts)
{
	const struct {
		const char *header;
		int order;
		bool of_devices;
	} numbers[] = {{t->devices ? "Total %" : "Total % v", 0, false},
		       {"Device % v", 0, true},
		       {"Device", 0, true},
		       {"Forward", 3, false},
		       {"Backward", 2, false},
		       {"Total", 0, false},
		       {"Own", 4, false}};
	struct table *to = table_new();
	char line[64];
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (t->devices || !numbers[i].of_devices)
			table_column_optional(to, numbers[i].header, TABLE_RIGHT,
					      t->devices || numbers[i].order == 4 ? numbers[i].order
										  : 0);
	table_column(to, "Module", TABLE_LEFT);
	size_t left = t->ids.used - add_below(to, t, NONE, 0, observed_ns, opts);
	if (left)
		table_line(to, text_counted(line, sizeof(line), left, "more module"));
	int r = table_print(to, f, opts->terminal.width, opts->terminal.color);
	table_free(to);
	return r;
}

static void tree_free(struct module_tree *t)
{
	intern_free(&t->ids);
	arena_free(&t->arena);
	free(t->list);
	free(t->order);
}

static void put_below(struct json_out *j, const char *key, const struct module_tree *t,
		      uint32_t parent, int depth)
{
	enum { DEEPEST = 100 };
	json_open(j, key, '[');
	for (uint32_t i = first_below(t, parent); i < t->ids.used && depth < DEEPEST; i++) {
		const struct module *m = &t->list[t->order[i]];
		if (m->parent != parent)
			break;
		json_open(j, NULL, '{');
		json_text(j, "name", m->name);
		json_u64(j, "forward_ns", m->all[0]);
		json_u64(j, "backward_ns", m->all[1]);
		json_u64(j, "own_ns", m->own[0] + m->own[1]);
		put_below(j, "modules", t, t->order[i], depth + 1);
		json_close(j, '}');
	}
	json_close(j, ']');
}

int module_tree_json(struct json_out *j, const char *key, const struct aggregate *a)
{
	struct module_tree t = {0};
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	int r = build(&t, rows, n);
	if (!r)
		put_below(j, key, &t, NONE, 0);
	tree_free(&t);
	return r;
}

int module_tree_print(FILE *f, const struct aggregate *a, const struct report_opts *opts)
{
	struct module_tree t = {.devices = aggregate_keys(a) & AGGREGATE_ACTIVITIES};
	struct aggregate_totals totals;
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	aggregate_totals(a, &totals);
	int r = build(&t, rows, n);
	r = r ? r : print(f, &t, totals.observed_ns, opts);
	tree_free(&t);
	return r;
}
