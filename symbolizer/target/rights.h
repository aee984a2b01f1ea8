/* With which rights a process opens files, and doing something with no others: credentials(7),
 * capabilities(7). */
#ifndef SYMBOLIZER_TARGET_RIGHTS_H
#define SYMBOLIZER_TARGET_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
