#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "symbolizer/plan/plan.h"

static int read_process(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = {buf, len};
	struct iovec remote = {(void *)(uintptr_t)addr, len};
	ssize_t n = process_vm_readv(m->pid, &local, 1, &remote, 1, 0);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EFAULT;
}

struct mem mem_process(pid_t pid)
{
	return (struct mem){.read = read_process, .pid = pid};
}

int mem_copy_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct mem_copy *c = (const struct mem_copy *)m;
	if (addr < c->start || addr - c->start > c->len || len > c->len - (addr - c->start))
		return -EFAULT;
	memcpy(buf, c->bytes + (addr - c->start), len);
	return 0;
}

int mem_read_u64(const struct mem *m, uint64_t addr, uint64_t *out)
{
	return mem_read(m, addr, out, sizeof(*out));
}

int mem_read_words(const struct mem *m, const uint64_t *addrs, uint64_t *out, size_t n)
{
	enum { MOST = 64 };
	struct iovec local, remote[MOST];
	if (m->read != read_process) {
		int r = 0;
		for (size_t i = 0; i < n && !r; i++)
			r = mem_read_u64(m, addrs[i], &out[i]);
		return r;
	}
	for (size_t done = 0; done < n;) {
		size_t some = n - done < MOST ? n - done : MOST;
		for (size_t i = 0; i < some; i++)
			remote[i] = (struct iovec){(void *)(uintptr_t)addrs[done + i], 8};
		local = (struct iovec){out + done, 8 * some};
		ssize_t got = process_vm_readv(m->pid, &local, 1, remote, some, 0);
		if (got < 0)
			return -errno;
		if ((size_t)got != 8 * some)
			return -EFAULT;
		done += some;
	}
	return 0;
}

ssize_t mem_read_str(const struct mem *m, uint64_t addr, char *out, size_t size)
{
	size_t len = 0;
	while (len + 1 < size) {
		/* Do not cross into the next page: it may be unmapped, and the string may end
		 * before it. */
		size_t chunk = 4096 - ((addr + len) & 4095);
		if (chunk > 256)
			chunk = 256;
		if (chunk > size - 1 - len)
			chunk = size - 1 - len;
		int r = mem_read(m, addr + len, out + len, chunk);
		if (r)
			return r;
		char *end = memchr(out + len, 0, chunk);
		if (end)
			return end - out;
		len += chunk;
	}
	if (size)
		out[len] = '\0';
	return (ssize_t)len;
}

enum { LONGEST = 1 << 30 };

/* Address and length of the text; false when there is no valid string. */
static bool find_cow(const struct mem *m, uint64_t addr, uint64_t *text, uint64_t *len)
{
	uint64_t rep[3];
	if (mem_read_u64(m, addr, text) || *text < 4096 ||
	    mem_read(m, *text - COW_LENGTH, rep, sizeof(rep)))
		return false;
	*len = rep[0];
	return rep[0] <= rep[1] && rep[1] < LONGEST && (int32_t)rep[2] >= -1;
}

static bool find_cxx11(const struct mem *m, uint64_t addr, uint64_t *text, uint64_t *len)
{
	uint64_t w[4];
	if (mem_read(m, addr, w, sizeof(w)))
		return false;
	*text = w[0];
	*len = w[1];
	return w[0] == addr + 16 ? w[1] <= 15 : w[2] >= w[1] && w[0] >= 4096;
}

int std_string_read(const struct mem *m, bool cow, uint64_t addr, char *out, size_t size)
{
	uint64_t text = 0, len = 0;
	if (!(cow ? find_cow : find_cxx11)(m, addr, &text, &len) || len >= size ||
	    mem_read(m, text, out, len + 1) || out[len])
		return -1;
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)out[i]))
			return -1;
	return (int)len;
}
