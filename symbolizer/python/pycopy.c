/* Code objects read from copies of their memory. */
#include "symbolizer/python/python.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/python/internal.h"

/* Code objects that have been freed, read from copies of their memory by a reader that falls back
 * to the process. */
struct freed_copies {
	struct mem mem; /* must be first */
	const struct mem *under;
	uint64_t code;
	const struct py_region *region;
	unsigned n;
};

/* The longest copy from `addr` on, *n bytes; NULL if there is none. Copies may overlap, since
 * objects are copied without knowing their lengths, and an object may be in several. */
static const uint8_t *freed_copy_longest(const struct freed_copies *c, uint64_t addr, size_t *n)
{
	const uint8_t *found = NULL;
	*n = 0;
	for (unsigned i = 0; i < c->n; i++) {
		const struct py_region *r = &c->region[i];
		if (addr < r->addr || addr - r->addr >= r->len || r->len - (addr - r->addr) <= *n)
			continue;
		*n = r->len - (addr - r->addr);
		found = r->data + (addr - r->addr);
	}
	return found;
}

static int freed_copies_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	static const uint64_t alive = 1;
	const struct freed_copies *c = (const struct freed_copies *)m;
	for (size_t done = 0; done < len;) {
		size_t n;
		const uint8_t *copy = freed_copy_longest(c, addr + done, &n);
		if (!copy)
			return done ? -EFAULT : mem_read(c->under, addr, buf, len);
		n = n < len - done ? n : len - done;
		memcpy((uint8_t *)buf + done, copy, n);
		done += n;
	}
	/* A copy made while it was freed has refcount 0 (ob_refcnt, Include/object.h). */
	if (addr == c->code && len >= sizeof(alive))
		memcpy(buf, &alive, sizeof(alive));
	return 0;
}

void py_code_remember(struct py_runtime *rt, uint64_t code, const struct py_region *r, unsigned n)
{
	struct freed_copies c = {{.read = freed_copies_read, .pid = rt->pid}, rt->mem, code, r, n};
	rt->mem = &c.mem;
	py_code_check(rt, code); /* the record of its freeing may have been lost */
	py_resolve(rt, code, 0);
	rt->mem = c.under;
}

void py_code_learn(struct py_runtime *rt, uint64_t code, uint64_t print, const struct py_region *r,
		   unsigned n)
{
	struct freed_copies c = {{.read = freed_copies_read, .pid = rt->pid}, rt->mem, code, r, n};
	rt->mem = &c.mem;
	py_code_see(rt, code, print);
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
	    .bytes_size = o->bytes_size,
	    .bytes_data = o->bytes_data,
	    .firstlineno = o->code_firstlineno,
	    .str_length = o->str_length,
	    .str_state = o->str_state,
	    .str_ascii = o->str_ascii,
	    .str_compact = o->str_compact,
	};
}
