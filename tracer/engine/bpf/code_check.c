#include "tracer/engine/bpf/code_check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"

enum { TRAP = 0xcc }; /* int3: a probe, of which others may have some here, too */

static bool is_changed(const uint8_t *file, const void *memory)
{
	const uint8_t *now = memory;
	for (unsigned i = 0; i < ARCH_JUMP_LEN; i++)
		if (now[i] != file[i] && now[i] != TRAP)
			return true;
	return false;
}

/* Compare the sites as this mapping of the file has them. `room`: two words for each. */
static int compare(pid_t pid, const struct mapping *m, struct elf_file *f,
		   const struct probe_file *file, uint64_t *room)
{
	const struct mem mem = mem_process(pid);
	uint64_t *addr = room, *word = room + file->nsites, at;
	size_t n = 0;
	for (size_t i = 0; i < file->nsites; i++) {
		uint64_t off = file->sites[i].offset;
		at = elf_address(f, off);
		if (off >= m->offset && off - m->offset < m->end - m->start && at &&
		    elf_bytes(f, at, sizeof(*word)))
			addr[n++] = off - m->offset + m->start;
	}
	int r = mem_read_words(&mem, addr, word, n);
	for (size_t i = 0; i < n && !r; i++) {
		at = elf_address(f, addr[i] - m->start + m->offset);
		r = is_changed(elf_bytes(f, at, sizeof(*word)), &word[i]) ? -EBUSY : 0;
	}
	return r;
}

static int compare_all(pid_t pid, struct elf_file *f, const struct probe_file *file, uint64_t *room)
{
	struct maps maps;
	struct stat st;
	int r = 0;
	if (stat(file->path, &st) || maps_read(pid, &maps, NULL))
		return 0;
	for (const struct mapping *m = NULL; !r && (m = maps_next_exec(&maps, m));)
		if (m->inode == st.st_ino)
			r = compare(pid, m, f, file, room);
	maps_free(&maps);
	return r;
}

int code_check(pid_t pid, const struct probe_file *file, struct err *e)
{
	struct elf_file *f;
	if (!file->nsites || elf_file_open(file->path, &f, NULL))
		return 0;
	uint64_t *room = malloc(2 * file->nsites * sizeof(*room));
	int r = room ? compare_all(pid, f, file, room) : -ENOMEM;
	free(room);
	elf_file_close(f);
	if (r != -EBUSY)
		return r == -ENOMEM ? err_set(e, r, "no memory") : 0;
	err_set(
	    e, r,
	    "the code of process %d is not that of its files: another tool has put jumps into it",
	    pid);
	return err_hint(
	    e,
	    "if that is a ditrace, end it; what a killed one has left is taken over by: "
	    "ditrace attach --engine shim %d",
	    pid);
}
