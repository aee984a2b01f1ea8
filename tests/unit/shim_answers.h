/* Answers to the shim, valid and invalid. */
#ifndef TESTS_UNIT_SHIM_ANSWERS_H
#define TESTS_UNIT_SHIM_ANSWERS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tracer/engine/shim/shim_share.h"

enum { SAID_FDS = 3 };

struct said {
	struct shim_answer answer;
	size_t len; /* number of its bytes to send */
	unsigned nfds;
	int fd[SAID_FDS];
};

/* A memfd of that size with those seals (F_SEAL_*). */
static inline int said_memory(uint64_t size, int seals)
{
	int fd = memfd_create("answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, seals) ? -1 : fd;
}

/* Send the answer and close its descriptors. */
static inline void said_send(int sock, const struct said *s)
{
	struct iovec iov = {(void *)&s->answer, s->len};
	union {
		char bytes[CMSG_SPACE(SAID_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (s->nfds) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(s->nfds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_len = CMSG_LEN(s->nfds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), s->fd, s->nfds * sizeof(int));
	}
	sendmsg(sock, &m, MSG_NOSIGNAL);
	for (unsigned i = 0; i < s->nfds; i++)
		close(s->fd[i]);
}

/* Number of open descriptors. */
static inline unsigned said_open(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
