/* The memory mappings of a process, and the files behind them: /proc/PID/maps (proc(5)); which of
 * the files are PyTorch's and Python's. */
#ifndef SYMBOLIZER_TARGET_MAPS_H
#define SYMBOLIZER_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/target/target_files.h"

enum { MAPPING_BUILD = 20 };

struct mapping {
	uint64_t start, end; /* addresses; end is exclusive */
	uint64_t offset;     /* file offset of start, bytes */
	uint64_t inode;	     /* 0: no file, or identified by `build` */
	/* As shown in maps; on btrfs, overlayfs and the like this differs from stat(2). */
	uint32_t dev_major, dev_minor;
	/* Build id of a file that is identified by it instead of the inode, else nbuild is 0. */
	uint8_t build[MAPPING_BUILD], nbuild;
	bool read, write, exec, shared;
	bool deleted; /* the file was unlinked from `path` */
	/* The target's path, newlines decoded, without " (deleted)"; "[stack]" and the like; "" if
	 * none. Owned by the maps. */
	const char *path;
};

struct maps {
	struct mapping *map; /* by ascending address */
	size_t n;
	char *text;
};

/* Read the mappings of process `pid`. Returns 0 (free with maps_free), or -errno with *out empty:
 * -ESRCH when there is no such process or it has no memory any more, -EACCES or -EPERM when it
 * belongs to another user. */
int maps_read(pid_t pid, struct maps *out, struct err *e);

/* Parse `text`, the NUL-terminated contents of such a file; ownership of it (from malloc) passes to
 * *out. Malformed and out-of-order lines are skipped. 0 or -ENOMEM. */
int maps_parse(char *text, struct maps *out);

void maps_free(struct maps *m);

/* The mapping that contains `addr`, NULL if none. */
const struct mapping *maps_find(const struct maps *m, uint64_t addr);

/* The next executable file mapping after `prev` (NULL: the first); NULL if none. */
const struct mapping *maps_next_exec(const struct maps *m, const struct mapping *prev);

/* The last component of the mapping's path. */
const char *mapping_name(const struct mapping *map);

/* Whether the mapping is backed by a file. */
bool mapping_has_file(const struct mapping *map);

/* A path by which ditrace can open the very file that is mapped at `map` in process `pid`, whatever
 * its mount namespace, for a uprobe: the kernel's own link /proc/PID/map_files/START-END, which
 * needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (fs/proc/base.c, proc_map_files_get_link), reaches
 * deleted files, too, and lasts as long as the mapping. Without that right `path` or
 * /proc/PID/root/`path`, if device and inode are those of the mapping. 0, or -ENOENT with *e when
 * the file cannot be reached. PATH_MAX bytes are enough for `out`. */
int maps_open_path(pid_t pid, const struct mapping *map, char *out, size_t size, struct err *e);

/* Open the mapped file for reading, close-on-exec: by that link, else by its path with the rights
 * of the process. A file descriptor, or -ENOENT or -ENOMEM with *e. */
int maps_open(pid_t pid, const struct mapping *map, struct err *e);
int maps_open_in(struct target_files *files, const struct mapping *map, struct err *e);

/* The files of PyTorch and Python among the mappings. */

/* Pointers into the maps, NULL where not found. Matched by file name alone, not by content. */
struct libraries {
	const struct mapping *torch;	    /* libtorch_cpu; libtorch itself is an empty stub */
	const struct mapping *torch_python; /* libtorch_python */
	const struct mapping *c10;	    /* libc10 */
	const struct mapping *python;	    /* libpython, or the interpreter itself */
};

/* Find the first executable mapping of each. */
void libraries_find(const struct maps *m, struct libraries *out);

/* Whether the file at `path` is, by name, libtorch_cpu or libc10, which tracing requires. */
bool library_is_needed(const char *path);

/* The Python package of PyTorch. */
struct torch_package {
	char dir[4096];	  /* the target's path, ".../torch"; "" if unknown */
	char version[64]; /* the package's __version__, "2.13.0+cpu"; "" if unknown */
};

/* Find the package in process `pid`, whose mappings are `m`, by its module torch/_C; what is not
 * found is "". */
void torch_package_find(pid_t pid, const struct maps *m, struct torch_package *out);

/* Extract the value of __version__ from the text of torch/version.py into out; false if there is
 * none. */
bool library_parse_version(const char *text, char *out, size_t size);

/* The dynamic linker of a process, and where it reports changes. */

struct linker {
	/* Address of _dl_debug_state, which the linker calls before and after it maps libraries,
	 * and before their code runs (glibc, elf/dl-debug.c; musl has it, too), and the bytes of
	 * code there in the file. */
	uint64_t notify;
	uint8_t code[16];
	/* The last bytes of that mapping, behind the end of the segment, so that they mean nothing;
	 * 0: there are none. */
	uint64_t spare;
};

/* Find them in process `pid`, with `spare` such bytes. 0 or -errno: -ENOENT for a static program.
 */
int linker_find(pid_t pid, uint64_t spare, struct linker *out);

#endif
