#include "symbolizer/decode/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "symbolizer/decode/internal.h"

enum {
	MAX_REGISTERED = 1 << 15,
	MAX_TEXTS = 1 << 14,
	TRIES_MAX = 8, /* attempts to read the schema of an operator known by name only */
};

struct registry_entry {
	uint64_t key[HANDLE_WORDS - 1];
	struct registered_op *op;
	unsigned tries; /* left; 0: complete, or given up */
};

struct registry {
	struct operator_reader reader;
	struct registry_entry *entries;
	size_t n, room;
	struct map index; /* of entries, by key */
	struct definition_text *texts;
	unsigned ntexts;
	struct arena arena;
	struct named *named;
};

struct definition_text {
	struct definition_text *next;
	const char *text;
	bool of_library;
};

struct named {
	struct named *next;
	struct op_desc desc;
};

struct registry *registry_new(const struct mem *m, bool cow, struct rtti *r)
{
	struct registry *g = calloc(1, sizeof(*g));
	if (g) {
		g->reader =
		    (struct operator_reader){.mem = m, .cow = cow, .rtti = r, .arena = &g->arena};
	}
	return g;
}

void registry_free(struct registry *g)
{
	if (!g)
		return;
	free(g->entries);
	map_free(&g->index);
	arena_free(&g->arena);
	free(g);
}

static const struct op_arg *to_op_args(struct registry *g, const struct schema_arg *a, int n)
{
	struct op_arg *out = arena_alloc(&g->arena, (size_t)n * sizeof(*out) + 1);
	for (int i = 0; out && i < n; i++)
		out[i] = (struct op_arg){.name = a[i].name, .type = a[i].type};
	return out;
}

/* Set the arguments and results of `op`. 0 or -ENOMEM. */
static int set_values(struct registry *g, struct registered_op *op, int nargs, int nreturns)
{
	op->desc.args = to_op_args(g, op->args, nargs);
	op->desc.results = to_op_args(g, op->returns, nreturns);
	if (!op->desc.args || !op->desc.results)
		return -ENOMEM;
	op->desc.nargs = (uint16_t)nargs;
	op->desc.nresults = (uint16_t)nreturns;
	return 0;
}

static struct registered_op *new_op(struct registry *g, const char *full)
{
	struct registered_op *op = arena_alloc(&g->arena, sizeof(*op));
	if (!op)
		return NULL;
	op->desc = (struct op_desc){.kind = OP_DISPATCHED, .schema = ""};
	op->desc.name = arena_strndup(&g->arena, full, strlen(full));
	return op->desc.name ? op : NULL;
}

static int set_parsed(struct registry *g, struct registered_op *op, const struct schema *s)
{
	struct schema *parsed = arena_alloc(&g->arena, sizeof(*parsed));
	if (!parsed)
		return -ENOMEM;
	*parsed = *s;
	op->desc.parsed = parsed;
	return 0;
}

/* NULL if it was incomplete at any time during the read. */
static struct registered_op *read_operator(struct registry *g, uint64_t def, const char *full)
{
	struct operator_read live;
	struct registered_op *op = new_op(g, full);
	if (!op || !operator_read(&g->reader, def, full, &live))
		return NULL;
	op->args = live.args;
	op->returns = live.returns;
	struct schema s = {.ns = "",
			   .name = "",
			   .overload = "",
			   .full_name = op->desc.name,
			   .text = "",
			   .nargs = (uint16_t)live.nargs,
			   .nreturns = (uint16_t)live.nreturns,
			   .args = live.args,
			   .returns = live.returns};
	return set_values(g, op, live.nargs, live.nreturns) || set_parsed(g, op, &s) ? NULL : op;
}

/* The type as read_type writes it: without aliases and lengths of lists. */
static const char *plain_type(struct registry *g, const struct schema_arg *a)
{
	char out[128];
	size_t n = 0;
	int level = 0;
	if (a->base == SCHEMA_OTHER)
		return "?";
	for (const char *p = a->type; *p && n + 1 < sizeof(out); p++) {
		level += *p == '(';
		if (!level && !isdigit((unsigned char)*p))
			out[n++] = *p;
		level -= *p == ')';
	}
	return arena_strndup(&g->arena, out, n);
}

static struct schema_arg *copy_args(struct registry *g, const struct schema_arg *from, uint16_t n)
{
	struct schema_arg *a = arena_alloc(&g->arena, n * sizeof(*a) + 1);
	for (uint16_t i = 0; a && i < n; i++) {
		a[i] = from[i];
		a[i].type = plain_type(g, &from[i]);
		if (!a[i].type)
			return NULL;
	}
	return a;
}

/* Whether `text` is the schema of operator `full`. A text without a namespace matches any. */
static bool is_text_of(const char *text, const char *full)
{
	const char *open = strchr(text, '('), *colons = strstr(text, "::");
	const char *own = colons && colons < open ? full : strstr(full, "::") + 2;
	return open && strlen(own) == (size_t)(open - text) && !strncmp(text, own, strlen(own));
}

static const char *without_namespace(const char *text)
{
	const char *colons = strstr(text, "::");
	return colons && colons < strchr(text, '(') ? colons + 2 : text;
}

/* The schema text of operator `full`: the library's, else the only one; NULL if there is none, or
 * two that differ. */
static const char *find_text(const struct registry *g, const char *full)
{
	const char *found = NULL;
	for (const struct definition_text *t = g->texts; t; t = t->next) {
		if (!is_text_of(t->text, full))
			continue;
		if (t->of_library)
			return t->text;
		if (found && strcmp(without_namespace(found), without_namespace(t->text)))
			return NULL;
		found = t->text;
	}
	return found;
}

static struct registered_op *from_text(struct registry *g, const char *full)
{
	struct schema s;
	const char *colons = strstr(full, "::"), *text = colons ? find_text(g, full) : NULL;
	const char *ns = text ? arena_strndup(&g->arena, full, (size_t)(colons - full)) : NULL;
	if (!ns || schema_parse(text, strlen(text), ns, &g->arena, &s) || strcmp(s.full_name, full))
		return NULL;
	struct registered_op *op = new_op(g, full);
	if (!op)
		return NULL;
	op->args = copy_args(g, s.args, s.nargs);
	op->returns = copy_args(g, s.returns, s.nreturns);
	op->desc.flags = schema_flags(&s);
	return op->args && op->returns && !set_values(g, op, s.nargs, s.nreturns) &&
		       !set_parsed(g, op, &s)
		   ? op
		   : NULL;
}

static void add_text(struct registry *g, const char *text, size_t len, bool of_library)
{
	struct definition_text *t =
	    g->ntexts < MAX_TEXTS ? arena_alloc(&g->arena, sizeof(*t)) : NULL;
	if (!t)
		return;
	t->text = arena_strndup(&g->arena, text, len);
	if (!t->text || !strchr(t->text, '('))
		return;
	t->of_library = of_library;
	t->next = g->texts;
	g->texts = t;
	g->ntexts++;
}

void registry_add_schema(struct registry *g, const char *text, size_t len)
{
	add_text(g, text, len, false);
}

void registry_add_library_schema(struct registry *g, const char *text)
{
	add_text(g, text, strlen(text), true);
}

static struct registered_op *new_name(struct registry *g, const char *full)
{
	static const struct op_arg unknown[] = {{.name = "?", .type = "?"}};
	struct registered_op *op = new_op(g, full);
	if (!op)
		return NULL;
	op->name_only = true;
	op->desc.args = op->desc.results = unknown;
	op->desc.nargs = op->desc.nresults = 1;
	return op;
}

static uint64_t hash_of(const uint64_t key[HANDLE_WORDS - 1])
{
	return map_hash(key, (HANDLE_WORDS - 1) * sizeof(*key), 0);
}

/* The entry of operator `name` (NULL: any) with that handle, or NULL. */
static struct registry_entry *lookup(struct registry *g, const uint64_t key[HANDLE_WORDS - 1],
				     const char *name)
{
	uint32_t pos = 0, i;
	while ((i = map_next(&g->index, hash_of(key), &pos)) != MAP_NONE) {
		struct registry_entry *e = &g->entries[i];
		if (!memcmp(e->key, key, sizeof(e->key)) &&
		    (!name || !strcmp(e->op->desc.name, name)))
			return e;
	}
	return NULL;
}

/* NULL when out of memory. */
static struct registry_entry *add_entry(struct registry *g, const uint64_t key[HANDLE_WORDS - 1])
{
	if (array_grow(&g->entries, &g->room, g->n + 1, sizeof(*g->entries)) ||
	    map_add(&g->index, hash_of(key), (uint32_t)g->n))
		return NULL;
	struct registry_entry *e = &g->entries[g->n++];
	memcpy(e->key, key, sizeof(e->key));
	return e;
}

/* Indices of the words of a handle that may be the address of the OperatorDef. */
static const unsigned candidates[] = {1, 0, 3};

enum { CANDIDATES = sizeof(candidates) / sizeof(candidates[0]) };

/* Read the live operator; NULL if it is incomplete. Copies its name, if it has one, to `full`. */
static struct registered_op *find_live(struct registry *g, const uint64_t w[HANDLE_WORDS],
				       const char *name, char full[OPERATOR_NAME_MAX])
{
	char here[OPERATOR_NAME_MAX];
	for (unsigned i = 0; i < CANDIDATES; i++) {
		if (!operator_read_name(&g->reader, w[candidates[i]], here) ||
		    (name && strcmp(here, name)))
			continue;
		memcpy(full, here, sizeof(here));
		return read_operator(g, w[candidates[i]], here);
	}
	return NULL;
}

bool registry_knows(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name)
{
	return lookup(g, &w[1], name);
}

bool registry_is_operator(const struct registry *g, const uint64_t w[HANDLE_WORDS])
{
	char name[OPERATOR_NAME_MAX];
	for (unsigned i = 0; i < CANDIDATES; i++)
		if (operator_read_name(&g->reader, w[candidates[i]], name))
			return true;
	return false;
}

const struct registered_op *registry_find(struct registry *g, const uint64_t w[HANDLE_WORDS],
					  const char *name)
{
	char full[OPERATOR_NAME_MAX] = "";
	struct registry_entry *e = lookup(g, &w[1], name);
	if (!w[0])
		return NULL;
	if ((e && !e->tries) || g->n == MAX_REGISTERED)
		return e ? e->op : NULL;
	if (name)
		snprintf(full, sizeof(full), "%s", name);
	struct registered_op *op = from_text(g, full);
	op = op ? op : find_live(g, w, name, full);
	if (!op && !name)
		op = from_text(g, full);
	unsigned tries = op ? 0 : e ? e->tries - 1 : TRIES_MAX;
	if (!op)
		op = e ? e->op : full[0] ? new_name(g, full) : NULL;
	if (!op || (!e && !(e = add_entry(g, &w[1]))))
		return NULL;
	e->op = op;
	e->tries = tries;
	return op;
}

static const struct op_arg *name_list(struct registry *g, const char *const *names, uint16_t *n)
{
	*n = 0;
	while (names && names[*n])
		(*n)++;
	struct op_arg *out = arena_alloc(&g->arena, *n * sizeof(*out) + 1);
	for (unsigned i = 0; out && i < *n; i++)
		out[i] = (struct op_arg){.name = names[i], .type = ""};
	return out;
}

const struct op_desc *registry_named(struct registry *g, const char *name, enum op_kind kind,
				     const char *const *args, const char *const *results)
{
	for (struct named *n = g->named; n; n = n->next)
		if (n->desc.kind == kind && !strcmp(n->desc.name, name))
			return &n->desc;
	struct named *n = arena_alloc(&g->arena, sizeof(*n));
	if (!n)
		return NULL;
	n->desc = (struct op_desc){.kind = (uint8_t)kind, .schema = ""};
	n->desc.name = arena_strndup(&g->arena, name, strlen(name));
	n->desc.args = name_list(g, args, &n->desc.nargs);
	n->desc.results = name_list(g, results, &n->desc.nresults);
	if (!n->desc.name || !n->desc.args || !n->desc.results)
		return NULL;
	n->next = g->named;
	g->named = n;
	return &n->desc;
}
