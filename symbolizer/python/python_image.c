#define _GNU_SOURCE
#include "symbolizer/python/python_image.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"

enum { RUNTIME, VERSION, CODE_TYPE, UNICODE_TYPE, BYTES_TYPE, NNAMES };

static const char *const names[NNAMES] = {"_PyRuntime", "Py_Version", "PyCode_Type",
					  "PyUnicode_Type", "PyBytes_Type"};

static bool complete(const uint64_t vaddr[NNAMES])
{
	return vaddr[RUNTIME] && vaddr[CODE_TYPE] && vaddr[UNICODE_TYPE] && vaddr[BYTES_TYPE];
}

/* A program that holds its own interpreter need not export it. */
static bool find_symbols(struct elf_file *f, bool likely, uint64_t vaddr[NNAMES])
{
	for (size_t i = 0; i < NNAMES; i++)
		vaddr[i] = elf_find_dynamic(f, names[i], NULL);
	if (!complete(vaddr) && likely)
		elf_find_all(f, names, NNAMES, vaddr, NULL);
	return complete(vaddr);
}

/* The N of "python3.N" at p, its NUL included; 0: something else. */
static unsigned literal_at(const uint8_t *p, size_t left)
{
	size_t i = strlen("python3.");
	unsigned n = 0;

	for (; i < left && p[i] >= '0' && p[i] <= '9' && n < 100; i++)
		n = n * 10 + (unsigned)(p[i] - '0');
	return i < left && p[i] == '\0' ? n : 0;
}

static unsigned literal_minor(struct elf_file *f)
{
	size_t len = 0;
	uint64_t vaddr;
	const uint8_t *p = elf_section(f, ".rodata", &vaddr, &len), *end = p + len;
	unsigned minor = 0;

	while (p && (p = memmem(p, (size_t)(end - p), "python3.", strlen("python3.")))) {
		unsigned n = literal_at(p, (size_t)(end - p));

		if (n && minor && n != minor)
			return 0;
		minor = n ? n : minor;
		p++;
	}
	return minor;
}

static void fill_image(struct elf_file *f, const struct mapping *m, uint64_t bias,
		       const uint64_t vaddr[NNAMES], struct py_image *img)
{
	*img = (struct py_image){
	    .runtime = vaddr[RUNTIME] + bias,
	    .version = vaddr[VERSION] ? vaddr[VERSION] + bias : 0,
	    .code_type = vaddr[CODE_TYPE] + bias,
	    .unicode_type = vaddr[UNICODE_TYPE] + bias,
	    .bytes_type = vaddr[BYTES_TYPE] + bias,
	};
	if (!img->version)
		img->literal_minor = literal_minor(f);
	snprintf(img->path, sizeof(img->path), "%.*s", (int)sizeof(img->path) - 1, m->path);
}

static bool try_mapping(pid_t pid, const struct mapping *m, bool likely, struct py_image *img)
{
	int fd = maps_open(pid, m, NULL);
	uint64_t vaddr[NNAMES], bias;
	struct elf_file *f;
	bool ok;

	if (fd < 0)
		return false;
	ok = !elf_file_open_fd(fd, m->path, &f, NULL);
	close(fd);
	if (!ok)
		return false;
	ok = find_symbols(f, likely, vaddr) && !elf_bias(f, m, &bias);
	if (ok)
		fill_image(f, m, bias, vaddr, img);
	elf_file_close(f);
	return ok;
}

static bool is_likely(const struct mapping *m, const char *exe)
{
	return strstr(mapping_name(m), "python") || strcmp(m->path, exe) == 0;
}

/* One pass over the mappings: the likely files, or the others. */
static size_t scan_maps(pid_t pid, const struct maps *maps, const char *exe, bool likely,
			struct py_image *out, size_t max)
{
	const struct mapping *m = NULL;
	size_t found = 0;

	while (found < max && (m = maps_next_exec(maps, m)))
		if (is_likely(m, exe) == likely)
			found += try_mapping(pid, m, likely, &out[found]);
	return found;
}

int py_images(pid_t pid, struct py_image *out, size_t max, struct err *e)
{
	char name[64], exe[PATH_MAX];
	struct maps maps;
	int rc = maps_read(pid, &maps, e);
	size_t found;
	ssize_t n;

	if (rc)
		return rc;
	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	n = readlink(name, exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = '\0';
	found = scan_maps(pid, &maps, exe, true, out, max);
	if (!found)
		found = scan_maps(pid, &maps, exe, false, out, max);
	maps_free(&maps);
	return (int)found;
}
