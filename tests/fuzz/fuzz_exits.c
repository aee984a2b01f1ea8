/* Fuzzes the code of functions: the search for return sites and windows stays within it, and
 * reports sites within it. The first byte selects where jump tables are read from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/return_sites.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct input {
	const unsigned char *data;
	size_t size;
};

static bool is_cleanup(void *arg, uint64_t target)
{
	(void)arg;
	return target & 1;
}

static int read_input(void *arg, uint64_t addr, void *buf, size_t len)
{
	const struct input *in = arg;

	if (addr >= in->size || len > in->size - addr)
		return -EFAULT;
	memcpy(buf, in->data + addr, len);
	return 0;
}

/* The same bytes again, as a piece of code after the first. */
static const uint8_t *piece_of_input(void *arg, uint64_t addr, uint64_t *start, size_t *len)
{
	const struct input *in = arg;

	*start = addr - addr % 64;
	*len = in->size;
	return in->data;
}

static int pads_of_input(void *arg, uint64_t start, int (*fn)(uint64_t vaddr, void *fn_arg),
			 void *fn_arg)
{
	const struct input *in = arg;

	for (size_t i = 1; i < in->size && i < 4; i++) {
		int r = fn(start + in->data[i], fn_arg);
		if (r)
			return r;
	}
	return 0;
}

static bool is_shared(void *arg, uint64_t start, size_t len)
{
	(void)arg;
	return (start ^ len) == 77;
}

static void check_window(const struct code_window *w, size_t size)
{
	if (w->len < ARCH_JUMP_LEN || w->off >= size || w->len > size - w->off)
		abort();
}

static void check_windows(struct return_sites_ctx *c, struct input *in, const struct func_facts *f)
{
	const struct windows_ops ops = {.pads = pads_of_input, .is_shared = is_shared, .arg = in};
	struct func_windows w;

	if (windows_find(c, f, &ops, &w))
		return;
	if (!w.entry.len != !!w.entry_reason || !w.nexits != !!w.exit_reason)
		abort();
	if (w.entry.len)
		check_window(&w.entry, in->size - 1);
	for (unsigned i = 0; i < w.nexits; i++)
		check_window(&w.exit[i], in->size - 1);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input in = {data, size};
	const struct return_sites_ops ops = {is_cleanup, read_input, piece_of_input, &in};
	struct return_sites_ctx *c = return_sites_new(&ops);
	struct func_facts f;

	if (!c || size < 2 || return_sites_analyze(c, data + 1, size - 1, data[0], &f)) {
		return_sites_free(c);
		return 0;
	}
	if (f.nexits > EXITS_MAX || (f.exit_kind == EXIT_NONE) != (f.nexits == 0) ||
	    f.late.off >= size - 1)
		abort();
	for (unsigned i = 0; i < f.nexits; i++)
		if (f.exits[i] >= size - 1)
			abort();
	check_windows(c, &in, &f);
	return_sites_free(c);
	return 0;
}
