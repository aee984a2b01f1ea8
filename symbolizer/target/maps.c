#define _GNU_SOURCE
#include "symbolizer/target/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/target/process.h"

enum { EXEC_TRIES = 10 };

static const char deleted[] = " (deleted)";

static int digit_of(char c, int base)
{
	int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
	return d < base ? d : -1;
}

/* Parse digits in `base` followed by the character `end`; advances *s past it. */
static bool take_number(char **s, int base, char end, uint64_t *out)
{
	char *p = *s;
	uint64_t n = 0;
	for (int d; (d = digit_of(*p, base)) >= 0; p++)
		if (__builtin_mul_overflow(n, (unsigned)base, &n) ||
		    __builtin_add_overflow(n, (unsigned)d, &n))
			return false;
	if (p == *s || *p != end)
		return false;
	*s = p + 1;
	*out = n;
	return true;
}

static bool take_permissions(char **s, struct mapping *m)
{
	const char *p = *s;
	if (strnlen(p, 5) < 5 || p[4] != ' ')
		return false;
	m->read = p[0] == 'r';
	m->write = p[1] == 'w';
	m->exec = p[2] == 'x';
	m->shared = p[3] == 's';
	*s += 5;
	return true;
}

/* The kernel escapes a newline in a name as \012, and nothing else (fs/seq_file.c, mangle_path). */
static void decode_newlines(char *s)
{
	char *out = s;
	while (*s) {
		if (!strncmp(s, "\\012", 4)) {
			*out++ = '\n';
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

static void take_path(struct mapping *m, char *path)
{
	size_t n = strlen(path), k = sizeof(deleted) - 1;
	if (*path == '/' && n > k && !strcmp(path + n - k, deleted)) {
		path[n - k] = '\0';
		m->deleted = true;
	}
	decode_newlines(path);
	m->path = path;
}

/* Parse one line, without its newline, in place; m->path points into it. */
static bool parse_line(char *s, struct mapping *m)
{
	uint64_t major, minor;
	*m = (struct mapping){0};
	if (!take_number(&s, 16, '-', &m->start) || !take_number(&s, 16, ' ', &m->end) ||
	    m->end <= m->start || !take_permissions(&s, m) ||
	    !take_number(&s, 16, ' ', &m->offset) || !take_number(&s, 16, ':', &major) ||
	    !take_number(&s, 16, ' ', &minor) || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	m->dev_major = (uint32_t)major;
	m->dev_minor = (uint32_t)minor;
	/* The line of a mapping without a name may end at the inode. */
	bool bare = !s[strspn(s, "0123456789")];
	if (!take_number(&s, 10, bare ? '\0' : ' ', &m->inode))
		return false;
	take_path(m, bare ? s - 1 : s + strspn(s, " "));
	return true;
}

int maps_parse(char *text, struct maps *out)
{
	size_t room = 0;
	uint64_t end = 0;
	*out = (struct maps){.text = text};
	for (char *line = text, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (array_grow(&out->map, &room, out->n + 1, sizeof(*out->map))) {
			maps_free(out);
			return -ENOMEM;
		}
		if (!parse_line(line, &out->map[out->n]) || out->map[out->n].start < end)
			continue;
		end = out->map[out->n++].end;
	}
	return 0;
}

/* The whole of a file of unknown length, NUL-terminated, from malloc; NULL with errno. */
static char *read_all(int fd)
{
	size_t room = 64 << 10, len = 0;
	char *text = malloc(room);
	while (text) {
		ssize_t n = read(fd, text + len, room - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			text[len] = '\0';
			if (!n)
				return text;
			break;
		}
		len += (size_t)n;
		char *more = room - len > 4096 ? text : realloc(text, room *= 2);
		if (!more)
			break;
		text = more;
	}
	int code = errno;
	free(text);
	errno = code;
	return NULL;
}

static char *read_text(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	char *text = read_all(fd);
	int code = errno;
	close(fd);
	errno = code;
	return text;
}

int maps_read(pid_t pid, struct maps *out, struct err *e)
{
	*out = (struct maps){0};
	char *text = read_text(pid);
	/* If the process calls execve after the open, the file refers to the old, dead mm and reads
	 * empty: open it again. */
	for (unsigned i = 0; text && !*text && i < EXEC_TRIES && process_alive(pid); i++) {
		free(text);
		text = read_text(pid);
	}
	if (!text || !*text) {
		int code = !text && errno != ENOENT ? -errno : -ESRCH;
		free(text);
		return process_error(pid, code, "read the mappings of", e);
	}
	int r = maps_parse(text, out);
	return r ? err_set(e, r, "cannot read the mappings of %d: out of memory", pid) : 0;
}

void maps_free(struct maps *m)
{
	free(m->map);
	free(m->text);
	*m = (struct maps){0};
}

const struct mapping *maps_find(const struct maps *m, uint64_t addr)
{
	size_t lo = 0, hi = m->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (addr < m->map[mid].start)
			hi = mid;
		else if (addr >= m->map[mid].end)
			lo = mid + 1;
		else
			return &m->map[mid];
	}
	return NULL;
}

const struct mapping *maps_next_exec(const struct maps *m, const struct mapping *prev)
{
	for (size_t i = prev ? (size_t)(prev - m->map) + 1 : 0; i < m->n; i++)
		if (m->map[i].exec && m->map[i].inode)
			return &m->map[i];
	return NULL;
}

const char *mapping_name(const struct mapping *map)
{
	return text_base_name(map->path);
}

bool mapping_has_file(const struct mapping *map)
{
	return map->inode || map->nbuild;
}

static void map_files_path(pid_t pid, const struct mapping *m, char *out, size_t size)
{
	snprintf(out, size, "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)m->start,
		 (unsigned long long)m->end);
}

/* Whether the kernel's own link to the mapped file may be followed, and to a regular file. */
static bool map_is_known(pid_t pid, const struct mapping *m)
{
	char path[80];
	struct stat st;
	map_files_path(pid, m, path, sizeof(path));
	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Anonymous devices (major 0: btrfs, overlayfs) differ between maps and stat; `loose` accepts
 * that. */
static bool is_mapped(const struct stat *st, const struct mapping *m, bool loose)
{
	if (!S_ISREG(st->st_mode) || st->st_ino != m->inode)
		return false;
	return (major(st->st_dev) == m->dev_major && minor(st->st_dev) == m->dev_minor) ||
	       (loose && major(st->st_dev) == 0 && m->dev_major == 0);
}

static int error_not_reached(pid_t pid, const struct mapping *m, struct err *e)
{
	err_set(e, -ENOENT, "cannot open the file %s that process %d has mapped%s", m->path, pid,
		m->deleted ? ": it was replaced or deleted since the process started" : "");
	return err_hint(
	    e, m->deleted
		   ? "restart the job, or run ditrace as root (CAP_SYS_ADMIN)"
		   : "run ditrace as root (CAP_SYS_ADMIN), or in the container of the process");
}

static bool path_is_of(const char *path, int len, size_t size, const struct mapping *m, bool loose)
{
	struct stat st;
	return len < (int)size && !stat(path, &st) && is_mapped(&st, m, loose);
}

int maps_open_path(pid_t pid, const struct mapping *m, char *out, size_t size, struct err *e)
{
	if (map_is_known(pid, m) && size >= 80) {
		map_files_path(pid, m, out, size);
		return 0;
	}
	if (m->path[0] != '/' || m->deleted)
		return error_not_reached(pid, m, e);
	int n = snprintf(out, size, "%s", m->path);
	if (path_is_of(out, n, size, m, false))
		return 0;
	n = snprintf(out, size, "/proc/%d/root%s", pid, m->path);
	return path_is_of(out, n, size, m, true) ? 0 : error_not_reached(pid, m, e);
}

static int open_by_path(struct target_files *files, const struct mapping *m)
{
	struct stat st;
	int fd =
	    m->path[0] == '/' && !m->deleted ? target_files_open(files, m->path, true) : -ENOENT;
	if (fd < 0 || (!fstat(fd, &st) && is_mapped(&st, m, true)))
		return fd;
	close(fd);
	return -ENOENT;
}

int maps_open_in(struct target_files *files, const struct mapping *m, struct err *e)
{
	char path[80];
	pid_t pid = target_files_pid(files);
	map_files_path(pid, m, path, sizeof(path));
	int fd = regular_open(path);
	if (fd < 0)
		fd = open_by_path(files, m);
	return fd < 0 ? error_not_reached(pid, m, e) : fd;
}

int maps_open(pid_t pid, const struct mapping *map, struct err *e)
{
	struct target_files *files = target_files_new(pid);
	if (!files)
		return err_set(e, -ENOMEM, "cannot open %s: out of memory", map->path);
	int fd = maps_open_in(files, map, e);
	target_files_free(files);
	return fd;
}
