#include "tracer/proc/perf_mmap.h"

#include <string.h>
#include <sys/mman.h>

/* As in the comments of enum perf_event_type in linux/perf_event.h. */
struct body {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	union {
		struct {
			uint32_t maj, min;
			uint64_t ino, generation;
		};
		struct {
			uint8_t size, zero[3];
			uint8_t id[MAPPING_BUILD];
		} build;
	};
	uint32_t prot, flags;
	char path[];
};

_Static_assert(sizeof(struct body) == 64, "PERF_RECORD_MMAP2");

static void take_file(struct mapping *m, const struct body *b, bool by_build)
{
	if (by_build) {
		m->nbuild = b->build.size < MAPPING_BUILD ? b->build.size : MAPPING_BUILD;
		memcpy(m->build, b->build.id, m->nbuild);
		return;
	}
	m->inode = b->ino;
	m->dev_major = b->maj;
	m->dev_minor = b->min;
}

bool perf_mmap_parse(const struct perf_event_header *h, struct perf_mmap *out)
{
	const struct body *b = (const struct body *)(h + 1);
	*out = (struct perf_mmap){0};
	if (h->type != PERF_RECORD_MMAP2 || h->size <= sizeof(*h) + sizeof(*b))
		return false;
	size_t room = h->size - sizeof(*h) - sizeof(*b);
	if (!memchr(b->path, 0, room) || !b->len || b->addr + b->len < b->addr)
		return false;
	out->pid = (pid_t)b->pid;
	out->tid = (pid_t)b->tid;
	out->map = (struct mapping){.start = b->addr,
				    .end = b->addr + b->len,
				    .offset = b->pgoff,
				    .read = b->prot & PROT_READ,
				    .write = b->prot & PROT_WRITE,
				    .exec = b->prot & PROT_EXEC,
				    .shared = b->flags & MAP_SHARED,
				    .path = strcmp(b->path, "//anon") != 0 ? b->path : ""};
	take_file(&out->map, b, h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID);
	return true;
}
