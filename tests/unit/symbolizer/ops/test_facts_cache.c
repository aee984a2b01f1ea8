/* What is kept of the analysis of the real libraries: the same table, and nothing else than what
 * the code says. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <xxhash.h>

#include "base/home.h"
#include "symbolizer/ops/ops.h"
#include "tests/unit/libtorch.h"

enum { MODE = 0400 };

struct kept {
	uint64_t sum;
	struct func_facts facts[];
};

static struct op_table *load(const struct libtorch *l, enum ops_kind kind, int cache)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct op_table *t = NULL;

	assert_int_equal(op_table_load(files, kind, cache, &t, NULL), 0);
	close(files[0].fd);
	return t;
}

static bool is_same(const struct op_table *a, const struct op_table *b)
{
	bool same = a->n == b->n && a->nsites == b->nsites;

	for (size_t i = 0; same && i < a->nsites; i++) {
		const struct probe_site *x = &a->sites[i], *y = &b->sites[i];
		same = x->offset == y->offset && x->op == y->op && x->kind == y->kind &&
		       x->len == y->len && x->relative == y->relative;
	}
	for (uint32_t i = 0; same && i < a->n; i++)
		same = a->ops[i].exit_kind == b->ops[i].exit_kind &&
		       !memcmp(&a->plans[i], &b->plans[i], sizeof(a->plans[i]));
	return same;
}

/* The only file of the folder. */
static void only_file(int dir, char name[NAME_MAX + 1])
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	unsigned n = 0;

	assert_non_null(d);
	for (const struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, NAME_MAX + 1, "%s", e->d_name);
		n++;
	}
	closedir(d);
	assert_int_equal(n, 1);
}

struct cache {
	int dir;
	char name[NAME_MAX + 1];
	size_t size;
	uint32_t n, op; /* an op with exits, of the n */
};

static struct kept *kept(const struct cache *c)
{
	struct kept *k = malloc(c->size);

	assert_non_null(k);
	assert_int_equal(home_read(c->dir, c->name, MODE, k, c->size), 0);
	return k;
}

/* Keep `k`, which it frees, in place of what is kept. */
static void replace(const struct cache *c, struct kept *k, bool whole)
{
	if (whole)
		k->sum = XXH3_64bits(k->facts, c->n * sizeof(*k->facts));
	assert_int_equal(
	    home_keep(c->dir, &(struct home_file){c->name, k, c->size, (off_t)c->size}, MODE), 0);
	free(k);
}

/* It is what is read. */
static void check_read(const struct cache *c, const struct libtorch *l)
{
	struct kept *k = kept(c);

	k->facts[c->op].exit_kind = EXIT_NONE;
	replace(c, k, true);
	struct op_table *t = load(l, OPS_JUMPS, c->dir);
	assert_int_equal(t->ops[c->op].exit_kind, EXIT_NONE);
	op_table_free(t);
}

/* What is wrong with it is found, and it is made anew. */
static void check_wrong(const struct cache *c, const struct libtorch *l, const struct op_table *t,
			bool whole)
{
	struct kept *k = kept(c);

	k->facts[c->op].exits[0] +=
	    (uint32_t)elf_function_size(t->elf[OPS_CPU], t->ops[c->op].vaddr);
	replace(c, k, whole);
	struct op_table *again = load(l, OPS_JUMPS, c->dir);
	assert_true(is_same(again, t));
	op_table_free(again);
}

/* It is not taken for another engine's. */
static void check_probes(const struct cache *c, const struct libtorch *l)
{
	struct op_table *t = load(l, OPS_PROBES, c->dir);

	for (uint32_t i = 0; i < t->n; i++)
		assert_int_not_equal(t->ops[i].exit_kind, EXIT_JUMP);
	op_table_free(t);
}

static void check_library(const struct libtorch *l)
{
	char folder[] = "/tmp/ditrace-test-XXXXXX";
	assert_non_null(mkdtemp(folder));
	struct cache c = {.dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)};
	struct op_table *t = load(l, OPS_JUMPS, -1);

	for (int i = 0; i < 2; i++) {
		struct op_table *again = load(l, OPS_JUMPS, c.dir);
		assert_true(is_same(again, t));
		op_table_free(again);
	}
	c.n = t->n;
	c.size = sizeof(struct kept) + t->n * sizeof(struct func_facts);
	while (c.op < t->n && (t->ops[c.op].role != ROLE_CALL || t->ops[c.op].nsites < 2))
		c.op++;
	assert_true(c.op < t->n);
	only_file(c.dir, c.name);
	check_wrong(&c, l, t, false);
	check_wrong(&c, l, t, true);
	check_read(&c, l);
	check_probes(&c, l);
	home_limit(c.dir, 0);
	assert_int_equal(rmdir(folder), 0);
	close(c.dir);
	op_table_free(t);
}

static void test_kept(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept)};
	return unit_run(tests, NULL, NULL);
}
