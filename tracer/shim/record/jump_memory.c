#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracer/engine/shim/jumps.h"
#include "tracer/shim/record/internal.h"
#include "tracer/shim/shim.h"

/* Bytes: for all jumps in libtorch_cpu; near another library. */
enum { POOL = STUB_IMAGE_MOST, NEAR = 256 << 10 };

static struct shim_jumps jumps;

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

/* The file with an image of the memory, beside the library's own; -1: there is none, and the memory
 * is nobody's. */
static int open_image(void)
{
	char path[PATH_MAX];
	struct stat st;
	Dl_info own;
	if (!dladdr(&jumps, &own) || !own.dli_fname)
		return -1;
	const char *slash = strrchr(own.dli_fname, '/');
	const int folder = slash ? (int)(slash - own.dli_fname) : 0;
	if (!folder || snprintf(path, sizeof(path), "%.*s/" STUB_IMAGE_FILE, folder,
				own.dli_fname) >= (int)sizeof(path))
		return -1;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	/* Hazard: where the folder has gone, another user may have made one of that name. */
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == POOL &&
	    (!st.st_uid || st.st_uid == geteuid()))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Executable, never writable: ditrace writes it by way of /proc/PID/mem. Before Linux 4.17 the
 * kernel takes the address for a hint. */
static bool map_at(const struct jump_part *p, int image)
{
	const int flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE | (image < 0 ? MAP_ANONYMOUS : 0);
	void *at = (void *)(uintptr_t)p->addr;
	void *got = mmap(at, p->len, PROT_READ | PROT_EXEC, flags, image, 0);
	if (got == MAP_FAILED && image >= 0)
		return map_at(p, -1);
	if (got != at && got != MAP_FAILED)
		munmap(got, p->len);
	return got == at;
}

static struct extent extent_of(const struct link_map *l)
{
	struct extent x = {.base = l->l_addr, .low = UINT64_MAX};
	dl_iterate_phdr(add_object, &x);
	return x;
}

/* `wanted` bytes of memory, or what there is of that, from which a jump reaches all of the library,
 * and the other way; in `parts` parts at most. */
static void map_near(struct extent x, uint64_t wanted, unsigned parts, struct jump_pool *out)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return;
	const struct jump_pool places = jump_places(maps, x.low, x.high, wanted);
	const int image = open_image();
	uint64_t len = 0;
	close(maps);
	for (uint64_t i = 0; x.high && i < places.n && parts && len < wanted; i++) {
		const struct jump_part *p = &places.part[i];
		if (!map_at(p, image))
			continue;
		out->part[out->n++] = (struct jump_part){p->addr + STUB_IMAGE, p->len - STUB_IMAGE};
		len += p->len;
		parts--;
	}
	if (image >= 0)
		close(image);
}

/* The library with a function that is told of memory (enum shim_memory); NULL: there is none. */
static const struct link_map *c10_of(void *torch)
{
	struct link_map *l = NULL;
	Dl_info i;
	void *f = dlsym(torch, "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
	return f && dladdr1(f, &i, (void **)&l, RTLD_DL_LINKMAP) ? l : NULL;
}

/* Whether a jump of the pool reaches all of that, and the other way, with some room to spare. */
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

/* Have memory near there, unless there is. */
static void near_make(const struct extent *x)
{
	unsigned k = 0;
	while (k < nnear && !is_near(&near[k], x))
		k++;
	if (k < nnear || nnear == SHIM_NEAR)
		return;
	near[nnear].n = 0;
	map_near(*x, NEAR, JUMP_PARTS, &near[nnear]);
	nnear += is_near(&near[nnear], x);
}

struct shim_jumps jump_memory(void *torch)
{
	if (jumps.pool.n || !saved_call_prepare())
		return jumps;
	map_near(extent_of(torch), POOL, JUMP_PARTS, &jumps.pool);
	/* CUDA's libraries may be between the two. */
	const struct link_map *c10 = jumps.pool.n ? c10_of(torch) : NULL;
	const struct extent x = c10 ? extent_of(c10) : (struct extent){0};
	if (c10 && !is_near(&jumps.pool, &x))
		near_make(&x);
	if (jumps.pool.n)
		jump_handlers(&jumps);
	return jumps;
}

void jump_memory_show(void)
{
	debugger_hide();
	debugger_show(&jumps.pool);
	for (unsigned k = 0; k < nnear; k++)
		debugger_show(&near[k]);
}

void jump_memory_hide(void)
{
	debugger_hide();
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
	near_make(&x);
	s->near.n = jump_memory_near(s->near.pool);
	s->near.told = number;
}
