#include "symbolizer/torch/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"

enum {
	NAME_MAX_LEN = 1024,
	DEPTH_MAX = 8,
	BASES_MAX = 8,
	OFFSET_TO_TOP_MAX = 1 << 20,
};

struct rtti {
	const struct mem *mem;
	struct arena arena;
	struct rtti_class **classes;
	size_t n, room;
	struct map by_vtable;
};

struct rtti *rtti_new(const struct mem *m)
{
	struct rtti *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->mem = m;
	return r;
}

void rtti_free(struct rtti *r)
{
	if (!r)
		return;
	arena_free(&r->arena);
	map_free(&r->by_vtable);
	free(r->classes);
	free(r);
}

static bool is_user_pointer(uint64_t p)
{
	return p >= 0x1000 && p < 1ULL << 47 && !(p & 7);
}

static bool name_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || c == '.' || c == '$';
}

/* The validated name in the type_info at `ti`, copied to the arena; NULL if it has none. */
static const char *type_name(struct rtti *r, uint64_t ti)
{
	char buf[NAME_MAX_LEN + 1];
	uint64_t at;
	if (!is_user_pointer(ti) || mem_read_u64(r->mem, ti + 8, &at) || at < 0x1000)
		return NULL;
	ssize_t n = mem_read_str(r->mem, at, buf, sizeof(buf));
	const char *s = buf + (n > 0 && buf[0] == '*'); /* '*': compared by address only */
	/* mangled source name, nested name, name in std, or local name */
	if (n < 2 || !((*s >= '1' && *s <= '9') || *s == 'N' || *s == 'S' || *s == 'Z'))
		return NULL;
	for (const char *p = s; *p; p++)
		if (!name_char(*p))
			return NULL;
	return arena_strndup(&r->arena, s, strlen(s));
}

/* Class name of the type_info object itself, which determines how its bases are stored. */
static bool type_kind(struct rtti *r, uint64_t ti, char *out, size_t size)
{
	uint64_t vt, kind, at;
	return !mem_read_u64(r->mem, ti, &vt) && is_user_pointer(vt) &&
	       !mem_read_u64(r->mem, vt - 8, &kind) && is_user_pointer(kind) &&
	       !mem_read_u64(r->mem, kind + 8, &at) && mem_read_str(r->mem, at, out, size) > 0;
}

static bool add_bases(struct rtti *r, struct rtti_class *c, uint64_t ti, unsigned depth);

/* False if it is missing, or not relocated yet. */
static bool add_base(struct rtti *r, struct rtti_class *c, uint64_t ti, unsigned depth)
{
	uint64_t at = 0;
	if (!is_user_pointer(ti) || mem_read_u64(r->mem, ti + 8, &at) || at < 0x1000)
		return false;
	const char *name = type_name(r, ti);
	if (!name || c->nancestors == RTTI_ANCESTORS)
		return true;
	for (unsigned i = 0; i < c->nancestors; i++)
		if (!strcmp(c->ancestors[i], name))
			return true;
	c->ancestors[c->nancestors++] = name;
	return add_bases(r, c, ti, depth + 1);
}

/* Itanium C++ ABI 2.9.5: __si_class_type_info has one more word, its base; __vmi_class_type_info
 * has flags and a count (32 bits each), then {base, offset and flags} for each base. */
static bool add_bases(struct rtti *r, struct rtti_class *c, uint64_t ti, unsigned depth)
{
	char kind[64];
	uint64_t word, n = 0;
	if (depth > DEPTH_MAX)
		return true;
	if (!type_kind(r, ti, kind, sizeof(kind)))
		return false;
	if (!strcmp(kind, "N10__cxxabiv120__si_class_type_infoE"))
		return !mem_read_u64(r->mem, ti + 16, &word) && add_base(r, c, word, depth);
	if (!strcmp(kind, "N10__cxxabiv121__vmi_class_type_infoE")) {
		if (mem_read_u64(r->mem, ti + 16, &word))
			return false;
		n = word >> 32 < BASES_MAX ? word >> 32 : BASES_MAX;
	}
	for (uint64_t i = 0; i < n; i++)
		if (mem_read_u64(r->mem, ti + 24 + 16 * i, &word) || !add_base(r, c, word, depth))
			return false;
	return true;
}

static struct rtti_class *read_class(struct rtti *r, uint64_t vtable)
{
	uint64_t head[2]; /* offset to top, type_info */
	if (!is_user_pointer(vtable) || mem_read(r->mem, vtable - 16, head, sizeof(head)))
		return NULL;
	int64_t top = (int64_t)head[0];
	if (top > 0 || top < -OFFSET_TO_TOP_MAX || top % 8)
		return NULL;
	const char *name = type_name(r, head[1]);
	struct rtti_class *c = name ? arena_alloc(&r->arena, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	c->vtable = vtable;
	c->name = name;
	return add_bases(r, c, head[1], 0) ? c : NULL;
}

struct rtti_class *rtti_of_vtable(struct rtti *r, uint64_t vtable)
{
	int64_t i = map_get(&r->by_vtable, vtable);
	if (i >= 0)
		return r->classes[i];
	struct rtti_class *c = read_class(r, vtable);
	if (!c || array_grow(&r->classes, &r->room, r->n + 1, sizeof(struct rtti_class *)) ||
	    map_put(&r->by_vtable, vtable, (uint32_t)r->n))
		return NULL;
	return r->classes[r->n++] = c;
}

struct rtti_class *rtti_of_object(struct rtti *r, uint64_t addr)
{
	uint64_t vtable;
	if (!is_user_pointer(addr) || mem_read_u64(r->mem, addr, &vtable))
		return NULL;
	return rtti_of_vtable(r, vtable);
}

bool rtti_is_a(const struct rtti_class *c, const char *name)
{
	if (!c)
		return false;
	if (!strcmp(c->name, name))
		return true;
	for (unsigned i = 0; i < c->nancestors; i++)
		if (!strcmp(c->ancestors[i], name))
			return true;
	return false;
}

const void *rtti_keep(struct rtti *r, const void *data, size_t len)
{
	void *kept = arena_alloc(&r->arena, len);
	return kept ? memcpy(kept, data, len) : NULL;
}
