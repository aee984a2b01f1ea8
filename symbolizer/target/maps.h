/* The memory mappings of a process, and the files behind them: /proc/PID/maps (proc(5)). */
#ifndef SYMBOLIZER_TARGET_MAPS_H
#define SYMBOLIZER_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { MAPPING_BUILD = 20 };

struct mapping {
	uint64_t start, end; /* addresses; end is the first byte behind it */
	uint64_t offset;     /* of start in the file, bytes */
	uint64_t inode;	     /* 0: no file, or see `build` */
	/* As the kernel shows it in maps; on btrfs, overlayfs and the like not what stat(2) gives.
	 */
	uint32_t dev_major, dev_minor;
	/* Of a file that is known by its build id in place of the inode: that, else nbuild is 0. */
	uint8_t build[MAPPING_BUILD], nbuild;
	bool read, write, exec, shared;
	bool deleted; /* the file is no longer in its directory under `path` */
	/* As the target sees it, newlines decoded, without " (deleted)"; "[stack]" and the like; ""
	 * if none. Owned by the maps. */
	const char *path;
};

struct maps {
	struct mapping *map; /* by rising address */
	size_t n;
	char *text;
};

/* Read them. Returns 0 (free with maps_free) or -errno, and then *out is empty: -ESRCH when there
 * is no such process or it has no memory any more, -EACCES or -EPERM when it belongs to somebody
 * else. */
int maps_read(pid_t pid, struct maps *out, struct err *e);

/* Parse `text` (NUL-terminated, taken over, from malloc) as the contents of such a file; lines that
 * cannot be read, and those out of order, are left out. 0 or -ENOMEM. */
int maps_parse(char *text, struct maps *out);

void maps_free(struct maps *m);

/* The mapping that holds `addr`, NULL if none. */
const struct mapping *maps_find(const struct maps *m, uint64_t addr);

/* The next executable mapping of a file, after `prev` (NULL: the first); NULL if none. */
const struct mapping *maps_next_exec(const struct maps *m, const struct mapping *prev);

/* The last component of the mapping's path. */
const char *mapping_name(const struct mapping *map);

/* Whether it is of a file. */
bool mapping_has_file(const struct mapping *map);

/* A path by which ditrace can open the very file that is mapped at `map` in process `pid`, not
 * another one of that name, whatever its mount namespace: `path` or /proc/PID/root/`path` where
 * that is the same file (device and inode), else /proc/PID/map_files/START-END, which needs
 * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (fs/proc/base.c, proc_map_files_get_link) and reaches
 * deleted files, too. The path of a probe link may be this one. 0, or -ENOENT with *e when the file
 * is not to be reached; PATH_MAX bytes are enough for `out`. */
int maps_open_path(pid_t pid, const struct mapping *map, char *out, size_t size, struct err *e);

/* The mapped file itself opened for reading, close-on-exec: a file descriptor, or -errno with *e.
 */
int maps_open(pid_t pid, const struct mapping *map, struct err *e);

/* Which of the files that a process has mapped are PyTorch's and Python's. */

/* Pointers into the maps; NULL where there is none. Decided by the files' names alone: what is in
 * them is for their readers to say. */
struct libraries {
	const struct mapping *torch;	    /* libtorch_cpu: libtorch itself is empty */
	const struct mapping *torch_python; /* libtorch_python */
	const struct mapping *c10;	    /* libc10 */
	const struct mapping *python;	    /* libpython, or the interpreter itself */
};

/* The first executable mapping of each. */
void libraries_find(const struct maps *m, struct libraries *out);

/* Whether the file at `path` is libtorch_cpu or libc10, by its name: without them nothing is
 * traced. For the events of follow.h. */
bool library_is_needed(const char *path);

/* The Python package of PyTorch. */
struct torch_package {
	char dir[4096];	  /* as the target sees it: ".../torch"; "" unknown */
	char version[64]; /* "2.13.0+cpu", as the package says it; "" unknown */
};

void torch_package_find(pid_t pid, const struct maps *m, struct torch_package *out);

/* The value of __version__ in the text of torch/version.py, into out; false when there is none. */
bool library_parse_version(const char *text, char *out, size_t size);

#endif
