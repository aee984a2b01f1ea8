#define _GNU_SOURCE
#include "symbolizer/target/maps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"

/* "libtorch_cpu" matches libtorch_cpu.so, libtorch_cpu.so.1.13 and the renamed
 * libtorch_cpu-1a2b3c4d.so of repackaged wheels. */
static bool is_library(const char *name, const char *stem)
{
	size_t n = strlen(stem);
	if (strncmp(name, stem, n))
		return false;
	const char *so = strstr(name + n, ".so");
	return so && (so == name + n || name[n] == '-') && (!so[3] || so[3] == '.');
}

bool library_is_needed(const char *path)
{
	const char *name = text_base_name(path);
	return is_library(name, "libtorch_cpu") || is_library(name, "libc10");
}

/* python, python3, python3.11, python3.11d */
static bool is_interpreter(const char *name)
{
	if (strncmp(name, "python", 6))
		return false;
	name += 6 + strspn(name + 6, "0123456789.");
	return !*name || (strchr("dt", *name) && !name[1]);
}

static bool is_libpython(const char *name)
{
	return !strncmp(name, "libpython3.", 11) && strstr(name, ".so");
}

bool library_parse_version(const char *text, char *out, size_t size)
{
	static const char name[] = "__version__";
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, sizeof(name) - 1))
			continue;
		size_t line = strcspn(p, "\n"), at = strcspn(p, "'\"");
		const char *begin = p + at + 1, *end = at < line ? strchr(begin, p[at]) : NULL;
		if (!end || end >= p + line || end == begin || (size_t)(end - begin) >= size)
			return false;
		memcpy(out, begin, (size_t)(end - begin));
		out[end - begin] = '\0';
		return true;
	}
	return false;
}

static void read_version(pid_t pid, struct torch_package *p)
{
	char path[4200], text[8192];
	struct target_files *files = target_files_new(pid);
	snprintf(path, sizeof(path), "%s/version.py", p->dir);
	int fd = files ? target_files_open(files, path, true) : -1;
	target_files_free(files);
	if (fd < 0)
		return;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	library_parse_version(text, p->version, sizeof(p->version));
}

/* The package directory is that of its module torch/_C.cpython-*.so; libtorch may be elsewhere. */
void torch_package_find(pid_t pid, const struct maps *m, struct torch_package *out)
{
	*out = (struct torch_package){0};
	for (const struct mapping *x = NULL; (x = maps_next_exec(m, x));) {
		const char *name = mapping_name(x);
		size_t dir = (size_t)(name - x->path);
		if (strncmp(name, "_C.", 3) || dir < 7 || strncmp(name - 7, "/torch/", 7))
			continue;
		snprintf(out->dir, sizeof(out->dir), "%.*s", (int)(dir - 1), x->path);
		read_version(pid, out);
		return;
	}
}

void libraries_find(const struct maps *m, struct libraries *out)
{
	const struct mapping *interpreter = NULL;
	*out = (struct libraries){0};
	for (const struct mapping *x = NULL; (x = maps_next_exec(m, x));) {
		const char *name = mapping_name(x);
		if (!out->torch && is_library(name, "libtorch_cpu"))
			out->torch = x;
		else if (!out->torch_python && is_library(name, "libtorch_python"))
			out->torch_python = x;
		else if (!out->c10 && is_library(name, "libc10"))
			out->c10 = x;
		else if (!out->python && is_libpython(name))
			out->python = x;
		else if (!interpreter && is_interpreter(name))
			interpreter = x;
	}
	if (!out->python)
		out->python = interpreter;
}

/* Which libraries the process has; what they are mapped at is not kept. */
static bool find_libraries(pid_t pid, struct libraries *l)
{
	struct maps maps;
	if (maps_read(pid, &maps, NULL))
		return false;
	libraries_find(&maps, l);
	maps_free(&maps);
	return true;
}

bool process_has_torch(pid_t pid)
{
	struct libraries l;
	return find_libraries(pid, &l) && l.torch;
}

bool process_has_all_torch(pid_t pid)
{
	struct libraries l;
	return find_libraries(pid, &l) && l.torch && l.c10;
}

/* The linker is mapped at AT_BASE from offset 0 of its file, its segments contiguous. */
static int linker_find_in(int fd, const struct maps *maps, uint64_t base, uint64_t spare,
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
	r = fd < 0 ? fd : linker_find_in(fd, &maps, base, spare, out);
	if (fd >= 0)
		close(fd);
	maps_free(&maps);
	return r;
}
