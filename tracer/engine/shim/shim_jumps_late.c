/* The jumps in libraries that come when the process has long been traced. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "symbolizer/code/return_sites.h"
#include "tracer/engine/shim/internal.h"

static bool reaches_all(const struct jump_pool *p, const struct jump_site *site, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		if (!jump_pool_reaches(p, &site[k]))
			return false;
	return true;
}

static const struct jump_pool *reaching(const struct inside *i, const struct jump_site *site,
					uint32_t n)
{
	if (reaches_all(&i->jumps.pool, site, n))
		return &i->jumps.pool;
	for (unsigned k = 0; k < i->nnear; k++)
		if (reaches_all(&i->near[k], site, n))
			return &i->near[k];
	return NULL;
}

/* Have the library map memory there, and wait for it, up to a limit. */
static void ask(struct inside *i, uint64_t low, uint64_t high)
{
	enum { PATIENCE_MS = 10 * SHIM_LOOK_MS, TURN_MS = 2 };
	const struct timespec turn = {.tv_nsec = TURN_MS * 1000 * 1000};
	struct shim_near *near = &i->share->near;
	near->low = low;
	near->high = high;
	const uint32_t number = ++near->asked;
	for (int ms = 0; near->told != number && ms < PATIENCE_MS; ms += TURN_MS)
		nanosleep(&turn, NULL);
	if (near->told != number)
		return;
	const uint64_t n = near->n;
	i->nnear = n < SHIM_NEAR ? (unsigned)n : SHIM_NEAR;
	memcpy(i->near, near->pool, i->nnear * sizeof(*i->near));
}

static int write_them(struct engine_shim *m, struct inside *i, const struct jump_site *site,
		      uint32_t n, struct err *e)
{
	struct jumps_done done;
	const uint64_t low = site[0].addr, high = site[n - 1].addr + site[n - 1].len;
	const struct jump_pool *pool = reaching(i, site, n);
	if (!pool)
		ask(i, low < high ? low : high, low < high ? high : low);
	pool = pool ? pool : reaching(i, site, n);
	if (!pool)
		return -ENOSPC;
	int r = jumps_add(m->jumps, i->pid, pool, site, n, &done, e);
	return r ? r : done.written == n ? 0 : done.no_room ? -ENOSPC : -EBUSY;
}

int shim_jumps_late(struct engine_shim *m, struct inside *i, const struct probe_file *file,
		    struct err *e)
{
	struct jump_site site[1 + EXITS_MAX];
	if (!m->jumps || !i->jumps.pool.n)
		return -ECHILD;
	if (!file->nsites || file->nsites > 1 + EXITS_MAX)
		return -ENOTSUP;
	for (uint32_t n = 0; n < file->nsites; n++)
		if (!shim_jumps_far_site(&i->jumps, file->elf, file->bias, &file->sites[n],
					 &site[n]))
			return -ENOTSUP;
	int r = write_them(m, i, site, (uint32_t)file->nsites, e);
	if (!r)
		i->share->jumped[file->sites[0].op] = 1;
	return r;
}
