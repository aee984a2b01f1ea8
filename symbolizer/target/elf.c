/* ELF files: opened, their headers checked; offsets, addresses, sections. */
#include "symbolizer/target/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolizer/target/target_files.h"

enum { PAGE = 4096 };

const void *elf_part(const struct elf_file *f, uint64_t off, uint64_t count, uint64_t each)
{
	uint64_t len;
	if (__builtin_mul_overflow(count, each, &len) || off > f->size || len > f->size - off ||
	    off & 7)
		return NULL;
	return f->raw + off;
}

/* A copy of such elements; NULL when out of bounds or without memory. */
static void *file_part_copy(const struct elf_file *f, uint64_t off, uint64_t count, uint64_t each)
{
	const void *p = elf_part(f, off, count, each);
	void *copy = p && count ? malloc(count * each) : NULL;
	return copy ? memcpy(copy, p, count * each) : NULL;
}

static bool load_fits(const struct elf_file *f, const Elf64_Phdr *p)
{
	return p->p_type == PT_LOAD && p->p_offset <= f->size &&
	       p->p_filesz <= f->size - p->p_offset && p->p_filesz <= UINT64_MAX - p->p_vaddr;
}

static int read_headers(struct elf_file *f)
{
	Elf64_Ehdr h;
	const void *first = elf_part(f, 0, 1, sizeof(h));
	if (!first)
		return -ENOEXEC;
	memcpy(&h, first, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (h.e_type != ET_DYN && h.e_type != ET_EXEC)
		return -ENOEXEC;
	f->names = h.e_shstrndx;
	if (h.e_phentsize == sizeof(Elf64_Phdr) &&
	    (f->ph = file_part_copy(f, h.e_phoff, h.e_phnum, sizeof(Elf64_Phdr))))
		f->nph = h.e_phnum;
	if (h.e_shentsize == sizeof(Elf64_Shdr) &&
	    (f->sh = file_part_copy(f, h.e_shoff, h.e_shnum, sizeof(Elf64_Shdr))))
		f->nsh = h.e_shnum;
	for (size_t i = 0; i < f->nph && f->nloads < ELF_LOADS_MAX; i++)
		if (load_fits(f, &f->ph[i]))
			f->load[f->nloads++] = &f->ph[i];
	return f->nloads ? 0 : -ENOEXEC;
}

int elf_file_open_memory(const void *data, size_t size, struct elf_file **out)
{
	if ((uintptr_t)data & 7)
		return -EINVAL;
	struct elf_file *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->raw = data;
	f->size = size;
	int r = read_headers(f);
	if (r)
		elf_file_close(f);
	else
		*out = f;
	return r;
}

static size_t map_size(size_t file)
{
	return (file + PAGE - 1) / PAGE * PAGE + PAGE;
}

/* With a page of zeros behind it: a string whose end is overwritten ends there. */
static void *map_file(int fd, size_t size)
{
	void *all = mmap(NULL, map_size(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return all;
	void *map = mmap(all, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED) {
		int code = errno;
		munmap(all, map_size(size));
		errno = code;
	}
	return map;
}

static int open_fd(int fd, struct elf_file **out)
{
	struct stat st;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	size_t size = (size_t)st.st_size;
	void *map = map_file(fd, size);
	if (map == MAP_FAILED)
		return -errno;
	int r = elf_file_open_memory(map, size, out);
	if (r)
		munmap(map, map_size(size));
	else
		(*out)->map = map;
	return r;
}

static int elf_cannot_read(struct err *e, int r, const char *name)
{
	return err_set(e, r, "cannot read %s: %s", name,
		       r == -ENOEXEC ? "not a 64-bit little-endian ELF file" : strerror(-r));
}

int elf_file_open_fd(int fd, const char *name, struct elf_file **out, struct err *e)
{
	int r = open_fd(fd, out);
	return r ? elf_cannot_read(e, r, name) : 0;
}

int elf_file_open(const char *path, struct elf_file **out, struct err *e)
{
	int fd = regular_open(path);
	if (fd < 0)
		return elf_cannot_read(e, fd == -EINVAL ? -ENOEXEC : fd, path);
	int r = elf_file_open_fd(fd, path, out, e);
	close(fd);
	return r;
}

void elf_file_close(struct elf_file *f)
{
	if (!f)
		return;
	if (f->map)
		munmap(f->map, map_size(f->size));
	free(f->ph);
	free(f->sh);
	free(f);
}

void elf_file_drop(struct elf_file *f)
{
	if (f->map)
		madvise(f->map, f->size, MADV_DONTNEED);
}

int64_t elf_offset(const struct elf_file *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		if (vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz)
			return (int64_t)(vaddr - p->p_vaddr + p->p_offset);
	}
	return -1;
}

uint64_t elf_address(const struct elf_file *f, uint64_t offset)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		if (offset >= p->p_offset && offset - p->p_offset < p->p_filesz)
			return offset - p->p_offset + p->p_vaddr;
	}
	return 0;
}

static bool segment_holds(const Elf64_Phdr *p, const struct mapping *m)
{
	uint64_t first = p->p_offset & ~(uint64_t)(PAGE - 1);
	return m->offset >= first && m->offset < p->p_offset + p->p_filesz;
}

int elf_bias(const struct elf_file *f, const struct mapping *m, uint64_t *bias)
{
	bool found = false;
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		uint64_t b = m->start - (p->p_vaddr + (m->offset - p->p_offset));
		if (!segment_holds(p, m) || m->exec != !!(p->p_flags & PF_X))
			continue;
		if (found && b != *bias)
			return -EINVAL;
		*bias = b;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

uint64_t elf_first(const struct elf_file *f)
{
	return f->nloads ? f->load[0]->p_vaddr & ~(uint64_t)(PAGE - 1) : 0;
}

const uint8_t *elf_bytes(const struct elf_file *f, uint64_t vaddr, uint64_t len)
{
	for (unsigned i = 0; i < f->nloads; i++) {
		const Elf64_Phdr *p = f->load[i];
		uint64_t at = vaddr - p->p_vaddr;
		if (vaddr >= p->p_vaddr && at < p->p_filesz)
			return len <= p->p_filesz - at ? f->raw + p->p_offset + at : NULL;
	}
	return NULL;
}

/* Whether `text` with its NUL is at offset `off` of the `len` bytes at s. */
static bool text_is_at(const uint8_t *s, uint64_t len, uint64_t off, const char *text)
{
	size_t n = strlen(text) + 1;
	return off <= len && n <= len - off && !memcmp(s + off, text, n);
}

const uint8_t *elf_section(struct elf_file *f, const char *name, uint64_t *vaddr, size_t *size)
{
	const Elf64_Shdr *ns = f->names < f->nsh ? &f->sh[f->names] : NULL;
	if (!ns || ns->sh_offset > f->size || ns->sh_size > f->size - ns->sh_offset)
		return NULL;
	for (size_t i = 0; i < f->nsh; i++) {
		const Elf64_Shdr *s = &f->sh[i];
		if (!text_is_at(f->raw + ns->sh_offset, ns->sh_size, s->sh_name, name) ||
		    s->sh_type == SHT_NOBITS || s->sh_flags & SHF_COMPRESSED)
			continue;
		if (s->sh_offset > f->size || s->sh_size > f->size - s->sh_offset)
			return NULL;
		*vaddr = s->sh_addr;
		*size = s->sh_size;
		return f->raw + s->sh_offset;
	}
	return NULL;
}

/* A note: sizes of name and contents, type, name, contents (gABI 4.1, chapter 5). */
const uint8_t *elf_build_id(struct elf_file *f, size_t *n)
{
	uint64_t at;
	size_t size;
	const uint8_t *note = elf_section(f, ".note.gnu.build-id", &at, &size);
	uint32_t head[3];
	*n = 0;
	if (!note || size < sizeof(head) + 4)
		return NULL;
	memcpy(head, note, sizeof(head));
	if (head[0] != 4 || memcmp(note + sizeof(head), "GNU", 4) != 0 ||
	    head[1] > size - sizeof(head) - 4 || head[1] > ELF_BUILD_MOST)
		return NULL;
	*n = head[1];
	return note + sizeof(head) + 4;
}
