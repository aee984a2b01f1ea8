#include "symbolizer/python/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/system.h"
#include "symbolizer/python/python.h"

enum {
	MAX_NODES = 1 << 16, /* then all are dropped */
	MAX_DEPTH = 64,	     /* nesting of modules */
	TRUST_NS = 2000000,  /* a path is trusted this long without a check */
	LATE_NS = 20000000,  /* a path found later than this after a call is not valid for it */
};

/* A module in the context of the module that calls it. */
struct node {
	uint32_t parent; /* PY_NO_MODULE: outermost */
	uint32_t within; /* the enclosing one whose tree contains it; PY_NO_MODULE: none does */
	uint64_t self;
	const char *path;   /* interned; NULL: unknown */
	const char *prefix; /* prefix of paths in its tree; "" at the top */
	const char *outer;  /* the prefix of `within` that `path` was made from */
	struct py_witness witness;
	uint64_t since_ns, until_ns; /* when the path was found, and last verified (0: never) */
	uint32_t failed;	     /* consecutive failed lookups */
};

struct py_modules {
	struct map index;
	struct node *nodes;
	uint32_t n;
	uint32_t base; /* number of nodes[0]: grows when all are dropped */
	struct py_tree tree;
};

struct py_modules *py_modules_new(void)
{
	return calloc(1, sizeof(struct py_modules));
}

static void forget(struct py_modules *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		py_witness_free(&m->nodes[i].witness);
	map_clear(&m->index);
	m->base = m->base > UINT32_MAX / 2 ? 0 : m->base + m->n;
	m->n = 0;
}

void py_modules_free(struct py_modules *m)
{
	if (!m)
		return;
	forget(m);
	map_free(&m->index);
	py_tree_free(&m->tree);
	free(m->nodes);
	free(m);
}

static struct node *node_at(struct py_modules *m, uint32_t number)
{
	return &m->nodes[number - m->base];
}

bool py_module_node_known(const struct py_runtime *rt, uint32_t node)
{
	const struct py_modules *m = rt->modules;

	return node == PY_NO_MODULE || (node >= m->base && node - m->base < m->n);
}

static uint64_t node_hash(uint32_t parent, uint64_t self)
{
	const uint64_t key[2] = {parent, self};

	return map_hash(key, sizeof(key), 0);
}

static uint32_t module_find(const struct py_modules *m, uint32_t parent, uint64_t self)
{
	uint64_t hash = node_hash(parent, self);
	uint32_t pos = 0, i;

	while ((i = map_next(&m->index, hash, &pos)) != MAP_NONE)
		if (m->nodes[i].parent == parent && m->nodes[i].self == self)
			return m->base + i;
	return PY_NO_MODULE;
}

static uint32_t find_or_add(struct py_modules *m, uint32_t parent, uint64_t self)
{
	uint64_t hash = node_hash(parent, self);
	uint32_t found = module_find(m, parent, self);

	if (found != PY_NO_MODULE)
		return found;
	if (!py_reserve(&m->nodes, m->n, 1, sizeof(*m->nodes)) || map_add(&m->index, hash, m->n))
		return PY_NO_MODULE;
	m->nodes[m->n] = (struct node){.parent = parent, .self = self};
	return m->base + m->n++;
}

/* The module where it was called in the forward: it is one of those around, or one of them called
 * it. Else it is called by the innermost of them. */
static uint32_t called_again(struct py_modules *m, uint32_t around, uint64_t self)
{
	uint32_t found = PY_NO_MODULE;

	for (uint32_t a = around; a != PY_NO_MODULE; a = node_at(m, a)->parent)
		if (node_at(m, a)->self == self)
			return a;
	for (uint32_t a = around; a != PY_NO_MODULE && found == PY_NO_MODULE;
	     a = node_at(m, a)->parent)
		found = module_find(m, a, self);
	return found == PY_NO_MODULE ? find_or_add(m, around, self) : found;
}

uint32_t py_module_node(struct py_runtime *rt, uint32_t around, const uint64_t *modules, size_t n)
{
	struct py_modules *m = rt->modules;
	uint32_t node;
	uint64_t before = 0;
	unsigned depth = 0;

	if (m->n + n > MAX_NODES)
		forget(m);
	node = py_module_node_known(rt, around) ? around : PY_NO_MODULE;
	for (size_t i = n; i-- > 0;) {
		uint64_t self = modules[i];

		if (!self || depth++ > MAX_DEPTH)
			return PY_NO_MODULE;
		if (self == before)
			continue;
		node = before || node == PY_NO_MODULE ? find_or_add(m, node, self)
						      : called_again(m, node, self);
		if (node == PY_NO_MODULE)
			return node;
		before = self;
	}
	return node;
}

static const char *path_join(struct py_runtime *rt, const char *prefix, const char *name)
{
	char path[PY_PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);

	return n < 0 || (size_t)n >= sizeof(path) ? NULL : py_intern_string(rt->codes, path);
}

/* A module in no enclosing module's tree is named by its class. */
static void name_by_class(struct py_runtime *rt, struct node *node)
{
	char class[256], path[sizeof(class) + 2];

	if (py_tree_class(rt, &rt->modules->tree, node->self, &node->witness, class, sizeof(class)))
		return;
	snprintf(path, sizeof(path), "(%s)", class);
	node->within = PY_NO_MODULE;
	node->prefix = "";
	node->path = py_intern_string(rt->codes, path);
}

/* Search the trees of the enclosing modules for the module, the nearest first. */
static void module_search(struct py_runtime *rt, struct node *node)
{
	struct py_modules *m = rt->modules;
	char name[PY_PATH_MAX];

	node->path = NULL;
	for (uint32_t a = node->parent; a != PY_NO_MODULE; a = node_at(m, a)->parent) {
		const struct node *around = node_at(m, a);
		int rc = 1;

		if (!around->path)
			return;
		if (around->self == node->self) /* recursion: called by a module that it calls */
			name[0] = '\0';
		else
			rc = py_tree_find(rt, &m->tree, around->self, node->self, &node->witness,
					  name, sizeof(name));
		if (rc < 0)
			return;
		if (!rc)
			continue;
		node->within = a;
		node->outer = around->prefix;
		node->prefix = *name ? path_join(rt, around->prefix, name) : around->prefix;
		node->path = *name ? node->prefix : around->path;
		return;
	}
	name_by_class(rt, node);
}

/* Whether the node needs no check for a call at `ns`. The interval doubles with each failed lookup.
 */
static bool is_settled(const struct node *node, uint64_t ns)
{
	enum { MOST_DOUBLED = 8 };
	unsigned doubled = node->failed < MOST_DOUBLED ? node->failed : MOST_DOUBLED;

	return node->until_ns && ns <= node->until_ns + ((uint64_t)TRUST_NS << doubled);
}

static bool still_holds(struct py_runtime *rt, const struct node *node)
{
	const struct node *within =
	    node->within == PY_NO_MODULE ? NULL : node_at(rt->modules, node->within);

	return node->path && (!within || (within->path && within->prefix == node->outer)) &&
	       py_witness_holds(rt, &node->witness);
}

static void module_check(struct py_runtime *rt, struct node *node)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!still_holds(rt, node)) {
		module_search(rt, node);
		node->since_ns = now;
	}
	node->failed = node->path ? 0 : node->failed + 1;
	node->until_ns = now;
}

const char *py_module_path(struct py_runtime *rt, uint32_t number, uint64_t ns)
{
	struct node *node;

	if (number == PY_NO_MODULE)
		return NULL;
	node = node_at(rt->modules, number);
	if (!is_settled(node, ns)) {
		bool is_new = !node->until_ns;

		py_module_path(rt, node->parent, ns); /* recursion of at most MAX_DEPTH */
		module_check(rt, node);
		if (is_new && node->parent == PY_NO_MODULE && node->path)
			py_parameters_called(rt, node->self);
	}
	return ns + LATE_NS < node->since_ns ? NULL : node->path;
}
