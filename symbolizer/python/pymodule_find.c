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

/* A dict of a module's, and the way to it. */
struct members {
	uint64_t type; /* type of the module */
	struct py_dict own;
	uint64_t value_at, value; /* address of the attribute's value, and the value */
	struct py_dict dict;
};

static const char *const member_names[PY_MEMBERS] = {"_modules", "_parameters"};

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

/* Index of the entry of that name; d->n if there is none. Python interns attribute names, so the
 * key is usually the same str object. */
static size_t member_entry(const struct py_runtime *rt, struct py_tree *t, const struct py_dict *d,
			   const uint64_t pairs[][2], enum py_member which)
{
	char name[16];

	for (size_t i = 0; i < d->n; i++)
		if (pairs[i][1] && pairs[i][0] == t->key[which])
			return i;
	for (size_t i = 0; i < d->n; i++)
		if (pairs[i][1] && t->names++ < MAX_NAMES &&
		    py_read_str(rt, pairs[i][0], name, sizeof(name)) >= 0 &&
		    strcmp(name, member_names[which]) == 0) {
			t->key[which] = pairs[i][0];
			return i;
		}
	return d->n;
}

/* Find the entry in an object's attributes: 1, 0, -errno. */
static int find_member(const struct py_runtime *rt, struct py_tree *t, uint64_t module,
		       enum py_member which, struct members *c)
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
	i = rc ? c->own.n : member_entry(rt, t, &c->own, (const uint64_t(*)[2])pairs, which);
	if (i < c->own.n) {
		c->value_at = c->own.value_at + i * c->own.value_step;
		c->value = pairs[i][1];
		rc = 1;
	} else if (!rc && t->names > MAX_NAMES) {
		rc = -E2BIG;
	}
	free(pairs);
	return rc;
}

/* Open a dict of an object. 1; 0: it has none, so is not a module; -errno. */
static int open_members(const struct py_runtime *rt, struct py_tree *t, uint64_t module,
			enum py_member which, struct members *c)
{
	int rc = py_object_type(rt, module, &c->type);

	if (!rc)
		rc = find_member(rt, t, module, which, c);
	if (rc == -ENOENT)
		return 0;
	if (rc <= 0)
		return rc;
	rc = py_dict_open(rt, c->value, &c->dict);
	return rc ? rc : 1;
}

static int open_children(const struct py_runtime *rt, struct py_tree *t, uint64_t module,
			 struct members *c)
{
	return open_members(rt, t, module, PY_MODULES, c);
}

static void attest_dict(struct py_witness *w, const struct py_dict *d)
{
	for (unsigned i = 0; i < d->nproof; i++)
		attest(w, d->proof[i].at, d->proof[i].is);
}

/* Add to the witness that the members are the module's. */
static void attest_members(const struct py_runtime *rt, struct py_witness *w, uint64_t module,
			   const struct members *c)
{
	attest(w, module + rt->layout.obj.ob_type, c->type);
	attest_dict(w, &c->own);
	attest(w, c->value_at, c->value);
	attest_dict(w, &c->dict);
}

enum { WORDS_OF_MEMBERS = 10, WORDS_OF_STEP = WORDS_OF_MEMBERS + 3 };

/* One step of the path: the name of the child, and its witness. */
static int attest_step(const struct py_runtime *rt, struct py_tree *t, struct py_witness *w,
		       uint64_t module, const struct py_branch *child, char *name, size_t size)
{
	struct members c;
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
	attest_members(rt, w, module, &c);
	attest(w, key_at, key);
	attest(w, key + HASH_IN_STR, hash);
	attest(w, c.dict.value_at + child->entry * c.dict.value_step, child->module);
	return 0;
}

/* The path to branch `last` with its witness, in which there is room for `more` words. 0 or -errno.
 */
static int trace_to(const struct py_runtime *rt, struct py_tree *t, uint32_t last, uint32_t more,
		    struct py_witness *w, char *out, size_t size)
{
	uint32_t way[MAX_DEPTH + 1], n = 0;
	size_t len = 0;

	*out = '\0';

	for (uint32_t b = last; b; b = t->branch[b].parent) {
		if (n == MAX_DEPTH)
			return -E2BIG;
		way[n++] = b;
	}
	if (witness_room(w, n * WORDS_OF_STEP + more))
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
	return 0;
}

/* The path to branch `last` with its witness, verified at the end. 1 or -errno. */
static int trace_back(const struct py_runtime *rt, struct py_tree *t, uint32_t last,
		      struct py_witness *w, char *out, size_t size)
{
	int rc = trace_to(rt, t, last, 0, w, out, size);

	if (rc)
		return rc;
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
	struct members c;
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
	struct members c;
	ssize_t len;
	int rc;

	t->names = 0;
	rc = open_children(rt, t, obj, &c);
	if (rc <= 0)
		return rc ? rc : -EPROTO;
	len = py_type_name(rt, c.type, out, size);
	if (len < 0)
		return (int)len;
	if (witness_room(w, WORDS_OF_MEMBERS))
		return -ENOMEM;
	attest_members(rt, w, obj, &c);
	return 0;
}

/* Parameters. */

/* In PyDictObject: a number that no other state of a dict of the process has had
 * (Objects/dictobject.c, 3.8 to 3.13). */
enum { DICT_VERSION = 24 };

/* Where a Parameter may hold its tensor, a pointer to the TensorImpl: THPVariable
 * (torch/csrc/autograd/python_variable.h) has it behind the head, or behind the flag of a
 * MaybeOwned. */
enum { TENSOR_FIRST = 16, TENSOR_WORDS = 2 };

/* Whether the object is large enough for that: not None, which stands for no parameter. */
static bool may_hold_tensor(const struct py_runtime *rt, uint64_t object)
{
	enum { TYPE_BASICSIZE = 32 }; /* Include/cpython/object.h */
	uint64_t type, size;

	return !py_object_type(rt, object, &type) &&
	       !mem_read_u64(rt->mem, type + TYPE_BASICSIZE, &size) &&
	       size >= TENSOR_FIRST + 8 * TENSOR_WORDS;
}

/* Read the names and tensors of the parameters in `c`, and attest to the tensors. */
static int read_parameters(const struct py_runtime *rt, const struct members *c, struct py_owner *o)
{
	uint64_t(*pairs)[2] = calloc(c->dict.n + 1, sizeof(*pairs));
	int rc = pairs ? py_dict_read(rt, &c->dict, pairs) : -ENOMEM;

	o->parameter = rc ? NULL : calloc(c->dict.n + 1, sizeof(*o->parameter));
	rc = rc || o->parameter ? rc : -ENOMEM;
	for (size_t i = 0; i < c->dict.n && !rc; i++) {
		struct py_parameter *p = &o->parameter[o->n];

		if (!pairs[i][1] || !may_hold_tensor(rt, pairs[i][1]))
			continue;
		if (py_read_str(rt, pairs[i][0], p->name, sizeof(p->name)) < 0 ||
		    mem_read(rt->mem, pairs[i][1] + TENSOR_FIRST, p->word, sizeof(p->word)))
			rc = -EAGAIN;
		for (unsigned k = 0; k < TENSOR_WORDS; k++)
			attest(&o->witness, pairs[i][1] + TENSOR_FIRST + 8 * k, p->word[k]);
		o->n++;
	}
	free(pairs);
	return rc;
}

/* What a module of the tree has of its own: 1; 0: nothing; -errno. */
static int read_owner(const struct py_runtime *rt, struct py_tree *t, uint32_t branch,
		      struct py_owner *o)
{
	struct members c;
	uint64_t version, module = t->branch[branch].module;
	int rc = open_members(rt, t, module, PY_PARAMETERS, &c);

	if (rc <= 0 || !c.dict.n)
		return rc < 0 ? rc : 0;
	rc = mem_read_u64(rt->mem, c.value + DICT_VERSION, &version);
	if (!rc && !version)
		rc = -ENOTSUP;
	if (!rc)
		rc = trace_to(rt, t, branch, WORDS_OF_MEMBERS + 1 + 2 * (uint32_t)c.dict.n,
			      &o->witness, o->path, sizeof(o->path));
	if (rc)
		return rc;
	attest_members(rt, &o->witness, module, &c);
	attest(&o->witness, c.value + DICT_VERSION, version);
	rc = read_parameters(rt, &c, o);
	if (!rc && !py_witness_holds(rt, &o->witness))
		rc = -EAGAIN;
	return rc ? rc : o->n > 0;
}

void py_owner_free(struct py_owner *o)
{
	py_witness_free(&o->witness);
	free(o->parameter);
	*o = (struct py_owner){0};
}

/* Visit a module, then those in it, in the order of named_parameters(). */
static int visit(const struct py_runtime *rt, struct py_tree *t, uint32_t branch, unsigned depth,
		 py_owner_fn *fn, void *arg)
{
	struct py_owner o = {0};
	struct members c;
	uint64_t(*pairs)[2];
	int rc = read_owner(rt, t, branch, &o);

	if (rc > 0)
		fn(arg, &o);
	py_owner_free(&o);
	if (depth == MAX_DEPTH)
		return -E2BIG;
	rc = open_children(rt, t, t->branch[branch].module, &c);
	pairs = rc > 0 ? calloc(c.dict.n + 1, sizeof(*pairs)) : NULL;
	if (rc <= 0 || !pairs)
		return rc > 0 ? -ENOMEM : 0;
	rc = py_dict_read(rt, &c.dict, pairs);
	for (uint32_t i = 0; i < c.dict.n && !rc; i++) {
		uint32_t before = t->n;

		if (pairs[i][1])
			rc = add_branch(t, (struct py_branch){pairs[i][1], branch, i});
		if (!rc && t->n > before)
			rc = visit(rt, t, before, depth + 1, fn, arg);
	}
	free(pairs);
	return rc == -E2BIG || rc == -ENOMEM ? rc : 0;
}

int py_tree_parameters(const struct py_runtime *rt, struct py_tree *t, uint64_t root,
		       py_owner_fn *fn, void *arg)
{
	int rc;

	map_clear(&t->seen);
	t->n = 0;
	t->names = 0;
	rc = add_branch(t, (struct py_branch){.module = root});
	return rc ? rc : visit(rt, t, 0, 0, fn, arg);
}
