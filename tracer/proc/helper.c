#define _GNU_SOURCE
#include "tracer/proc/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void let_go_of_files(int keep)
{
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		if (fd != keep)
			dup2(null, fd);
	if (null > 2)
		close(null);
}

/* Lowering the score needs CAP_SYS_RESOURCE. */
static void be_spared(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "-1000", 5) < 0)
		errno = 0;
	close(fd);
}

void helper_begin(const char *name, int sock)
{
	setsid();
	prctl(PR_SET_NAME, name);
	let_go_of_files(sock);
	be_spared();
}

bool helper_send(int sock, const void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = send(sock, (const char *)buf + at, n - at, MSG_NOSIGNAL);
		if (r < 0 && errno != EINTR)
			return false;
		at += r > 0 ? (size_t)r : 0;
	}
	return true;
}

bool helper_receive(int sock, void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = recv(sock, (char *)buf + at, n - at, MSG_WAITALL);
		if (r == 0 || (r < 0 && errno != EINTR))
			return false;
		at += r > 0 ? (size_t)r : 0;
	}
	return true;
}
