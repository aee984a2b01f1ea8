#include "symbolizer/target/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolizer/target/target_files.h"

enum { MAX_LOADS = 32, PAGE = 4096 };

struct table {
	const Elf64_Sym *sym;
	size_t n;
	const char *str; /* ends with a NUL */
	size_t str_len;
};

struct elf_file {
	const uint8_t *raw;
	size_t size;
	void *map; /* NULL: `raw` is the caller's */
	/* Copies: others may write to the file after it was checked. */
	Elf64_Phdr *ph;
	size_t nph;
	Elf64_Shdr *sh;
	size_t nsh, names; /* index of the section of sections' names */
	const Elf64_Phdr *load[MAX_LOADS];
	unsigned nloads;
};

/* `count` elements of `each` bytes at offset `off`; NULL when out of bounds or not 8-byte aligned.
 */
static const void *file_part(const struct elf_file *f, uint64_t off, uint64_t count, uint64_t each)
{
	uint64_t len;
	if (__builtin_mul_overflow(count, each, &len) || off > f->size || len > f->size - off ||
	    off & 7)
		return NULL;
	return f->raw + off;
}

/* A copy of such elements; NULL when out of bounds or without memory. */
static void *file_part_copy(const struct elf_file *f, uint64_t off, uint64_t count, uint64_t each)
{
	const void *p = file_part(f, off, count, each);
	void *copy = p && count ? malloc(count * each) : NULL;
	return copy ? memcpy(copy, p, count * each) : NULL;
}

static bool load_fits(const struct elf_file *f, const Elf64_Phdr *p)
{
	return p->p_type == PT_LOAD && p->p_offset <= f->size &&
	       p->p_filesz <= f->size - p->p_offset && p->p_filesz <= UINT64_MAX - p->p_vaddr;
}

static int read_headers(struct elf_file *f)
{
	Elf64_Ehdr h;
	const void *first = file_part(f, 0, 1, sizeof(h));
	if (!first)
		return -ENOEXEC;
	memcpy(&h, first, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (h.e_type != ET_DYN && h.e_type != ET_EXEC)
		return -ENOEXEC;
	f->names = h.e_shstrndx;
	if (h.e_phentsize == sizeof(Elf64_Phdr) &&
	    (f->ph = file_part_copy(f, h.e_phoff, h.e_phnum, sizeof(Elf64_Phdr))))
		f->nph = h.e_phnum;
	if (h.e_shentsize == sizeof(Elf64_Shdr) &&
	    (f->sh = file_part_copy(f, h.e_shoff, h.e_shnum, sizeof(Elf64_Shdr))))
		f->nsh = h.e_shnum;
	for (size_t i = 0; i < f->nph && f->nloads < MAX_LOADS; i++)
		if (load_fits(f, &f->ph[i]))
			f->load[f->nloads++] = &f->ph[i];
	return f->nloads ? 0 : -ENOEXEC;
}

int elf_file_open_memory(const void *data, size_t size, struct elf_file **out)
{
	if ((uintptr_t)data & 7)
		return -EINVAL;
	struct elf_file *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->raw = data;
	f->size = size;
	int r = read_headers(f);
	if (r)
		elf_file_close(f);
	else
		*out = f;
	return r;
}

static size_t map_size(size_t file)
{
	return (file + PAGE - 1) / PAGE * PAGE + PAGE;
}

/* With a page of zeros behind it: a string whose end is overwritten ends there. */
static void *map_file(int fd, size_t size)
{
	void *all = mmap(NULL, map_size(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return all;
	void *map = mmap(all, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED) {
		int code = errno;
		munmap(all, map_size(size));
		errno = code;
	}
	return map;
}

static int open_fd(int fd, struct elf_file **out)
{
	struct stat st;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	size_t size = (size_t)st.st_size;
	void *map = map_file(fd, size);
	if (map == MAP_FAILED)
		return -errno;
	int r = elf_file_open_memory(map, size, out);
	if (r)
		munmap(map, map_size(size));
	else
		(*out)->map = map;
	return r;
}

static int elf_cannot_read(struct err *e, int r, const char *name)
{
	return err_set(e, r, "cannot read %s: %s", name,
		       r == -ENOEXEC ? "not a 64-bit little-endian ELF file" : strerror(-r));
}

int elf_file_open_fd(int fd, const char *name, struct elf_file **out, struct err *e)
{
	int r = open_fd(fd, out);
	return r ? elf_cannot_read(e, r, name) : 0;
}

int elf_file_open(const char *path, struct elf_file **out, struct err *e)
{
	int fd = regular_open(path);
	if (fd < 0)
		return elf_cannot_read(e, fd == -EINVAL ? -ENOEXEC : fd, path);
	int r = elf_file_open_fd(fd, path, out, e);
	close(fd);
	return r;
}

void elf_file_close(struct elf_file *f)
{
	if (!f)
		return;
	if (f->map)
		munmap(f->map, map_size(f->size));
	free(f->ph);
	free(f->sh);
	free(f);
}

void elf_file_drop(struct elf_file *f)
{
	if (f->map)
		madvise(f->map, f->size, MADV_DONTNEED);
}

static const Elf64_Shdr *section_of_type(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->nsh; i++)
		if (f->sh[i].sh_type == type)
			return &f->sh[i];
	return NULL;
}

/* The symbol table of that type; empty when missing or malformed. */
static struct table table_of(const struct elf_file *f, uint32_t type)
{
	struct table t = {0};
	const Elf64_Shdr *s = section_of_type(f, type);
	if (!s || s->sh_entsize != sizeof(Elf64_Sym) || s->sh_link >= f->nsh)
		return t;
	const Elf64_Shdr *names = &f->sh[s->sh_link];
	size_t n = s->sh_size / sizeof(Elf64_Sym);
	t.sym = file_part(f, s->sh_offset, n, sizeof(Elf64_Sym));
	if (!t.sym || names->sh_type != SHT_STRTAB || !names->sh_size ||
	    names->sh_offset > f->size || names->sh_size > f->size - names->sh_offset)
		return (struct table){0};
	t.str = (const char *)f->raw + names->sh_offset;
	t.str_len = names->sh_size;
	t.n = t.str[t.str_len - 1] ? 0 : n;
	return t;
}

static bool is_wanted(const struct table *t, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS && s->st_shndx != SHN_COMMON &&
	       type != STT_TLS && type != STT_SECTION && type != STT_FILE &&
	       s->st_name < t->str_len;
}

static struct elf_symbol symbol_of(const struct table *t, const Elf64_Sym *s, bool symtab)
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
	struct table t = table_of(f, type);
	for (size_t i = 0; i < t.n; i++) {
		/* Half a million names are 90 MB; do not keep them all resident. */
		if (i % DROP_EVERY == DROP_EVERY - 1)
			elf_file_drop(f);
		const Elf64_Sym sym = ((const volatile Elf64_Sym *)t.sym)[i];
		if (!is_wanted(&t, &sym))
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
	const uint32_t *w = s ? file_part(f, s->sh_offset, s->sh_size, 1) : NULL;
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

static const Elf64_Sym *hashed_symbol(const struct gnu_hash *h, const struct table *t,
				      const char *name)
{
	uint32_t hash = hash_name(name), i = h->bucket[hash % h->nbuckets];
	if (i < h->first)
		return NULL;
	for (; i < t->n && i - h->first < h->nchains; i++) {
		uint32_t word = h->chain[i - h->first];
		const Elf64_Sym s = ((const volatile Elf64_Sym *)t->sym)[i];
		if ((word | 1) == (hash | 1) && is_wanted(t, &s) && s.st_value &&
		    !strcmp(t->str + s.st_name, name))
			return &t->sym[i];
		if (word & 1)
			return NULL;
	}
	return NULL;
}

struct search {
	const char *const *names;
	size_t n, left;
	uint64_t *vaddr, *sizes;
};

static int symbol_match(const struct elf_symbol *s, void *arg)
{
	struct search *x = arg;
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
	struct search x = {&name, 1, 1, &vaddr, &len};
	struct gnu_hash h;
	struct table t = table_of(f, SHT_DYNSYM);
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
	struct search x = {names, n, n, vaddr, sizes};
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

int64_t elf_offset(const struct elf_file *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		if (vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz)
			return (int64_t)(vaddr - p->p_vaddr + p->p_offset);
	}
	return -1;
}

uint64_t elf_address(const struct elf_file *f, uint64_t offset)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		if (offset >= p->p_offset && offset - p->p_offset < p->p_filesz)
			return offset - p->p_offset + p->p_vaddr;
	}
	return 0;
}

static bool segment_holds(const Elf64_Phdr *p, const struct mapping *m)
{
	uint64_t first = p->p_offset & ~(uint64_t)(PAGE - 1);
	return m->offset >= first && m->offset < p->p_offset + p->p_filesz;
}

int elf_bias(const struct elf_file *f, const struct mapping *m, uint64_t *bias)
{
	bool found = false;
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		uint64_t b = m->start - (p->p_vaddr + (m->offset - p->p_offset));
		if (!segment_holds(p, m) || m->exec != !!(p->p_flags & PF_X))
			continue;
		if (found && b != *bias)
			return -EINVAL;
		*bias = b;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

uint64_t elf_first(const struct elf_file *f)
{
	return f->nloads ? f->load[0]->p_vaddr & ~(uint64_t)(PAGE - 1) : 0;
}

const uint8_t *elf_bytes(const struct elf_file *f, uint64_t vaddr, uint64_t len)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		uint64_t at = vaddr - p->p_vaddr;
		if (vaddr >= p->p_vaddr && at < p->p_filesz)
			return len <= p->p_filesz - at ? f->raw + p->p_offset + at : NULL;
	}
	return NULL;
}

/* Whether `text` with its NUL is at offset `off` of the `len` bytes at s. */
static bool text_is_at(const uint8_t *s, uint64_t len, uint64_t off, const char *text)
{
	size_t n = strlen(text) + 1;
	return off <= len && n <= len - off && !memcmp(s + off, text, n);
}

const uint8_t *elf_section(struct elf_file *f, const char *name, uint64_t *vaddr, size_t *size)
{
	const Elf64_Shdr *ns = f->names < f->nsh ? &f->sh[f->names] : NULL;
	if (!ns || ns->sh_offset > f->size || ns->sh_size > f->size - ns->sh_offset)
		return NULL;
	for (size_t i = 0; i < f->nsh; i++) {
		const Elf64_Shdr *s = &f->sh[i];
		if (!text_is_at(f->raw + ns->sh_offset, ns->sh_size, s->sh_name, name) ||
		    s->sh_type == SHT_NOBITS || s->sh_flags & SHF_COMPRESSED)
			continue;
		if (s->sh_offset > f->size || s->sh_size > f->size - s->sh_offset)
			return NULL;
		*vaddr = s->sh_addr;
		*size = s->sh_size;
		return f->raw + s->sh_offset;
	}
	return NULL;
}

/* A note: sizes of name and contents, type, name, contents (gABI 4.1, chapter 5). */
const uint8_t *elf_build_id(struct elf_file *f, size_t *n)
{
	uint64_t at;
	size_t size;
	const uint8_t *note = elf_section(f, ".note.gnu.build-id", &at, &size);
	uint32_t head[3];
	*n = 0;
	if (!note || size < sizeof(head) + 4)
		return NULL;
	memcpy(head, note, sizeof(head));
	if (head[0] != 4 || memcmp(note + sizeof(head), "GNU", 4) != 0 ||
	    head[1] > size - sizeof(head) - 4 || head[1] > ELF_BUILD_MOST)
		return NULL;
	*n = head[1];
	return note + sizeof(head) + 4;
}
