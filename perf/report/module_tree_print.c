/* Rows by module as a tree, as a table and as JSON. */
#include "perf/report/module_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "perf/report/internal.h"

enum { NONE = MODULE_TREE_NONE, PATH_SIZE = 1024 };

/* What is printed, and the base of percentages. */
struct printed {
	const struct report_opts *opts;
	const struct module_node *nodes;
	struct module_tree *tree;
	uint64_t observed_ns;
	bool devices; /* there is time of devices, and it comes first */
};

static uint64_t time_of(const struct module_node *m)
{
	return m->all[MODULE_FORWARD] + m->all[MODULE_BACKWARD];
}

static uint64_t own_time_of(const struct module_node *m)
{
	return m->own[MODULE_FORWARD] + m->own[MODULE_BACKWARD];
}

static int longest_first(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_modules(const struct module_node *a, const struct module_node *b,
			   const void *printed)
{
	const struct printed *p = printed;
	int c = p->devices ? longest_first(a->all[MODULE_DEVICES], b->all[MODULE_DEVICES]) : 0;
	return c ? c : longest_first(time_of(a), time_of(b));
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
	bool of_host = time_of(m) || !m->all[MODULE_DEVICES];
	if (of_host)
		add_percent(to, report_percent(time_of(m), p->observed_ns));
	else
		table_cell(to, "-");
	if (p->devices) {
		add_percent(to, report_percent(m->all[MODULE_DEVICES], p->opts->busy_ns));
		add_time(to, m->all[MODULE_DEVICES], p->opts);
	}
	const uint64_t times[] = {m->all[MODULE_FORWARD], m->all[MODULE_BACKWARD], time_of(m),
				  own_time_of(m)};
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
		double host = report_percent(time_of(m), p->observed_ns);
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
		json_u64(j, "own_ns", own_time_of(m));
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
