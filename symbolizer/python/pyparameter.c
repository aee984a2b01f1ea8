#include "symbolizer/python/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/system.h"
#include "symbolizer/python/python.h"

enum {
	MAX_ROOTS = 64,
	MAX_PARAMETERS = 1 << 16, /* of all roots; others have no names */
	SEARCH_NS = 2000000,	  /* between two searches; doubled with each that finds nothing */
	MOST_DOUBLED = 10,
};

/* A module, and since when, and until when at least, its parameters are as they were read. */
struct owner {
	struct py_owner is;
	uint32_t root;
	uint64_t since_ns, until_ns;
};

/* One of the words in which there may be a parameter's tensor. */
struct named {
	uint64_t word;
	uint32_t owner, parameter;
};

struct table {
	struct owner *owners;
	struct named *named;
	struct map by_word;
	uint32_t nowners, nnamed;
};

struct py_parameters {
	struct table now;
	struct py_tree tree;
	uint64_t roots[MAX_ROOTS]; /* outermost modules */
	uint32_t nroots, failed;   /* searches in vain since the last that found something */
	uint64_t searched_ns;
	bool wanted;
};

struct py_parameters *py_parameters_new(void)
{
	return calloc(1, sizeof(struct py_parameters));
}

static void table_clear(struct table *t)
{
	for (uint32_t i = 0; i < t->nowners; i++)
		py_owner_free(&t->owners[i].is);
	free(t->owners);
	free(t->named);
	map_free(&t->by_word);
	*t = (struct table){0};
}

void py_parameters_free(struct py_parameters *p)
{
	if (!p)
		return;
	table_clear(&p->now);
	py_tree_free(&p->tree);
	free(p);
}

void py_want_parameters(struct py_runtime *rt)
{
	rt->parameters->wanted = true;
}

/* A search of one root, into a new table. */
struct search {
	const struct table *before;
	struct table *into;
	uint32_t root;
};

static size_t path_length(const struct table *t, const struct named *n)
{
	return strlen(t->owners[n->owner].is.path);
}

/* Add a word. A parameter with several names has the first in its tree; in trees of which one is
 * part of the other, that in the larger. */
static void add_word(struct table *t, const struct named *n)
{
	int64_t at = map_get(&t->by_word, n->word);

	if (at >= 0) {
		if (t->owners[t->named[at].owner].root != t->owners[n->owner].root &&
		    path_length(t, n) > path_length(t, &t->named[at]))
			t->named[at] = *n;
		return;
	}
	if (t->nnamed == MAX_PARAMETERS || !py_reserve(&t->named, t->nnamed, 1, sizeof(*n)) ||
	    map_put(&t->by_word, n->word, t->nnamed))
		return;
	t->named[t->nnamed++] = *n;
}

static bool is_pointer(uint64_t word)
{
	return word >= 4096 && word < 1ULL << 47 && !(word & 7);
}

/* Since when the same was known before; 0: it was not. */
static uint64_t known_since(const struct table *before, const struct owner *o, uint32_t index)
{
	const struct py_witness *w = &o->is.witness;

	/* Mostly it is where it was. */
	for (uint32_t k = 0; k < before->nowners; k++) {
		const uint32_t i = (index + k) % before->nowners;
		const struct py_witness *was = &before->owners[i].is.witness;

		if (was->n == w->n && !memcmp(was->at, w->at, w->n * sizeof(*w->at)) &&
		    !memcmp(was->is, w->is, w->n * sizeof(*w->is)))
			return before->owners[i].since_ns;
	}
	return 0;
}

static void add_owner(void *arg, struct py_owner *found)
{
	struct search *s = arg;
	struct table *t = s->into;
	uint64_t now = clock_ns(CLOCK_MONOTONIC), since;

	if (!py_reserve(&t->owners, t->nowners, 1, sizeof(*t->owners)))
		return;
	struct owner *o = &t->owners[t->nowners++];
	*o = (struct owner){.is = *found, .root = s->root, .since_ns = now};
	*found = (struct py_owner){0};
	since = known_since(s->before, o, t->nowners - 1);
	o->since_ns = since ? since : now;
	for (uint32_t i = 0; i < o->is.n; i++)
		for (unsigned k = 0; k < 2; k++)
			if (is_pointer(o->is.parameter[i].word[k]))
				add_word(t, &(struct named){o->is.parameter[i].word[k],
							    t->nowners - 1, i});
}

/* Read the parameters of all roots anew. A root that is gone is forgotten. */
static void search_all(struct py_runtime *rt)
{
	struct py_parameters *p = rt->parameters;
	struct table into = {0};
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->nroots; i++) {
		struct search s = {&p->now, &into, i};
		uint32_t before = into.nowners;

		py_tree_parameters(rt, &p->tree, p->roots[i], add_owner, &s);
		if (into.nowners > before)
			p->roots[kept++] = p->roots[i];
	}
	p->nroots = kept;
	table_clear(&p->now);
	p->now = into;
	p->searched_ns = clock_ns(CLOCK_MONOTONIC);
}

void py_parameters_called(struct py_runtime *rt, uint64_t module)
{
	struct py_parameters *p = rt->parameters;

	bool may_search = clock_ns(CLOCK_MONOTONIC) >= p->searched_ns + SEARCH_NS;

	if (!p->wanted)
		return;
	for (uint32_t i = 0; i < p->nroots; i++)
		if (p->roots[i] == module)
			return;
	if (p->nroots == MAX_ROOTS && may_search)
		search_all(rt); /* some may be gone */
	if (p->nroots == MAX_ROOTS)
		return;
	p->roots[p->nroots++] = module;
	if (may_search) /* else when a tensor is not found */
		search_all(rt);
}

/* Whether the parameters of the module were the same at `ns` as they are now. */
static bool was_so(const struct py_runtime *rt, struct owner *o, uint64_t ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (ns < o->since_ns)
		return false;
	if (ns <= o->until_ns)
		return true;
	if (!py_witness_holds(rt, &o->is.witness))
		return false;
	o->until_ns = now;
	return true;
}

static const struct named *parameter_find(struct py_runtime *rt, uint64_t impl, uint64_t ns)
{
	struct table *t = &rt->parameters->now;
	int64_t at = map_get(&t->by_word, impl);

	return at >= 0 && was_so(rt, &t->owners[t->named[at].owner], ns) ? &t->named[at] : NULL;
}

static void search_again(struct py_runtime *rt, uint64_t impl, uint64_t ns)
{
	struct py_parameters *p = rt->parameters;
	unsigned doubled = p->failed < MOST_DOUBLED ? p->failed : MOST_DOUBLED;

	if (!p->nroots || clock_ns(CLOCK_MONOTONIC) < p->searched_ns + (SEARCH_NS << doubled))
		return;
	search_all(rt);
	p->failed =
	    parameter_find(rt, impl, ns) || map_get(&p->now.by_word, impl) >= 0 ? 0 : p->failed + 1;
}

const struct py_stack *py_parameter_stack(struct py_runtime *rt, uint64_t impl, uint64_t ns)
{
	const struct named *n = parameter_find(rt, impl, ns);
	char name[PY_PATH_MAX + 128];

	if (!n) {
		search_again(rt, impl, ns);
		n = parameter_find(rt, impl, ns);
	}
	if (!n)
		return NULL;
	const struct py_owner *o = &rt->parameters->now.owners[n->owner].is;
	snprintf(name, sizeof(name), "%s%s%s", o->path, *o->path ? "." : "",
		 o->parameter[n->parameter].name);
	return py_stack_of_parameter(rt, *o->path ? o->path : NULL, name);
}
