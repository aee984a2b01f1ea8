#include "symbolizer/python/pyfreed.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "symbolizer/python/pycode.h"
#include "symbolizer/python/python_runtime.h"

/* A reader of the copies, and behind them of the process. */
struct copies {
	struct mem mem; /* first */
	const struct mem *under;
	uint64_t code;
	const struct py_region *region;
	unsigned n;
};

/* Copies may overlap: they are of objects whose lengths nobody knew. */
static int read_copies(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	static const uint64_t alive = 1;
	const struct copies *c = (const struct copies *)m;
	bool begins = false;
	for (unsigned i = 0; i < c->n; i++) {
		const struct py_region *r = &c->region[i];
		if (addr < r->addr || addr - r->addr >= r->len)
			continue;
		begins = true;
		if (len > r->len - (addr - r->addr))
			continue;
		memcpy(buf, r->data + (addr - r->addr), len);
		/* It was on its way out: nobody held it any more (ob_refcnt, Include/object.h). */
		if (addr == c->code && len >= sizeof(alive))
			memcpy(buf, &alive, sizeof(alive));
		return 0;
	}
	return begins ? -EFAULT : mem_read(c->under, addr, buf, len);
}

void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n)
{
	struct copies c = {{.read = read_copies, .pid = rt->pid}, rt->mem, code, r, n};
	rt->mem = &c.mem;
	py_code_check(rt, code); /* the record of its end may have been lost */
	py_resolve(rt, code, 0);
	rt->mem = c.under;
}

struct py_code_read python_code_read(const struct py_runtime *rt)
{
	const struct py_objects *o = &rt->layout.obj;
	return (struct py_code_read){
	    .size = o->code_size,
	    .filename = o->code_filename,
	    .name = o->code_qualname == PY_NO_OFFSET ? o->code_name : o->code_qualname,
	    .linetable = o->code_linetable,
	};
}
