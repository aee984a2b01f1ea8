/* The library's side of the first messages. ditrace's answer is checked before it is used: nothing
 * in it may harm the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracer/engine/shim/jumps.h"
#include "tracer/shim/shim.h"

bool answer_is_trusted(int fd, pid_t *peer)
{
	struct ucred who = {0};
	socklen_t len = sizeof(who);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
		return false;
	if (peer)
		*peer = who.pid;
	return !who.uid || who.uid == geteuid();
}

bool answer_is_stopped(int fd)
{
	char path[32], text[512];
	pid_t peer = 0;
	if (!answer_is_trusted(fd, &peer) || peer <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", peer);
	int stat = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = stat < 0 ? -1 : read(stat, text, sizeof(text) - 1);
	if (stat >= 0)
		close(stat);
	text[n < 0 ? 0 : n] = '\0';
	const char *name_ends = strrchr(text, ')'); /* it may have anything in it */
	return name_ends && !strncmp(name_ends, ") T", 3);
}

int answer_dial(const char *path)
{
	const struct timeval patience = {.tv_sec = SHIM_PATIENCE_S};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path))
		return -1;
	strcpy(a.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	/* Of connect, too: it waits for room in the queue of a listener that accepts nobody. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int code = connect(fd, (struct sockaddr *)&a, sizeof(a)) ? errno
		   : answer_is_trusted(fd, NULL)		 ? 0
								 : EACCES;
	if (!code)
		return fd;
	close(fd);
	errno = code;
	return -1;
}

static void remove_in(const char *folder, const char *name)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
		unlink(path);
}

void answer_tidy(const char *path)
{
	char folder[SHIM_PATH];
	const char *slash = strrchr(path, '/');
	int fd = answer_dial(path);
	if (fd >= 0)
		close(fd);
	else if (errno == ECONNREFUSED && slash && slash - path < SHIM_PATH && !unlink(path)) {
		memcpy(folder, path, (size_t)(slash - path));
		folder[slash - path] = '\0';
		remove_in(folder, SHIM_LIBRARY);
		remove_in(folder, STUB_IMAGE_FILE);
		rmdir(folder);
	}
}

bool answer_is_whole(int memory, size_t size)
{
	struct stat st;
	int seals = fcntl(memory, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(memory, &st) &&
	       st.st_size == (off_t)size;
}

/* The descriptor received, if it is exactly one; else all are closed. */
static int only_descriptor(struct msghdr *m)
{
	int first = -1, n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;
			memcpy(&fd, (char *)c + at, sizeof(fd));
			if (n++)
				close(fd);
			else
				first = fd;
		}
	}
	if (n == 1)
		return first;
	if (n)
		close(first);
	return -1;
}

int answer_receive(int fd)
{
	struct shim_answer answer = {.code = -1};
	struct iovec iov = {&answer, sizeof(answer)};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n;
	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	int memory = n < 0 ? -1 : only_descriptor(&m);
	if (memory < 0 || (n == sizeof(answer) && !answer.code &&
			   answer_is_whole(memory, sizeof(struct shim_share))))
		return memory;
	close(memory);
	return -1;
}
