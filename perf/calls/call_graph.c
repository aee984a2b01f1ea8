#define _GNU_SOURCE
#include "perf/calls/call_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"

/* The nodes shown, sorted by parent and then by time. */
struct graph {
	FILE *f;
	const struct call_graph_opts *opts;
	const struct call_tree *tree;
	const struct call_node *nodes;
	uint32_t *order;
	size_t n, small; /* small: below the limit */
	struct text_of_tree *text;
};

enum { DEPTH_MAX = 1024 };

/* What stands before the names: a line for each call on the way that has more to come. */
struct text_of_tree {
	char lines[DEPTH_MAX * 4];
	size_t len;
	unsigned folded; /* frames left out */
};

/* The numbers of memory, in the order of columns; which there are. */
struct memory_column {
	const char *title, *key;
	enum memory_kind kind;
	bool freed;
};

static const struct memory_column memory_columns[] = {
    {"Alloc", "alloc_bytes", MEMORY_CPU, false},
    {"Freed", "freed_bytes", MEMORY_CPU, true},
    {"Dev alloc", "device_alloc_bytes", MEMORY_DEVICES, false},
    {"Dev freed", "device_freed_bytes", MEMORY_DEVICES, true},
};

enum { NMEMORY = sizeof(memory_columns) / sizeof(memory_columns[0]), MEMORY_WIDTH = 11 };

static uint64_t bytes_of(const struct call_node *n, const struct memory_column *c)
{
	return c->freed ? n->memory[c->kind].freed : n->memory[c->kind].allocated;
}

static bool has_bytes(const struct call_node *n)
{
	bool has = false;
	for (int i = 0; i < NMEMORY; i++)
		has |= bytes_of(n, &memory_columns[i]) > 0;
	return has;
}

static int compare_nodes(const void *a, const void *b, void *nodes)
{
	const struct call_node *all = nodes;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct call_node *x = &all[i], *y = &all[k];
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return (i > k) - (i < k);
}

static double share(const struct graph *g, uint64_t ns)
{
	return g->opts->observed_ns ? 100.0 * (double)ns / (double)g->opts->observed_ns : 0;
}

static double percent(const struct graph *g, const struct call_node *n)
{
	return share(g, n->total_ns);
}

/* The index in `order` of the first child of `parent`. */
static size_t first_child(const struct graph *g, uint32_t parent)
{
	size_t low = 0, high = g->n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (g->nodes[g->order[middle]].parent < parent)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The node at an index of `order`, or NULL when it is no child of `parent`. */
static const struct call_node *child(const struct graph *g, uint32_t parent, size_t at)
{
	const struct call_node *n = at < g->n ? &g->nodes[g->order[at]] : NULL;
	return n && n->parent == parent ? n : NULL;
}

/* Of time, and of what was done with memory. */
static bool is_small(const struct graph *g, const struct call_node *n, const uint64_t *all_bytes)
{
	bool small = percent(g, n) < g->opts->percent_limit;
	for (int i = 0; i < NMEMORY; i++)
		small &= 100.0 * (double)bytes_of(n, &memory_columns[i]) <=
			 g->opts->percent_limit * (double)all_bytes[i];
	return small;
}

static int open_graph(struct graph *g, FILE *f, struct call_tree *t,
		      const struct call_graph_opts *opts)
{
	size_t all;
	uint64_t all_bytes[NMEMORY] = {0};
	*g = (struct graph){.f = f, .opts = opts, .tree = t, .nodes = call_tree_nodes(t, &all)};
	g->order = malloc((all + 1) * sizeof(*g->order));
	if (!g->order)
		return -ENOMEM;
	for (size_t i = 0; i < all; i++)
		for (int k = 0; k < NMEMORY && g->nodes[i].parent == CALL_TREE_ROOT; k++)
			all_bytes[k] += bytes_of(&g->nodes[i], &memory_columns[k]);
	for (size_t i = 0; i < all; i++) {
		if (!g->nodes[i].total_ns && !has_bytes(&g->nodes[i]))
			continue;
		if (is_small(g, &g->nodes[i], all_bytes))
			g->small++;
		else
			g->order[g->n++] = (uint32_t)i;
	}
	qsort_r(g->order, g->n, sizeof(*g->order), compare_nodes, (void *)g->nodes);
	return 0;
}

static int close_graph(struct graph *g)
{
	free(g->order);
	return ferror(g->f) ? -EIO : 0;
}

static bool has_column(const struct graph *g, int i)
{
	return call_tree_has_memory(g->tree, memory_columns[i].kind);
}

/* The cells of memory, each after two spaces. */
static void memory_cells(const struct graph *g, const struct call_node *n, char *out, size_t size)
{
	char bytes[32];
	size_t used = 0;
	*out = '\0';
	for (int i = 0; i < NMEMORY; i++) {
		uint64_t b = n ? bytes_of(n, &memory_columns[i]) : 0;
		if (!has_column(g, i))
			continue;
		used += (size_t)snprintf(out + used, size - used, "  %*s", MEMORY_WIDTH - 2,
					 !n  ? memory_columns[i].title
					 : b ? text_bytes(bytes, sizeof(bytes), b)
					     : "-");
	}
}

/* before: what stands between the lines of callers and the name. */
static void print_node(const struct graph *g, const struct call_node *n, const char *before)
{
	char line[DEPTH_MAX * 4 + 1024], name[768], count[32] = "";
	char memory[NMEMORY * (MEMORY_WIDTH + 8)];
	text_safe(name, sizeof(name), n->is_op ? op_text(n->name) : n->name);
	if (g->opts->samples ? n->calls > 0 : n->is_op || g->opts->callers)
		text_count(count, sizeof(count), n->calls);
	memory_cells(g, n, memory, sizeof(memory));
	snprintf(line, sizeof(line), "%5.1f%%  %8s%s  %.*s%s%s", percent(g, n), count, memory,
		 (int)g->text->len, g->text->lines, before, name);
	text_print_cut(g->f, line,
		       g->opts->terminal.width > 1 ? (size_t)g->opts->terminal.width : SIZE_MAX);
	putc('\n', g->f);
}

/* The frames that a stack's lines leave out: those that fold, between others. own: whether there
 * was a frame of others among the callers. */
static bool is_left_out(const struct graph *g, uint32_t node, bool own)
{
	const struct call_node *n = &g->nodes[node];
	const bool is_between = own || g->opts->callers;
	const bool has_self = n->self_ns && share(g, n->self_ns) >= g->opts->percent_limit;
	return n->folds && !g->opts->all && is_between && !has_self &&
	       child(g, node, first_child(g, node));
}

struct children {
	uint32_t *list;
	size_t n, room;
};

/* The nodes that stand below `parent`. */
static int gather(const struct graph *g, uint32_t parent, bool own, unsigned depth,
		  struct children *out)
{
	int r = 0;
	for (size_t at = first_child(g, parent); !r && child(g, parent, at); at++) {
		const uint32_t node = g->order[at];
		if (is_left_out(g, node, own) && depth < DEPTH_MAX) {
			g->text->folded++;
			r = gather(g, node, own, depth + 1, out);
			continue;
		}
		if (array_grow(&out->list, &out->room, out->n + 1, sizeof(*out->list)))
			return -ENOMEM;
		out->list[out->n++] = node;
	}
	return r;
}

static int compare_times(const void *a, const void *b, void *nodes)
{
	const struct call_node *all = nodes;
	const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const uint64_t x = all[i].total_ns, y = all[k].total_ns;
	return x != y ? (x > y ? -1 : 1) : (i > k) - (i < k);
}

static int print_children(const struct graph *g, uint32_t parent, bool own, unsigned depth);

static int print_child(const struct graph *g, uint32_t node, bool own, unsigned depth,
		       const char *before, const char *below)
{
	const struct call_node *n = &g->nodes[node];
	const size_t len = g->text->len, more = strlen(below);
	int r = 0;
	print_node(g, n, before);
	if (depth < DEPTH_MAX) {
		memcpy(g->text->lines + len, below, more);
		g->text->len = len + more;
		r = print_children(g, node, own || !(n->folds || n->is_op), depth + 1);
		g->text->len = len;
	}
	return r;
}

/* An only child is not indented: most frames of a Python stack are only children. */
static int print_children(const struct graph *g, uint32_t parent, bool own, unsigned depth)
{
	const bool apart = parent == CALL_TREE_ROOT && g->opts->callers;
	struct children c = {0};
	int r = gather(g, parent, own, depth, &c);
	if (!r && c.n)
		qsort_r(c.list, c.n, sizeof(*c.list), compare_times, (void *)g->nodes);
	for (size_t i = 0; !r && i < c.n; i++) {
		const bool last = i + 1 == c.n, alone = apart || c.n == 1;
		r = print_child(g, c.list[i], own, depth,
				alone  ? ""
				: last ? "└ "
				       : "├ ",
				alone  ? ""
				: last ? "  "
				       : "│ ");
		if (apart)
			putc('\n', g->f);
	}
	free(c.list);
	return r;
}

static void print_left_out(const struct graph *g)
{
	char text[64];
	if (g->small)
		fprintf(g->f, "%s below %g %%\n",
			text_counted(text, sizeof(text), g->small, "more line"),
			g->opts->percent_limit);
	if (g->text->folded)
		fprintf(g->f, "%s of torch, imports and the interpreter left out: --all\n",
			text_counted(text, sizeof(text), g->text->folded, "frame"));
}

int call_graph_print(FILE *f, struct call_tree *t, const struct call_graph_opts *opts)
{
	char memory[NMEMORY * (MEMORY_WIDTH + 8)];
	struct graph g;
	int r = open_graph(&g, f, t, opts);
	if (r)
		return r;
	memory_cells(&g, NULL, memory, sizeof(memory));
	fprintf(f, "%6s  %8s%s  %s\n", opts->callers ? "Self %" : "Total%",
		opts->samples ? "Samples" : "Calls", memory,
		opts->callers && opts->samples ? "Frame or op, and what called it"
		: opts->callers		       ? "Op, and what called it"
					       : "Frame or op, and what it called");
	g.text = &(struct text_of_tree){.len = 0};
	r = print_children(&g, CALL_TREE_ROOT, false, 0);
	print_left_out(&g);
	const int closed = close_graph(&g);
	return r ? r : closed;
}

static const char *kind(const struct call_node *n)
{
	return n->is_op ? "op" : "frame";
}

static void json_children(const struct graph *g, struct json_out *j, const char *key,
			  uint32_t parent, unsigned depth)
{
	size_t first = first_child(g, parent);
	const struct call_node *n;
	json_open(j, key, '[');
	for (size_t at = first; depth <= DEPTH_MAX && (n = child(g, parent, at)); at++) {
		if (at > first)
			json_line(j);
		json_open(j, NULL, '{');
		json_text(j, "name", n->name);
		json_text(j, "kind", kind(n));
		json_u64(j, "calls", n->calls);
		json_u64(j, "self_ns", n->self_ns);
		json_u64(j, "total_ns", n->total_ns);
		json_format(j, "percent", "%.4f", percent(g, n));
		for (int i = 0; i < NMEMORY; i++)
			if (has_column(g, i))
				json_u64(j, memory_columns[i].key, bytes_of(n, &memory_columns[i]));
		json_children(g, j, "children", g->order[at], depth + 1);
		json_close(j, '}');
	}
	json_close(j, ']');
}

int call_graph_print_json(FILE *f, struct call_tree *t, const struct call_graph_opts *opts)
{
	struct json_out j = {.f = f};
	struct graph g;
	int r = open_graph(&g, f, t, opts);
	if (r)
		return r;
	json_children(&g, &j, NULL, CALL_TREE_ROOT, 0);
	putc('\n', f);
	return close_graph(&g);
}

static void csv_children(const struct graph *g, uint32_t parent, unsigned depth)
{
	const struct call_node *n;
	for (size_t at = first_child(g, parent); (n = child(g, parent, at)); at++) {
		fprintf(g->f, "%u,%s,", depth, kind(n));
		csv_text(g->f, n->name);
		fprintf(g->f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.4f", n->calls, n->self_ns,
			n->total_ns, percent(g, n));
		for (int i = 0; i < NMEMORY; i++)
			if (has_column(g, i))
				fprintf(g->f, ",%" PRIu64, bytes_of(n, &memory_columns[i]));
		putc('\n', g->f);
		if (depth < DEPTH_MAX)
			csv_children(g, g->order[at], depth + 1);
	}
}

int call_graph_print_csv(FILE *f, struct call_tree *t, const struct call_graph_opts *opts)
{
	struct graph g;
	int r = open_graph(&g, f, t, opts);
	if (r)
		return r;
	fputs("depth,kind,name,calls,self_ns,total_ns,percent", f);
	for (int i = 0; i < NMEMORY; i++)
		if (has_column(&g, i))
			fprintf(f, ",%s", memory_columns[i].key);
	putc('\n', f);
	csv_children(&g, CALL_TREE_ROOT, 0);
	return close_graph(&g);
}
