#define _GNU_SOURCE
#include "tracer/sample/internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/decode/decoder.h"
#include "tracer/engine/bpf/links.h"
#include "tracer/sample/samples.skel.h"

/* The largest difference between a sample's time and its program's, either of which may be first.
 */
static const uint64_t APART_NS = 100000;

struct kept_frames {
	pid_t tid; /* 0: already taken */
	uint64_t ts;
	struct sampled_frames frames;
};

struct sample_frames {
	struct samples_bpf *skel;
	struct bpf_link *exit_link;
	struct ring_buffer *ring;
	struct kept_frames *kept; /* in order of arrival */
	size_t n, room;
	struct code_copies copies;
};

static void keep_frames(struct sample_frames *f, const struct hit *h)
{
	const struct items it = items_of(h);
	const struct item *top = items_find(&it, 0, NULL), *stack = items_stack(&it);
	const struct item *prints = items_find(&it, 1, NULL);
	if (!top || top->kind != ITEM_DATA || top->len < 3 * sizeof(uint64_t) || !stack ||
	    array_grow(&f->kept, &f->room, f->n + 1, sizeof(*f->kept)))
		return;
	struct kept_frames *k = &f->kept[f->n++];
	uint64_t words[3];
	memcpy(words, top + 1, sizeof(words));
	unsigned n = stack->len / STACK_FRAME_SIZE;
	n = n < PY_FRAMES ? n : PY_FRAMES;
	k->tid = (pid_t)h->tid;
	k->ts = h->ts;
	k->frames.top = (struct py_top){words[0], words[1], words[2]};
	k->frames.n = (int)n;
	k->frames.cut = stack->aux & STACK_CUT;
	memcpy(k->frames.frames, stack + 1, (size_t)n * STACK_FRAME_SIZE);
	memset(k->frames.prints, 0, sizeof(k->frames.prints));
	if (prints && prints->len >= n * sizeof(uint64_t))
		memcpy(k->frames.prints, prints + 1, n * sizeof(uint64_t));
}

static int on_record(void *arg, void *data, size_t size)
{
	struct sample_frames *f = arg;
	const struct hit *h = data;
	if (size < sizeof(*h) || h->size < sizeof(*h) || h->size > size)
		return 0;
	if (h->kind == HIT_PYTHON)
		keep_frames(f, h);
	else if (h->kind == HIT_CODE_MET)
		code_copies_add(&f->copies, h);
	return 0;
}

static int set_up(struct sample_frames *f)
{
	uint64_t ns_dev, ns_ino;
	int r = bpf_begin(&ns_dev, &ns_ino);
	if (r)
		return r;
	f->skel = samples_bpf__open();
	if (!f->skel)
		return -errno;
	f->skel->rodata->ns_dev = ns_dev;
	f->skel->rodata->ns_ino = ns_ino;
	bpf_map__set_max_entries(f->skel->maps.ring, 4 << 20);
	bpf_map__set_max_entries(f->skel->maps.procs, 1);
	bpf_map__set_max_entries(f->skel->maps.calls, 1);
	r = samples_bpf__load(f->skel);
	if (r)
		return r;
	f->exit_link = bpf_program__attach(f->skel->progs.sampled_thread_exit);
	if (!f->exit_link)
		return -errno;
	f->ring = ring_buffer__new(bpf_map__fd(f->skel->maps.ring), on_record, f, NULL);
	if (!f->ring)
		return -errno;
	/* Read after the first, which is written to before it: code objects are known with the
	 * frames that have them. */
	return ring_buffer__add(f->ring, bpf_map__fd(f->skel->maps.copies), on_record, f);
}

int sample_frames_open(struct sample_frames **out)
{
	struct sample_frames *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	int r = set_up(f);
	if (r)
		sample_frames_close(f);
	else
		*out = f;
	return r;
}

void sample_frames_close(struct sample_frames *f)
{
	if (!f)
		return;
	bpf_link__destroy(f->exit_link);
	ring_buffer__free(f->ring);
	samples_bpf__destroy(f->skel);
	code_copies_free(&f->copies);
	free(f->kept);
	free(f);
}

int sample_frames_program(const struct sample_frames *f)
{
	return bpf_program__fd(f->skel->progs.sample_python);
}

void sample_frames_learn(struct sample_frames *f, pid_t pid, struct py_runtime *rt)
{
	code_copies_learn(&f->copies, pid, rt);
}

int sample_frames_set(struct sample_frames *f, pid_t pid, const struct py_runtime *py)
{
	int fd = bpf_map__fd(f->skel->maps.sampled_procs);
	struct proc_conf conf = {.py_on = 1};
	uint32_t key = (uint32_t)pid;
	if (!py) {
		sample_frames_learn(f, pid, NULL);
		return bpf_map_delete_elem(fd, &key);
	}
	conf.py = *python_walk(py);
	conf.code = python_code_read(py);
	return bpf_map_update_elem(fd, &key, &conf, 0);
}

/* Drop what has found no sample, since that was lost, for a second. */
static void drop_old(struct sample_frames *f, uint64_t time_ns)
{
	static const uint64_t second = 1000000000;
	size_t n = 0;
	for (size_t i = 0; i < f->n; i++)
		if (f->kept[i].tid && f->kept[i].ts + second > time_ns)
			f->kept[n++] = f->kept[i];
	f->n = n;
}

static uint64_t between(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

bool sample_frames_take(struct sample_frames *f, pid_t tid, uint64_t time_ns,
			struct sampled_frames *out)
{
	struct kept_frames *found = NULL;
	ring_buffer__consume(f->ring);
	for (size_t i = 0; i < f->n; i++) {
		struct kept_frames *k = &f->kept[i];
		if (k->tid == tid && between(k->ts, time_ns) < APART_NS &&
		    (!found || between(k->ts, time_ns) < between(found->ts, time_ns)))
			found = k;
	}
	if (found) {
		*out = found->frames;
		found->tid = 0;
	}
	drop_old(f, time_ns);
	return found;
}
