#define _GNU_SOURCE
#include "tracer/engine/ptrace/linker.h"

#include <errno.h>
#include <unistd.h>

#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"

/* The linker is mapped at AT_BASE from offset 0 of its file, its segments contiguous. */
static int find_in(int fd, const struct maps *maps, uint64_t base, uint64_t spare,
		   struct linker *out)
{
	struct elf_file *f;
	int r = elf_file_open_fd(fd, "ld.so", &f, NULL);
	if (r)
		return r;
	uint64_t vaddr = elf_find_dynamic(f, "_dl_debug_state", NULL);
	const struct mapping *m = vaddr ? maps_find(maps, base + vaddr) : NULL;
	bool is_spare = m && m->exec && !elf_bytes(f, m->end - spare - base, 1) &&
			!elf_bytes(f, m->end - 1 - base, 1);
	elf_file_close(f);
	if (!m || !m->exec)
		return -ENOENT;
	*out = (struct linker){.notify = base + vaddr, .spare = is_spare ? m->end - spare : 0};
	return pread(fd, out->code, sizeof(out->code),
		     (off_t)(out->notify - m->start + m->offset)) > 0
		   ? 0
		   : -EIO;
}

int linker_find(pid_t pid, uint64_t spare, struct linker *out)
{
	struct maps maps;
	uint64_t base = auxv_read(pid, AT_BASE);
	if (!base)
		return -ENOENT;
	int r = maps_read(pid, &maps, NULL);
	if (r)
		return r;
	const struct mapping *m = maps_find(&maps, base);
	int fd = m && m->inode ? maps_open(pid, m, NULL) : -ENOENT;
	r = fd < 0 ? fd : find_in(fd, &maps, base, spare, out);
	if (fd >= 0)
		close(fd);
	maps_free(&maps);
	return r;
}
