#define _GNU_SOURCE
#include "symbolizer/native/native_stack.h"

#include <elf.h>
#include <errno.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/elf.h"

struct function {
	uint64_t start, end; /* virtual addresses in the file */
	const char *symbol;  /* points into the file */
	const char *name;    /* demangled; NULL until looked up */
};

struct native_file {
	uint64_t inode; /* 0: looked up by build id */
	uint32_t major, minor;
	const char *path;
	bool is_second;		    /* an earlier file has the same path */
	struct elf_file *elf;	    /* NULL: cannot be read */
	struct function *functions; /* by ascending start */
	size_t n, room;
	bool failed; /* out of memory */
	const uint8_t *build;
	size_t nbuild;
	const uint8_t *wanted; /* if inode is 0: the build id it was looked up by */
	size_t nwanted;
};

/* Names are compared often: a file that has one of megabytes for each of many symbols would take
 * hours. PyTorch's longest is 1,466 bytes. */
enum { SYMBOL_MOST = 4096 };

static int symbols_add(const struct elf_symbol *s, void *arg)
{
	struct native_file *f = arg;
	if (!s->size || (!s->is_function && s->type != STT_GNU_IFUNC) ||
	    strnlen(s->name, SYMBOL_MOST) == SYMBOL_MOST)
		return 0;
	if (array_grow(&f->functions, &f->room, f->n + 1, sizeof(*f->functions))) {
		f->failed = true;
		return 1;
	}
	f->functions[f->n++] = (struct function){s->vaddr, s->vaddr + s->size, s->name, NULL};
	return 0;
}

/* Of several names for one function the shortest sorts first: the others are aliases and versions.
 */
static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	size_t n = strlen(x->symbol), m = strlen(y->symbol);
	return n != m ? (n > m) - (n < m) : strcmp(x->symbol, y->symbol);
}

static void sort_functions(struct native_file *f)
{
	size_t kept = 0;
	if (!f->n)
		return;
	qsort(f->functions, f->n, sizeof(*f->functions), compare_functions);
	for (size_t i = 1; i < f->n; i++)
		if (f->functions[i].start != f->functions[kept].start)
			f->functions[++kept] = f->functions[i];
	f->n = kept + 1;
}

static void read_file(struct native_file *f)
{
	elf_each_symbol(f->elf, true, symbols_add, f);
	sort_functions(f);
	elf_file_drop(f->elf);
}

static void open_file(struct native_file *f, int fd)
{
	if (elf_file_open_fd(fd, f->path, &f->elf, NULL))
		f->elf = NULL;
	if (f->elf)
		f->build = elf_build_id(f->elf, &f->nbuild);
}

static struct native_file *new_file(struct native_symbols *s, const char *path)
{
	struct native_file *f = calloc(1, sizeof(*f));
	if (f)
		f->path = arena_strndup(&s->arena, path, strlen(path));
	if (!f || !f->path || array_grow(&s->files, &s->room, s->n + 1, sizeof(*s->files))) {
		free(f);
		return NULL;
	}
	s->files[s->n++] = f;
	return f;
}

static bool is_build(const uint8_t *id, size_t n, const uint8_t *build, size_t nbuild)
{
	return n == nbuild && !memcmp(id, build, n);
}

/* Whether an earlier file has the path of `f` but not this build id. */
static bool is_second(const struct native_symbols *s, const struct native_file *f,
		      const uint8_t *build, size_t nbuild)
{
	for (size_t i = 0; i < s->n && s->files[i] != f; i++) {
		const struct native_file *x = s->files[i];
		const uint8_t *id = x->wanted ? x->wanted : x->build;
		size_t n = x->wanted ? x->nwanted : x->nbuild;
		if (!strcmp(x->path, f->path) && !(n && is_build(id, n, build, nbuild)))
			return true;
	}
	return false;
}

static struct native_file *file_of(struct native_symbols *s, struct target_files *files,
				   const struct mapping *map)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->files[i]->inode == map->inode && s->files[i]->major == map->dev_major &&
		    s->files[i]->minor == map->dev_minor)
			return s->files[i];
	struct native_file *f = new_file(s, map->path);
	int fd = f ? maps_open_in(files, map, NULL) : -1;
	if (!f)
		return NULL;
	f->inode = map->inode;
	f->major = map->dev_major;
	f->minor = map->dev_minor;
	if (fd >= 0) {
		open_file(f, fd);
		close(fd);
	}
	f->is_second = is_second(s, f, f->build, f->nbuild);
	if (f->elf)
		read_file(f);
	return f;
}

static struct function *function_at(const struct native_file *f, uint64_t vaddr)
{
	size_t n = array_up_to(f->functions, f->n, sizeof(*f->functions), vaddr);
	return n && vaddr < f->functions[n - 1].end ? &f->functions[n - 1] : NULL;
}

static bool function_name(struct native_symbols *s, struct function *fn)
{
	if (fn->name)
		return true;
	char *text = elf_demangle(fn->symbol, DMGL_NO_OPTS);
	const char *best = text ? text : fn->symbol;
	fn->name = arena_strndup(&s->arena, best, strlen(best));
	free(text);
	return fn->name;
}

/* Memory that maps shows as a file: shared anonymous memory and memfd_create(2). */
static bool is_memory(const char *path)
{
	static const char *const names[] = {"/dev/zero", "/memfd:", "/anon_hugepage", "/SYSV"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(path, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The file at `path` if it has that build id, else an entry without functions. Only with `openable`
 * may it be opened: the user, or a trace file, names it. */
static struct native_file *file_of_build(struct native_symbols *s, const char *path,
					 const uint8_t *build, size_t nbuild, bool openable)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->files[i]->inode && !strcmp(s->files[i]->path, path) &&
		    is_build(s->files[i]->wanted, s->files[i]->nwanted, build, nbuild))
			return s->files[i];
	struct native_file *f = new_file(s, path);
	uint8_t *wanted = arena_alloc(&s->arena, nbuild);
	if (!f || !wanted)
		return NULL;
	memcpy(wanted, build, nbuild);
	f->wanted = wanted;
	f->nwanted = nbuild;
	int fd = openable ? regular_open(path) : -1;
	if (fd < 0)
		return f;
	open_file(f, fd);
	close(fd);
	if (f->elf && is_build(f->build, f->nbuild, build, nbuild))
		read_file(f);
	return f;
}

/* A file known only by its build id; it could not be opened in the process. */
static int unread_file(struct native_symbols *s, const struct mapping *map,
		       struct native_frame *out, const uint8_t **build, size_t *nbuild)
{
	const struct native_file *f = file_of_build(s, map->path, map->build, map->nbuild, false);
	if (!f)
		return -ENOMEM;
	out->file = f->path;
	out->offset = out->pc - map->start + map->offset;
	out->in_file = true;
	out->is_second = is_second(s, f, f->wanted, f->nwanted);
	*build = f->wanted;
	*nbuild = f->nwanted;
	return 0;
}

int native_symbols_find(struct native_symbols *s, struct target_files *files,
			const struct maps *maps, uint64_t pc, struct native_frame *out,
			const uint8_t **build, size_t *nbuild)
{
	const struct mapping *map = maps_find(maps, pc);
	uint64_t bias = 0;
	*out = (struct native_frame){.pc = pc, .offset = pc};
	*nbuild = 0;
	if (map && !map->inode && map->nbuild)
		return unread_file(s, map, out, build, nbuild);
	if (!map || !map->inode)
		return 0;
	struct native_file *f = file_of(s, files, map);
	if (!f || f->failed)
		return -ENOMEM;
	if (!f->elf && is_memory(f->path))
		return 0;
	out->file = f->path;
	out->is_second = f->is_second;
	out->offset = pc - map->start + map->offset;
	*build = f->build;
	*nbuild = f->nbuild;
	if (!f->elf || elf_bias(f->elf, map, &bias)) {
		out->in_file = true;
		return 0;
	}
	out->offset = pc - bias;
	struct function *fn = function_at(f, pc - bias);
	if (!fn)
		return 0;
	if (!function_name(s, fn))
		return -ENOMEM;
	out->symbol = fn->symbol;
	out->name = out->full_name = fn->name;
	return 0;
}

bool native_symbols_bounds(struct native_symbols *s, struct target_files *files,
			   const struct maps *maps, uint64_t pc, uint64_t *start, uint64_t *size)
{
	const struct mapping *map = maps_find(maps, pc);
	uint64_t bias = 0;
	struct native_file *f = map && map->inode ? file_of(s, files, map) : NULL;
	if (!f || !f->elf || elf_bias(f->elf, map, &bias))
		return false;
	const struct function *fn = function_at(f, pc - bias);
	if (!fn)
		return false;
	*start = fn->start + bias;
	*size = fn->end - fn->start;
	return true;
}

uint64_t native_symbols_base(struct native_symbols *s, struct target_files *files,
			     const struct mapping *code)
{
	uint64_t bias;
	struct native_file *f = code->inode ? file_of(s, files, code) : NULL;
	if (!f || !f->elf || elf_bias(f->elf, code, &bias))
		return 0;
	return bias + elf_first(f->elf);
}

/* The virtual address of file offset `offset`, by the executable segment that contains it. */
static bool vaddr_of(const struct native_file *f, uint64_t offset, uint64_t *vaddr)
{
	const struct mapping at = {
	    .start = offset, .end = offset + 1, .offset = offset, .exec = true};
	uint64_t bias;
	if (elf_bias(f->elf, &at, &bias))
		return false;
	*vaddr = offset - bias;
	return true;
}

static const char *function_name_in(struct native_symbols *s, const struct native_file *f,
				    uint64_t addr, bool is_offset)
{
	if (!f || !f->n || (is_offset && !vaddr_of(f, addr, &addr)))
		return NULL;
	struct function *fn = function_at(f, addr);
	return fn && function_name(s, fn) ? fn->name : NULL;
}

const char *native_symbols_by_build(struct native_symbols *s, const char *path,
				    const uint8_t *build, size_t nbuild, uint64_t addr,
				    bool is_offset)
{
	const char *home = getenv("HOME");
	char hex[2 * ELF_BUILD_MOST + 1] = "", file[PATH_MAX];
	if (nbuild < 2 || nbuild > ELF_BUILD_MOST)
		return NULL;
	const char *found =
	    function_name_in(s, file_of_build(s, path, build, nbuild, true), addr, is_offset);
	for (size_t i = 0; i < nbuild; i++)
		snprintf(hex + 2 * i, 3, "%02x", build[i]);
	snprintf(file, sizeof(file), "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (!found && !is_offset) /* debug files have no segment data */
		found =
		    function_name_in(s, file_of_build(s, file, build, nbuild, true), addr, false);
	snprintf(file, sizeof(file), "%s/.debug/.build-id/%.2s/%s/elf", home ? home : "", hex,
		 hex + 2);
	return found ? found
		     : function_name_in(s, file_of_build(s, file, build, nbuild, true), addr,
					is_offset);
}

void native_symbols_free(struct native_symbols *s)
{
	for (size_t i = 0; i < s->n; i++) {
		elf_file_close(s->files[i]->elf);
		free(s->files[i]->functions);
		free(s->files[i]);
	}
	free(s->files);
	arena_free(&s->arena);
	*s = (struct native_symbols){0};
}
