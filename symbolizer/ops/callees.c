#include "base/arena.h"
#include "symbolizer/ops/ops.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

struct addresses {
	uint64_t *at; /* sorted */
	size_t n, cap;
};

struct callees {
	struct elf_file *f;
	struct addresses slots; /* GOT words that the dynamic linker sets to a clean-up function */
	struct addresses functions; /* clean-up functions of the file itself */
	struct addresses starts;    /* of its exported functions, an entry for each name */
	pthread_mutex_t lock;
	bool listed, starts_listed;
};

static int addresses_add(struct addresses *a, uint64_t at)
{
	int r = array_grow(&a->at, &a->cap, a->n + 1, sizeof(*a->at));
	if (!r)
		a->at[a->n++] = at;
	return r;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort(struct addresses *a)
{
	if (a->n)
		qsort(a->at, a->n, sizeof(*a->at), compare);
}

static bool holds(const struct addresses *a, uint64_t at)
{
	return a->n && bsearch(&at, a->at, a->n, sizeof(*a->at), compare);
}

/* The dynamic symbol table. */
struct dynamic {
	const uint8_t *sym;
	const char *str;
	size_t nsym, nstr;
};

static struct dynamic dynamic_symbols(struct elf_file *f)
{
	struct dynamic d = {0};
	uint64_t at;

	d.sym = elf_section(f, ".dynsym", &at, &d.nsym);
	d.str = (const char *)elf_section(f, ".dynstr", &at, &d.nstr);
	d.nsym = d.sym ? d.nsym / sizeof(Elf64_Sym) : 0;
	if (!d.str || !d.nstr || d.str[d.nstr - 1])
		d.nsym = 0;
	return d;
}

static const char *dynamic_name(const struct dynamic *d, uint64_t index)
{
	Elf64_Sym s;

	if (index >= d->nsym)
		return "";
	memcpy(&s, d->sym + index * sizeof(s), sizeof(s));
	return s.st_name < d->nstr ? d->str + s.st_name : "";
}

static int add_slots(struct callees *c, const char *section)
{
	struct dynamic d = dynamic_symbols(c->f);
	uint64_t at;
	size_t size;
	const uint8_t *rela = elf_section(c->f, section, &at, &size);

	for (size_t i = 0; rela && i < size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela r;
		memcpy(&r, rela + i * sizeof(r), sizeof(r));
		unsigned type = ELF64_R_TYPE(r.r_info);
		if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) &&
		    return_sites_cleanup_symbol(dynamic_name(&d, ELF64_R_SYM(r.r_info))) &&
		    addresses_add(&c->slots, r.r_offset))
			return -ENOMEM;
	}
	return 0;
}

int callees_open(struct elf_file *f, struct callees **out)
{
	struct callees *c = calloc(1, sizeof(*c));
	uint64_t at;
	size_t size;

	if (!c)
		return -ENOMEM;
	c->f = f;
	pthread_mutex_init(&c->lock, NULL);
	/* calls use GOT slots of .rela.dyn only if there is a .plt.got */
	if (add_slots(c, ".rela.plt") ||
	    (elf_section(f, ".plt.got", &at, &size) && add_slots(c, ".rela.dyn"))) {
		callees_close(c);
		return -ENOMEM;
	}
	sort(&c->slots);
	*out = c;
	return 0;
}

void callees_close(struct callees *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c->slots.at);
	free(c->functions.at);
	free(c->starts.at);
	free(c);
}

static int add_function(const struct elf_symbol *s, void *arg)
{
	struct callees *c = arg;

	return s->is_function && return_sites_cleanup_symbol(s->name)
		   ? addresses_add(&c->functions, s->vaddr)
		   : 0;
}

static bool is_function(struct callees *c, uint64_t target)
{
	pthread_mutex_lock(&c->lock);
	if (!c->listed) {
		elf_each_symbol(c->f, true, add_function, c);
		elf_file_drop(c->f);
		sort(&c->functions);
		c->listed = true;
	}
	pthread_mutex_unlock(&c->lock);
	return holds(&c->functions, target);
}

/* The GOT word that the PLT stub at `target` jumps through, 0 if it is not a stub. */
static uint64_t callees_slot(struct callees *c, uint64_t target)
{
	enum { STUB = 16 };
	const uint8_t *code = elf_bytes(c->f, target, STUB);

	return code ? arch_stub_slot(code, STUB, target) : 0;
}

uint64_t callees_of_stub(struct callees *c, uint64_t stub)
{
	struct dynamic d = dynamic_symbols(c->f);
	uint64_t at, slot = callees_slot(c, stub);
	size_t size;
	const uint8_t *rela = slot ? elf_section(c->f, ".rela.plt", &at, &size) : NULL;

	for (size_t i = 0; rela && i < size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela r;
		memcpy(&r, rela + i * sizeof(r), sizeof(r));
		if (r.r_offset == slot)
			return elf_find_dynamic(c->f, dynamic_name(&d, ELF64_R_SYM(r.r_info)),
						NULL);
	}
	return 0;
}

/* The word that the dynamic linker sets to the function, by a relocation in that section; 0: there
 * is none. */
static uint64_t slot_for(const struct callees *c, const char *section, const char *name)
{
	struct dynamic d = dynamic_symbols(c->f);
	uint64_t at;
	size_t size = 0;
	const uint8_t *rela = elf_section(c->f, section, &at, &size);
	for (size_t i = 0; rela && i < size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela r;
		memcpy(&r, rela + i * sizeof(r), sizeof(r));
		if (!strcmp(dynamic_name(&d, ELF64_R_SYM(r.r_info)), name))
			return r.r_offset;
	}
	return 0;
}

uint64_t callees_stub_for(struct callees *c, const char *name)
{
	enum { STUB = 16 };
	static const char *const sections[] = {".plt.sec", ".plt"};
	const uint64_t slot = slot_for(c, ".rela.plt", name);
	for (unsigned k = 0; slot && k < 2; k++) {
		uint64_t at;
		size_t size = 0;
		const uint8_t *plt = elf_section(c->f, sections[k], &at, &size);
		for (size_t i = 0; plt && i + STUB <= size; i += STUB)
			if (arch_stub_slot(plt + i, STUB, at + i) == slot)
				return at + i;
	}
	return 0;
}

bool callees_has_slot(const struct callees *c, const char *name)
{
	return slot_for(c, ".rela.plt", name) || slot_for(c, ".rela.dyn", name);
}

static bool is_cleanup(void *arg, uint64_t target)
{
	struct callees *c = arg;
	uint64_t slot = callees_slot(c, target);

	return slot ? holds(&c->slots, slot) : is_function(c, target);
}

static int read_constant(void *arg, uint64_t addr, void *buf, size_t len)
{
	struct callees *c = arg;
	uint64_t start;
	size_t size;
	const uint8_t *p = elf_section(c->f, ".rodata", &start, &size);

	if (!p || addr < start || addr - start > size || len > size - (addr - start))
		return -EFAULT;
	memcpy(buf, p + (addr - start), len);
	return 0;
}

static const uint8_t *find_piece(void *arg, uint64_t addr, uint64_t *start, size_t *len)
{
	struct callees *c = arg;

	*len = elf_piece_at(c->f, addr, start);
	return *len ? elf_bytes(c->f, *start, *len) : NULL;
}

struct return_sites_ops callees_ops(struct callees *c)
{
	return (struct return_sites_ops){
	    .is_cleanup = is_cleanup, .read = read_constant, .piece = find_piece, .arg = c};
}

static int find_pads(void *arg, uint64_t start, elf_address_fn *fn, void *fn_arg)
{
	struct callees *c = arg;

	return elf_each_landing_pad(c->f, start, fn, fn_arg);
}

static int add_start(const struct elf_symbol *s, void *arg)
{
	struct callees *c = arg;

	return s->is_function ? addresses_add(&c->starts, s->vaddr) : 0;
}

/* Number of exported functions that start in the `len` bytes at `start`. */
static size_t count_starts(struct callees *c, uint64_t start, size_t len)
{
	size_t low = 0, n = 0;

	for (size_t high = c->starts.n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (c->starts.at[mid] < start)
			low = mid + 1;
		else
			high = mid;
	}
	while (low + n < c->starts.n && c->starts.at[low + n] - start < len)
		n++;
	return n;
}

static bool list_starts(struct callees *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->starts_listed && !elf_each_symbol(c->f, false, add_start, c)) {
		sort(&c->starts);
		c->starts_listed = true;
	}
	bool listed = c->starts_listed;
	pthread_mutex_unlock(&c->lock);
	return listed;
}

/* A function whose name is not exported is seen only where it has an unwind entry of its own. */
static bool is_shared(void *arg, uint64_t start, size_t len)
{
	struct callees *c = arg;
	uint64_t first, last;

	if (elf_piece_at(c->f, start, &first) != len || !len || first != start)
		return true;
	if (!elf_piece_at(c->f, start + len - 1, &last) || last != start)
		return true;
	return !list_starts(c) || count_starts(c, start, len) > 1;
}

struct windows_ops callees_windows_ops(struct callees *c)
{
	return (struct windows_ops){.pads = find_pads, .is_shared = is_shared, .arg = c};
}
