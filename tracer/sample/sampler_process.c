#define _GNU_SOURCE
#include "tracer/sample/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/plan/code_print.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"

static bool overlap(const struct mapping *a, const struct mapping *b)
{
	return a->start < b->end && b->start < a->end;
}

static bool is_code(const struct mapping *m)
{
	return m->exec && mapping_has_file(m);
}

/* Append a mapping, with a copy of its path. */
static int push(struct known_maps *k, const struct mapping *m)
{
	const char *path = arena_strndup(&k->arena, m->path, strlen(m->path));
	if (!path || array_grow(&k->maps.map, &k->room, k->maps.n + 1, sizeof(*m)))
		return -ENOMEM;
	k->maps.map[k->maps.n] = *m;
	k->maps.map[k->maps.n++].path = path;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

/* Whether none of the first `n` mappings overlaps `m`. */
static bool is_free(const struct known_maps *k, size_t n, const struct mapping *m)
{
	for (size_t i = 0; i < n; i++)
		if (overlap(&k->maps.map[i], m))
			return false;
	return true;
}

static void drop_empty(struct known_maps *k)
{
	size_t kept = 0;
	for (size_t i = 0; i < k->maps.n; i++)
		if (k->maps.map[i].start < k->maps.map[i].end)
			k->maps.map[kept++] = k->maps.map[i];
	k->maps.n = kept;
	if (kept)
		qsort(k->maps.map, kept, sizeof(*k->maps.map), by_start);
}

int known_maps_read(struct known_maps *k, pid_t pid)
{
	struct maps old = k->maps, fresh;
	int r = maps_read(pid, &fresh, NULL);
	if (r)
		return r;
	k->maps = fresh;
	k->room = fresh.n;
	for (size_t i = 0; i < old.n && !r; i++)
		if (is_code(&old.map[i]) && is_free(k, fresh.n, &old.map[i]))
			r = push(k, &old.map[i]);
	drop_empty(k);
	maps_free(&old);
	return r;
}

static bool is_same(const struct mapping *a, const struct mapping *b)
{
	return a->exec && a->start <= b->start && a->end >= b->end &&
	       a->start - a->offset == b->start - b->offset && !strcmp(a->path, b->path);
}

/* Cut `m` out of mapping `at`: what is left of it stays in place, a right part is appended. */
static int cut(struct known_maps *k, size_t at, const struct mapping *m)
{
	struct mapping *o = &k->maps.map[at], right = *o;
	int r = 0;
	if (o->end > m->end) {
		right.offset += m->end - o->start;
		right.start = m->end;
		r = push(k, &right);
		o = &k->maps.map[at];
	}
	o->end = o->start < m->start ? m->start : o->start;
	return r;
}

static bool has_build(int fd, const struct mapping *m)
{
	struct elf_file *elf;
	size_t n;
	if (elf_file_open_fd(fd, m->path, &elf, NULL))
		return false;
	const uint8_t *id = elf_build_id(elf, &n);
	bool same = id && n == m->nbuild && !memcmp(id, m->build, n);
	elf_file_close(elf);
	return same;
}

static void identify(struct target_files *files, struct mapping *m)
{
	struct stat st;
	int fd = m->path[0] == '/' ? target_files_open(files, m->path, true) : -1;
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && has_build(fd, m)) {
		m->inode = st.st_ino;
		m->dev_major = major(st.st_dev);
		m->dev_minor = minor(st.st_dev);
	}
	close(fd);
}

static bool is_known(const struct known_maps *k, const struct mapping *m)
{
	for (size_t i = 0; i < k->maps.n; i++)
		if (is_same(&k->maps.map[i], m))
			return true;
	return false;
}

bool known_maps_replaces(const struct known_maps *k, const struct mapping *m)
{
	if (is_known(k, m))
		return false;
	for (size_t i = 0; i < k->maps.n; i++)
		if (k->maps.map[i].exec && overlap(&k->maps.map[i], m))
			return true;
	return false;
}

int known_maps_add(struct known_maps *k, struct target_files *files, const struct mapping *m)
{
	struct mapping known = *m;
	size_t n = k->maps.n;
	int r = 0;
	if (is_known(k, m))
		return 0;
	if (files && m->nbuild && !m->inode)
		identify(files, &known);
	for (size_t i = 0; i < n && !r; i++)
		if (overlap(&k->maps.map[i], m))
			r = cut(k, i, m);
	r = r ? r : push(k, &known);
	drop_empty(k);
	return r ? r : 1;
}

int known_maps_inherit(struct known_maps *k, const struct known_maps *from)
{
	int r = 0;
	for (size_t i = 0; i < from->maps.n && r >= 0; i++)
		if (is_code(&from->maps.map[i]))
			r = known_maps_add(k, NULL, &from->maps.map[i]);
	return r < 0 ? r : 0;
}

void known_maps_free(struct known_maps *k)
{
	maps_free(&k->maps);
	arena_free(&k->arena);
	*k = (struct known_maps){0};
}

static const uint64_t PAUSE_NS = 300000000; /* least time between searches for Python or stacks */

struct sampler_process *sampler_process_new(pid_t pid)
{
	struct process facts;
	struct sampler_process *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->files = target_files_new(pid);
	if (!p->files) {
		free(p);
		return NULL;
	}
	p->pid = p->ns_pid = pid;
	p->other_ns = true;
	p->mem = mem_process(pid);
	p->unread = p->mapped = true;
	if (process_read(pid, &facts, NULL))
		return p;
	p->ns_pid = facts.status.ns_pid ? facts.status.ns_pid : pid;
	p->other_ns = facts.status.ns_levels != 1;
	return p;
}

void sampler_process_free(struct sampler_process *p)
{
	if (!p)
		return;
	native_stacks_close(p->natives);
	native_ops_free(&p->ops);
	perf_map_free(&p->jit);
	python_close(p->py);
	known_maps_free(&p->known);
	target_files_free(p->files);
	free(p);
}

pid_t sampler_process_pid(const struct sampler_process *p)
{
	return p->pid;
}

void sampler_process_forked(struct sampler_process *p, const struct sampler_process *from)
{
	known_maps_inherit(&p->known, &from->known);
}

bool sampler_process_replaces(const struct sampler_process *p, const struct mapping *m)
{
	return known_maps_replaces(&p->known, m);
}

void sampler_process_map(struct sampler_process *p, const struct mapping *m)
{
	bool replaced = known_maps_replaces(&p->known, m);
	if (known_maps_add(&p->known, p->files, m) <= 0)
		return;
	p->mapped = true;
	if (!replaced)
		return;
	native_stacks_close(p->natives);
	p->natives = NULL;
}

void sampler_process_missed(struct sampler_process *p)
{
	p->unread = p->mapped = true;
}

static bool due(uint64_t *last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (*last && now - *last < PAUSE_NS)
		return false;
	*last = now;
	return true;
}

static void open_python(struct sampler_process *p)
{
	struct err e = {0};
	if (p->py || p->python_gone || !due(&p->python_ns))
		return;
	int r = python_open(p->pid, &p->mem, &p->py, &e);
	p->python_gone = r == -ENOTSUP || r == -EPROTO;
}

/* torch may be mapped only after Python. */
static void find_torch(struct sampler_process *p)
{
	struct torch_package package;
	if (!p->py)
		return;
	torch_package_find(p->pid, &p->known.maps, &package);
	if (package.dir[0])
		py_set_torch_dir(p->py, package.dir);
}

static uint64_t base_of(void *arg, const struct mapping *code)
{
	const struct symbols_of_process *of = arg;
	return native_symbols_base(of->symbols, of->p->files, code);
}

void sampler_process_open_natives(struct sampler_process *p, struct native_symbols *symbols)
{
	struct symbols_of_process of = {p, symbols};
	struct native_stacks *natives;
	if (p->unread)
		known_maps_read(&p->known, p->pid);
	p->unread = p->mapped = false;
	if (native_stacks_open_maps(p->files, &p->known.maps, base_of, &of, &natives, NULL))
		return;
	native_stacks_close(p->natives);
	p->natives = natives;
	find_torch(p);
}

/* The tid in the innermost PID namespace, as Python stores it. */
static pid_t ns_tid(struct sampler_process *p, pid_t tid)
{
	struct thread_facts facts;
	size_t at = (size_t)tid % SAMPLER_NS_TIDS;
	if (!p->other_ns)
		return tid;
	if (p->ns_tids[at].tid == tid)
		return p->ns_tids[at].ns_tid;
	if (thread_facts_read(p->pid, tid, &facts))
		return tid;
	p->ns_tids[at].tid = tid;
	p->ns_tids[at].ns_tid = facts.ns_tid;
	return facts.ns_tid;
}

/* The mapping of the stack; the main thread's may have grown since it was read. */
static const struct mapping *stack_at(const struct maps *maps, uint64_t sp)
{
	for (size_t i = maps->n; i--;)
		if (!strcmp(maps->map[i].path, "[stack]") && sp < maps->map[i].end &&
		    (!i || sp >= maps->map[i - 1].end))
			return &maps->map[i];
	return maps_find(maps, sp);
}

/* Read the stack, beyond the sample's part if it goes on: frames of numeric kernels can be large.
 */
static void read_stack(struct sampler_process *p, struct taken_sample *t)
{
	uint64_t sp = t->sample.regs[ARCH_SP];
	if (!stack_at(&p->known.maps, sp) && due(&p->stacks_ns)) /* of a new thread */
		known_maps_read(&p->known, p->pid);
	const struct mapping *map = stack_at(&p->known.maps, sp);
	size_t most = t->sample.len + SAMPLED_MORE, left = map ? map->end - sp : 0;
	size_t len = left > most ? most : left > t->sample.len ? left : t->sample.len;
	if (mem_read(&p->mem, sp, t->now, len))
		len = 0;
	t->now_len = len;
}

/* Use the frames that the kernel read; false: there are none. */
static bool take_frames(struct sampler_process *p, struct taken_sample *t,
			struct sample_frames *frames)
{
	struct sampled_frames f;
	if (!frames)
		return false;
	if (!p->told)
		p->told = !sample_frames_set(frames, p->pid, p->py);
	bool found = sample_frames_take(frames, t->sample.tid, t->sample.time, &f);
	sample_frames_learn(frames, p->pid, p->py);
	if (!found || !f.top.tstate)
		return false;
	t->top = f.top;
	t->npairs = f.n;
	t->cut = f.cut;
	for (int i = 0; i < f.n; i++) {
		memcpy(t->pairs[i], f.frames[i], sizeof(t->pairs[i]));
		t->locals[i] = f.frames[i][2];
		t->prints[i] = f.prints[i];
	}
	return true;
}

/* The number of an earlier frame with the same code object as frame `i`; `i`: none. */
static int same_code(const struct taken_sample *t, int i)
{
	int j = i;
	while (j && t->pairs[j - 1][0] != t->pairs[i][0])
		j--;
	return j ? j - 1 : i;
}

/* Walk the frames as they are now, unless the kernel did. */
static void walk_frames(struct sampler_process *p, struct taken_sample *t)
{
	t->npairs = py_walk_from(p->py, 0, ns_tid(p, t->sample.tid), &t->top, t->pairs,
				 SAMPLED_PYTHON, &t->cut);
	for (int i = 0; i < t->npairs; i++) {
		int j = same_code(t, i);
		t->prints[i] =
		    j < i ? t->prints[j] : py_code_print(p->py, t->pairs[i][0], PRINT_PARTS);
	}
	if (t->npairs > 0 && py_code_range(p->py, t->pairs[0][0], &t->code_start, &t->code_end))
		t->code_start = t->code_end = 0;
}

/* Read the code objects before they are freed. */
static void see_codes(struct sampler_process *p, struct taken_sample *t)
{
	t->codes_stay = true;
	for (int i = 0; i < t->npairs; i++) {
		if (!py_code_see(p->py, t->pairs[i][0], t->prints[i]))
			t->unnamed = true;
		t->codes_stay = t->codes_stay &&
				py_code_stays(p->py, t->pairs[i][0], t->prints[i], t->sample.time);
	}
}

void sampler_process_catch(struct sampler_process *p, struct taken_sample *t,
			   struct sample_frames *frames)
{
	const struct perf_sample *s = &t->sample;
	open_python(p);
	t->python_known = p->py && s->has_regs;
	t->at_once = t->python_known && take_frames(p, t, frames);
	if (t->python_known && !t->at_once)
		walk_frames(p, t);
	if (t->python_known)
		see_codes(p, t);
	if (s->len)
		read_stack(p, t); /* after the code objects: it shows whether the thread ran on */
}
