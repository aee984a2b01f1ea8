#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "symbolizer/target/elf.h"

#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/shim/internal.h"

enum { HEAD = 1024 }; /* of the library's file: the build ID in it makes it unique */

static bool is_named(const struct mapping *m, const char *first, const char *second)
{
	const char *name = mapping_name(m);
	return !strncmp(name, first, strlen(first)) || !strncmp(name, second, strlen(second));
}

static uint64_t find_function(struct elf_file *f, uint64_t bias, const char *name)
{
	uint64_t at = elf_find_dynamic(f, name, NULL);
	return at ? at + bias : 0;
}

static int find_sigreturn(struct elf_file *f, const struct mapping *m, uint64_t bias, uint64_t *out)
{
	size_t size = m->end - m->start;
	const uint8_t *code = elf_bytes(f, m->start - bias, size);
	/* The last page of the mapping may extend beyond the end of the file. */
	for (; !code && size > 4096; size -= 4096)
		code = elf_bytes(f, m->start - bias, size - 4096);
	ssize_t at = code ? remote_call_sigreturn(code, size) : -1;
	if (at < 0)
		return -ENOENT;
	*out = m->start + (uint64_t)at;
	return 0;
}

/* From glibc 2.34 on libc has everything; before that dlopen is in libdl. */
static int look_in(pid_t pid, const struct mapping *m, struct injector_points *out, bool *glibc)
{
	struct elf_file *f;
	uint64_t bias;
	int fd = maps_open(pid, m, NULL);
	int r = fd < 0 ? fd : elf_file_open_fd(fd, m->path, &f, NULL);
	if (fd >= 0)
		close(fd);
	if (r)
		return r;
	r = elf_bias(f, m, &bias);
	if (!r && !out->dlopen) {
		out->dlopen = find_function(f, bias, "dlopen");
		out->dlerror = find_function(f, bias, "dlerror");
	}
	if (!r && find_function(f, bias, "gnu_get_libc_version")) {
		*glibc = true;
		r = find_sigreturn(f, m, bias, &out->sigreturn);
	}
	elf_file_close(f);
	return r;
}

int injector_cannot_load(pid_t pid, const char *why, struct err *e)
{
	err_set(e, -ENOTSUP, "no library can be loaded into process %d: %s", pid, why);
	return err_hint(e, "trace it with --engine bpf or --engine ptrace");
}

/* musl's is its dynamic linker. */
static bool is_libc(const struct mapping *m)
{
	return is_named(m, "libc.so", "libc-") || is_named(m, "ld-musl", "libc.musl");
}

int injector_find_points(pid_t pid, struct injector_points *out, struct err *e)
{
	struct maps maps;
	struct linker linker;
	bool glibc = false, libc = false;
	*out = (struct injector_points){0};
	int r = maps_read(pid, &maps, e);
	if (r)
		return r;
	const struct mapping *m = NULL;
	while ((m = maps_next_exec(&maps, m))) {
		libc |= is_libc(m);
		if (is_libc(m) || is_named(m, "libdl.so", "libdl-"))
			look_in(pid, m, out, &glibc);
	}
	maps_free(&maps);
	if (out->dlopen && out->dlerror && out->sigreturn)
		return 0;
	if (linker_find(pid, 0, &linker) == -ENOENT)
		return injector_cannot_load(pid, "its program is linked statically", e);
	if (!libc)
		return err_set(e, -EAGAIN, "process %d is still being started", pid);
	return injector_cannot_load(
	    pid, glibc ? "its C library has no dlopen" : "its C library is not the GNU one", e);
}

/* The mapping with the file's first bytes. */
static bool is_library(const struct mapping *m)
{
	return !m->offset && !strcmp(mapping_name(m), SHIM_LIBRARY);
}

static uint64_t own_symbol(const char *symbol)
{
	size_t size;
	const void *bytes = shim_library(&size);
	struct elf_file *f;
	void *copy = aligned_alloc(64, (size + 63) & ~(size_t)63);
	uint64_t at = 0;
	if (!copy)
		return 0;
	memcpy(copy, bytes, size);
	if (!elf_file_open_memory(copy, size, &f)) {
		at = elf_find_dynamic(f, symbol, NULL);
		elf_file_close(f);
	}
	free(copy);
	return at;
}

int injector_find_library(pid_t pid, const char *symbol, uint64_t *out)
{
	struct mem mem = mem_process(pid);
	struct maps maps;
	uint8_t head[HEAD];
	size_t size;
	int r = maps_read(pid, &maps, NULL), found = -ENOENT;
	if (r)
		return r;
	for (size_t i = 0; i < maps.n && found; i++) {
		if (!is_library(&maps.map[i]))
			continue;
		found = -EPROTO;
		if (mem_read(&mem, maps.map[i].start, head, sizeof(head)) ||
		    memcmp(head, shim_library(&size), sizeof(head)))
			continue;
		uint64_t at = own_symbol(symbol);
		*out = maps.map[i].start + at;
		found = at ? 0 : -EPROTO;
	}
	maps_free(&maps);
	return found;
}

bool injector_is_library(const char *path)
{
	return !strcmp(text_base_name(path), SHIM_LIBRARY);
}

int injector_own_work(pid_t pid, uint64_t *out)
{
	return injector_find_library(pid, SHIM_OWN_WORK, out);
}

static int find_state(pid_t pid, uint64_t *at, struct err *e)
{
	int r = injector_find_library(pid, SHIM_STATE, at);
	if (r == -ENOENT)
		return err_set(e, r, "ditrace's library is not in process %d", pid);
	if (r == -EPROTO)
		return err_set(
		    e, r, "the library in process %d is that of another build of ditrace", pid);
	return r ? process_error(pid, r, "look into", e) : 0;
}

int injector_state(pid_t pid, struct shim_state *out, struct err *e)
{
	struct mem mem = mem_process(pid);
	uint64_t at;
	int r = find_state(pid, &at, e);
	if (r)
		return r;
	r = mem_read(&mem, at, out, sizeof(*out));
	return r ? process_error(pid, r, "look into", e) : 0;
}

/* Write `size` bytes at `offset` of the state, which is at `at`. 0 or -errno. */
static int write_state(pid_t pid, uint64_t at, size_t offset, const void *bytes, size_t size)
{
	struct iovec ours = {(void *)bytes, size}, its = {(void *)(uintptr_t)(at + offset), size};
	ssize_t n = process_vm_writev(pid, &ours, 1, &its, 1, 0);
	return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EFAULT;
}

void injector_set_stood(pid_t pid, uint64_t ns)
{
	uint64_t at;
	if (!find_state(pid, &at, NULL))
		write_state(pid, at, offsetof(struct shim_state, stood_ns), &ns, sizeof(ns));
}

int injector_take_out(pid_t pid, struct err *e)
{
	enum { TURNS = 500 };
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	struct shim_state s;
	uint64_t at;
	int32_t go = 1;
	int r = injector_state(pid, &s, e);
	r = r ? r : find_state(pid, &at, e);
	if (r || s.phase == SHIM_OUT)
		return r;
	r = write_state(pid, at, offsetof(struct shim_state, go), &go, sizeof(go));
	if (r)
		return process_error(pid, r, "write to", e);
	for (unsigned i = 0; i < TURNS; i++) {
		r = injector_state(pid, &s, e);
		if (r || s.phase == SHIM_OUT)
			return r;
		nanosleep(&pause, NULL);
	}
	err_set(e, -ETIMEDOUT, "the library in process %d has not gone yet", pid);
	return err_hint(e, "if the process is stopped, continue it: kill -CONT %d", pid);
}
