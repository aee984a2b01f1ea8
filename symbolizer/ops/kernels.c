#include "symbolizer/ops/ops.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/ops/internal.h"

/* code_hash and get_path of torch/_inductor/codecache.py: a "c" and 51 digits of base 32, in a
 * folder named after the first two of these. */
enum { KEY = 52, SHOWN = 8 };

bool kernel_is_library(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);
	return slash && slash - path >= 3 && slash[-3] == '/' && name[0] == 'c' && len >= KEY + 3 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz234567") == KEY && name[KEY] == '.' &&
	       !memcmp(slash - 2, name + 1, 2) && !strcmp(name + len - 3, ".so");
}

/* Where a kernel may be probed. */
struct place {
	uint64_t at, size;
};

/* The function that does the work, if Python's wrapper around it calls it as other libraries would,
 * by its name; a compiler may have made it a part of the wrapper. Then the wrapper, which has the
 * reading of the arguments besides. Returns their number. */
static unsigned find_kernel(struct elf_file *f, const struct callees *c, struct place out[2])
{
	static const char wrapper[] = "_ZL9kernel_pyP7_objectS0_";
	unsigned n = 0;
	if (!elf_find_dynamic(f, "PyInit_kernel", NULL) || !elf_find_dynamic(f, "kernel", NULL))
		return 0;
	if (callees_has_slot(c, "kernel"))
		out[n++].at = elf_find_dynamic(f, "kernel", &out[0].size);
	out[n].at = elf_find(f, wrapper, &out[n].size);
	return n + (out[n].at != 0);
}

static int find_places(struct elf_file *f, struct callees *c, uint32_t op, bool jumps,
		       struct op_sites *out)
{
	struct place p[2];
	const unsigned n = find_kernel(f, c, p);
	int r = 0;
	for (unsigned i = 0; i < n && !out->n && !r; i++)
		r = ops_sites_at(f, c, p[i].at, p[i].size, op, jumps, out);
	return r ? r : !n ? -ENOENT : out->n ? 0 : -ENOTSUP;
}

static int describe(struct op_table *t, uint32_t op, const char *path)
{
	char name[64];
	snprintf(name, sizeof(name), "(inductor kernel %.*s)", SHOWN, strrchr(path, '/') + 1);
	t->ops[op] = (struct op_probe){
	    .role = ROLE_KERNEL,
	    .exit_kind = EXIT_JUMP,
	    .values_known = true,
	    .desc = {.id = op,
		     .kind = OP_FUNCTION,
		     .schema = "",
		     .name = arena_strndup(&t->arena[0], name, strlen(name))},
	};
	t->plans[op] = (struct op_plan){.flags = PLAN_PY};
	return t->ops[op].desc.name ? 0 : -ENOMEM;
}

int op_table_add_kernel(struct op_table *t, struct elf_file *f, const char *path, bool jumps,
			struct op_sites *out)
{
	struct callees *c;
	*out = (struct op_sites){0};
	if (t->nkernels == KERNELS_MAX)
		return -E2BIG;
	if (callees_open(f, &c))
		return -ENOMEM;
	int r = find_places(f, c, t->n, jumps, out);
	callees_close(c);
	r = r ? r : describe(t, t->n, path);
	if (r)
		return r;
	t->nkernels++;
	t->nplans = ++t->n;
	return 0;
}

bool kernel_called(const char *text, char *out, size_t size)
{
	size_t n = 0;
	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	if (!n || isdigit((unsigned char)text[0]) || text[n] != '(' || n >= size)
		return false;
	memcpy(out, text, n);
	out[n] = '\0';
	return true;
}

bool kernel_definition(const char *name, char *out, size_t size)
{
	int n = snprintf(out, size, "%s = async_compile.cpp_pybinding(", name);
	return n > 0 && (size_t)n < size;
}
