#define _GNU_SOURCE
#include "tracer/ptrace_share.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 7) & ~7ULL;
}

int share_put(struct share *s, const struct hit *h)
{
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&s->tail, memory_order_acquire);
	uint64_t at = head % SHARE_RING, need = padded(h->size);
	uint64_t skip = at + need > SHARE_RING ? SHARE_RING - at : 0;
	if (head + skip + need - tail > SHARE_RING)
		return -1;
	if (skip) {
		memset(s->ring + at, 0, sizeof(uint64_t));
		at = 0;
	}
	memcpy(s->ring + at, h, h->size);
	atomic_store_explicit(&s->head, head + skip + need, memory_order_release);
	return 0;
}

const struct hit *share_next(struct share *s)
{
	uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
	uint64_t at = tail % SHARE_RING;
	if (head == tail)
		return NULL;
	const struct hit *h = (const struct hit *)(s->ring + at);
	if (h->size)
		return h;
	atomic_store_explicit(&s->tail, tail + SHARE_RING - at, memory_order_release);
	return (const struct hit *)s->ring;
}

void share_drop(struct share *s, const struct hit *h)
{
	uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	atomic_store_explicit(&s->tail, tail + padded(h->size), memory_order_release);
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

/* "/proc/PID/mem" without stdio, which a signal handler may not use. */
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
