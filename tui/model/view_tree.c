/* Modules as a tree, in the rows of the view. */
#define _GNU_SOURCE
#include "perf/report/module_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/model/internal.h"

enum { NONE = MODULE_TREE_NONE, DEEPEST = 100 };

/* What the rows of one drawing are made from. */
struct growing {
	struct view *v;
	const struct module_node *nodes;
	uint32_t nnodes;
	bool *passes; /* the filter, or something below does; by node */
	uint64_t observed_ns, wall_ns;
};

static int compare_modules(const struct module_node *a, const struct module_node *b,
			   const void *view)
{
	const struct view *v = view;
	int c = v->column == VIEW_OP ? strcmp(a->name, b->name)
		: v->column == VIEW_CALLS
		    ? module_largest_first(a->all[MODULE_CALLS], b->all[MODULE_CALLS])
		: v->column == VIEW_SELF
		    ? module_largest_first(module_own_ns(a), module_own_ns(b))
		    : module_largest_first(module_total_ns(a), module_total_ns(b));
	return v->reversed ? -c : c;
}

static const char *path_of(const struct aggregate_row *row)
{
	return strcmp(row->op, grouping_no_module) ? row->op : NULL;
}

static struct module_tree *grow(const struct grouping *g)
{
	size_t n, used = 0;
	struct grouping_row *const *rows = grouping_rows(g, &n);
	struct module_row *list = calloc(n + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_row *s = rows[i]->sum;
		if (s && s->phase !=
			     PHASE_COMPILE) /* of rows with the same name only one has their sum */
			list[used++] = (struct module_row){.path = path_of(s),
							   .phase = (enum op_phase)s->phase,
							   .calls = s->calls,
							   .self_ns = s->self_ns};
	}
	struct module_tree *t = module_tree_new(list, used);
	free(list);
	return t;
}

/* Nodes come after their parents. */
static void filter(struct growing *g)
{
	const char *text = g->v->filter;
	for (uint32_t i = g->nnodes; i-- > 0;) {
		const struct module_node *m = &g->nodes[i];
		g->passes[i] = g->passes[i] || !text[0] || strcasestr(m->path, text);
		if (g->passes[i] && m->parent != NONE)
			g->passes[m->parent] = true;
	}
}

/* The row's place in `folded`, which stays when the tree grows. */
static int64_t mark_of(struct view *v, const char *path)
{
	bool is_new;
	int64_t id = intern(&v->tree.paths, path, (uint32_t)strlen(path), &is_new);
	if (id < 0 || !is_new)
		return id;
	if (array_grow(&v->tree.folded, &v->tree.room, (size_t)id + 1, sizeof(bool)))
		return -ENOMEM;
	v->tree.folded[id] = false;
	return id;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Add the nodes below `parent`, with all that is below them and not folded. */
static int add_below(struct growing *g, uint32_t parent, unsigned depth)
{
	struct view *v = g->v;
	uint32_t i = depth < DEEPEST ? module_tree_first(v->tree.modules, parent) : NONE;
	int r = 0;
	for (; i != NONE && !r; i = module_tree_next(v->tree.modules, i)) {
		const struct module_node *m = &g->nodes[i];
		int64_t id = mark_of(v, m->path);
		if (id < 0)
			return -ENOMEM;
		if (!g->passes[i])
			continue;
		bool is_leaf = module_tree_first(v->tree.modules, i) == NONE;
		v->tree.folded[id] = v->tree.folded[id] && !is_leaf;
		v->rows[v->nrows++] = (struct view_row){
		    .name = m->name,
		    .depth = depth,
		    .fold = is_leaf		 ? VIEW_LEAF
			    : v->tree.folded[id] ? VIEW_FOLDED
						 : VIEW_OPEN,
		    .module_id = id,
		    .self_percent = percent(module_own_ns(m), g->observed_ns),
		    .total_percent = percent(module_total_ns(m), g->observed_ns),
		    .calls_per_s =
			g->wall_ns ? (double)m->all[MODULE_CALLS] * 1e9 / (double)g->wall_ns : 0};
		if (!v->tree.folded[id])
			r = add_below(g, i, depth + 1);
	}
	return r;
}

static int add_rows(struct growing *g)
{
	struct view *v = g->v;
	g->nodes = module_tree_nodes(v->tree.modules, &g->nnodes);
	g->passes = calloc(g->nnodes + 1, sizeof(*g->passes));
	if (!g->passes || array_grow(&v->rows, &v->rows_room, g->nnodes + 1, sizeof(*v->rows)))
		return -ENOMEM;
	module_tree_sort(v->tree.modules, compare_modules, v);
	filter(g);
	return add_below(g, NONE, 0);
}

int view_tree_rows(struct view *v)
{
	struct aggregate_totals totals;
	struct growing g = {.v = v};
	const struct grouping *shown = view_shown(v, &g.wall_ns);
	aggregate_totals(grouping_sum(shown), &totals);
	g.observed_ns = totals.observed_ns;
	module_tree_free(v->tree.modules);
	v->tree.modules = grow(shown);
	v->nrows = 0;
	int r = v->tree.modules ? add_rows(&g) : -ENOMEM;
	free(g.passes);
	return r;
}

void view_fold(struct view *v, int64_t id, enum view_fold fold)
{
	if (v->tree.shown && id >= 0 && id < v->tree.paths.used)
		v->tree.folded[id] = fold == VIEW_FOLDED;
}

bool view_is_folded(const struct view *v, int64_t id)
{
	return v->tree.shown && id >= 0 && id < v->tree.paths.used && v->tree.folded[id];
}

int view_set_tree(struct view *v, bool tree)
{
	if (tree && !v->tree.shown)
		v->tree.before = v->group;
	v->tree.shown = tree;
	v->nrows = 0;
	return view_set_group(v, tree ? GROUPING_MODULE : v->tree.before);
}

bool view_is_tree(const struct view *v)
{
	return v->tree.shown;
}

void view_tree_free(struct view_tree *t)
{
	intern_free(&t->paths);
	free(t->folded);
	module_tree_free(t->modules);
}
