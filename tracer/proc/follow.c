#define _GNU_SOURCE
#include "tracer/proc/follow.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"

/* Above this number (threads times CPUs), events are system-wide instead of per thread. */
enum { MAX_TASK_EVENTS = 4096 };

struct member {
	pid_t pid;
	int pidfd; /* -1: a ghost, which had exited before its first record was read */
};

struct follow {
	int epoll;
	uint64_t since; /* in units of start_ticks of struct process */
	bool wide;	/* events are system-wide: ignore those of processes that are not members */
	struct perf_rings *rings;
	struct member *members;
	size_t nmembers, members_room;
	size_t nghosts; /* members without a pidfd */
	int calls;
};

struct listener {
	struct follow *f;
	follow_fn *fn;
	void *arg;
};

int follow_new(struct follow **out, struct err *e)
{
	struct follow *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(e, -ENOMEM, "no memory");
	f->since = clock_ns(CLOCK_BOOTTIME) / (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	int r = f->epoll < 0 ? -errno : perf_rings_new(f->epoll, &f->rings);
	if (r) {
		follow_free(f);
		return err_set(e, r, "cannot follow processes: %s", strerror(-r));
	}
	*out = f;
	return 0;
}

static int add_everything(struct follow *f)
{
	if (f->wide)
		return 0;
	int r = perf_rings_add(f->rings, -1, false);
	f->wide = !r;
	return r;
}

static struct member *member_of(struct follow *f, pid_t pid)
{
	for (size_t i = 0; i < f->nmembers; i++)
		if (f->members[i].pid == pid)
			return &f->members[i];
	return NULL;
}

static int watch(struct follow *f, pid_t pid)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint32_t)pid};
	int fd = pidfd_open(pid, 0);
	if (fd < 0)
		return -errno;
	if (epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

/* A process that has exited and been reaped becomes a ghost if `ghosts`; otherwise this returns
 * -ESRCH. */
static int add_member(struct follow *f, pid_t pid, bool ghosts)
{
	int r = array_grow(&f->members, &f->members_room, f->nmembers + 1, sizeof(*f->members));
	if (r)
		return r;
	int fd = watch(f, pid);
	if (fd < 0 && !(fd == -ESRCH && ghosts))
		return fd;
	f->nghosts += fd < 0;
	f->members[f->nmembers++] = (struct member){pid, fd < 0 ? -1 : fd};
	return 0;
}

static void drop_member(struct follow *f, struct member *m)
{
	if (m->pidfd >= 0)
		close(m->pidfd);
	else
		f->nghosts--;
	*m = f->members[--f->nmembers];
}

static int cannot_follow(pid_t pid, const char *call, int code, struct err *e)
{
	if (code == -ESRCH)
		return process_error(pid, code, "follow", e);
	err_set(e, code, "cannot follow what process %d starts: %s: %s", pid, call,
		strerror(-code));
	if (code == -ENOSYS)
		err_hint(e,
			 "boot Linux 5.3 or later; in a container its seccomp profile must "
			 "allow %s(2)",
			 call);
	if (code == -EACCES || code == -EPERM)
		err_hint(e, "sysctl kernel.perf_event_paranoid=2, or run ditrace as root "
			    "(CAP_PERFMON); in a "
			    "container its seccomp profile must allow perf_event_open");
	return code;
}

int follow_add_child(struct follow *f, pid_t child, struct err *e)
{
	int r = perf_rings_add(f->rings, child, true);
	if (r)
		return cannot_follow(child, "perf_event_open", r, e);
	r = add_member(f, child, false);
	return r ? cannot_follow(child, "pidfd_open", r, e) : 0;
}

static bool was_there(const pid_t *old, ssize_t n, pid_t tid)
{
	for (ssize_t i = 0; i < n; i++)
		if (old[i] == tid)
			return true;
	return false;
}

/* Add events for all threads, until no new one appears. */
static int add_threads(struct follow *f, pid_t pid)
{
	pid_t *old = NULL, *tids;
	ssize_t nold = 0, n;
	bool fresh = true;
	int r = 0;
	while (fresh && !r && (n = process_threads(pid, &tids)) > 0) {
		fresh = false;
		if (n * (ssize_t)perf_rings_cpus(f->rings) > MAX_TASK_EVENTS && !nold) {
			r = add_everything(f);
			n = r == -EACCES || r == -EPERM ? n : 0;
			r = n ? 0 : r;
		}
		for (ssize_t i = 0; !r && i < n; i++) {
			if (was_there(old, nold, tids[i]))
				continue;
			fresh = true;
			r = perf_rings_add(f->rings, tids[i], false);
			r = r == -ESRCH ? 0 : r; /* the thread has exited */
		}
		free(old);
		old = tids;
		nold = n;
	}
	free(old);
	return r;
}

int follow_add_process(struct follow *f, pid_t pid, struct err *e)
{
	int r = member_of(f, pid) ? 0 : add_member(f, pid, false);
	if (r)
		return cannot_follow(pid, "pidfd_open", r, e);
	r = f->wide ? 0 : add_threads(f, pid);
	return r ? cannot_follow(pid, "perf_event_open", r, e) : 0;
}

int follow_fd(const struct follow *f)
{
	return f->epoll;
}

static void listener_call(const struct listener *l, struct follow_event ev)
{
	ev.path = ev.path ? ev.path : "";
	l->f->calls++;
	l->fn(&ev, l->arg);
}

/* Make `pid` a member if it belongs to a followed tree. Returns whether its events count. */
static bool know(const struct listener *l, pid_t pid, pid_t parent, uint64_t time)
{
	struct follow *f = l->f;
	if (pid <= 0)
		return false; /* not in our PID namespace */
	if (member_of(f, pid))
		return true;
	if (f->wide && !(parent && member_of(f, parent)))
		return false;
	int r = add_member(f, pid, true);
	listener_call(
	    l, (struct follow_event){
		   .kind = FOLLOW_FORK, .pid = pid, .tid = pid, .parent = parent, .time_ns = time});
	if (r) /* its exit will be missed */
		listener_call(l, (struct follow_event){
				     .kind = FOLLOW_LOST, .pid = pid, .tid = pid, .time_ns = time});
	return true;
}

/* Bodies of the records, as documented at enum perf_event_type in linux/perf_event.h. */
struct comm_body {
	uint32_t pid, tid;
	char comm[];
};

struct task_body {
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

static void on_map(const struct listener *l, const struct perf_event_header *h, uint64_t time)
{
	struct perf_mmap m;
	if (!perf_mmap_parse(h, &m) || !know(l, m.pid, 0, time))
		return;
	listener_call(l, (struct follow_event){
			     .kind = FOLLOW_MAP,
			     .pid = m.pid,
			     .tid = m.tid,
			     .time_ns = time,
			     .path = m.map.path,
			 });
}

/* COMM records of exec(2) only: a thread may also rename itself. */
static void on_exec(const struct listener *l, const struct comm_body *b, size_t size, uint64_t time)
{
	if (size <= sizeof(*b) || !memchr(b->comm, 0, size - sizeof(*b)) ||
	    !know(l, (pid_t)b->pid, 0, time))
		return;
	listener_call(l, (struct follow_event){
			     .kind = FOLLOW_EXEC,
			     .pid = (pid_t)b->pid,
			     .tid = (pid_t)b->tid,
			     .time_ns = time,
			     .path = b->comm,
			 });
}

static void on_record(const struct perf_event_header *h, uint64_t time, void *arg)
{
	const struct listener *l = arg;
	const void *body = h + 1;
	size_t size = h->size - sizeof(*h);
	const struct task_body *t = body;
	switch (h->type) {
	case PERF_RECORD_MMAP2:
		on_map(l, h, time);
		break;
	case PERF_RECORD_COMM:
		if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
			on_exec(l, body, size, time);
		break;
	case PERF_RECORD_FORK:
		if (size >= sizeof(*t) && t->pid != t->ppid)
			know(l, (pid_t)t->pid, (pid_t)t->ppid, time);
		break;
	case PERF_RECORD_LOST:
		listener_call(l, (struct follow_event){.kind = FOLLOW_LOST, .time_ns = time});
		break;
	}
}

static void tell_exit(const struct listener *l, struct member *m)
{
	pid_t pid = m->pid;
	drop_member(l->f, m);
	listener_call(l, (struct follow_event){.kind = FOLLOW_EXIT, .pid = pid, .tid = pid});
}

/* Read again if ghosts were found: all records of a ghost were written before, so after that they
 * are complete. */
static int read_records(const struct listener *l)
{
	size_t ghosts;
	bool full;
	int r;
	do {
		ghosts = l->f->nghosts;
		r = perf_rings_read(l->f->rings, on_record, (void *)l, &full);
		if (full)
			listener_call(l, (struct follow_event){.kind = FOLLOW_LOST});
	} while (!r && l->f->nghosts != ghosts);
	return r;
}

int follow_read(struct follow *f, follow_fn *fn, void *arg)
{
	struct epoll_event ready[64];
	struct listener l = {f, fn, arg};
	f->calls = 0;
	/* Poll for exited processes before reading records, so that all records of theirs are read.
	 */
	int n = epoll_wait(f->epoll, ready, sizeof(ready) / sizeof(ready[0]), 0);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	int r = read_records(&l);
	for (int i = 0; i < n; i++) {
		struct member *m =
		    ready[i].data.u64 ? member_of(f, (pid_t)ready[i].data.u64) : NULL;
		if (m)
			tell_exit(&l, m);
	}
	for (size_t i = f->nmembers; i-- > 0;)
		if (f->members[i].pidfd < 0)
			tell_exit(&l, &f->members[i]);
	return r ? r : f->calls;
}

/* Add unknown children of followed processes. Returns their number, or -errno. */
static int find_children(struct follow *f)
{
	DIR *proc = opendir("/proc");
	struct process p;
	int n = 0, r = 0;
	if (!proc)
		return -errno;
	for (struct dirent *d; r >= 0 && (d = readdir(proc));) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
		if (pid <= 0 || member_of(f, pid) || process_read(pid, &p, NULL) ||
		    p.start_ticks < f->since || !member_of(f, p.status.ppid))
			continue;
		r = add_member(f, pid, false);
		n += !r;
		r = r == -ESRCH ? 0 : r;
	}
	closedir(proc);
	return r ? r : n;
}

ssize_t follow_processes(struct follow *f, pid_t **out)
{
	int r;
	while ((r = find_children(f)) > 0)
		; /* then their children, and so on */
	if (r < 0)
		return r;
	*out = malloc((f->nmembers + 1) * sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < f->nmembers; i++)
		(*out)[i] = f->members[i].pid;
	return (ssize_t)f->nmembers;
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	perf_rings_free(f->rings);
	while (f->nmembers)
		drop_member(f, f->members);
	if (f->epoll >= 0)
		close(f->epoll);
	free(f->members);
	free(f);
}
