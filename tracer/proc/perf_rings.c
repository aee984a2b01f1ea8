#define _GNU_SOURCE
#include "tracer/proc/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"

enum {
	RING_PAGES = 16, /* of data; most records are about 150 bytes */
	SAMPLING_PAGES = 1024,
	LARGE = 4096 + 256, /* a record with the longest path */
};

/* The buffer of one CPU; the events of all threads write to it while they run there. */
struct ring {
	int fd; /* of the event that owns the buffer; -1: none */
	struct perf_event_mmap_page *meta;
	size_t size; /* bytes of data, a power of two */
};

struct record {
	uint64_t time;
	size_t at; /* in perf_rings.bytes */
};

struct perf_rings {
	int epoll; /* the caller's */
	size_t page;
	unsigned ncpus;
	struct perf_event_attr sampling; /* size 0: take no samples */
	int program;			 /* of events that take samples; -1: none */
	struct ring *rings;		 /* by CPU */
	int *fds;			 /* of the events that write to them */
	size_t nfds, fds_room;
	uint8_t *bytes; /* records taken from the rings, 8-byte aligned */
	size_t nbytes, bytes_room;
	struct record *records;
	size_t nrecords, records_room;
};

int perf_rings_new(int epoll, struct perf_rings **out)
{
	struct perf_rings *f = calloc(1, sizeof(*f));
	long n = sysconf(_SC_NPROCESSORS_CONF);
	if (!f)
		return -ENOMEM;
	f->epoll = epoll;
	f->program = -1;
	f->page = (size_t)sysconf(_SC_PAGESIZE);
	f->ncpus = n > 0 ? (unsigned)n : 1;
	f->rings = calloc(f->ncpus, sizeof(*f->rings));
	for (unsigned i = 0; f->rings && i < f->ncpus; i++)
		f->rings[i].fd = -1;
	if (!f->rings) {
		free(f);
		return -ENOMEM;
	}
	*out = f;
	return 0;
}

unsigned perf_rings_cpus(const struct perf_rings *p)
{
	return p->ncpus;
}

static struct perf_event_attr make_attr(bool on_exec)
{
	/* Linux include/uapi/linux/perf_event.h. */
	return (struct perf_event_attr){
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_DUMMY,
	    .size = sizeof(struct perf_event_attr),
	    .disabled = on_exec,
	    .enable_on_exec = on_exec,
	    .inherit = 1,
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	    .mmap = 1,
	    .mmap2 = 1,
	    .comm = 1,
	    .comm_exec = 1,
	    .task = 1,
	    .sample_id_all = 1,
	    .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
	    .use_clockid = 1,
	    .clockid = CLOCK_MONOTONIC,
	    /* Not wakeup_events, which counts samples only. */
	    .watermark = 1,
	    .wakeup_watermark = 1,
	};
}

void perf_rings_sampling(struct perf_rings *p, const struct perf_event_attr *attr)
{
	p->sampling = *attr;
	p->sampling.size = sizeof(*attr);
}

void perf_rings_program(struct perf_rings *p, int program)
{
	p->program = program;
}

static struct perf_event_attr attr_of(const struct perf_rings *p, bool on_exec)
{
	const struct perf_event_attr *s = &p->sampling;
	struct perf_event_attr attr = make_attr(on_exec);
	if (!s->size)
		return attr;
	attr.type = s->type;
	attr.config = s->config;
	attr.freq = s->freq;
	attr.sample_freq = s->sample_freq;
	attr.sample_type |= s->sample_type;
	attr.sample_regs_user = s->sample_regs_user;
	attr.sample_stack_user = s->sample_stack_user;
	attr.exclude_kernel = s->exclude_kernel;
	attr.build_id = s->build_id;
	return attr;
}

uint64_t perf_rate_within(uint64_t hz)
{
	long most = -1;
	process_setting("/proc", "kernel/perf_event_max_sample_rate", &most);
	return most > 0 && hz > (uint64_t)most ? (uint64_t)most : hz;
}

static int perf_open(struct perf_event_attr attr, pid_t tid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL && attr.freq) { /* the kernel may have lowered its limit */
		attr.sample_freq = perf_rate_within(attr.sample_freq);
		fd = (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

/* Falls back to smaller buffers if the limit on locked memory is low. */
static int map_ring(struct perf_rings *f, struct ring *r, int fd)
{
	for (size_t pages = f->sampling.size ? SAMPLING_PAGES : RING_PAGES; pages; pages /= 2) {
		void *p =
		    mmap(NULL, (pages + 1) * f->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			*r = (struct ring){.fd = fd, .meta = p, .size = pages * f->page};
			return 0;
		}
		if (errno != EPERM)
			break;
	}
	return -errno;
}

/* The buffer belongs to a dummy event of ditrace itself. If it belonged to an event of a target's
 * thread, it would poll as hung up for ever once that thread has exited (kernel/events/core.c,
 * perf_poll), even while other events write to it. */
static int open_ring(struct perf_rings *f, struct ring *r, int cpu)
{
	struct perf_event_attr attr = make_attr(false);
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0};
	attr.disabled = 1;
	attr.inherit = attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 0;
	int fd = perf_open(attr, 0, cpu);
	if (fd < 0)
		return fd;
	int code = map_ring(f, r, fd);
	if (!code && epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		code = -errno;
		munmap(r->meta, r->size + f->page);
		r->fd = -1;
	}
	if (code)
		close(fd);
	return code;
}

static int add_event(struct perf_rings *f, pid_t tid, int cpu, bool on_exec)
{
	struct ring *r = &f->rings[cpu];
	int code = array_grow(&f->fds, &f->fds_room, f->nfds + 1, sizeof(*f->fds));
	if (!code && r->fd < 0)
		code = open_ring(f, r, cpu);
	if (code)
		return code == -ENODEV ? 0 : code; /* the CPU is offline */
	int fd = perf_open(attr_of(f, on_exec), tid, cpu);
	if (fd < 0)
		return fd == -ENODEV ? 0 : fd;
	f->fds[f->nfds++] = fd;
	if (f->program >= 0 && f->sampling.size && ioctl(fd, PERF_EVENT_IOC_SET_BPF, f->program))
		return -errno;
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) ? -errno : 0;
}

int perf_rings_add(struct perf_rings *f, pid_t tid, bool on_exec)
{
	for (unsigned cpu = 0; cpu < f->ncpus; cpu++) {
		int r = add_event(f, tid, (int)cpu, on_exec);
		if (r)
			return r;
	}
	return 0;
}

static void copy_out(const struct ring *r, size_t page, uint64_t pos, void *out, size_t n)
{
	const uint8_t *data = (const uint8_t *)r->meta + page;
	size_t at = pos & (r->size - 1), first = r->size - at < n ? r->size - at : n;
	memcpy(out, data + at, first);
	memcpy((uint8_t *)out + first, data, n - first);
}

static int ring_keep(struct perf_rings *f, const struct ring *r, uint64_t pos, size_t size,
		     uint64_t time)
{
	int code = array_grow(&f->bytes, &f->bytes_room, f->nbytes + size, 1);
	if (!code)
		code =
		    array_grow(&f->records, &f->records_room, f->nrecords + 1, sizeof(*f->records));
	if (code)
		return code;
	copy_out(r, f->page, pos, f->bytes + f->nbytes, size);
	f->records[f->nrecords++] = (struct record){time, f->nbytes};
	f->nbytes += size;
	return 0;
}

/* The offset of the time in a record: the last word of sample_id, which ends every record except
 * samples; in samples, it follows pid and tid. */
static size_t time_at(const struct perf_event_header *h)
{
	return h->type == PERF_RECORD_SAMPLE ? sizeof(*h) + 8 : h->size - sizeof(uint64_t);
}

/* Copy out the records up to time `cut`; sets *more if there are later ones. */
static int drain(struct perf_rings *f, struct ring *r, uint64_t cut, bool *more, bool *full)
{
	uint64_t head = __atomic_load_n(&r->meta->data_head, __ATOMIC_ACQUIRE),
		 tail = r->meta->data_tail;
	size_t large = LARGE < r->size / 2 ? LARGE : r->size / 2;
	int code = 0;
	*full = *full || r->size - (size_t)(head - tail) < large;
	while (tail < head && !code) {
		struct perf_event_header h;
		uint64_t time;
		copy_out(r, f->page, tail, &h, sizeof(h));
		if (h.size < sizeof(h) + 2 * sizeof(time) || h.size > head - tail) {
			tail = head;
			break;
		}
		copy_out(r, f->page, tail + time_at(&h), &time, sizeof(time));
		if (time > cut) {
			*more = true;
			break;
		}
		code = ring_keep(f, r, tail, h.size, time);
		tail += code ? 0 : h.size;
	}
	__atomic_store_n(&r->meta->data_tail, tail, __ATOMIC_RELEASE);
	return code;
}

static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* One pass over all CPUs. Records written after its start wait for the next pass, so that an effect
 * on a CPU read late never precedes its cause on one read early. */
static int read_round(struct perf_rings *f, perf_record_fn *fn, void *arg, bool *more, bool *full)
{
	uint64_t cut = clock_ns(CLOCK_MONOTONIC);
	int r = 0;
	*more = false;
	f->nbytes = f->nrecords = 0;
	for (unsigned i = 0; i < f->ncpus && !r; i++)
		if (f->rings[i].fd >= 0)
			r = drain(f, &f->rings[i], cut, more, full);
	if (f->nrecords)
		qsort(f->records, f->nrecords, sizeof(*f->records), by_time);
	for (size_t i = 0; i < f->nrecords; i++)
		fn((const void *)(f->bytes + f->records[i].at), f->records[i].time, arg);
	return r;
}

int perf_rings_read(struct perf_rings *p, perf_record_fn *fn, void *arg, bool *full)
{
	bool more = true;
	int r = 0;
	*full = false;
	while (more && !r)
		r = read_round(p, fn, arg, &more, full);
	return r;
}

void perf_rings_free(struct perf_rings *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->nfds; i++)
		close(p->fds[i]);
	for (unsigned i = 0; i < p->ncpus; i++) {
		if (p->rings[i].fd < 0)
			continue;
		munmap(p->rings[i].meta, p->rings[i].size + p->page);
		close(p->rings[i].fd);
	}
	free(p->rings);
	free(p->fds);
	free(p->bytes);
	free(p->records);
	free(p);
}

/* As documented at enum perf_event_type in linux/perf_event.h. */
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
