/* Opening what a process or a file names: never with rights that the owner of the process lacks,
 * never anything but a regular file, and without waiting (docs/security.md). */
#ifndef SYMBOLIZER_TARGET_TARGET_FILES_H
#define SYMBOLIZER_TARGET_TARGET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

struct target_files;

/* The files that process `pid` sees. Holds its root open and keeps its present working directory,
 * so that files can be opened after it has ended. Of one that has ended already, these are
 * ditrace's own. NULL when out of memory. */
struct target_files *target_files_new(pid_t pid);
void target_files_free(struct target_files *f); /* NULL allowed */

pid_t target_files_pid(const struct target_files *f);

/* Open the regular file that `path` is to the process for reading, close-on-exec, with the rights
 * that the process has now. Once it has ended: with those it was last seen to have, or those of
 * any user if it had more than a plain user's, which it may have given up since. Rights that it
 * gains do not count. All of `path`
 * and its symbolic links resolve below the process's root; a relative one from its working
 * directory. `links` false: not if the last component is a symbolic link. A file descriptor, or
 * -errno: -EINVAL when it is no regular file or one of /proc, -EPERM when ditrace cannot take on
 * these rights, -ENOSYS when the kernel lacks openat2(2) (before Linux 5.6). */
int target_files_open(struct target_files *f, const char *path, bool links);

/* stat(2), or without `links` lstat(2), in the same way. 0 or -errno. */
int target_files_stat(struct target_files *f, const char *path, bool links, struct stat *out);

/* Whether this kernel opens files so, at all: 0, or -errno with *e. */
int target_files_check(struct err *e);

/* Whether user `uid` is root or the owner of the process; if that was never known, ditrace's. */
bool target_files_trusts(struct target_files *f, uid_t uid);

/* Open `path`, which the user or a trace file names, or a link of the kernel's in /proc, for
 * reading with ditrace's own rights, if it is a regular file. A file descriptor, or -errno: -EINVAL
 * when it is none. */
int regular_open(const char *path);

/* With which rights a process opens files, and doing something with no others: credentials(7),
 * capabilities(7). */

struct rights {
	uid_t uid; /* of file system access, as seen in ditrace's user namespace */
	gid_t gid;
	gid_t *groups; /* supplementary; from malloc */
	size_t ngroups;
	uint64_t caps; /* of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH those in effect, as bits */
};

/* The rights of process `pid`. Its capabilities count only in ditrace's own user namespace. 0 (free
 * with rights_free), -ESRCH when there is no such process, -EPROTO when /proc does not tell them
 * all, -ENOMEM. */
int rights_of(pid_t pid, struct rights *out);

/* Parse the NUL-terminated text of a status file (proc_pid_status(5)); otherwise the same. */
int rights_parse(const char *text, struct rights *out);

/* The rights that every user has; those of ditrace's user, without capabilities, if that is not
 * root. */
void rights_of_anyone(struct rights *out);

/* Whether `now` allows nothing that `before` does not, which root's do anyway. */
bool rights_within(const struct rights *now, const struct rights *before);

/* Whether these are root's, or capabilities are among them. */
bool rights_are_high(const struct rights *r);

void rights_free(struct rights *r);

/* Call `fn` with these rights for files and no others. Returns its result, or -errno without having
 * called it: -EPERM when ditrace may not change its own rights to these. */
int rights_use(const struct rights *r, int (*fn)(void *arg), void *arg);

#endif
