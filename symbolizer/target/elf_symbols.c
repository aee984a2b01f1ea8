/* Symbols of ELF files, by name and all. */
#include "symbolizer/target/internal.h"

#include <string.h>

struct symbol_table {
	const Elf64_Sym *sym;
	size_t n;
	const char *str; /* ends with a NUL */
	size_t str_len;
};

static const Elf64_Shdr *section_of_type(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->nsh; i++)
		if (f->sh[i].sh_type == type)
			return &f->sh[i];
	return NULL;
}

/* The symbol table of that type; empty when missing or malformed. */
static struct symbol_table symbol_table_of(const struct elf_file *f, uint32_t type)
{
	struct symbol_table t = {0};
	const Elf64_Shdr *s = section_of_type(f, type);
	if (!s || s->sh_entsize != sizeof(Elf64_Sym) || s->sh_link >= f->nsh)
		return t;
	const Elf64_Shdr *names = &f->sh[s->sh_link];
	size_t n = s->sh_size / sizeof(Elf64_Sym);
	t.sym = elf_part(f, s->sh_offset, n, sizeof(Elf64_Sym));
	if (!t.sym || names->sh_type != SHT_STRTAB || !names->sh_size ||
	    names->sh_offset > f->size || names->sh_size > f->size - names->sh_offset)
		return (struct symbol_table){0};
	t.str = (const char *)f->raw + names->sh_offset;
	t.str_len = names->sh_size;
	t.n = t.str[t.str_len - 1] ? 0 : n;
	return t;
}

static bool is_symbol_wanted(const struct symbol_table *t, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS && s->st_shndx != SHN_COMMON &&
	       type != STT_TLS && type != STT_SECTION && type != STT_FILE &&
	       s->st_name < t->str_len;
}

static struct elf_symbol symbol_of(const struct symbol_table *t, const Elf64_Sym *s, bool symtab)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	return (struct elf_symbol){
	    .name = t->str + s->st_name,
	    .vaddr = s->st_value,
	    .size = s->st_size,
	    .type = (uint8_t)type,
	    .is_function = type == STT_FUNC,
	    .from_symtab = symtab,
	};
}

static int table_each_symbol(struct elf_file *f, uint32_t type, elf_symbol_fn *fn, void *arg)
{
	enum { DROP_EVERY = 1 << 16 };
	struct symbol_table t = symbol_table_of(f, type);
	for (size_t i = 0; i < t.n; i++) {
		/* Half a million names are 90 MB; do not keep them all resident. */
		if (i % DROP_EVERY == DROP_EVERY - 1)
			elf_file_drop(f);
		const Elf64_Sym sym = ((const volatile Elf64_Sym *)t.sym)[i];
		if (!is_symbol_wanted(&t, &sym))
			continue;
		struct elf_symbol s = symbol_of(&t, &sym, type == SHT_SYMTAB);
		int r = fn(&s, arg);
		if (r)
			return r;
	}
	return 0;
}

int elf_each_symbol(struct elf_file *f, bool symtab, elf_symbol_fn *fn, void *arg)
{
	int r = table_each_symbol(f, SHT_DYNSYM, fn, arg);
	return r || !symtab ? r : table_each_symbol(f, SHT_SYMTAB, fn, arg);
}

/* A .gnu.hash section: a header of four 32-bit words, a Bloom filter of 64-bit words, buckets,
 * chains. */
struct gnu_hash {
	const uint32_t *bucket, *chain;
	uint32_t nbuckets, first; /* first: index of the symbol of chain[0] */
	size_t nchains;
};

static bool gnu_hash_of(const struct elf_file *f, struct gnu_hash *h)
{
	const Elf64_Shdr *s = section_of_type(f, SHT_GNU_HASH);
	const uint32_t *w = s ? elf_part(f, s->sh_offset, s->sh_size, 1) : NULL;
	if (!w || s->sh_size < 16)
		return false;
	const uint32_t nbuckets = ((const volatile uint32_t *)w)[0],
		       nbloom = ((const volatile uint32_t *)w)[2];
	uint64_t words = s->sh_size / 4, before = 4 + 2 * (uint64_t)nbloom + nbuckets;
	if (!nbuckets || before > words)
		return false;
	h->nbuckets = nbuckets;
	h->first = w[1];
	h->bucket = w + 4 + 2 * (size_t)nbloom;
	h->chain = h->bucket + h->nbuckets;
	h->nchains = words - before;
	return true;
}

static uint32_t hash_name(const char *s)
{
	uint32_t h = 5381;
	for (; *s; s++)
		h = h * 33 + (uint8_t)*s;
	return h;
}

static const Elf64_Sym *hashed_symbol(const struct gnu_hash *h, const struct symbol_table *t,
				      const char *name)
{
	uint32_t hash = hash_name(name), i = h->bucket[hash % h->nbuckets];
	if (i < h->first)
		return NULL;
	for (; i < t->n && i - h->first < h->nchains; i++) {
		uint32_t word = h->chain[i - h->first];
		const Elf64_Sym s = ((const volatile Elf64_Sym *)t->sym)[i];
		if ((word | 1) == (hash | 1) && is_symbol_wanted(t, &s) && s.st_value &&
		    !strcmp(t->str + s.st_name, name))
			return &t->sym[i];
		if (word & 1)
			return NULL;
	}
	return NULL;
}

struct name_search {
	const char *const *names;
	size_t n, left;
	uint64_t *vaddr, *sizes;
};

static int symbol_match(const struct elf_symbol *s, void *arg)
{
	struct name_search *x = arg;
	for (size_t i = 0; s->vaddr && i < x->n; i++) {
		if (x->vaddr[i] || strcmp(s->name, x->names[i]))
			continue;
		x->vaddr[i] = s->vaddr;
		if (x->sizes)
			x->sizes[i] = s->size;
		x->left--;
	}
	return x->left == 0;
}

uint64_t elf_find_dynamic(struct elf_file *f, const char *name, uint64_t *size)
{
	uint64_t vaddr = 0, len = 0;
	struct name_search x = {&name, 1, 1, &vaddr, &len};
	struct gnu_hash h;
	struct symbol_table t = symbol_table_of(f, SHT_DYNSYM);
	const Elf64_Sym *s = NULL;
	if (!gnu_hash_of(f, &h))
		table_each_symbol(f, SHT_DYNSYM, symbol_match, &x);
	else if ((s = hashed_symbol(&h, &t, name))) {
		vaddr = s->st_value;
		len = s->st_size;
	}
	if (size)
		*size = len;
	return vaddr;
}

size_t elf_find_all(struct elf_file *f, const char *const *names, size_t n, uint64_t *vaddr,
		    uint64_t *sizes)
{
	struct name_search x = {names, n, n, vaddr, sizes};
	for (size_t i = 0; i < n; i++) {
		vaddr[i] = elf_find_dynamic(f, names[i], sizes ? &sizes[i] : NULL);
		x.left -= vaddr[i] != 0;
	}
	if (x.left)
		table_each_symbol(f, SHT_SYMTAB, symbol_match, &x);
	return n - x.left;
}

uint64_t elf_find(struct elf_file *f, const char *name, uint64_t *size)
{
	uint64_t vaddr = 0;
	elf_find_all(f, &name, 1, &vaddr, size);
	return vaddr;
}
