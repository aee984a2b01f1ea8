#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

/* Bytes: for all jumps; for the few in libc10. */
enum { POOL = 2 << 20, POOL_C10 = 16 << 10 };

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

/* `wanted` bytes of memory, or what there is of that, from which a jump reaches all of the library,
 * and the other way; in `parts` parts at most. */
static void map_near(const struct link_map *l, uint64_t wanted, unsigned parts,
		     struct jump_pool *out)
{
	struct extent x = {.base = l->l_addr, .low = UINT64_MAX};
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return;
	dl_iterate_phdr(add_object, &x);
	const struct jump_pool places = jump_places(maps, x.low, x.high, wanted);
	uint64_t len = 0;
	close(maps);
	for (uint64_t i = 0; x.high && i < places.n && parts && len < wanted; i++) {
		if (!map_at(&places.part[i]))
			continue;
		out->part[out->n++] = places.part[i];
		len += places.part[i].len;
		parts--;
	}
}

/* The library with a function that is told of memory (enum shim_memory); NULL: there is none. */
static const struct link_map *c10_of(void *torch)
{
	struct link_map *l = NULL;
	Dl_info i;
	void *f = dlsym(torch, "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
	return f && dladdr1(f, &i, (void **)&l, RTLD_DL_LINKMAP) ? l : NULL;
}

struct shim_jumps jump_memory(void *torch)
{
	static struct shim_jumps jumps;
	if (jumps.pool.n || !saved_call_prepare())
		return jumps;
	map_near(torch, POOL, JUMP_PARTS - 1, &jumps.pool);
	/* CUDA's libraries may be between the two. */
	const struct link_map *c10 = jumps.pool.n ? c10_of(torch) : NULL;
	if (c10)
		map_near(c10, POOL_C10, 1, &jumps.pool);
	if (jumps.pool.n)
		jump_handlers(&jumps);
	return jumps;
}
