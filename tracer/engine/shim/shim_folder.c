/* The folder of a listener. It goes with its ditrace, however that ends: a helper process removes
 * it, and if that has been killed, too, the next ditrace that makes one beside it. Whether its
 * ditrace is still there tells a lock on it (flock(2)). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"
#include "tracer/proc/spawn.h"

#define PREFIX "ditrace-"
enum { DIGITS = 8 };

static void folder_remove(int parent, const char *name, int dir)
{
	unlinkat(dir, SHIM_SOCKET_NAME, 0);
	unlinkat(dir, SHIM_LIBRARY, 0);
	unlinkat(dir, STUB_IMAGE_FILE, 0);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* The folder, if it is that user's alone; a descriptor or -errno. */
static int folder_open(int parent, const char *name, uid_t user)
{
	struct stat st;
	int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	int r = fstat(dir, &st) ? -errno : st.st_uid == user && !(st.st_mode & 0022) ? dir : -EPERM;
	if (r < 0)
		close(dir);
	return r;
}

static bool is_ours(const char *name)
{
	size_t n = sizeof(PREFIX) - 1;
	return !strncmp(name, PREFIX, n) && strlen(name) == n + DIGITS &&
	       strspn(name + n, "0123456789abcdef") == DIGITS;
}

/* Whether somebody listens at the socket there: a ditrace of a build that locks nothing. */
static bool is_listened_to(int dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" SHIM_SOCKET_NAME, dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool listens = fd < 0 || !connect(fd, (struct sockaddr *)&a, sizeof(a)) || errno == EAGAIN;
	if (fd >= 0)
		close(fd);
	return listens;
}

/* Remove those whose ditrace was killed. */
static void folders_sweep(int parent, uid_t user)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *all = fd < 0 ? NULL : fdopendir(fd);
	if (!all && fd >= 0)
		close(fd);
	for (struct dirent *e; all && (e = readdir(all));) {
		int dir = is_ours(e->d_name) ? folder_open(parent, e->d_name, user) : -1;
		if (dir < 0)
			continue;
		if (!flock(dir, LOCK_EX | LOCK_NB) && !is_listened_to(dir))
			folder_remove(parent, e->d_name, dir);
		close(dir);
	}
	if (all)
		closedir(all);
}

struct tidying {
	int parent;
	uid_t user;
};

/* Remove the folder with the name received last, once ditrace and what it has started have ended or
 * there is no name. */
static void tidy_main(int sock, void *tidying)
{
	const struct tidying *t = tidying;
	struct shim_listener last = {0}, next = {0};
	helper_begin("ditrace-tidy", sock);
	helper_keep(t->parent, sock);
	while (helper_receive(sock, next.name, sizeof(next.name)) && *next.name)
		memcpy(last.name, next.name, sizeof(last.name));
	int dir = *last.name ? folder_open(t->parent, last.name, t->user) : -1;
	if (dir < 0)
		return;
	while (flock(dir, LOCK_EX) && errno == EINTR)
		;
	folder_remove(t->parent, last.name, dir);
}

static int start_tidier(struct shim_listener *d, uid_t user)
{
	struct tidying t = {d->parent, user};
	d->tidier = helper_start(tidy_main, &t, &d->tidy);
	return d->tidier < 0 ? d->tidier : 0;
}

/* Make it with a new name. 0; -EEXIST: try again; -errno. */
static int folder_new(struct shim_listener *d, uid_t user)
{
	uint32_t number;
	struct stat st;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(d->name, sizeof(d->name), PREFIX "%0*x", DIGITS, number);
	if (!helper_send(d->tidy, d->name, sizeof(d->name)))
		return -ECHILD;
	if (mkdirat(d->parent, d->name, 0700))
		return -errno;
	d->dir = folder_open(d->parent, d->name, user);
	if (d->dir < 0)
		return d->dir == -ENOENT ? -EEXIST : d->dir;
	/* Another may have taken it for one left behind. */
	bool is_taken = flock(d->dir, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	if (!is_taken && !fstat(d->dir, &st) && st.st_nlink)
		return 0;
	close(d->dir);
	d->dir = -1;
	return -EEXIST;
}

int shim_folder_make(struct shim_listener *d, uid_t user)
{
	enum { TRIES = 100 };
	folders_sweep(d->parent, user);
	int r = start_tidier(d, user);
	if (r)
		return r;
	r = -EEXIST;
	for (int i = 0; i < TRIES && r == -EEXIST; i++)
		r = folder_new(d, user);
	return r;
}

void shim_folder_clear(struct shim_listener *d)
{
	const char none[sizeof(d->name)] = {0};
	if (d->sock >= 0)
		close(d->sock);
	if (d->dir >= 0) {
		folder_remove(d->parent, d->name, d->dir);
		close(d->dir);
	}
	if (d->parent >= 0)
		close(d->parent);
	if (d->tidy >= 0) {
		helper_send(d->tidy, none, sizeof(none));
		close(d->tidy);
	}
	if (d->tidier > 0) {
		kill(d->tidier, SIGCONT); /* somebody may have stopped it */
		while (waitpid(d->tidier, NULL, 0) < 0 && errno == EINTR)
			;
	}
	d->dir = d->parent = d->sock = d->tidy = -1;
	d->tidier = 0;
}
