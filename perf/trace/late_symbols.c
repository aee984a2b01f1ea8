#define _GNU_SOURCE
#include "perf/trace/trace_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/process.h"

struct jit {
	pid_t pid;
	struct perf_map map;
};

struct late_symbols {
	uint64_t begun_ns; /* CLOCK_REALTIME */
	int fd;
	struct arena arena;
	struct native_symbols symbols;
	struct trace_build *builds;
	size_t nbuilds, builds_room;
	struct jit *jits;
	size_t njits, jits_room;
};

struct late_symbols *late_symbols_new(uint64_t begun_ns, int fd)
{
	struct late_symbols *l = calloc(1, sizeof(*l));
	if (l) {
		l->begun_ns = begun_ns;
		l->fd = fd;
	}
	return l;
}

void late_symbols_free(struct late_symbols *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->njits; i++)
		perf_map_free(&l->jits[i].map);
	native_symbols_free(&l->symbols);
	arena_free(&l->arena);
	free(l->builds);
	free(l->jits);
	free(l);
}

int late_symbols_build(struct late_symbols *l, const struct trace_build *b)
{
	if (array_grow(&l->builds, &l->builds_room, l->nbuilds + 1, sizeof(*l->builds)))
		return -ENOMEM;
	l->builds[l->nbuilds++] = *b;
	return 0;
}

static bool parse_anon(const char *file, int32_t *pid)
{
	char same[64];
	if (sscanf(file, "[anon %" SCNd32 " ", pid) != 1 || *pid <= 0)
		return false;
	sample_anon_file(*pid, same, sizeof(same));
	return !strcmp(same, file);
}

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether the process that now has this PID already had it before the trace was begun. */
static bool is_still(pid_t pid, uint64_t begun_ns)
{
	struct process p;
	uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	if (process_read(pid, &p, NULL))
		return false;
	uint64_t boot = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
	return boot + (p.start_ticks + 1) * tick < begun_ns;
}

/* If the process has ended, accept its map only if it was written during the recording: earlier and
 * later processes with this PID wrote theirs before or after. */
static bool is_of_trace(const struct late_symbols *l, pid_t pid)
{
	char path[64];
	struct stat map, trace;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	if (is_still(pid, l->begun_ns))
		return true;
	return !lstat(path, &map) && !fstat(l->fd, &trace) && ns_of(map.st_mtim) >= l->begun_ns &&
	       ns_of(map.st_mtim) <= ns_of(trace.st_mtim);
}

static const char *jit_name(struct late_symbols *l, pid_t pid, uint64_t pc)
{
	for (size_t i = 0; i < l->njits; i++)
		if (l->jits[i].pid == pid)
			return perf_map_find(&l->jits[i].map, pc);
	if (array_grow(&l->jits, &l->jits_room, l->njits + 1, sizeof(*l->jits)))
		return NULL;
	struct jit *j = &l->jits[l->njits++];
	*j = (struct jit){.pid = pid};
	struct target_files *files = is_of_trace(l, pid) ? target_files_new(pid) : NULL;
	if (files)
		perf_map_read(&j->map, files, pid);
	target_files_free(files);
	return perf_map_find(&j->map, pc);
}

static void name_anon(struct late_symbols *l, struct py_frame *f, uint64_t pc)
{
	int32_t pid;
	const char *name = parse_anon(f->file, &pid) ? jit_name(l, pid, pc) : NULL;
	f->file = name ? "[JIT]" : "[anon]";
	f->function = name ? name : "(unknown)";
}

static const char *name_address(struct late_symbols *l, const struct py_frame *f, uint64_t addr,
				bool is_offset)
{
	for (size_t i = 0; i < l->nbuilds; i++)
		if (!strcmp(l->builds[i].file, f->file))
			return native_symbols_by_build(&l->symbols, f->file, l->builds[i].id,
						       l->builds[i].len, addr, is_offset);
	return NULL;
}

static const char *address_text(struct late_symbols *l, const char *file, char sign, uint64_t addr)
{
	char text[512];
	int n =
	    snprintf(text, sizeof(text), "%.400s%c0x%" PRIx64, text_base_name(file), sign, addr);
	return arena_strndup(&l->arena, text, (size_t)n);
}

int late_symbols_name(struct late_symbols *l, struct py_frame *f)
{
	char sign = f->function[0] == '@' || f->function[0] == '+' ? f->function[0] : 0;
	const char *number = f->function + (sign != 0), *name = NULL;
	char *end;
	if (f->line || strncmp(number, "0x", 2) != 0)
		return 0;
	uint64_t addr = strtoull(number, &end, 16);
	if (*end || end == number + 2)
		return 0;
	if (!strncmp(f->file, "[anon ", 6)) {
		name_anon(l, f, addr);
		return 0;
	}
	if (sign != '+')
		name = name_address(l, f, addr, sign == '@');
	f->function = name ? name : address_text(l, f->file, sign ? sign : '+', addr);
	return f->function ? 0 : -ENOMEM;
}
