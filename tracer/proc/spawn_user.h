/* Another user as whom a command is started: run --user. */
#ifndef TRACER_PROC_SPAWN_USER_H
#define TRACER_PROC_SPAWN_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum { SPAWN_USER_VARIABLES = 4 };

/* Zero-initialise. */
struct spawn_user {
	const char *name; /* as it was given; not owned */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* with `gid`, as getgrouplist(3) has them */
	size_t ngroups;
	char *variable[SPAWN_USER_VARIABLES]; /* "HOME=...", SHELL, USER, LOGNAME */
};

/* Look up a name, or a number that is no name, in the user database. A number without an entry is a
 * user with the group of the same number, the home "/" and the shell /bin/sh. `name` must outlive
 * `u`. 0; -EPERM unless this process is root's; -ENOENT; -ENOMEM; with *e. Free with
 * spawn_user_free in any case. */
int spawn_user_find(const char *name, struct spawn_user *u, struct err *e);

/* This process's environment with those variables changed, NULL-terminated; the caller frees the
 * array, its strings are of the two. NULL: no memory. */
char **spawn_user_environment(const struct spawn_user *u);

/* Become that user for good: for a fresh child, as it is async-signal-safe and of one thread. 0 or
 * -errno. */
int spawn_user_become(const struct spawn_user *u);

void spawn_user_free(struct spawn_user *u);

#endif
