/* Values of classes that TorchScript knows: of torch.distributed. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/target/process.h"

/* A group that the process is or was in: which one a ProcessGroup is, by its address, is known from
 * Python. */
struct known_group {
	uint64_t object;
	const struct group_desc *desc;
	bool several; /* another one was there before: which one a call is of is not certain */
};

struct groups {
	struct arena arena;
	struct python_groups_mark mark;
	struct known_group *all;
	size_t n, room;
};

static struct known_group *known_group_find(const struct groups *g, uint64_t object)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->all[i].object == object)
			return &g->all[i];
	return NULL;
}

static bool group_is_same(const struct group_desc *d, const struct python_group *p)
{
	return d->n == p->n && !memcmp(d->ranks, p->ranks, p->n * sizeof(*p->ranks)) &&
	       !strcmp(d->name, p->name);
}

static void known_group_add(struct groups *g, const struct python_group *p)
{
	struct known_group *k = known_group_find(g, p->object);
	if (k) {
		k->several |= !group_is_same(k->desc, p);
		return;
	}
	const struct group_desc *d = group_desc_copy(&g->arena, p->name, p->ranks, p->n);
	if (d && !array_grow(&g->all, &g->room, g->n + 1, sizeof(*g->all)))
		g->all[g->n++] = (struct known_group){.object = p->object, .desc = d};
}

static void groups_look_again(struct groups *g, const struct py_runtime *py)
{
	struct python_group *now;
	int n = python_groups(py, &now);
	if (n < 0) {
		g->mark.entries = 0; /* try again */
		return;
	}
	for (int i = 0; i < n; i++)
		known_group_add(g, &now[i]);
	python_groups_free(now, (size_t)n);
}

const struct group_desc *groups_find(struct target *t, uint64_t object, int32_t *place)
{
	if (t->py && !t->groups)
		t->groups = calloc(1, sizeof(*t->groups));
	struct groups *g = t->py ? t->groups : NULL;
	if (!g)
		return NULL;
	if (python_groups_changed(t->py, &g->mark) > 0)
		groups_look_again(g, t->py);
	const struct known_group *k = known_group_find(g, object);
	if (!k || k->several)
		return NULL;
	*place = -1;
	for (uint32_t i = 0; i < k->desc->n && t->rank.rank >= 0; i++)
		if (k->desc->ranks[i] == t->rank.rank)
			*place = (int32_t)i;
	return k->desc;
}

void groups_free(struct groups *g)
{
	if (!g)
		return;
	arena_free(&g->arena);
	free(g->all);
	free(g);
}

uint16_t decode_group_place(const struct process_rank *own, const uint8_t *group, uint32_t from,
			    uint32_t len)
{
	uint16_t found = 0;
	for (uint32_t at = from; own->rank >= 0 && at + 8 <= len; at += 4) {
		int32_t is[2];
		memcpy(is, group + at, sizeof(is));
		if (is[0] == own->rank && is[1] == own->world_size)
			found = found ? GROUP_NOT_KNOWN : (uint16_t)at;
	}
	return found;
}

static void learn_group(struct target *t, const uint8_t *group, uint32_t len)
{
	if (t->group_tries++ <= GROUP_TRIES)
		t->group_at = decode_group_place(&t->rank, group, t->conf.tensor.target_size, len);
}

static struct value group(struct target *t, uint64_t addr, const uint8_t *p, uint32_t len)
{
	struct value v = {.kind = VALUE_GROUP, .group = {addr, -1, -1, NULL}};
	int32_t is[2], place;
	v.group.of = groups_find(t, addr, &place);
	if (v.group.of && place >= 0) {
		v.group.rank = place;
		v.group.size = (int32_t)v.group.of->n;
		return v;
	}
	if (!t->group_at)
		learn_group(t, p, len);
	if (!t->group_at || t->group_at == GROUP_NOT_KNOWN || t->group_at + sizeof(is) > len)
		return v;
	memcpy(is, p + t->group_at, sizeof(is));
	if (is[0] >= 0 && is[0] < is[1]) {
		v.group.rank = is[0];
		v.group.size = is[1];
	}
	return v;
}

/* c10d::ReduceOp begins, behind what all such objects begin with, with its RedOpType, a byte
 * (torch/csrc/distributed/c10d/Types.hpp, 1.13 to 2.13). */
static struct value reduce_op(const struct target *t, const uint8_t *p, uint32_t len)
{
	static const char *const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",	   "MAX",
					    "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
	uint32_t at = t->conf.tensor.target_size;
	if (!at || at >= len || p[at] >= sizeof(names) / sizeof(names[0]))
		return value_not_decoded("an unknown reduction");
	const char *name = names[p[at]];
	return (struct value){.kind = VALUE_STRING, .count = (uint32_t)strlen(name), .str = name};
}

/* The backend whose class is nested in c10d::ProcessGroupGloo, say, or whose own name has it:
 * "gloo"; NULL: none. The name is mangled (Itanium C++ ABI, section 5.1). */
static const char *backend_in(struct rtti *r, const char *class)
{
	static const char group[] = "ProcessGroup";
	char name[32];
	const char *at = strstr(class, group);
	if (!at || at == class || at[-1] < '0' || at[-1] > '9')
		return NULL;
	const char *digits = at;
	while (digits > class && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	size_t own = sizeof(group) - 1, len = strtoul(digits, NULL, 10), n = 0;
	if (len <= own || len > strlen(at) || len - own >= sizeof(name))
		return NULL;
	for (; n < len - own; n++)
		name[n] = (char)tolower((unsigned char)at[own + n]);
	name[n] = '\0';
	return rtti_keep(r, name, n + 1);
}

/* Of the class, or of the nearest that it is derived from. Found once for each class. */
static const char *backend_of(struct rtti *r, struct rtti_class *class)
{
	if (class->facts)
		return *(const char *)class->facts ? class->facts : NULL;
	const char *name = backend_in(r, class->name);
	for (unsigned i = 0; !name && i < class->nancestors; i++)
		name = backend_in(r, class->ancestors[i]);
	class->facts = name ? name : "";
	return name;
}

/* What a block of record_function is known by, between its marks. */
static struct value block(struct arena *a, uint64_t addr)
{
	char text[sizeof(mark_block_text) + 24];
	int n = snprintf(text, sizeof(text), "%s0x%" PRIx64, mark_block_text, addr);
	struct value v = value_not_decoded(arena_strndup(a, text, (size_t)n));
	return v.str ? v : value_not_decoded("no memory");
}

struct value decode_object(const struct decode *d, uint64_t addr, const uint8_t *p, uint32_t len)
{
	struct target *t = d->target;
	uint64_t vtable;
	if (len < sizeof(vtable))
		return value_not_decoded("memory could not be read");
	memcpy(&vtable, p, sizeof(vtable));
	struct rtti_class *class = rtti_of_vtable(t->rtti, vtable);
	if (rtti_is_a(class, "N4c10d12ProcessGroupE"))
		return group(t, addr, p, len);
	if (rtti_is_a(class, "N4c10d8ReduceOpE"))
		return reduce_op(t, p, len);
	if (rtti_is_a(class, "N4c10d4WorkE"))
		return (struct value){.kind = VALUE_WORK,
				      .work = {addr, backend_of(t->rtti, class)}};
	if (rtti_is_a(class, "N5torch8autograd8profiler20PythonRecordFunctionE"))
		return block(d->arena, addr);
	return value_not_decoded("an object of a class ditrace does not know");
}

struct value decode_custom_object(const struct decode *d, const struct item *held)
{
	const uint8_t *p = (const uint8_t *)(held + 1);
	uint64_t addr;
	if (held->len < sizeof(addr))
		return value_not_decoded("memory could not be read");
	memcpy(&addr, p, sizeof(addr));
	return decode_object(d, addr, p + sizeof(addr), held->len - (uint32_t)sizeof(addr));
}
