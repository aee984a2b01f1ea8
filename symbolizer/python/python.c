#define _GNU_SOURCE
#include "symbolizer/python/python.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/python/internal.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"

enum { RUNTIME, VERSION, CODE_TYPE, UNICODE_TYPE, BYTES_TYPE, NNAMES };

static const char *const names[NNAMES] = {"_PyRuntime", "Py_Version", "PyCode_Type",
					  "PyUnicode_Type", "PyBytes_Type"};

static bool complete(const uint64_t vaddr[NNAMES])
{
	return vaddr[RUNTIME] && vaddr[CODE_TYPE] && vaddr[UNICODE_TYPE] && vaddr[BYTES_TYPE];
}

/* A program with an embedded interpreter need not export it, so `likely` files are searched in
 * .symtab, too. */
static bool find_symbols(struct elf_file *f, bool likely, uint64_t vaddr[NNAMES])
{
	for (size_t i = 0; i < NNAMES; i++)
		vaddr[i] = elf_find_dynamic(f, names[i], NULL);
	if (!complete(vaddr) && likely)
		elf_find_all(f, names, NNAMES, vaddr, NULL);
	return complete(vaddr);
}

/* The N of "python3.N" at p, NUL-terminated; 0 otherwise. */
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
	const uint8_t *p = elf_section(f, ".rodata", &vaddr, &len), *end = p ? p + len : p;
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

/* The dynamic linker first maps all of a file as one, unwritable. */
static bool is_loaded(const struct maps *maps, const struct py_image *img)
{
	const struct mapping *data = maps_find(maps, img->runtime);

	return data && data->write;
}

/* Scan the mappings for images: the likely files, or all others. */
static size_t scan_maps(pid_t pid, const struct maps *maps, const char *exe, bool likely,
			struct py_image *out, size_t max)
{
	const struct mapping *m = NULL;
	size_t found = 0;

	while (found < max && (m = maps_next_exec(maps, m)))
		if (is_likely(m, exe) == likely && try_mapping(pid, m, likely, &out[found])) {
			out[found].loaded = is_loaded(maps, &out[found]);
			found++;
		}
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

/* PY_VERSION_HEX, Include/patchlevel.h: major, minor, micro, a nibble of level, a nibble of serial.
 */
static void format_version(uint32_t v, char *out, size_t size)
{
	unsigned level = v >> 4 & 15;

	int n = snprintf(out, size, "%u.%u.%u", v >> 24, v >> 16 & 0xff, v >> 8 & 0xff);

	if (level != 15 && n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n, "%s%u",
			 level == 10   ? "a"
			 : level == 11 ? "b"
				       : "rc",
			 v & 15);
}

static int unknown_version(struct err *e, const char *version)
{
	err_set(e, -ENOTSUP, "CPython %s is not supported", version);
	err_hint(e, "Python frames are shown for CPython 3.8 to 3.13");
	return -ENOTSUP;
}

/* 3.8 to 3.12: choose the table by Py_Version or by the string in the file. */
static int layout_by_version(struct py_runtime *rt, struct err *e)
{
	const struct py_layout *table;
	uint32_t v = 0;
	unsigned minor = rt->image.literal_minor;
	int rc;

	if (rt->image.version) {
		rc = mem_read(rt->mem, rt->image.version, &v, sizeof(v));
		if (rc)
			return err_set(e, rc, "cannot read the version of Python: %s",
				       strerror(-rc));
		format_version(v, rt->version, sizeof(rt->version));
		minor = v >> 24 == 3 ? v >> 16 & 0xff : 0;
	} else if (minor && minor <= 10) {
		snprintf(rt->version, sizeof(rt->version), "3.%u", minor);
	} else {
		return unknown_version(e, "(without Py_Version)");
	}
	table = py_layout_table(minor);
	if (!table)
		return unknown_version(e, rt->version);
	rt->layout = *table;
	return 0;
}

static int find_layout(struct py_runtime *rt, struct err *e)
{
	uint8_t head[PY_DEBUG_OFFSETS_SIZE];
	uint32_t version;
	int rc = mem_read(rt->mem, rt->image.runtime, head, sizeof(head));

	if (rc) {
		err_set(e, rc, "cannot read the memory of process %d: %s", rt->pid, strerror(-rc));
		err_hint(e, "run as root, or as the user of the process");
		return rc;
	}
	rc = py_layout_debug(head, sizeof(head), &rt->layout, &version, e);
	if (rc == -ENOENT)
		rc = layout_by_version(rt, e);
	else
		format_version(version, rt->version, sizeof(rt->version));
	rt->layout.walk.interp_head_addr = rt->image.runtime + rt->layout.interp_head;
	return rc;
}

static int check_type_name(const struct py_runtime *rt, uint64_t type, const char *name)
{
	char text[16];
	ssize_t n = py_type_name(rt, type, text, sizeof(text));

	return n >= 0 && strcmp(text, name) == 0 ? 0 : -EPROTO;
}

int py_each_tstate(const struct py_runtime *rt, py_tstate_fn *fn, void *arg)
{
	const struct py_walk *w = &rt->layout.walk;
	struct tstate_visit v;
	unsigned interps = 0, threads = 0;
	int rc = py_read_word(rt, w->interp_head_addr, &v.interp);

	while (!rc && v.interp) {
		rc = ++interps > PY_MAX_INTERPRETERS
			 ? -EPROTO
			 : py_read_word(rt, v.interp + w->interp_tstate_head, &v.tstate);
		while (!rc && v.tstate) {
			rc = ++threads > PY_MAX_THREADS
				 ? -EPROTO
				 : mem_read(rt->mem, v.tstate + w->tstate_window, v.window,
					    w->tstate_window_len);
			if (!rc)
				rc = fn(w, &v, arg);
			if (!rc)
				rc = py_read_word(rt, v.tstate + w->tstate_next, &v.tstate);
		}
		if (!rc)
			rc = py_read_word(rt, v.interp + w->interp_next, &v.interp);
	}
	return rc;
}

static int check_tstate(const struct py_walk *w, const struct tstate_visit *v, void *arg)
{
	++*(unsigned *)arg;
	return py_word_in(v->window, w->tw_interp) == v->interp ? 0 : -EPROTO;
}

static int check_types(const struct py_runtime *rt)
{
	int rc = check_type_name(rt, rt->image.code_type, "code");

	if (!rc)
		rc = check_type_name(rt, rt->image.unicode_type, "str");
	return rc ? rc : check_type_name(rt, rt->image.bytes_type, "bytes");
}

/* 0, -EAGAIN before Py_Initialize has created the first thread state, or -EPROTO. Until then the
 * dynamic linker may not have relocated the types yet, so that their names cannot be read. */
static int check_memory(const struct py_runtime *rt)
{
	unsigned count = 0;
	int rc = py_each_tstate(rt, check_tstate, &count);

	if (!rc)
		rc = count ? check_types(rt) : -EAGAIN;
	return rc == -EFAULT ? -EPROTO : rc;
}

static int not_started(struct err *e, const char *version)
{
	err_set(e, -EAGAIN, "CPython%s%s has not started yet", *version ? " " : "", version);
	return err_hint(e, "try again in a moment");
}

/* The process is running while its lists are read: retry before rejecting the layout. */
static int validate(const struct py_runtime *rt, struct err *e)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	int rc = check_memory(rt);

	for (int i = 0; i < 3 && rc == -EPROTO; i++) {
		nanosleep(&pause, NULL);
		rc = check_memory(rt);
	}
	if (rc == -EPROTO) {
		err_set(e, rc, "CPython %s does not look as expected in memory (%s)", rt->version,
			rt->image.path);
		err_hint(e, "a debug or patched build? Python frames are not shown");
	} else if (rc == -EAGAIN) {
		not_started(e, rt->version);
	} else if (rc) {
		err_set(e, rc, "cannot read the memory of process %d: %s", rt->pid, strerror(-rc));
	}
	return rc;
}

static int open_image(struct py_runtime *rt, struct err *e)
{
	int rc = rt->image.loaded ? find_layout(rt, e) : not_started(e, "");

	return rc ? rc : validate(rt, e);
}

/* Several files may contain a runtime (the program's own, and an unused library); choose the one in
 * use. */
static int choose_image(struct py_runtime *rt, struct err *e)
{
	enum { MAX_IMAGES = 4 };
	struct py_image images[MAX_IMAGES];
	int n = py_images(rt->pid, images, MAX_IMAGES, e), rc = -ENOENT;

	if (n < 0)
		return n;
	if (n == 0) {
		err_set(e, -ENOENT, "process %d has no CPython in it", rt->pid);
		err_hint(e, "Python frames are not shown");
	}
	for (int i = 0; i < n; i++) {
		rt->image = images[i];
		rc = open_image(rt, e);
		if (!rc)
			break;
	}
	return rc;
}

int python_open(pid_t pid, const struct mem *m, struct py_runtime **out, struct err *e)
{
	struct py_runtime *rt = calloc(1, sizeof(*rt));
	int rc;

	*out = NULL;
	if (!rt)
		return err_set(e, -ENOMEM, "out of memory");
	rt->pid = pid;
	rt->mem = rt->live = m;
	rc = choose_image(rt, e);
	if (!rc) {
		rt->codes = py_codes_new();
		rt->sources = py_sources_new(pid, rt);
		rt->stacks = py_stacks_new();
		rt->modules = py_modules_new();
		rt->parameters = py_parameters_new();
		if (!rt->codes || !rt->sources || !rt->stacks || !rt->modules || !rt->parameters)
			rc = err_set(e, -ENOMEM, "out of memory");
	}
	if (rc)
		python_close(rt);
	else
		*out = rt;
	return rc;
}

void python_close(struct py_runtime *rt)
{
	if (!rt)
		return;
	py_codes_free(rt->codes);
	py_sources_free(rt->sources);
	py_stacks_free(rt->stacks);
	py_modules_free(rt->modules);
	py_parameters_free(rt->parameters);
	map_free(&rt->cells.others);
	free(rt);
}

const char *python_version(const struct py_runtime *rt)
{
	return rt->version;
}

const struct py_walk *python_walk(const struct py_runtime *rt)
{
	return &rt->layout.walk;
}
