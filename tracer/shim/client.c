#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracer/shim/shim.h"

static struct shim_share *_Atomic share;
static _Atomic bool forked;
static _Atomic unsigned epoch;
static int sock = -1;

struct shim_share *shim_share(void)
{
	return share;
}

bool shim_is_forked(void)
{
	return forked;
}

unsigned shim_epoch(void)
{
	return epoch;
}

void shim_disconnect(void)
{
	share = NULL;
}

/* The parent's rings are the parent's alone. */
static void in_child(void)
{
	struct shim_share *was = share;
	share = NULL;
	epoch++;
	forked = true;
	if (was)
		munmap(was, sizeof(*was));
	if (sock >= 0)
		close(sock);
	sock = -1;
}

static int dial(const char *path)
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
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	close(fd);
	return -1;
}

/* The memfd that comes with the answer, -1: none. */
static int receive(int fd)
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
	int memory;
	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	const struct cmsghdr *c = n == sizeof(answer) ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(memory)))
		return -1;
	memcpy(&memory, CMSG_DATA(c), sizeof(memory));
	return memory;
}

static bool take(int memory)
{
	void *at = mmap(NULL, sizeof(struct shim_share), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, memory, 0);
	close(memory);
	if (at == MAP_FAILED)
		return false;
	madvise(at, sizeof(struct shim_share), MADV_DONTDUMP);
	share = at;
	return true;
}

bool shim_connect(void)
{
	static bool watching;
	const struct shim_hello hello = {.version = SHIM_VERSION,
					 .bytes = sizeof(struct shim_share)};
	const char *path = getenv(SHIM_SOCKET);
	int saved = errno, memory = -1;
	forked = false;
	sock = path ? dial(path) : -1;
	if (sock >= 0 && send(sock, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
		memory = receive(sock);
	bool taken = memory >= 0 && take(memory);
	if (!taken && sock >= 0) {
		close(sock);
		sock = -1;
	}
	if (taken && !watching)
		watching = !pthread_atfork(NULL, NULL, in_child);
	errno = saved;
	return taken;
}
