#include "tracer/native_symbols.h"

#include <elf.h>
#include <errno.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "symbolizer/elf.h"

struct function {
	uint64_t start, end; /* addresses of the file */
	const char *symbol;  /* of the file */
	const char *name;    /* once it was asked for */
};

struct native_file {
	uint64_t inode;
	uint32_t major, minor;
	const char *path;
	struct elf_file *elf;	    /* NULL: it cannot be read */
	struct function *functions; /* by rising start */
	size_t n, room;
	bool failed; /* no memory */
	const uint8_t *build;
	size_t nbuild;
};

enum { BUILD_MOST = 64 };

static int take(const struct elf_symbol *s, void *arg)
{
	struct native_file *f = arg;
	if (!s->size || (!s->is_function && s->type != STT_GNU_IFUNC))
		return 0;
	if (array_grow(&f->functions, &f->room, f->n + 1, sizeof(*f->functions))) {
		f->failed = true;
		return 1;
	}
	f->functions[f->n++] = (struct function){s->vaddr, s->vaddr + s->size, s->name, NULL};
	return 0;
}

/* Of names for one function, the shortest: the others are its aliases and versions. */
static int compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	size_t n = strlen(x->symbol), m = strlen(y->symbol);
	return n != m ? (n > m) - (n < m) : strcmp(x->symbol, y->symbol);
}

static void sort(struct native_file *f)
{
	size_t kept = 0;
	if (!f->n)
		return;
	qsort(f->functions, f->n, sizeof(*f->functions), compare);
	for (size_t i = 1; i < f->n; i++)
		if (f->functions[i].start != f->functions[kept].start)
			f->functions[++kept] = f->functions[i];
	f->n = kept + 1;
}

/* An ELF note: sizes of name and contents, type, name, contents (gABI 4.1, chapter 5). */
static void find_build(struct native_file *f)
{
	uint64_t at;
	size_t size;
	const uint8_t *note = elf_section(f->elf, ".note.gnu.build-id", &at, &size);
	uint32_t head[3];
	if (!note || size < sizeof(head) + 4)
		return;
	memcpy(head, note, sizeof(head));
	if (head[0] != 4 || memcmp(note + sizeof(head), "GNU", 4) != 0 ||
	    head[1] > size - sizeof(head) - 4 || head[1] > BUILD_MOST)
		return;
	f->build = note + sizeof(head) + 4;
	f->nbuild = head[1];
}

static void open_file(struct native_file *f, pid_t pid, const struct mapping *map)
{
	int fd = maps_open(pid, map, NULL);
	if (fd < 0)
		return;
	if (elf_file_open_fd(fd, map->path, &f->elf, NULL))
		f->elf = NULL;
	close(fd);
	if (!f->elf)
		return;
	elf_each_symbol(f->elf, true, take, f);
	sort(f);
	find_build(f);
	elf_file_drop(f->elf);
}

static struct native_file *file_of(struct native_symbols *s, pid_t pid, const struct mapping *map)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->files[i]->inode == map->inode && s->files[i]->major == map->dev_major &&
		    s->files[i]->minor == map->dev_minor)
			return s->files[i];
	struct native_file *f = calloc(1, sizeof(*f));
	if (!f || array_grow(&s->files, &s->room, s->n + 1, sizeof(*s->files))) {
		free(f);
		return NULL;
	}
	s->files[s->n++] = f;
	f->inode = map->inode;
	f->major = map->dev_major;
	f->minor = map->dev_minor;
	f->path = arena_strndup(&s->arena, map->path, strlen(map->path));
	open_file(f, pid, map);
	f->failed |= !f->path;
	return f;
}

/* NULL: there is none. */
static struct function *function_at(const struct native_file *f, uint64_t vaddr)
{
	size_t n = array_up_to(f->functions, f->n, sizeof(*f->functions), vaddr);
	return n && vaddr < f->functions[n - 1].end ? &f->functions[n - 1] : NULL;
}

static bool name(struct native_symbols *s, struct function *fn)
{
	if (fn->name)
		return true;
	char *text = cplus_demangle_v3(fn->symbol, DMGL_NO_OPTS);
	const char *best = text ? text : fn->symbol;
	fn->name = arena_strndup(&s->arena, best, strlen(best));
	free(text);
	return fn->name;
}

int native_symbols_find(struct native_symbols *s, pid_t pid, const struct maps *maps, uint64_t pc,
			struct native_frame *out, const uint8_t **build, size_t *nbuild)
{
	const struct mapping *map = maps_find(maps, pc);
	uint64_t bias = 0;
	*out = (struct native_frame){.pc = pc, .offset = pc};
	*nbuild = 0;
	if (!map || !map->inode)
		return 0;
	struct native_file *f = file_of(s, pid, map);
	if (!f || f->failed)
		return -ENOMEM;
	out->file = f->path;
	out->offset = pc - map->start + map->offset;
	*build = f->build;
	*nbuild = f->nbuild;
	if (!f->elf || elf_bias(f->elf, map, &bias))
		return 0;
	out->offset = pc - bias;
	struct function *fn = function_at(f, pc - bias);
	if (!fn)
		return 0;
	if (!name(s, fn))
		return -ENOMEM;
	out->symbol = fn->symbol;
	out->name = out->full_name = fn->name;
	return 0;
}

bool native_symbols_bounds(struct native_symbols *s, pid_t pid, const struct maps *maps,
			   uint64_t pc, uint64_t *start, uint64_t *size)
{
	const struct mapping *map = maps_find(maps, pc);
	uint64_t bias = 0;
	struct native_file *f = map && map->inode ? file_of(s, pid, map) : NULL;
	if (!f || !f->elf || elf_bias(f->elf, map, &bias))
		return false;
	const struct function *fn = function_at(f, pc - bias);
	if (!fn)
		return false;
	*start = fn->start + bias;
	*size = fn->end - fn->start;
	return true;
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
