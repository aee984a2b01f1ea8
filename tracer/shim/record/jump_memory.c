#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

enum { POOL = 2 << 20, NEAR = 256 << 10 };

/* Near other libraries: see struct shim_near. */
static struct jump_pool near[SHIM_NEAR];
static unsigned nnear;

/* The addresses that a library takes. */
struct extent {
	uint64_t base, low, high;
};

static int add_object(struct dl_phdr_info *i, size_t size, void *arg)
{
	struct extent *x = arg;
	(void)size;
	if (i->dlpi_addr != x->base)
		return 0;
	for (unsigned k = 0; k < i->dlpi_phnum; k++) {
		const ElfW(Phdr) *p = &i->dlpi_phdr[k];
		uint64_t low = i->dlpi_addr + p->p_vaddr, high = low + p->p_memsz;
		if (p->p_type != PT_LOAD)
			continue;
		x->low = x->low < low ? x->low : low;
		x->high = x->high > high ? x->high : high;
	}
	return 1;
}

/* Executable, never writable: ditrace writes it by way of /proc/PID/mem. Before Linux 4.17 the
 * kernel takes the address for a hint. */
static bool map_at(const struct jump_part *p)
{
	void *at = (void *)(uintptr_t)p->addr;
	void *got = mmap(at, p->len, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != at && got != MAP_FAILED)
		munmap(got, p->len);
	return got == at;
}

/* Memory from which a jump reaches all of the library, and the other way. */
static void map_near(const struct extent *x, uint64_t most, struct jump_pool *out)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return;
	const struct jump_pool places = jump_places(maps, x->low, x->high, most);
	uint64_t len = 0;
	close(maps);
	for (uint64_t i = 0; i < places.n && len < most; i++) {
		if (!map_at(&places.part[i]))
			continue;
		out->part[out->n++] = places.part[i];
		len += places.part[i].len;
	}
}

struct shim_jumps jump_memory(void *torch)
{
	static struct shim_jumps jumps;
	struct link_map *l = torch;
	struct extent x = {.base = l->l_addr, .low = UINT64_MAX};
	if (jumps.pool.n || !saved_call_prepare())
		return jumps;
	dl_iterate_phdr(add_object, &x);
	if (x.high)
		map_near(&x, POOL, &jumps.pool);
	if (jumps.pool.n)
		jump_handlers(&jumps);
	return jumps;
}

/* Whether a jump of the pool reaches all of that, and the other way; with some room to spare, as
 * ditrace has it (shim_jumps_reach). */
static bool is_near(const struct jump_pool *p, const struct extent *x)
{
	const uint64_t most = INT32_MAX - (64 << 20);
	for (uint64_t k = 0; k < p->n; k++) {
		const uint64_t low = p->part[k].addr, high = low + p->part[k].len;
		if ((x->high > low && x->high - low > most) ||
		    (high > x->low && high - x->low > most))
			return false;
	}
	return p->n;
}

unsigned jump_memory_near(struct jump_pool out[SHIM_NEAR])
{
	memcpy(out, near, nnear * sizeof(*near));
	return nnear;
}

void jump_memory_look(void)
{
	struct shim_share *s = shim_share();
	const uint32_t number = s ? s->near.asked : 0;
	if (!s || number == s->near.told)
		return;
	const struct extent x = {.low = s->near.low, .high = s->near.high};
	unsigned k = 0;
	while (k < nnear && !is_near(&near[k], &x))
		k++;
	if (k == nnear && nnear < SHIM_NEAR) {
		map_near(&x, NEAR, &near[nnear]);
		nnear += is_near(&near[nnear], &x);
	}
	s->near.n = jump_memory_near(s->near.pool);
	s->near.told = number;
}
