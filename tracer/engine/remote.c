#define _GNU_SOURCE
#include "tracer/engine/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Blocks never cross a page, so a block is readable as a whole or not at all. */
enum { BLOCK_SHIFT = 8, BLOCK = 1 << BLOCK_SHIFT, BLOCKS = 4096, SLOTS = 4 * BLOCKS };
enum { IOVECS = 512 }; /* per call; at most IOV_MAX */
/* User memory lies between these (vm.mmap_min_addr; x86-64 and arm64, 47 bits). Addresses outside
 * are refused without a system call, since each unreadable block costs one. */
enum { FIRST_BLOCK = 0x10000 >> BLOCK_SHIFT };
#define LAST_BLOCK ((1ULL << 47 >> BLOCK_SHIFT) - 1)
enum state { WANTED, GOOD, FAULT };

struct block {
	uint64_t number; /* address >> BLOCK_SHIFT */
	uint8_t state;
};

struct remote {
	pid_t tid;
	bool collecting;
	uint32_t stamp;
	uint32_t n, fetched; /* blocks; those before `fetched` have been read or failed */
	uint64_t calls;
	uint32_t slot_stamp[SLOTS];
	uint16_t slot_block[SLOTS];
	struct block block[BLOCKS];
	uint8_t data[BLOCKS][BLOCK];
};

struct remote *remote_new(void)
{
	return calloc(1, sizeof(struct remote));
}

void remote_free(struct remote *r)
{
	free(r);
}

void remote_begin(struct remote *r, pid_t tid)
{
	r->tid = tid;
	r->collecting = false;
	r->n = r->fetched = 0;
	if (!++r->stamp) {
		memset(r->slot_stamp, 0, sizeof(r->slot_stamp));
		r->stamp = 1;
	}
}

static bool may_be(uint64_t number)
{
	return number >= FIRST_BLOCK && number <= LAST_BLOCK;
}

static uint32_t block_slot(uint64_t number)
{
	return (uint32_t)((number * 0x9e3779b97f4a7c15ULL) >> 50) % SLOTS;
}

/* The index of the block, which is added if it is new; -1 when there is no room. */
static int block_index(struct remote *r, uint64_t number)
{
	uint32_t s = block_slot(number);
	for (; r->slot_stamp[s] == r->stamp; s = (s + 1) % SLOTS)
		if (r->block[r->slot_block[s]].number == number)
			return r->slot_block[s];
	if (r->n == BLOCKS)
		return -1;
	r->slot_stamp[s] = r->stamp;
	r->slot_block[s] = (uint16_t)r->n;
	r->block[r->n] = (struct block){.number = number, .state = WANTED};
	return (int)r->n++;
}

static ssize_t read_blocks(struct remote *r, uint32_t from, uint32_t n)
{
	struct iovec its[IOVECS], ours = {r->data[from], (size_t)n * BLOCK};
	for (uint32_t i = 0; i < n; i++)
		its[i] = (struct iovec){
		    (void *)(uintptr_t)(r->block[from + i].number << BLOCK_SHIFT), BLOCK};
	r->calls++;
	return process_vm_readv(r->tid, &ours, 1, its, n, 0);
}

size_t remote_fetch(struct remote *r)
{
	size_t wanted = r->n - r->fetched;
	while (r->fetched < r->n) {
		uint32_t n = r->n - r->fetched;
		n = n > IOVECS ? IOVECS : n;
		ssize_t got = read_blocks(r, r->fetched, n);
		/* process_vm_readv stops at the first block that cannot be read. */
		uint32_t good = got > 0 ? (uint32_t)(got / BLOCK) : 0;
		for (uint32_t i = 0; i < good; i++)
			r->block[r->fetched + i].state = GOOD;
		if (good < n)
			r->block[r->fetched + good].state = FAULT;
		r->fetched += good + (good < n);
	}
	return wanted;
}

void remote_want(struct remote *r, uint64_t addr, size_t len)
{
	if (!len || addr + len < addr)
		return;
	for (uint64_t b = addr >> BLOCK_SHIFT; b <= (addr + len - 1) >> BLOCK_SHIFT; b++)
		if (!may_be(b) || block_index(r, b) < 0)
			return;
}

void remote_collect(struct remote *r, bool on)
{
	r->collecting = on;
}

static int read_around(struct remote *r, uint64_t addr, void *buf, size_t len)
{
	struct iovec ours = {buf, len}, its = {(void *)(uintptr_t)addr, len};
	r->calls++;
	return process_vm_readv(r->tid, &ours, 1, &its, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

static int copy_block(struct remote *r, uint64_t number, size_t from, void *buf, size_t len)
{
	int i = may_be(number) ? block_index(r, number) : -1;
	if (!may_be(number))
		return -EFAULT;
	if (i < 0)
		return r->collecting ? -EFAULT
				     : read_around(r, (number << BLOCK_SHIFT) + from, buf, len);
	if (r->block[i].state == WANTED) {
		if (r->collecting)
			return -EAGAIN;
		remote_fetch(r);
	}
	if (r->block[i].state == FAULT)
		return -EFAULT;
	memcpy(buf, r->data[i] + from, len);
	return 0;
}

int remote_read(struct remote *r, uint64_t addr, void *buf, size_t len)
{
	uint8_t *to = buf;
	int worst = addr + len < addr ? -EFAULT : 0;
	/* Visit all blocks even after a miss, so that the missing ones are fetched together. */
	for (size_t at = 0; at < len && worst != -EFAULT;) {
		size_t from = (addr + at) & (BLOCK - 1);
		size_t part = BLOCK - from < len - at ? BLOCK - from : len - at;
		int rc = copy_block(r, (addr + at) >> BLOCK_SHIFT, from, to + at, part);
		worst = rc ? rc : worst;
		at += part;
	}
	if (worst)
		memset(buf, 0, len);
	return worst;
}

uint64_t remote_word(struct remote *r, uint64_t addr)
{
	uint64_t w;
	remote_read(r, addr, &w, sizeof(w));
	return w;
}

uint8_t remote_byte(struct remote *r, uint64_t addr)
{
	uint8_t b;
	remote_read(r, addr, &b, sizeof(b));
	return b;
}

uint64_t remote_calls(const struct remote *r)
{
	return r->calls;
}

int remote_live(struct remote *r, uint64_t addr, void *buf, size_t len)
{
	return remote_read(r, addr, buf, len);
}

unsigned remote_object(struct remote *r, uint32_t tag, uint64_t addr)
{
	(void)r, (void)tag, (void)addr;
	return 0;
}

bool remote_collects(const struct remote *r)
{
	(void)r;
	return true;
}
