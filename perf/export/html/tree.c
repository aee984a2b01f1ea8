#include <errno.h>
#include <stdlib.h>

#include "perf/export/html/internal.h"

struct folded {
	uint32_t kept;	 /* the node itself or the innermost of its callers that is kept */
	uint32_t number; /* among the kept ones */
	uint32_t nodes;	 /* folded into it */
	uint64_t ns;
};

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* What a node must have more than, so that at most `most` are kept. */
static int floor_of(const struct call_node *nodes, size_t n, size_t most, uint64_t *floor)
{
	*floor = 0;
	if (n <= most)
		return 0;
	uint64_t *times = malloc(n * sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		times[i] = nodes[i].total_ns;
	qsort(times, n, sizeof(*times), descending);
	*floor = times[most];
	free(times);
	return 0;
}

/* Nodes follow their callers. Returns the sum of what is folded into none: `outside`. */
static void fold(const struct call_node *nodes, size_t n, uint64_t floor, struct folded *out,
		 struct folded *outside)
{
	uint32_t number = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t parent = nodes[i].parent;
		uint32_t above = parent == CALL_TREE_ROOT ? CALL_TREE_ROOT : out[parent].kept;
		bool is_top = parent == CALL_TREE_ROOT || above == parent;
		out[i] = (struct folded){.kept = (uint32_t)i};
		if (nodes[i].total_ns > floor) {
			out[i].number = number++;
			continue;
		}
		struct folded *into = above == CALL_TREE_ROOT ? outside : &out[above];
		out[i].kept = above;
		into->nodes++;
		into->ns += is_top ? nodes[i].total_ns : 0;
	}
}

enum column { PARENT, NAME, KIND, SELF, CALLS, FOLDED, FOLDED_NS, COLUMNS };

/* Kinds: 0 a frame, 1 an op in the forward, 2 in the backward, 3 recomputed. */
static int64_t cell(enum column c, const struct call_node *node, const struct folded *f,
		    const struct folded *all, struct page_names *names)
{
	switch (c) {
	case PARENT:
		return node->parent == CALL_TREE_ROOT ? -1 : (int64_t)all[node->parent].number;
	case NAME:
		return page_name(names, node->name);
	case KIND:
		return node->is_op ? 1 + node->phase : 0;
	case SELF:
		return (int64_t)node->self_ns;
	case CALLS:
		return (int64_t)node->calls;
	case FOLDED:
		return f->nodes;
	default:
		return (int64_t)f->ns;
	}
}

static int put_columns(const struct call_node *nodes, size_t n, const struct folded *folded,
		       struct json_out *j, struct page_names *names)
{
	static const char *const keys[COLUMNS] = {"parent", "name",   "kind",	  "self_ns",
						  "calls",  "folded", "folded_ns"};
	for (enum column c = 0; c < COLUMNS; c++) {
		json_line(j);
		json_open(j, keys[c], '[');
		for (size_t i = 0; i < n; i++) {
			if (folded[i].kept != i)
				continue;
			int64_t v = cell(c, &nodes[i], &folded[i], folded, names);
			if (c == NAME && v < 0)
				return -ENOMEM;
			json_i64(j, NULL, v);
		}
		json_close(j, ']');
	}
	return 0;
}

int page_tree_json(struct call_tree *tree, const char *key, struct json_out *j,
		   struct page_names *names, size_t most)
{
	size_t n;
	const struct call_node *nodes = call_tree_nodes(tree, &n);
	struct folded *folded = calloc(n + 1, sizeof(*folded)), outside = {0};
	uint64_t floor = 0;
	int r = folded ? floor_of(nodes, n, most, &floor) : -ENOMEM;
	if (!r) {
		fold(nodes, n, floor, folded, &outside);
		json_line(j);
		json_open(j, key, '{');
		json_u64(j, "floor_ns", floor);
		json_u64(j, "outside", outside.nodes);
		json_u64(j, "outside_ns", outside.ns);
		r = put_columns(nodes, n, folded, j, names);
		json_close(j, '}');
	}
	free(folded);
	return r;
}
