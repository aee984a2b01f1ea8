#include "symbolizer/python/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_BRANCHES = 4096, /* maximum modules in a search */
	MAX_NAMES = 1 << 16,
	MAX_DEPTH = 32,
	HASH_IN_STR = 24, /* in PyASCIIObject: Include/cpython/unicodeobject.h, 3.8 to 3.13 */
};

/* A module's dict _modules, and the path to it. */
struct children {
	uint64_t type; /* type of the module */
	struct py_dict own;
	uint64_t modules_at, modules; /* address of the attribute's value, and the value */
	struct py_dict dict;
};

/* A module found in the tree. */
struct py_branch {
	uint64_t module;
	uint32_t parent; /* index in py_tree.branch */
	uint32_t entry;	 /* index in the parent's _modules */
};

bool py_witness_holds(const struct py_runtime *rt, const struct py_witness *w)
{
	uint64_t now[32];

	for (uint32_t i = 0; i < w->n;) {
		uint32_t some = w->n - i < 32 ? w->n - i : 32;

		if (mem_read_words(rt->mem, w->at + i, now, some) ||
		    memcmp(now, w->is + i, some * sizeof(*now)) != 0)
			return false;
		i += some;
	}
	return true;
}

void py_witness_free(struct py_witness *w)
{
	free(w->at);
	*w = (struct py_witness){0};
}

/* One allocation: `room` addresses, then `room` values. */
static int witness_room(struct py_witness *w, uint32_t room)
{
	if (room > w->room) {
		uint64_t *grown = reallocarray(w->at, room, 2 * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		w->at = grown;
		w->room = room;
	}
	w->is = w->at ? w->at + w->room : NULL;
	w->n = 0;
	return 0;
}

static void attest(struct py_witness *w, uint64_t at, uint64_t is)
{
	if (w->n == w->room)
		return;
	w->at[w->n] = at;
	w->is[w->n++] = is;
}

void py_tree_free(struct py_tree *t)
{
	map_free(&t->seen);
	free(t->branch);
	*t = (struct py_tree){0};
}

/* Index of the entry `_modules`; d->n if there is none. Python interns attribute names, so the key
 * is usually the same str object. */
static size_t modules_entry(const struct py_runtime *rt, struct py_tree *t, const struct py_dict *d,
			    const uint64_t pairs[][2])
{
	char name[16];

	for (size_t i = 0; i < d->n; i++)
		if (pairs[i][1] && pairs[i][0] == t->modules_key)
			return i;
	for (size_t i = 0; i < d->n; i++)
		if (pairs[i][1] && t->names++ < MAX_NAMES &&
		    py_read_str(rt, pairs[i][0], name, sizeof(name)) >= 0 &&
		    strcmp(name, "_modules") == 0) {
			t->modules_key = pairs[i][0];
			return i;
		}
	return d->n;
}

/* Find the entry `_modules` in an object's attributes: 1, 0, -errno. */
static int find_modules(const struct py_runtime *rt, struct py_tree *t, uint64_t module,
			struct children *c)
{
	uint64_t(*pairs)[2];
	int rc = py_attributes_open(rt, module, c->type, &c->own);
	size_t i;

	if (rc)
		return rc;
	pairs = calloc(c->own.n + 1, sizeof(*pairs));
	if (!pairs)
		return -ENOMEM;
	rc = py_dict_read(rt, &c->own, pairs);
	i = rc ? c->own.n : modules_entry(rt, t, &c->own, (const uint64_t(*)[2])pairs);
	if (i < c->own.n) {
		c->modules_at = c->own.value_at + i * c->own.value_step;
		c->modules = pairs[i][1];
		rc = 1;
	} else if (!rc && t->names > MAX_NAMES) {
		rc = -E2BIG;
	}
	free(pairs);
	return rc;
}

/* Open the _modules of an object. 1; 0: it has none, so is not a module; -errno. */
static int open_children(const struct py_runtime *rt, struct py_tree *t, uint64_t module,
			 struct children *c)
{
	int rc = py_object_type(rt, module, &c->type);

	if (!rc)
		rc = find_modules(rt, t, module, c);
	if (rc == -ENOENT)
		return 0;
	if (rc <= 0)
		return rc;
	rc = py_dict_open(rt, c->modules, &c->dict);
	return rc ? rc : 1;
}

static void attest_dict(struct py_witness *w, const struct py_dict *d)
{
	for (unsigned i = 0; i < d->nproof; i++)
		attest(w, d->proof[i].at, d->proof[i].is);
}

/* Add to the witness that the children are the module's. */
static void attest_children(const struct py_runtime *rt, struct py_witness *w, uint64_t module,
			    const struct children *c)
{
	attest(w, module + rt->layout.obj.ob_type, c->type);
	attest_dict(w, &c->own);
	attest(w, c->modules_at, c->modules);
	attest_dict(w, &c->dict);
}

enum { WORDS_OF_CHILDREN = 10, WORDS_OF_STEP = WORDS_OF_CHILDREN + 3 };

/* One step of the path: the name of the child, and its witness. */
static int attest_step(const struct py_runtime *rt, struct py_tree *t, struct py_witness *w,
		       uint64_t module, const struct py_branch *child, char *name, size_t size)
{
	struct children c;
	int rc = open_children(rt, t, module, &c);
	uint64_t key_at, key, hash;

	if (rc <= 0)
		return rc ? rc : -EAGAIN;
	key_at = c.dict.key_at + child->entry * c.dict.key_step;
	rc = mem_read_u64(rt->mem, key_at, &key);
	if (!rc)
		rc = mem_read_u64(rt->mem, key + HASH_IN_STR, &hash);
	if (!rc && py_read_str(rt, key, name, size) < 0)
		rc = -EPROTO;
	if (rc)
		return rc;
	attest_children(rt, w, module, &c);
	attest(w, key_at, key);
	attest(w, key + HASH_IN_STR, hash);
	attest(w, c.dict.value_at + child->entry * c.dict.value_step, child->module);
	return 0;
}

/* The path to branch `last` with its witness, verified at the end. 1 or -errno. */
static int trace_back(const struct py_runtime *rt, struct py_tree *t, uint32_t last,
		      struct py_witness *w, char *out, size_t size)
{
	uint32_t way[MAX_DEPTH + 1], n = 0;
	size_t len = 0;

	for (uint32_t b = last; b; b = t->branch[b].parent) {
		if (n == MAX_DEPTH)
			return -E2BIG;
		way[n++] = b;
	}
	if (witness_room(w, n * WORDS_OF_STEP))
		return -ENOMEM;
	while (n--) {
		const struct py_branch *b = &t->branch[way[n]];
		char name[256];
		int rc = attest_step(rt, t, w, t->branch[b->parent].module, b, name, sizeof(name));

		if (rc)
			return rc;
		if (len + strlen(name) + 2 > size)
			return -E2BIG;
		len += (size_t)snprintf(out + len, size - len, "%s%s", len ? "." : "", name);
	}
	return py_witness_holds(rt, w) ? 1 : -EAGAIN;
}

static int add_branch(struct py_tree *t, struct py_branch b)
{
	if (map_get(&t->seen, b.module) >= 0)
		return 0;
	if (t->n == MAX_BRANCHES)
		return -E2BIG;
	if (!py_reserve(&t->branch, t->n, 1, sizeof(*t->branch)) ||
	    map_put(&t->seen, b.module, t->n))
		return -ENOMEM;
	t->branch[t->n++] = b;
	return 0;
}

/* Add the children of a branch. 1: `module` was found and added last. */
static int grow_branch(const struct py_runtime *rt, struct py_tree *t, uint32_t parent,
		       uint64_t module)
{
	struct children c;
	int rc = open_children(rt, t, t->branch[parent].module, &c);
	uint64_t(*pairs)[2] = rc > 0 ? calloc(c.dict.n + 1, sizeof(*pairs)) : NULL;

	if (rc <= 0 || !pairs)
		return rc > 0 ? -ENOMEM : rc;
	rc = py_dict_read(rt, &c.dict, pairs);
	for (uint32_t i = 0; i < c.dict.n && !rc; i++) {
		struct py_branch b = {.module = pairs[i][1], .parent = parent, .entry = i};

		if (b.module)
			rc = add_branch(t, b);
		if (!rc && b.module == module)
			rc = 1;
	}
	free(pairs);
	return rc;
}

int py_tree_find(const struct py_runtime *rt, struct py_tree *t, uint64_t root, uint64_t module,
		 struct py_witness *w, char *out, size_t size)
{
	int rc;

	map_clear(&t->seen);
	t->n = 0;
	t->names = 0;
	rc = add_branch(t, (struct py_branch){.module = root});
	for (uint32_t i = 0; i < t->n && !rc; i++)
		rc = grow_branch(rt, t, i, module);
	return rc <= 0 ? rc : trace_back(rt, t, t->n - 1, w, out, size);
}

int py_tree_class(const struct py_runtime *rt, struct py_tree *t, uint64_t obj,
		  struct py_witness *w, char *out, size_t size)
{
	struct children c;
	ssize_t len;
	int rc;

	t->names = 0;
	rc = open_children(rt, t, obj, &c);
	if (rc <= 0)
		return rc ? rc : -EPROTO;
	len = py_type_name(rt, c.type, out, size);
	if (len < 0)
		return (int)len;
	if (witness_room(w, WORDS_OF_CHILDREN))
		return -ENOMEM;
	attest_children(rt, w, obj, &c);
	return 0;
}
