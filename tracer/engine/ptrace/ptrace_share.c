#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tracer/proc/spawn.h"

int share_put(struct share *s, const struct hit *h)
{
	return ring_put(&s->records, s->ring, SHARE_RING, h);
}

const struct hit *share_next(struct share *s)
{
	return ring_next(&s->records, s->ring, SHARE_RING, NULL);
}

void share_drop(struct share *s, const struct hit *h)
{
	ring_drop(&s->records, h);
}

bool share_tell(struct share *s, const struct news *n)
{
	uint32_t head = atomic_load_explicit(&s->news_head, memory_order_relaxed);
	if (head - atomic_load_explicit(&s->news_tail, memory_order_acquire) >= SHARE_NEWS)
		return false;
	s->news[head % SHARE_NEWS] = *n;
	atomic_store_explicit(&s->news_head, head + 1, memory_order_release);
	return true;
}

void share_wake(struct share *s)
{
	eventfd_write(s->wake, 1);
}

/* "/proc/PID/mem" without stdio, which is not async-signal-safe. */
static void mem_path(char *out, int32_t pid)
{
	char digits[12];
	int n = 0;
	memcpy(out, "/proc/", 6);
	out += 6;
	do
		digits[n++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (n)
		*out++ = digits[--n];
	memcpy(out, "/mem", 5);
}

void share_repair(struct share *s)
{
	char path[32];
	int32_t pid = 0;
	int fd = -1;
	uint32_t n = atomic_load(&s->nbytes);
	for (uint32_t i = 0; i < n && i < SHARE_BYTES; i++) {
		const struct changed_byte *b = &s->bytes[i];
		if (!b->in_use)
			continue;
		if (b->pid != pid) {
			if (fd >= 0)
				close(fd);
			pid = b->pid;
			mem_path(path, pid);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		if (fd >= 0 && pwrite(fd, &b->was, 1, (off_t)b->addr) != 1) {
			close(fd);
			fd = -1;
		}
	}
	if (fd >= 0)
		close(fd);
}

/* It does not depend on ditrace: both may be killed. Nothing is sent on the socket, whose other end
 * is the tracing process's alone. */
static void keep_share(struct share *share, int sock)
{
	char none;
	helper_begin("ditrace-keeper", sock);
	helper_receive(sock, &none, sizeof(none));
	share_repair(share);
}

pid_t keeper_start(struct share *share, int sock, const int *others, unsigned n)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (unsigned i = 0; i < n; i++)
		close(others[i]);
	keep_share(share, sock);
	_exit(0);
}
