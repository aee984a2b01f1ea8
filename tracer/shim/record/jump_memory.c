#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

enum { POOL = 2 << 20 };

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
static void map_near(const struct extent *x, struct jump_pool *out)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return;
	const struct jump_pool places = jump_places(maps, x->low, x->high, POOL);
	uint64_t len = 0;
	close(maps);
	for (uint64_t i = 0; i < places.n && len < POOL; i++) {
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
		map_near(&x, &jumps.pool);
	if (jumps.pool.n)
		jump_handlers(&jumps);
	return jumps;
}
