/* The Python that writes Parquet: it is started, and bytes are sent to it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/run_python.h"
#include "perf/export/parquet/internal.h"

extern char **environ;
extern const char _binary_writer_py_start[], _binary_writer_py_end[];

enum { FD_PROGRAM = 10, FD_TALK };

/* What the Python has to say; "" if it has gone without a word. */
static const char *hear(struct parquet_python *p, char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;
	while (len < size - 1 &&
	       ((n = recv(p->talk, out + len, size - 1 - len, 0)) > 0 || (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	out[len] = '\0';
	return out;
}

static int fail_by_python(struct parquet_python *p, const char *why)
{
	if (p->failed.code)
		return p->failed.code;
	err_set(&p->failed, -EIO, "%s: %s", p->python,
		*why ? why : "it ended while it wrote Parquet");
	return err_hint(&p->failed,
			"see whether there is room, and whether its pyarrow works: %s -c 'import "
			"pyarrow.parquet'",
			p->python);
}

void parquet_python_end(struct parquet_python *p)
{
	char answer[512];
	if (strcmp(hear(p, answer, sizeof(answer)), "ok") != 0)
		fail_by_python(p, answer);
}

int parquet_python_send(struct parquet_python *p, const void *bytes, size_t len, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	const char *at = bytes;
	while (len && !p->failed.code) {
		struct iovec part = {.iov_base = (void *)at, .iov_len = len};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		if (fd >= 0) {
			m.msg_control = control;
			m.msg_controllen = sizeof(control);
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					      .cmsg_level = SOL_SOCKET,
					      .cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		}
		ssize_t n = sendmsg(p->talk, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			char why[512];
			return fail_by_python(p, hear(p, why, sizeof(why)));
		}
		fd = -1;
		at += n;
		len -= (size_t)n;
	}
	return p->failed.code;
}

static int spawn(struct parquet_python *p, int program, int talk)
{
	char path[32], number[16];
	char *argv[] = {(char *)p->python, "-W", "ignore", path, number, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t interrupt;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", FD_PROGRAM);
	snprintf(number, sizeof(number), "%d", FD_TALK);
	/* It ends when the socket is closed: Ctrl-C is for ditrace. */
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &interrupt);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, program, FD_PROGRAM);
	posix_spawn_file_actions_adddup2(&actions, talk, FD_TALK);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	int r = posix_spawnp(&p->pid, p->python, &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}

/* Above the numbers that the program gets, so that none is overwritten before it is copied. */
static int high(int fd)
{
	int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FD_TALK + 1) : fd;
	if (fd >= 0)
		close(fd);
	return copy;
}

int parquet_python_start(struct parquet_python *p, struct err *e)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return err_set(e, -errno, "cannot make a socket: %s", strerror(errno));
	int theirs = high(ends[1]),
	    program = high(python_program(_binary_writer_py_start, _binary_writer_py_end));
	p->talk = ends[0];
	int r = theirs < 0 || program < 0 ? -EMFILE : spawn(p, program, theirs);
	if (theirs >= 0)
		close(theirs);
	if (program >= 0)
		close(program);
	if (!r)
		return 0;
	err_set(e, r, "cannot start %s: %s", p->python, strerror(-r));
	return err_hint(e, "name an interpreter that has pyarrow: --python PATH");
}
