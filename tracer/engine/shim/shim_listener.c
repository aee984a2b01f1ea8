#define _GNU_SOURCE
#include "tracer/engine/shim/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "symbolizer/target/process.h"

extern const char _binary_libditrace_shim_so_start[], _binary_libditrace_shim_so_end[];

const void *shim_library(size_t *size)
{
	/* cppcheck-suppress comparePointers; the linker puts both around the same bytes */
	*size = (size_t)(_binary_libditrace_shim_so_end - _binary_libditrace_shim_so_start);
	return _binary_libditrace_shim_so_start;
}

static int start_listening(struct shim_listener *d)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SHIM_SOCKET_NAME, d->dir);
	d->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->sock < 0 || bind(d->sock, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(d->sock, SOMAXCONN))
		return -errno;
	return 0;
}

/* The socket in a directory of d->parent, which is `place`. 0 or -errno; then nothing is left. */
static int listen_in(struct shim_listener *d, const char *place, uid_t user)
{
	int r = shim_folder_make(d, user);
	int n = snprintf(d->socket, sizeof(d->socket), "%s/%s/" SHIM_SOCKET_NAME, place, d->name);
	if (!r && n >= (int)sizeof(d->socket))
		r = -ENAMETOOLONG;
	return r ? r : start_listening(d);
}

/* The user a process acts as, with whose rights its directory is made. */
struct target_user {
	uid_t uid, root; /* `root`: that of its user namespace, as seen from here */
	gid_t gid;
};

/* As root, make what follows as that user, or (NULL) as root again. False: it is not possible. */
static bool act_as(const struct target_user *u)
{
	uid_t uid = u ? u->uid : 0;
	if (geteuid())
		return true;
	setfsgid(u ? u->gid : getegid());
	setfsuid(uid);
	return (uid_t)setfsuid((uid_t)-1) == uid;
}

/* Let the program's user connect, and nobody else; he cannot put another socket in its place. */
static int give_socket(const struct shim_listener *d)
{
	if (fchmodat(d->dir, SHIM_SOCKET_NAME, 0600, 0) ||
	    fchownat(d->dir, SHIM_SOCKET_NAME, d->user, (gid_t)-1, AT_SYMLINK_NOFOLLOW) ||
	    fchmod(d->dir, 0711))
		return -errno;
	return 0;
}

/* Whether that user can read the library; without it his program would run on untraced. */
static int check_library(const struct shim_listener *d, const struct spawn_user *user,
			 struct err *e)
{
	const struct target_user u = {.uid = user->uid, .gid = user->gid};
	int fd = -1, code = EPERM;
	if (act_as(&u)) {
		fd = open(d->library, O_RDONLY | O_CLOEXEC);
		code = errno;
	}
	act_as(NULL);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	err_set(e, -code, "user %s cannot read the library that goes into the program, %s: %s",
		user->name, d->library, strerror(code));
	return err_hint(e, "let everybody pass the folders above it (chmod o+x), or trace with "
			   "--engine bpf or ptrace");
}

/* Nothing is loaded from where the socket is, so that may vanish. */
static int open_for_started(struct shim_listener *d, const struct spawn_user *user, struct err *e)
{
	char run[32], place[PATH_MAX];
	const bool for_other = user && user->uid != geteuid();
	const char *places[] = {for_other ? NULL : getenv("XDG_RUNTIME_DIR"), run, d->library};
	struct home_why why = {0};
	int home = shim_home(d->library, for_other, e), r = -ENOENT;
	if (home < 0)
		return home;
	close(home);
	d->user = for_other ? user->uid : geteuid();
	snprintf(run, sizeof(run), geteuid() ? "/run/user/%u" : "/run", geteuid());
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r; i++) {
		if (!places[i])
			continue;
		snprintf(place, sizeof(place), "%s", places[i]);
		d->parent = home_open(place, &why);
		r = d->parent < 0 ? d->parent : listen_in(d, place, geteuid());
		r = r || !for_other ? r : give_socket(d);
		if (r && d->parent >= 0)
			home_refuse(&why, place, r);
		if (r)
			shim_folder_clear(d);
	}
	if (r) {
		err_set(e, r, "no folder for the socket to the program: %s", why.text);
		return err_hint(e, "set XDG_RUNTIME_DIR to a folder with a short name in which and "
				   "above which only you and root can write");
	}
	size_t n = strlen(d->library);
	snprintf(d->library + n, sizeof(d->library) - n, "/" SHIM_LIBRARY);
	return for_other ? check_library(d, user, e) : 0;
}

/* 0; -ESRCH; -EPERM with *e for a process of two users: one could give the other a library. */
static int target_user_read(pid_t pid, struct target_user *out, struct err *e)
{
	char text[4096];
	uint32_t uid[4], gid[4], inside, outside;
	if (process_file(pid, "status", text, sizeof(text)) <= 0 ||
	    !process_ids(text, "Uid", uid) || !process_ids(text, "Gid", gid))
		return process_error(pid, -ESRCH, "attach to", e);
	if (uid[1] != uid[0] || uid[2] != uid[0] || uid[3] != uid[0]) {
		err_set(e, -EPERM, "process %d has the rights of several users", pid);
		return err_hint(e, "trace it with --engine bpf or --engine ptrace");
	}
	*out = (struct target_user){.uid = uid[0], .gid = gid[3]};
	if (process_file(pid, "uid_map", text, sizeof(text)) > 0 &&
	    sscanf(text, " %u %u", &inside, &outside) == 2 && !inside)
		out->root = outside;
	return 0;
}

const char *shim_place_doubt(const struct stat *st, uid_t user, uid_t root, bool is_last)
{
	const bool is_own = st->st_uid == user, is_shared = st->st_mode & (S_IWGRP | S_IWOTH),
		   is_sticky = st->st_mode & S_ISVTX;
	if (!S_ISDIR(st->st_mode))
		return "is not a folder";
	if (!is_own && st->st_uid && st->st_uid != root)
		return "belongs to another user";
	if (is_shared && !is_sticky)
		return "can be written by others";
	if (is_last && !is_own && !(st->st_mode & S_IWOTH))
		return "is not for its user to write to";
	return NULL;
}

/* Open the directory that the process sees at `place`, passing no link. A descriptor or -errno. */
static int open_place(int root, const char *place, const struct target_user *u,
		      struct home_why *why)
{
	int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
	for (const char *name = place; at >= 0;) {
		char part[16];
		struct stat st;
		name += strspn(name, "/");
		const char *doubt = fstat(at, &st) ? "cannot be seen"
						   : shim_place_doubt(&st, u->uid, u->root, !*name);
		if (doubt) {
			home_say(why, place, doubt);
			close(at);
			return -EPERM;
		}
		if (!*name)
			return at;
		size_t n = strcspn(name, "/");
		snprintf(part, sizeof(part), "%.*s", (int)n, name);
		name += n;
		int below = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int code = errno;
		close(at);
		if (below < 0)
			return home_refuse(why, place, -code);
		at = below;
	}
	return home_refuse(why, place, -errno);
}

/* The library and the socket in a directory at `place`. */
static int open_in(struct shim_listener *d, int root, const char *place,
		   const struct target_user *u, struct home_why *why)
{
	struct statvfs fs;
	d->parent = open_place(root, place, u, why);
	if (d->parent < 0)
		return d->parent;
	if (fstatvfs(d->parent, &fs) || fs.f_flag & ST_NOEXEC) {
		home_say(why, place, "is mounted noexec");
		return -EACCES;
	}
	int r = listen_in(d, place, geteuid() ? geteuid() : u->uid);
	r = r ? r : shim_home_write(d->dir);
	snprintf(d->library, sizeof(d->library), "%s/%s/" SHIM_LIBRARY, place, d->name);
	return r ? home_refuse(why, place, r) : 0;
}

/* In the first place that will do. */
static int open_in_any(struct shim_listener *d, int root, const struct target_user *u,
		       struct home_why *why)
{
	static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp"};
	int r = -ENOENT;
	if (!act_as(u)) {
		act_as(NULL);
		return home_refuse(why, "its user's rights", -EPERM);
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r; i++) {
		r = open_in(d, root, places[i], u, why);
		if (r)
			shim_folder_clear(d);
	}
	act_as(NULL);
	return r;
}

bool shim_listener_fits(const struct shim_listener *d, pid_t tid)
{
	struct target_user u;
	return !target_user_read(tid, &u, NULL) && u.uid == d->user;
}

static int open_for_running(struct shim_listener *d, pid_t pid, struct err *e)
{
	struct home_why why = {0};
	struct target_user u = {0};
	char path[32];
	int r = target_user_read(pid, &u, e);
	if (r)
		return r;
	d->user = u.uid;
	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = root < 0 ? home_refuse(&why, path, -errno) : open_in_any(d, root, &u, &why);
	if (root >= 0)
		close(root);
	if (!r)
		return 0;
	err_set(e, r, "no directory of process %d for the library that goes into it: %s", pid,
		why.text);
	return err_hint(e, "mount a /tmp, /dev/shm or /var/tmp there that is not noexec and that "
			   "all can write to, with the sticky bit; or trace with --engine bpf or "
			   "ptrace");
}

int shim_listener_open(pid_t pid, const struct spawn_user *user, struct shim_listener **out,
		       struct err *e)
{
	struct shim_listener *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, -ENOMEM, "no memory");
	d->dir = d->parent = d->sock = d->tidy = -1;
	int r = pid ? open_for_running(d, pid, e) : open_for_started(d, user, e);
	if (r)
		shim_listener_close(d);
	else
		*out = d;
	return r;
}

static int set_environment(const struct shim_listener *d, const char *variable)
{
	char preload[2 * PATH_MAX];
	const char *was = getenv("LD_PRELOAD"), *name = strrchr(d->library, '/');
	int n = snprintf(preload, sizeof(preload), "%.*s/$LIB%s%s%s", (int)(name - d->library),
			 d->library, name, was && *was ? ":" : "", was ? was : "");
	if (n < 0 || n >= (int)sizeof(preload))
		return -E2BIG;
	return setenv("LD_PRELOAD", preload, 1) || setenv(variable, d->socket, 1) ? -errno : 0;
}

int shim_listener_environment(const struct shim_listener *d, const char *variable, struct err *e)
{
	int r = set_environment(d, variable);
	return r ? err_set(e, r, "cannot prepare the environment: %s", strerror(-r)) : 0;
}

void shim_listener_close(struct shim_listener *d)
{
	if (!d)
		return;
	shim_folder_clear(d);
	free(d);
}
