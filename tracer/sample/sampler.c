#define _GNU_SOURCE
#include "tracer/sample/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/follow.h"
#include "tracer/sample/internal.h"

struct sampler {
	struct sampler_shared all;
	struct sampling how;
	struct perf_event_attr attr;
	int epoll;
	struct perf_rings *rings;
	struct sampler_process **processes;
	size_t nprocesses, processes_room;
	struct taken_sample **taken; /* `ntaken` of the current read; allocated ones are reused */
	size_t ntaken, ready, taken_room;
	pid_t *born; /* threads that have an event, while a process is being added */
	size_t nborn, born_room;
	bool adding;
	struct sampler_counts counts;
	uint64_t looked_ns; /* when ended processes were last looked for */
	bool failed;	    /* out of memory */
};

static void taken_free(struct taken_sample *t)
{
	if (!t)
		return;
	free(t->then);
	free(t->now);
	free(t);
}

int sampler_open(uint64_t hz, const struct sampler_sink *sink, struct sampler **out, struct err *e)
{
	struct sampler *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	s->all.sink = *sink;
	s->epoll = -1;
	int r = perf_sample_choose(hz, &s->attr, &s->how, e);
	if (!r) {
		s->epoll = epoll_create1(EPOLL_CLOEXEC);
		r = s->epoll < 0 ? -errno : perf_rings_new(s->epoll, &s->rings);
		if (r)
			err_set(e, r, "cannot take samples: %s", strerror(-r));
	}
	if (r) {
		sampler_close(s);
		return r;
	}
	perf_rings_sampling(s->rings, &s->attr);
	if (!sample_frames_open(&s->all.frames))
		perf_rings_program(s->rings, sample_frames_program(s->all.frames));
	*out = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	s->all.sink.forget(s->all.sink.arg);
	perf_rings_free(s->rings);
	for (size_t i = 0; i < s->nprocesses; i++)
		sampler_process_free(s->processes[i]);
	for (size_t i = 0; i < s->ready; i++)
		taken_free(s->taken[i]);
	if (s->epoll >= 0)
		close(s->epoll);
	sample_names_free(&s->all.names);
	native_symbols_free(&s->all.symbols);
	free(s->processes);
	free(s->taken);
	free(s->born);
	sample_frames_close(s->all.frames);
	free(s);
}

const struct sampling *sampler_how(const struct sampler *s)
{
	return &s->how;
}

int sampler_fd(const struct sampler *s)
{
	return s->epoll;
}

struct sampler_counts sampler_counts(const struct sampler *s)
{
	return s->counts;
}

static struct sampler_process **sampler_find(struct sampler *s, pid_t pid)
{
	for (size_t i = 0; i < s->nprocesses; i++)
		if (sampler_process_pid(s->processes[i]) == pid)
			return &s->processes[i];
	return NULL;
}

static struct sampler_process *process_of(struct sampler *s, pid_t pid)
{
	struct sampler_process **found = sampler_find(s, pid), *p;
	if (found)
		return *found;
	p = sampler_process_new(pid);
	if (p && array_grow(&s->processes, &s->processes_room, s->nprocesses + 1,
			    sizeof(*s->processes))) {
		sampler_process_free(p);
		return NULL;
	}
	if (p)
		s->processes[s->nprocesses++] = p;
	return p;
}

static void drop(struct sampler *s, pid_t pid)
{
	struct sampler_process **found = sampler_find(s, pid);
	if (!found)
		return;
	s->all.sink.forget(s->all.sink.arg);
	if (s->all.frames)
		sample_frames_set(s->all.frames, pid, NULL);
	sampler_process_free(*found);
	*found = s->processes[--s->nprocesses];
}

static struct taken_sample *taken_new(size_t stack)
{
	struct taken_sample *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->then = malloc(stack);
	t->now = malloc(stack);
	if (t->then && t->now)
		return t;
	taken_free(t);
	return NULL;
}

/* A slot for the next sample of this read; NULL without memory. */
static struct taken_sample *next_taken(struct sampler *s)
{
	if (s->ntaken < s->ready)
		return s->taken[s->ntaken];
	struct taken_sample *t = taken_new(s->attr.sample_stack_user + SAMPLED_MORE);
	if (!t || array_grow(&s->taken, &s->taken_room, s->ready + 1, sizeof(*s->taken))) {
		taken_free(t);
		s->failed = true;
		return NULL;
	}
	s->taken[s->ready] = t;
	s->ready++;
	return t;
}

static void on_sample(struct sampler *s, const struct perf_event_header *h)
{
	struct perf_sample sample;
	if (!perf_sample_parse(h, &sample) || sample.pid <= 0 || sample.tid <= 0 ||
	    sample.len > s->attr.sample_stack_user)
		return;
	struct taken_sample *t = next_taken(s);
	if (!t)
		return;
	struct sampler_process *p = process_of(s, sample.pid);
	t->sample = sample;
	t->python_known = t->at_once = t->unnamed = false;
	t->now_len = 0;
	t->npairs = 0;
	t->code_start = t->code_end = 0;
	if (sample.len)
		memcpy(t->then, sample.stack, sample.len);
	if (p)
		sampler_process_catch(p, t, s->all.frames);
	s->ntaken++;
}

/* Records of mappings may be among the lost. */
static void on_lost(struct sampler *s, uint64_t time, uint64_t count)
{
	for (size_t i = 0; i < s->nprocesses; i++)
		sampler_process_missed(s->processes[i]);
	s->counts.lost += count;
	s->all.sink.lost(time, count, s->all.sink.arg);
}

static void on_new_task(struct sampler *s, pid_t tid)
{
	if (!s->adding)
		return;
	if (array_grow(&s->born, &s->born_room, s->nborn + 1, sizeof(*s->born)))
		s->failed = true;
	else
		s->born[s->nborn++] = tid;
}

static void give(struct sampler *s, struct taken_sample *t)
{
	struct sampler_process **p = sampler_find(s, t->sample.pid);
	struct sample out = {.time_ns = t->sample.time,
			     .weight = t->sample.period,
			     .pid = t->sample.pid,
			     .tid = t->sample.tid,
			     .in_kernel = t->sample.in_kernel};
	if (p)
		sampler_process_resolve(*p, t, &s->all, &out);
	s->counts.samples++;
	s->counts.python += out.python != NULL;
	s->counts.at_once += out.python && t->at_once;
	s->counts.unnamed += out.python && t->unnamed;
	s->counts.mismatched += out.mismatched;
	s->all.sink.sample(&out, s->all.sink.arg);
}

static void give_all(struct sampler *s)
{
	for (size_t i = 0; i < s->ntaken; i++)
		give(s, s->taken[i]);
	s->ntaken = 0;
}

static void on_mmap(struct sampler *s, const struct perf_event_header *h)
{
	struct perf_mmap m;
	struct sampler_process *p;
	if (!perf_mmap_parse(h, &m) || m.pid <= 0)
		return;
	p = process_of(s, m.pid);
	if (!p)
		return;
	if (sampler_process_replaces(p, &m.map))
		give_all(s);
	sampler_process_map(p, &m.map);
}

static void on_fork(struct sampler *s, pid_t pid, pid_t parent)
{
	struct sampler_process **from = sampler_find(s, parent);
	if (pid <= 0 || pid == parent || !from)
		return;
	struct sampler_process *p = process_of(s, pid);
	from = sampler_find(s, parent);
	if (p && from)
		sampler_process_forked(p, *from);
}

/* Layouts: perf_event_open(2). */
static void on_record(const struct perf_event_header *h, uint64_t time, void *arg)
{
	struct sampler *s = arg;
	const uint8_t *body = (const uint8_t *)(h + 1);
	size_t len = h->size - sizeof(*h);
	uint32_t word[4] = {0};
	uint64_t lost[2] = {0};
	memcpy(word, body, len < sizeof(word) ? len : sizeof(word));
	memcpy(lost, body, len < sizeof(lost) ? len : sizeof(lost));
	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		on_sample(s, h);
		break;
	case PERF_RECORD_LOST: /* u64 id, lost */
		on_lost(s, time, lost[1]);
		break;
	case PERF_RECORD_LOST_SAMPLES: /* u64 lost */
		on_lost(s, time, lost[0]);
		break;
	case PERF_RECORD_THROTTLE:
		s->counts.throttled++;
		break;
	case PERF_RECORD_FORK: /* u32 pid, ppid, tid, ptid */
		on_new_task(s, (pid_t)word[2]);
		on_fork(s, (pid_t)word[0], (pid_t)word[1]);
		break;
	case PERF_RECORD_COMM: /* u32 pid, tid */
		if (h->misc & PERF_RECORD_MISC_COMM_EXEC) {
			give_all(s); /* samples of the program before */
			drop(s, (pid_t)word[0]);
		}
		break;
	case PERF_RECORD_MMAP2:
		on_mmap(s, h);
		break;
	default:
		break;
	}
}

static void look_for_ended(struct sampler *s)
{
	static const uint64_t pause_ns = 2000000000;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now - s->looked_ns < pause_ns)
		return;
	s->looked_ns = now;
	for (size_t i = 0; i < s->nprocesses; i++)
		s->processes[i]->ended = !process_alive(s->processes[i]->pid);
}

static void drop_ended(struct sampler *s)
{
	for (size_t i = s->nprocesses; i--;)
		if (s->processes[i]->ended)
			drop(s, s->processes[i]->pid);
}

/* What a process did just before it ended is in the buffers still: it is dropped by a read that
 * began when it had ended. */
int sampler_read(struct sampler *s)
{
	bool full;
	look_for_ended(s);
	int r = perf_rings_read(s->rings, on_record, s, &full);
	give_all(s);
	drop_ended(s);
	return r ? r : s->failed ? -ENOMEM : 0;
}

static int cannot_add(pid_t pid, int code, struct err *e)
{
	if (code == -ESRCH)
		return process_error(pid, code, "take samples of", e);
	err_set(e, code, "cannot take samples of process %d: perf_event_open: %s", pid,
		strerror(-code));
	if (code == -EACCES || code == -EPERM)
		return err_hint(e, "it belongs to another user, or may not be traced: run ditrace "
				   "as root");
	return code;
}

int sampler_add_child(struct sampler *s, pid_t child, struct err *e)
{
	int r = perf_rings_add(s->rings, child, true);
	return r ? cannot_add(child, r, e) : 0;
}

static bool is_among(const pid_t *list, size_t n, pid_t tid)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == tid)
			return true;
	return false;
}

/* Add the threads that have no event yet. 1 when there were some, 0, or -errno. */
static int add_new(struct sampler *s, pid_t pid)
{
	pid_t *tids;
	ssize_t n = process_threads(pid, &tids);
	int r = n > 0 ? 0 : n ? (int)n : -ESRCH;
	bool any = false;
	for (ssize_t i = 0; i < n && r >= 0; i++) {
		if (is_among(s->born, s->nborn, tids[i]))
			continue;
		any = true;
		r = perf_rings_add(s->rings, tids[i], false);
		r = r == -ESRCH ? 0 : r; /* it has ended */
		on_new_task(s, tids[i]);
	}
	if (n > 0)
		free(tids);
	return r < 0 ? r : any;
}

/* A thread created meanwhile has inherited an event if its parent had one by then; its fork record
 * shows that. */
int sampler_add_process(struct sampler *s, pid_t pid, struct err *e)
{
	int r = 1;
	s->adding = true;
	s->nborn = 0;
	while (r == 1) {
		r = add_new(s, pid);
		int code = r < 0 ? r : sampler_read(s);
		r = code ? code : r;
	}
	s->adding = false;
	return r ? cannot_add(pid, r, e) : 0;
}
