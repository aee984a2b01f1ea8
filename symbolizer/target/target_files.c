#define _GNU_SOURCE
#include "symbolizer/target/target_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "symbolizer/target/process.h"

struct target_files {
	pid_t pid;
	uint64_t start_ticks;
	bool seen;	      /* it was there, and `rights` were its own */
	bool dead;	      /* its rights cannot change any more */
	bool gone;	      /* it has ended, or is another program with other rights */
	int root;	      /* -1: not allowed */
	char cwd[PATH_MAX];   /* below its root; "" if unknown */
	struct rights rights; /* as last seen */
	uid_t owner;
};

static int open_dir(pid_t pid, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void read_link(pid_t pid, const char *name, char *out)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	ssize_t n = readlink(path, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
}

/* /proc shows both as seen from ditrace's root. */
static void read_cwd(struct target_files *f)
{
	char root[PATH_MAX];
	read_link(f->pid, "cwd", f->cwd);
	read_link(f->pid, "root", root);
	size_t n = strcmp(root, "/") ? strlen(root) : 0;
	if (!n || strncmp(f->cwd, root, n))
		return;
	if (!f->cwd[n])
		strcpy(f->cwd, "/");
	else if (f->cwd[n] == '/')
		memmove(f->cwd, f->cwd + n, strlen(f->cwd + n) + 1);
}

static void files_end(struct target_files *f)
{
	f->gone = true;
	if (f->seen && (f->dead || !rights_are_high(&f->rights)))
		return;
	rights_free(&f->rights);
	rights_of_anyone(&f->rights);
}

/* Hazard: a program that a user lets another user's rights run (execve(2) of a set-user-ID file) is
 * the same process, and must not open what was named before. */
static bool is_still(const struct target_files *f, const struct process *p,
		     const struct rights *now)
{
	return p->start_ticks &&
	       (!f->seen || (p->start_ticks == f->start_ticks && rights_within(now, &f->rights)));
}

static void files_keep(struct target_files *f, const struct process *p, const struct rights *now,
		       int root)
{
	rights_free(&f->rights);
	f->rights = *now;
	f->owner = now->uid;
	f->start_ticks = p->start_ticks;
	f->dead = p->status.state == 'Z' || p->status.state == 'X';
	f->seen = true;
	if (root < 0)
		return;
	if (f->root >= 0)
		close(f->root);
	f->root = root;
}

/* The start time is read last: if the ID was given to another process meanwhile, it differs. */
static void files_refresh(struct target_files *f)
{
	struct process p;
	struct rights now;
	if (f->gone)
		return;
	int root = open_dir(f->pid, "root");
	if (!rights_of(f->pid, &now) && !process_read_at("/proc", f->pid, &p, NULL) &&
	    is_still(f, &p, &now)) {
		files_keep(f, &p, &now, root);
		return;
	}
	rights_free(&now);
	if (root >= 0)
		close(root);
	files_end(f);
}

struct target_files *target_files_new(pid_t pid)
{
	struct target_files *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->pid = pid;
	f->root = -1;
	read_cwd(f);
	files_refresh(f);
	if (f->root >= 0 || (f->seen && !f->dead))
		return f;
	f->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!f->seen)
		f->owner = geteuid();
	if (!getcwd(f->cwd, sizeof(f->cwd)))
		f->cwd[0] = '\0';
	return f;
}

void target_files_free(struct target_files *f)
{
	if (!f)
		return;
	if (f->root >= 0)
		close(f->root);
	rights_free(&f->rights);
	free(f);
}

pid_t target_files_pid(const struct target_files *f)
{
	return f->pid;
}

/* Permission is checked here, for a file that cannot be exchanged any more. */
static int open_again(int at)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_regular(int at)
{
	struct stat st;
	if (fstat(at, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? open_again(at) : -EINVAL;
}

/* O_PATH opens neither devices nor FIFOs (open(2)). */
int regular_open(const char *path)
{
	int at = open(path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -errno;
	int r = open_regular(at);
	close(at);
	return r;
}

struct opening {
	int root;
	const char *path;
	bool links;
	struct stat *st; /* NULL: open it */
};

int target_files_check(struct err *e)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int at = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
	if (at >= 0) {
		close(at);
		return 0;
	}
	err_set(e, -errno,
		"no file that a process names can be opened, that of a source line neither: "
		"openat2: %s",
		strerror(errno));
	return err_hint(e, "boot Linux 5.6 or later; in a container its seccomp profile must allow "
			   "openat2(2)");
}

static int open_path(const struct opening *o)
{
	enum { TRIES = 16 }; /* EAGAIN: something was renamed meanwhile */
	const struct open_how how = {
	    .flags = (uint64_t)(O_PATH | O_CLOEXEC | (o->links ? 0 : O_NOFOLLOW)),
	    .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	for (unsigned i = 0; i < TRIES; i++) {
		int at = (int)syscall(SYS_openat2, o->root, o->path, &how, sizeof(how));
		if (at >= 0)
			return at;
		if (errno != EAGAIN)
			break;
	}
	return -errno;
}

/* /proc/self and what is below is the reader's, not the target's. */
static int open_with_rights(void *arg)
{
	const struct opening *o = arg;
	struct statfs fs;
	int at = open_path(o), r;
	if (at < 0)
		return at;
	if (fstatfs(at, &fs))
		r = -errno;
	else if (fs.f_type == PROC_SUPER_MAGIC)
		r = -EINVAL;
	else if (o->st)
		r = fstat(at, o->st) ? -errno : 0;
	else
		r = open_regular(at);
	close(at);
	return r;
}

static int with_rights(struct target_files *f, const char *path, bool links, struct stat *st)
{
	char whole[2 * PATH_MAX];
	files_refresh(f);
	if (f->root < 0)
		return -EACCES;
	if (!path[0] || (path[0] != '/' && f->cwd[0] != '/'))
		return -ENOENT;
	snprintf(whole, sizeof(whole), "%s/%s", path[0] == '/' ? "" : f->cwd, path);
	struct opening o = {f->root, whole, links, st};
	return rights_use(&f->rights, open_with_rights, &o);
}

int target_files_open(struct target_files *f, const char *path, bool links)
{
	return with_rights(f, path, links, NULL);
}

int target_files_stat(struct target_files *f, const char *path, bool links, struct stat *out)
{
	return with_rights(f, path, links, out);
}

bool target_files_trusts(struct target_files *f, uid_t uid)
{
	return uid == 0 || uid == f->owner;
}
