/* What the analysis of the code found, kept for the next time the same code is traced. A jump
 * written by another build's facts would end the target: the name of what is kept is a hash of
 * ditrace's own file, of each library's, and of all the code that was analysed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/home.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/ops.h"

enum { NAME_SIZE = 33, KEPT_MODE = 0400, KEPT_MOST = 32 };

static void add_file(XXH3_state_t *x, const struct stat *st)
{
	const uint64_t is[] = {
	    st->st_dev,
	    st->st_ino,
	    (uint64_t)st->st_size,
	    (uint64_t)st->st_mtim.tv_sec,
	    (uint64_t)st->st_mtim.tv_nsec,
	    (uint64_t)st->st_ctim.tv_sec,
	    (uint64_t)st->st_ctim.tv_nsec,
	};
	XXH3_128bits_update(x, is, sizeof(is));
}

static void add_code(XXH3_state_t *x, const struct build *b, const struct found *f)
{
	const uint64_t is[] = {f->vaddr, f->size, f->role, f->file};
	const uint8_t *code = elf_bytes(b->elf[f->file], f->vaddr, f->size);
	XXH3_128bits_update(x, is, sizeof(is));
	if (code)
		XXH3_128bits_update(x, code, f->size);
}

static int find_name(const struct build *b, char name[NAME_SIZE])
{
	struct stat self;
	XXH3_state_t *x = stat("/proc/self/exe", &self) ? NULL : XXH3_createState();
	if (!x)
		return -ENOENT;
	XXH3_128bits_reset(x);
	add_file(x, &self);
	for (unsigned i = 0; i < OPS_FILES; i++)
		add_file(x, &b->file_stat[i]);
	XXH3_128bits_update(x, &b->jumps, sizeof(b->jumps));
	for (size_t i = 0; i < b->nfound; i++)
		if (!role_has_no_place(b->found[i].role))
			add_code(x, b, &b->found[i]);
	XXH128_hash_t h = XXH3_128bits_digest(x);
	XXH3_freeState(x);
	snprintf(name, NAME_SIZE, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
	return 0;
}

static bool is_register(uint8_t r)
{
	return r < ARCH_REGS || r == ARCH_NOREG;
}

/* Whether all that it says lies in the function, of `size` bytes. */
static bool are_within(const struct func_facts *f, uint64_t size)
{
	bool good = f->exit_kind <= EXIT_JUMP && f->nexits <= EXITS_MAX && !f->reason &&
		    is_register(f->ret_reg) && f->entry + (uint64_t)f->entry_len <= size &&
		    f->late.off <= size;
	for (unsigned i = 0; good && i < f->nexits; i++)
		good = f->exits[i] + (uint64_t)f->exit_len[i] <= size;
	for (unsigned i = 0; good && i < ARCH_INT_ARGS; i++)
		good = is_register(f->late.arg[i]);
	return good;
}

struct kept {
	uint64_t sum; /* of the facts */
	struct func_facts facts[];
};

static size_t kept_size(const struct build *b)
{
	return sizeof(struct kept) + b->nfound * sizeof(struct func_facts);
}

static uint64_t kept_sum(const struct build *b, const struct kept *k)
{
	return XXH3_64bits(k->facts, b->nfound * sizeof(*k->facts));
}

static int read_kept(const struct build *b, const char *name, struct func_facts *facts)
{
	struct kept *k = malloc(kept_size(b));
	int r = k ? home_read(b->cache, name, KEPT_MODE, k, kept_size(b)) : -ENOMEM;
	if (!r && k->sum != kept_sum(b, k))
		r = -ENOENT;
	for (size_t i = 0; i < b->nfound && !r; i++)
		r = are_within(&k->facts[i], b->found[i].size) ? 0 : -ENOENT;
	if (!r)
		memcpy(facts, k->facts, b->nfound * sizeof(*facts));
	free(k);
	return r;
}

static void keep(const struct build *b, const char *name, const struct func_facts *facts)
{
	const size_t n = kept_size(b);
	struct kept *k = malloc(n);
	if (!k)
		return;
	memcpy(k->facts, facts, b->nfound * sizeof(*facts));
	for (size_t i = 0; i < b->nfound; i++)
		k->facts[i].reason = NULL;
	k->sum = kept_sum(b, k);
	home_keep(b->cache, &(struct home_file){name, k, n, (off_t)n}, KEPT_MODE);
	home_limit(b->cache, KEPT_MOST);
	free(k);
}

int ops_plan_all(struct build *b, struct func_facts *facts)
{
	char name[NAME_SIZE];
	const bool named = b->cache >= 0 && !find_name(b, name),
		   known = named && !read_kept(b, name, facts);
	int r = ops_plan_known(b, facts, known);
	if (!r && named && !known)
		keep(b, name, facts);
	return r;
}
