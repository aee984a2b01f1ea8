#include "symbolizer/torch/layout.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/process.h"

enum {
	SPAN = 256,	/* bytes of the table's head to search */
	NAME_LEN = 512, /* maximum length of a name, with the NUL */
	SYMBOLS_LEAST = 64,
	/* InternedStrings::SymbolInfo: {Symbol ns; std::string qual_name, unqual_name}
	   (ATen/core/interned_strings_class.h); every lookup verifies it. */
	INFO_QUAL = 8,
};

struct known {
	uint32_t id;
	const char *domain, *name;
};

struct interned {
	const struct mem *mem;
	bool cow; /* as in std_string_size */
	uint64_t places[INTERNED_PLACES];
	struct arena arena;
	struct known *known;
	size_t nknown, room;
};

static void add_place(uint64_t out[INTERNED_PLACES], uint64_t at)
{
	for (unsigned i = 0; i < INTERNED_PLACES; i++) {
		if (out[i] && out[i] != at)
			continue;
		out[i] = at;
		return;
	}
}

/* Collect the addresses that a function takes, and if `follow` those of its direct callees. */
static void take_addresses(struct elf_file *f, struct arch_decoder *d, uint64_t vaddr,
			   uint64_t size, bool follow, uint64_t out[INTERNED_PLACES])
{
	const uint8_t *code = size ? elf_bytes(f, vaddr, size) : NULL;
	struct arch_insn i;

	for (uint32_t off = 0; code && off < size && !arch_decode(d, code, size, vaddr, off, &i);
	     off += i.len) {
		if (i.effect == ARCH_EFF_LEA && i.base == ARCH_NOREG && i.target)
			add_place(out, i.target);
		else if (i.flow == ARCH_FLOW_CALL && follow)
			take_addresses(f, d, i.target, elf_function_size(f, i.target), false, out);
	}
}

void interned_places(struct elf_file *cpu, uint64_t out[INTERNED_PLACES])
{
	uint64_t size = 0, at = elf_find_dynamic(cpu, "_ZNK3c106Symbol14toUnqualStringEv", &size);
	struct arch_decoder *d = at ? arch_decoder_new() : NULL;

	memset(out, 0, INTERNED_PLACES * sizeof(*out));
	if (d)
		take_addresses(cpu, d, at, size, true, out);
	arch_decoder_free(d);
}

struct interned *interned_new(const struct mem *m, bool cow, const uint64_t places[INTERNED_PLACES])
{
	struct interned *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->mem = m;
	s->cow = cow;
	memcpy(s->places, places, sizeof(s->places));
	return s;
}

void interned_free(struct interned *s)
{
	if (!s)
		return;
	arena_free(&s->arena);
	free(s->known);
	free(s);
}

static unsigned info_size(const struct interned *s)
{
	return INFO_QUAL + 2 * std_string_size(s->cow);
}

/* Whether the three words are a std::vector<SymbolInfo>. */
static bool is_vector(const struct interned *s, const uint64_t w[3])
{
	unsigned size = info_size(s);
	return w[0] > 4096 && w[1] > w[0] && w[2] >= w[1] && !(w[0] & 7) &&
	       !((w[1] - w[0]) % size) && (w[1] - w[0]) / size >= SYMBOLS_LEAST;
}

/* Read entry `id` of the vector: the symbol of its domain, and its qualified and unqualified names.
 */
static bool read_info(const struct interned *s, const uint64_t vec[3], uint32_t id, uint32_t *ns,
		      char qual[NAME_LEN], char unqual[NAME_LEN])
{
	uint64_t at = vec[0] + (uint64_t)id * info_size(s);

	return at < vec[1] && !mem_read(s->mem, at, ns, sizeof(*ns)) &&
	       std_string_read(s->mem, s->cow, at + INFO_QUAL, qual, NAME_LEN) > 0 &&
	       std_string_read(s->mem, s->cow, at + INFO_QUAL + std_string_size(s->cow), unqual,
			       NAME_LEN) > 0;
}

static bool is_qualified(const char *qual, const char *domain, const char *name)
{
	size_t n = strlen(domain);

	return !strncmp(qual, domain, n) && !strncmp(qual + n, "::", 2) &&
	       !strcmp(qual + n + 2, name);
}

/* Verifies the entry: its domain must match by name and by the domain's own symbol. */
static bool name_by_id(const struct interned *s, const uint64_t vec[3], uint32_t id,
		       const char *domain, char name[NAME_LEN])
{
	char qual[NAME_LEN], of[NAME_LEN];
	uint32_t ns, above;

	return read_info(s, vec, id, &ns, qual, name) && is_qualified(qual, domain, name) &&
	       read_info(s, vec, ns, &above, qual, of) && !strcmp(of, domain) &&
	       is_qualified(qual, "namespaces", domain);
}

static const char *interned_add(struct interned *s, uint32_t id, const char *domain,
				const char *name)
{
	if (array_grow(&s->known, &s->room, s->nknown + 1, sizeof(*s->known)))
		return NULL;
	struct known k = {id, arena_strndup(&s->arena, domain, strlen(domain)),
			  arena_strndup(&s->arena, name, strlen(name))};
	if (!k.domain || !k.name)
		return NULL;
	s->known[s->nknown++] = k;
	return k.name;
}

const char *interned_name(struct interned *s, uint32_t id, const char *domain)
{
	char name[NAME_LEN];
	uint64_t head[SPAN / 8];

	for (size_t i = 0; s && i < s->nknown; i++)
		if (s->known[i].id == id && !strcmp(s->known[i].domain, domain))
			return s->known[i].name;
	for (unsigned p = 0; s && p < INTERNED_PLACES && s->places[p]; p++) {
		if (mem_read(s->mem, s->places[p], head, sizeof(head)))
			continue;
		for (unsigned i = 0; i + 3 <= SPAN / 8; i++)
			if (is_vector(s, &head[i]) && name_by_id(s, &head[i], id, domain, name))
				return interned_add(s, id, domain, name);
	}
	return NULL;
}

bool interned_is_gone(const struct interned *s)
{
	uint64_t word;
	for (unsigned i = 0; s && i < INTERNED_PLACES && s->places[i]; i++)
		if (!mem_read(s->mem, s->places[i], &word, sizeof(word)))
			return false;
	return s && s->places[0];
}
