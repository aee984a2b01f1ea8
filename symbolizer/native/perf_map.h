/* The functions that a process has compiled for itself: /tmp/perf-PID.map, which JITs write (Linux,
 * tools/perf/Documentation/jit-interface.txt): lines "START SIZE name", numbers hexadecimal. */
#ifndef SYMBOLIZER_NATIVE_PERF_MAP_H
#define SYMBOLIZER_NATIVE_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_map_entry {
	uint64_t start, end;
	const char *name; /* of the text */
};

/* Zero-initialise. */
struct perf_map {
	struct perf_map_entry *entries; /* by rising start */
	size_t n, room;
	char *text;
	off_t size; /* of the file when it was read */
};

/* Read the file of process `pid`, which calls itself `ns_pid`, as it sees /tmp (of one
 * that has ended, as ditrace does), if it has grown since. Names given before become invalid. 0
 * (there need not be one) or -ENOMEM. */
int perf_map_read(struct perf_map *m, pid_t pid, pid_t ns_pid);

/* Parse `text` (NUL-terminated, from malloc, taken over). Lines that make no sense are left out; of
 * entries that overlap the last one counts where it begins. 0 or -ENOMEM. */
int perf_map_parse(struct perf_map *m, char *text);

/* The name of the function at `pc`, NULL if none; valid until the next reading. */
const char *perf_map_find(const struct perf_map *m, uint64_t pc);

void perf_map_free(struct perf_map *m);

#endif
