/* Modules as a tree: each with what its submodules took, forward and backward. */
#ifndef PERF_REPORT_MODULE_TREE_H
#define PERF_REPORT_MODULE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/event/event.h"

enum { MODULE_TREE_NONE = UINT32_MAX }; /* the parent of what stands at the top */

/* Calls in one module. */
struct module_row {
	const char *path; /* "(GPT)", "blocks.0.attn"; NULL: in none, or not known */
	enum op_phase phase;
	uint64_t calls, self_ns, device_ns;
};

/* Calls and times in ns; of devices: for forward and backward together. */
enum module_figure {
	MODULE_FORWARD,
	MODULE_BACKWARD, /* and what was recomputed in it */
	MODULE_DEVICES,
	MODULE_CALLS,
	MODULE_FIGURES
};

struct module_node {
	const char *path;
	const char *name; /* "blocks.0": the end of the path, below the parent */
	uint32_t parent;  /* index, less than the node's own, or NONE */
	uint64_t own[MODULE_FIGURES], all[MODULE_FIGURES]; /* all: with its submodules */
};

/* Of the program's threads, in ns: without its submodules, and with them. */
static inline uint64_t module_own_ns(const struct module_node *m)
{
	return m->own[MODULE_FORWARD] + m->own[MODULE_BACKWARD];
}

static inline uint64_t module_total_ns(const struct module_node *m)
{
	return m->all[MODULE_FORWARD] + m->all[MODULE_BACKWARD];
}

/* For a comparison that puts the larger number first. */
static inline int module_largest_first(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

struct module_tree;

/* The tree of `n` rows, of which several may have the same path. NULL without memory. */
struct module_tree *module_tree_new(const struct module_row *rows, size_t n);

const struct module_node *module_tree_nodes(const struct module_tree *t, uint32_t *n);

/* Order those below each parent by `compare`, as qsort does; by index where that gives 0. */
void module_tree_sort(struct module_tree *t,
		      int (*compare)(const struct module_node *a, const struct module_node *b,
				     const void *arg),
		      const void *arg);

/* The index of the first node below `parent`, in that order, and of the one that follows `node`
 * below the same parent; MODULE_TREE_NONE: there is none. */
uint32_t module_tree_first(const struct module_tree *t, uint32_t parent);
uint32_t module_tree_next(const struct module_tree *t, uint32_t node);

void module_tree_free(struct module_tree *t);

#endif
