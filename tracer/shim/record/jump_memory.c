#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

enum { POOL = 2 << 20, STEP = 1 << 20, TRIES = 512 };

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

/* Executable, never writable: ditrace writes it by way of /proc/PID/mem. */
static void *map_at(uint64_t at)
{
	return mmap((void *)(uintptr_t)at, POOL, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* Memory from which a jump reaches all of the library, and the other way: before Linux 4.17 the
 * kernel takes the address for a hint. */
static uint64_t map_near(const struct extent *x)
{
	const uint64_t mask = ~(uint64_t)(STEP - 1), reach = (1ULL << 31) - POOL;
	for (uint64_t i = 1; i < TRIES; i++) {
		const uint64_t at[] = {(x->high & mask) + i * STEP, (x->low & mask) - i * STEP};
		for (unsigned k = 0; k < 2; k++) {
			if (k ? x->high - at[k] > reach : at[k] - x->low > reach)
				continue;
			void *got = map_at(at[k]);
			if (got == (void *)(uintptr_t)at[k])
				return at[k];
			if (got != MAP_FAILED)
				munmap(got, POOL);
		}
	}
	return 0;
}

struct shim_jumps jump_memory(void *torch)
{
	static struct shim_jumps jumps;
	struct link_map *l = torch;
	struct extent x = {.base = l->l_addr, .low = UINT64_MAX};
	if (jumps.pool_len || !saved_call_prepare())
		return jumps;
	dl_iterate_phdr(add_object, &x);
	jumps.pool = x.high ? map_near(&x) : 0;
	if (!jumps.pool)
		return jumps;
	jumps.pool_len = POOL;
	jump_handlers(&jumps);
	return jumps;
}
