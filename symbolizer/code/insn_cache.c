#include "symbolizer/code/cfg.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 1 << 15, ENTRIES = 1 << 14, KEY = 4, LONGEST = 15, NONE = UINT16_MAX };

struct cached_insn {
	uint8_t bytes[LONGEST];
	uint8_t fixed; /* bytes that must match; the rest is a displacement */
	uint16_t next;
	struct arch_insn insn;
};

/* Hashed by the first KEY fixed bytes, or all of them if fewer. */
struct insn_cache {
	uint16_t head[HEADS];
	uint32_t n;
	struct cached_insn entry[ENTRIES];
};

struct insn_cache *insn_cache_new(void)
{
	struct insn_cache *c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	c->n = 0;
	memset(c->head, 0xff, sizeof(c->head));
	return c;
}

void insn_cache_free(struct insn_cache *c)
{
	free(c);
}

static uint32_t hash(const uint8_t *code, unsigned n)
{
	uint32_t key = 0;
	memcpy(&key, code, n);
	return ((key + n) * UINT32_C(2654435761)) >> 17;
}

static int32_t distance(const uint8_t *end, unsigned size)
{
	int32_t d;
	if (size == 1)
		return (int8_t)end[-1];
	memcpy(&d, end - sizeof(d), sizeof(d));
	return d;
}

static void move(struct arch_insn *insn, const uint8_t *code, uint64_t at, unsigned relative)
{
	int32_t d = distance(code + insn->len, relative);
	if (insn->target)
		insn->target = at + insn->len + (uint64_t)(int64_t)d;
	if (insn->effect == ARCH_EFF_LEA || insn->effect == ARCH_EFF_INDEX ||
	    insn->effect == ARCH_EFF_LOAD || insn->effect == ARCH_EFF_STORE)
		insn->disp = d;
}

bool insn_cache_find(const struct insn_cache *c, const uint8_t *code, size_t left, uint64_t at,
		     struct arch_insn *out)
{
	for (unsigned n = left < KEY ? (unsigned)left : KEY; n > 0; n--) {
		for (uint16_t i = c->head[hash(code, n)]; i != NONE; i = c->entry[i].next) {
			const struct cached_insn *e = &c->entry[i];
			if (e->insn.len > left || memcmp(e->bytes, code, e->fixed))
				continue;
			*out = e->insn;
			if (e->fixed != e->insn.len)
				move(out, code, at, e->insn.len - e->fixed);
			return true;
		}
	}
	return false;
}

void insn_cache_add(struct insn_cache *c, const uint8_t *code, uint64_t at, unsigned relative,
		    const struct arch_insn *insn)
{
	if (c->n == ENTRIES || insn->len > LONGEST || insn->len <= relative)
		return;
	struct cached_insn *e = &c->entry[c->n];
	*e = (struct cached_insn){.fixed = (uint8_t)(insn->len - relative), .insn = *insn};
	memcpy(e->bytes, code, e->fixed);
	if (relative) {
		/* Do not cache an instruction whose fields do not follow from its displacement. */
		move(&e->insn, code, at, relative);
		if (e->insn.target != insn->target || e->insn.disp != insn->disp)
			return;
	}
	uint16_t *head = &c->head[hash(code, e->fixed < KEY ? e->fixed : KEY)];
	e->next = *head;
	*head = (uint16_t)c->n++;
}
