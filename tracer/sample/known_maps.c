#define _GNU_SOURCE
#include "tracer/sample/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/elf.h"

static bool overlap(const struct mapping *a, const struct mapping *b)
{
	return a->start < b->end && b->start < a->end;
}

static bool is_code(const struct mapping *m)
{
	return m->exec && mapping_has_file(m);
}

/* Append a mapping, with a copy of its path. */
static int push(struct known_maps *k, const struct mapping *m)
{
	const char *path = arena_strndup(&k->arena, m->path, strlen(m->path));
	if (!path || array_grow(&k->maps.map, &k->room, k->maps.n + 1, sizeof(*m)))
		return -ENOMEM;
	k->maps.map[k->maps.n] = *m;
	k->maps.map[k->maps.n++].path = path;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

/* Whether none of the first `n` mappings overlaps `m`. */
static bool is_free(const struct known_maps *k, size_t n, const struct mapping *m)
{
	for (size_t i = 0; i < n; i++)
		if (overlap(&k->maps.map[i], m))
			return false;
	return true;
}

static void drop_empty(struct known_maps *k)
{
	size_t kept = 0;
	for (size_t i = 0; i < k->maps.n; i++)
		if (k->maps.map[i].start < k->maps.map[i].end)
			k->maps.map[kept++] = k->maps.map[i];
	k->maps.n = kept;
	if (kept)
		qsort(k->maps.map, kept, sizeof(*k->maps.map), by_start);
}

int known_maps_read(struct known_maps *k, pid_t pid)
{
	struct maps old = k->maps, fresh;
	int r = maps_read(pid, &fresh, NULL);
	if (r)
		return r;
	k->maps = fresh;
	k->room = fresh.n;
	for (size_t i = 0; i < old.n && !r; i++)
		if (is_code(&old.map[i]) && is_free(k, fresh.n, &old.map[i]))
			r = push(k, &old.map[i]);
	drop_empty(k);
	maps_free(&old);
	return r;
}

static bool is_same(const struct mapping *a, const struct mapping *b)
{
	return a->exec && a->start <= b->start && a->end >= b->end &&
	       a->start - a->offset == b->start - b->offset && !strcmp(a->path, b->path);
}

/* Cut `m` out of mapping `at`: what is left of it stays in place, a right part is appended. */
static int cut(struct known_maps *k, size_t at, const struct mapping *m)
{
	struct mapping *o = &k->maps.map[at], right = *o;
	int r = 0;
	if (o->end > m->end) {
		right.offset += m->end - o->start;
		right.start = m->end;
		r = push(k, &right);
		o = &k->maps.map[at];
	}
	o->end = o->start < m->start ? m->start : o->start;
	return r;
}

static bool has_build(int fd, const struct mapping *m)
{
	struct elf_file *elf;
	size_t n;
	if (elf_file_open_fd(fd, m->path, &elf, NULL))
		return false;
	const uint8_t *id = elf_build_id(elf, &n);
	bool same = id && n == m->nbuild && !memcmp(id, m->build, n);
	elf_file_close(elf);
	return same;
}

static void identify(struct target_files *files, struct mapping *m)
{
	struct stat st;
	int fd = m->path[0] == '/' ? target_files_open(files, m->path, true) : -1;
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && has_build(fd, m)) {
		m->inode = st.st_ino;
		m->dev_major = major(st.st_dev);
		m->dev_minor = minor(st.st_dev);
	}
	close(fd);
}

static bool is_known(const struct known_maps *k, const struct mapping *m)
{
	for (size_t i = 0; i < k->maps.n; i++)
		if (is_same(&k->maps.map[i], m))
			return true;
	return false;
}

bool known_maps_replaces(const struct known_maps *k, const struct mapping *m)
{
	if (is_known(k, m))
		return false;
	for (size_t i = 0; i < k->maps.n; i++)
		if (k->maps.map[i].exec && overlap(&k->maps.map[i], m))
			return true;
	return false;
}

int known_maps_add(struct known_maps *k, struct target_files *files, const struct mapping *m)
{
	struct mapping known = *m;
	size_t n = k->maps.n;
	int r = 0;
	if (is_known(k, m))
		return 0;
	if (files && m->nbuild && !m->inode)
		identify(files, &known);
	for (size_t i = 0; i < n && !r; i++)
		if (overlap(&k->maps.map[i], m))
			r = cut(k, i, m);
	r = r ? r : push(k, &known);
	drop_empty(k);
	return r ? r : 1;
}

int known_maps_inherit(struct known_maps *k, const struct known_maps *from)
{
	int r = 0;
	for (size_t i = 0; i < from->maps.n && r >= 0; i++)
		if (is_code(&from->maps.map[i]))
			r = known_maps_add(k, NULL, &from->maps.map[i]);
	return r < 0 ? r : 0;
}

void known_maps_free(struct known_maps *k)
{
	maps_free(&k->maps);
	arena_free(&k->arena);
	*k = (struct known_maps){0};
}
