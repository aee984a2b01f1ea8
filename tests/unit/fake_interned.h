/* A table of interned strings like libtorch's, in the test's own memory. */
#ifndef TESTS_UNIT_FAKE_INTERNED_H
#define TESTS_UNIT_FAKE_INTERNED_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/torch/layout.h"

enum {
	SYM_NAMESPACES = 3,
	SYM_DIMNAME = 7,
	SYM_N = 20,
	SYM_LONG = 21,
	SYM_ATEN_N = 22,
	SYM_WILD = 79,
	SYMBOLS = 80
};

struct fake_text {
	const char *at;
	uint64_t len;
	char room[16]; /* the text itself, or its capacity */
};

struct fake_info {
	uint32_t ns, pad;
	struct fake_text qual, unqual;
};

static struct fake_table {
	uint64_t map[7]; /* from names to symbols: never read */
	const struct fake_info *begin, *end, *room;
	uint64_t mutex[5];
	uint64_t behind[40];
} table;

static struct fake_info infos[SYMBOLS];
static char texts[2 * SYMBOLS][64];

static struct fake_text text_of(struct fake_text *where, char *room, const char *text)
{
	struct fake_text t = {.len = strlen(text)};
	strcpy(room, text);
	t.at = room;
	if (t.len < sizeof(t.room)) {
		strcpy(t.room, text);
		t.at = where->room;
	} else {
		memcpy(t.room, &t.len, sizeof(t.len));
	}
	return t;
}

static void set_symbol(unsigned id, unsigned ns, const char *domain, const char *name)
{
	char qual[64];
	snprintf(qual, sizeof(qual), "%s::%s", domain, name);
	infos[id].ns = ns;
	infos[id].qual = text_of(&infos[id].qual, texts[2 * id], qual);
	infos[id].unqual = text_of(&infos[id].unqual, texts[2 * id + 1], name);
}

/* Free with interned_free. */
static struct interned *fake_interned(void)
{
	static struct mem own;
	uint64_t places[INTERNED_PLACES] = {8, (uintptr_t)&infos[1], (uintptr_t)&table};
	for (unsigned i = 0; i < SYMBOLS; i++)
		set_symbol(i, SYM_NAMESPACES, "namespaces", "x");
	set_symbol(SYM_NAMESPACES, SYM_NAMESPACES, "namespaces", "namespaces");
	set_symbol(SYM_DIMNAME, SYM_NAMESPACES, "namespaces", "dimname");
	set_symbol(SYM_N, SYM_DIMNAME, "dimname", "N");
	set_symbol(SYM_LONG, SYM_DIMNAME, "dimname", "a_name_that_is_not_short");
	set_symbol(SYM_ATEN_N, 8, "aten", "N");
	set_symbol(SYM_WILD, SYM_DIMNAME, "dimname", "*");
	table.begin = infos;
	table.end = table.room = infos + SYMBOLS;
	own = mem_process(getpid());
	return interned_new(&own, false, places);
}

#endif
