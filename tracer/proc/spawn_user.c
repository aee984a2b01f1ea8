#define _GNU_SOURCE
#include "tracer/proc/spawn.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

/* -1 as a user ID means none (setresuid(2)). */
static bool is_uid(const char *text, uid_t *out)
{
	uint64_t n;
	if (!text_number(text, &n) || n >= (uid_t)-1)
		return false;
	*out = (uid_t)n;
	return true;
}

static int list_groups(struct spawn_user *u, const char *login)
{
	int r = -1;
	for (int room = 32, n = room; r < 0; room *= 2, n = room) {
		gid_t *more = reallocarray(u->groups, (size_t)room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		u->groups = more;
		r = getgrouplist(login, u->gid, more, &n);
		u->ngroups = r < 0 ? 0 : (size_t)n;
	}
	return 0;
}

static int set_variables(struct spawn_user *u, const struct passwd *p)
{
	const char *const pairs[SPAWN_USER_VARIABLES][2] = {{"HOME", p->pw_dir},
							    {"SHELL", p->pw_shell},
							    {"USER", p->pw_name},
							    {"LOGNAME", p->pw_name}};
	for (int i = 0; i < SPAWN_USER_VARIABLES; i++)
		if (asprintf(&u->variable[i], "%s=%s", pairs[i][0], pairs[i][1]) < 0) {
			u->variable[i] = NULL;
			return -ENOMEM;
		}
	return 0;
}

static int no_user(const struct spawn_user *u, struct err *e)
{
	err_set(e, -ENOENT, "--user %s: there is no user of that name", u->name);
	return err_hint(e, "getent passwd lists the users; a number will do, too");
}

int spawn_user_find(const char *name, struct spawn_user *u, struct err *e)
{
	u->name = name;
	if (geteuid()) {
		err_set(e, -EPERM, "--user %s: only root can start a program as another user",
			name);
		return err_hint(e, "sudo ditrace run --user %s -- PROGRAM, or leave --user out",
				name);
	}
	struct passwd alone = {
	    .pw_name = (char *)name, .pw_dir = (char *)"/", .pw_shell = (char *)"/bin/sh"};
	const struct passwd *p = getpwnam(name);
	bool is_number = !p && is_uid(name, &alone.pw_uid);
	alone.pw_gid = alone.pw_uid;
	if (is_number)
		p = getpwuid(alone.pw_uid);
	if (!p && !is_number)
		return no_user(u, e);
	bool is_alone = !p;
	p = p ? p : &alone;
	u->uid = p->pw_uid;
	u->gid = p->pw_gid;
	int r = set_variables(u, p);
	/* getgrouplist may overwrite what getpwnam returned. */
	const char *login = u->variable[SPAWN_USER_VARIABLES - 1];
	r = r || is_alone ? r : list_groups(u, strchr(login, '=') + 1);
	return r ? err_set(e, r, "no memory") : 0;
}

static bool is_changed(const struct spawn_user *u, const char *entry)
{
	for (int i = 0; i < SPAWN_USER_VARIABLES; i++) {
		size_t n = strcspn(u->variable[i], "=") + 1;
		if (!strncmp(entry, u->variable[i], n))
			return true;
	}
	return false;
}

char **spawn_user_environment(const struct spawn_user *u)
{
	size_t n = 0, k = 0;
	while (environ[n])
		n++;
	char **all = calloc(n + SPAWN_USER_VARIABLES + 1, sizeof(*all));
	if (!all)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_changed(u, environ[i]))
			all[k++] = environ[i];
	memcpy(&all[k], u->variable, sizeof(u->variable));
	return all;
}

/* The C library's functions have all threads follow, which takes locks. */
int spawn_user_become(const struct spawn_user *u)
{
	if (syscall(SYS_setgroups, u->ngroups, u->groups) ||
	    syscall(SYS_setresgid, u->gid, u->gid, u->gid) ||
	    syscall(SYS_setresuid, u->uid, u->uid, u->uid))
		return -errno;
	return 0;
}

void spawn_user_free(struct spawn_user *u)
{
	for (int i = 0; i < SPAWN_USER_VARIABLES; i++)
		free(u->variable[i]);
	free(u->groups);
	*u = (struct spawn_user){0};
}
