#define _GNU_SOURCE
#include "tracer/engine/engine.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/maps.h"
#include "tracer/engine/bpf/internal.h"
#include "tracer/engine/bpf/links.h"
#include "tracer/engine/bpf/sum_rows.h"
#include "tracer/engine/bpf/probes.skel.h"

enum { ROUNDS = 16, CALLS = 250 };

struct engine_bpf {
	struct engine engine;
	struct probes_bpf *skel;
	struct ring_buffer *ring;
	struct backlog *backlog;
	struct bpf_link *exit_link;
	struct links *links;
	uint32_t nplans;
	uint64_t trap_ns;
	struct entries *entries;
	uint32_t turn;
	uint64_t turn_exits; /* bss.exits when the turn began */
	struct turn_spent turns[TURNS_LAST + 1];
	bool may_sum;
	struct sum_rows sums;
	engine_hit_fn *fn; /* during consume */
	void *arg;
};

static struct engine_bpf *of(struct engine *g)
{
	return (struct engine_bpf *)g;
}

static int on_record(void *arg, void *data, size_t size)
{
	struct engine_bpf *b = arg;
	backlog_put(b->backlog, data, size);
	return 0;
}

static int move_records(void *arg)
{
	struct engine_bpf *b = arg;
	return ring_buffer__consume(b->ring);
}

static int set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		     struct err *e)
{
	struct engine_bpf *b = of(g);
	if (first > b->nplans || n > b->nplans - first)
		return err_set(e, -E2BIG, "too many ops for one session (%u)", first + n);
	uint32_t *keys = malloc(n * sizeof(*keys) + 1);
	if (!keys)
		return err_set(e, -ENOMEM, "no memory");
	for (uint32_t i = 0; i < n; i++)
		keys[i] = first + i;
	uint32_t count = n;
	int r =
	    n ? bpf_map_update_batch(bpf_map__fd(b->skel->maps.plans), keys, plans, &count, NULL)
	      : 0;
	free(keys);
	return r ? err_set(e, r, "cannot load the probe plan: %s", strerror(-r)) : 0;
}

static int set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf)
{
	uint32_t key = proc;
	return bpf_map_update_elem(bpf_map__fd(of(g)->skel->maps.procs), &key, conf, 0);
}

int engine_bpf_pick(struct engine *g, const struct pick *pick)
{
	uint32_t zero = 0;
	return bpf_map_update_elem(bpf_map__fd(of(g)->skel->maps.picked), &zero, pick, 0);
}

static uint64_t calls_key(uint16_t proc, uint32_t op)
{
	return (uint64_t)proc << 32 | op;
}

uint64_t engine_bpf_count_call(struct engine *g, uint16_t proc, uint32_t op)
{
	int fd = bpf_map__fd(of(g)->skel->maps.calls);
	uint64_t key = calls_key(proc, op), n = 0;
	bpf_map_lookup_elem(fd, &key, &n);
	n++;
	return bpf_map_update_elem(fd, &key, &n, 0) ? 0 : n;
}

void engine_bpf_set_awaited(struct engine *g, bool awaited)
{
	of(g)->skel->bss->awaited = awaited;
}

uint64_t engine_bpf_unheld(struct engine *g)
{
	return of(g)->skel->bss->unheld;
}

void engine_bpf_forget_calls(struct engine *g, uint16_t proc)
{
	int fd = bpf_map__fd(of(g)->skel->maps.calls);
	for (uint32_t op = 0; op < of(g)->nplans; op++) {
		uint64_t key = calls_key(proc, op);
		bpf_map_delete_elem(fd, &key);
	}
}

static const struct bpf_program *program_for(struct engine_bpf *b, uint32_t kind)
{
	switch (kind) {
	case SITE_ENTRY:
		return b->skel->progs.op_entry;
	case SITE_EXIT:
		return b->skel->progs.op_exit;
	case SITE_CODE_FREED:
		return b->skel->progs.code_freed;
	case SITE_SCHEMA:
		return b->skel->progs.schema_parsed;
	default:
		return b->skel->progs.step_callbacks;
	}
}

static int attach_kind(struct engine_bpf *b, pid_t pid, uint16_t proc,
		       const struct probe_file *file, uint32_t kind, uint64_t *offsets)
{
	uint64_t *cookies = offsets + file->nsites;
	uint32_t n = 0;
	for (size_t i = 0; i < file->nsites; i++) {
		if (file->sites[i].kind != kind)
			continue;
		offsets[n] = file->sites[i].offset;
		cookies[n++] = (uint64_t)proc << 48 | file->sites[i].op;
	}
	const struct link_wanted w = {
	    .prog = bpf_program__fd(program_for(b, kind)),
	    .pid = pid,
	    .owner = proc,
	    .n = n,
	    .path = file->path,
	    .offsets = offsets,
	    .cookies = cookies,
	};
	if (!n)
		return 0;
	return kind == SITE_ENTRY ? entries_add(&b->entries, b->links, &w)
				  : links_add(b->links, &w);
}

/* Exits first: an op whose entry is seen must have its exit probed. */
static int attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		  struct err *e)
{
	static const uint32_t order[] = {SITE_EXIT, SITE_ENTRY, SITE_CODE_FREED, SITE_SCHEMA,
					 SITE_DISPATCH};
	int r = code_check(pid, file, e);
	if (r)
		return r;
	uint64_t *room = malloc(2 * file->nsites * sizeof(*room) + 1);
	r = room ? 0 : -ENOMEM;
	for (size_t i = 0; !r && i < sizeof(order) / sizeof(order[0]); i++)
		r = attach_kind(of(g), pid, proc, file, order[i], room);
	free(room);
	if (r == -ESRCH)
		return err_set(e, r, "process %d ended before it could be probed", pid);
	if (r)
		return err_set(e, r, "cannot probe %s in process %d: %s", file->path, pid,
			       strerror(-r));
	return 0;
}

static void detach(struct engine *g, uint16_t proc)
{
	links_drop(of(g)->links, proc);
	of(g)->sums.over |= proc == ENGINE_ALL_PROCS;
	entries_drop(&of(g)->entries, of(g)->links, proc);
}

/* Ops are left out by taking the probes at their entries out: those at their exits count them. */
static void rest(struct engine_bpf *b, bool rests)
{
	if (b->skel->bss->resting == rests)
		return;
	if (rests)
		entries_take_out(b->entries, b->links);
	else
		entries_place(b->entries, b->links);
	b->skel->bss->resting = rests;
}

static void set_turn(struct engine *g, uint32_t turn)
{
	struct engine_bpf *b = of(g);
	b->skel->bss->measuring = turn != 0;
	b->turns[b->turn].ops = b->skel->bss->exits - b->turn_exits;
	rest(b, turn_rests(turn));
	b->turn = turn;
	b->turn_exits = b->skel->bss->exits;
}

static struct turn_spent turn_of(const struct engine *g, uint32_t turn)
{
	const struct engine_bpf *b = (const struct engine_bpf *)g;
	struct turn_spent t = b->turns[turn];
	t.entered = turn == b->turn ? b->skel->bss->exits - b->turn_exits : t.ops;
	return t;
}

static double mean(uint64_t ns, uint64_t n)
{
	return n ? (double)ns / (double)n : 0;
}

static void programs(const struct engine *g, struct turn_programs *out)
{
	const struct probes_bpf__bss *s = ((const struct engine_bpf *)g)->skel->bss;
	*out = (struct turn_programs){.entry = mean(s->entry_ns, s->entry_sampled),
				      .exit = mean(s->exit_ns, s->exit_sampled),
				      .rest = mean(s->rest_ns, s->rest_sampled)};
}

static void give_sum(struct hit *h, void *arg)
{
	const struct engine_bpf *b = arg;
	b->fn(h, b->arg);
}

/* What was summed up before code was freed may have it in its stack. */
static void give(const struct hit *h, void *arg)
{
	struct engine_bpf *b = arg;
	if (h->kind == HIT_CODE_FREED)
		sum_rows_freed(&b->sums, (uint32_t)h->seq, give_sum, b);
	b->fn(h, b->arg);
}

static int consume(struct engine *g, engine_hit_fn *fn, void *arg)
{
	struct engine_bpf *b = of(g);
	bool alive = links_alive(b->links);
	b->fn = fn;
	b->arg = arg;
	int n = backlog_consume(b->backlog, b->may_sum ? give : fn, b->may_sum ? b : arg);
	if (b->may_sum && n >= 0)
		n += sum_rows_tick(&b->sums, !n, give_sum, b);
	return n || alive ? n : -ECHILD;
}

static void count_dispatch(struct engine *g, int on)
{
	of(g)->skel->bss->counting = on;
}

/* A function of ditrace's own that begins, as most ops do, with an instruction the kernel emulates.
 */
static __attribute__((noinline, noclone)) void trapped(void)
{
	__asm__ volatile("nop" ::: "memory");
}

/* ns for CALLS calls; the minimum of several rounds, since other tasks may preempt this one. */
static uint64_t time_calls(void)
{
	uint64_t least = UINT64_MAX;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t begun = clock_ns(CLOCK_MONOTONIC);
		for (unsigned i = 0; i < CALLS; i++)
			trapped();
		uint64_t took = clock_ns(CLOCK_MONOTONIC) - begun;
		least = took < least ? took : least;
	}
	return least;
}

/* The cost of a probe that does almost nothing, measured on ditrace itself. 0 when it cannot be. */
static uint64_t measure_trap(struct engine_bpf *b)
{
	enum { OWN = 256 };
	struct maps maps;
	uint64_t cost = 0, addr = (uint64_t)(uintptr_t)trapped, cookie = 0;
	if (maps_read(getpid(), &maps, NULL))
		return 0;
	const struct mapping *m = maps_find(&maps, addr);
	uint64_t offset =
	    m ? addr + arch_landing_pad((const uint8_t *)trapped, 4) - m->start + m->offset : 0;
	const struct link_wanted w = {
	    .prog = bpf_program__fd(b->skel->progs.step_callbacks),
	    .pid = getpid(),
	    .owner = OWN,
	    .n = 1,
	    .path = "/proc/self/exe",
	    .offsets = &offset,
	    .cookies = &cookie,
	};
	uint64_t plain = time_calls();
	if (m && !links_add(b->links, &w)) {
		uint64_t probed = time_calls();
		cost = probed > plain ? (probed - plain) / CALLS : 0;
	}
	maps_free(&maps);
	return cost;
}

static void calibrate(struct engine *g)
{
	of(g)->trap_ns = measure_trap(of(g));
}

/* No less than that: in the caches of ditrace's own loop a trap takes half of what it takes in a
 * loop of one op, and a seventh of what it takes in a training of small ops, which then has to fill
 * its own again (tests/bench/estimate.py). */
static uint64_t probe_ns(const struct engine_bpf *b)
{
	enum { COLD = 2 };
	const struct probes_bpf__bss *s = b->skel->bss;
	const uint64_t sampled = s->entry_sampled + s->exit_sampled;
	if (!sampled || !b->trap_ns)
		return 0;
	return s->hits * ((s->entry_ns + s->exit_ns) / sampled) +
	       COLD * b->trap_ns * (s->hits + s->steps);
}

static void counters(struct engine *g, struct engine_counters *out)
{
	const struct probes_bpf__bss *s = of(g)->skel->bss;
	*out = (struct engine_counters){
	    .hits = s->hits,
	    .lost = s->lost + s->lost_threads + s->lost_depth + backlog_lost(of(g)->backlog),
	    .probe_ns = probe_ns(of(g)),
	    .probe_is_least = true,
	    .dispatched = s->dispatched,
	    .dispatched_seen = s->dispatched_seen,
	};
}

static void engine_close(struct engine *g)
{
	struct engine_bpf *b = of(g);
	links_close(b->links);
	entries_drop(&b->entries, NULL, ENGINE_ALL_PROCS);
	backlog_close(b->backlog);
	bpf_link__destroy(b->exit_link);
	ring_buffer__free(b->ring);
	probes_bpf__destroy(b->skel);
	free(b);
}

static int load_failed(int r, struct err *e)
{
	/* The verifier also reports a rejected program as EACCES. */
	uint64_t mask = caps_effective("/proc");
	if ((r == -EPERM || r == -EACCES) &&
	    !(caps_has(mask, CAPS_BPF) && caps_has(mask, CAPS_PERFMON))) {
		err_set(e, r, "not allowed to load eBPF programs (needs CAP_BPF and CAP_PERFMON)");
		err_hint(e, "run it as root: sudo ditrace ..., or see ditrace doctor");
		return r;
	}
	err_set(e, r, "the kernel refuses ditrace's eBPF programs: %s", strerror(-r));
	err_hint(
	    e,
	    "uprobe_multi needs Linux 6.6 or later with BTF; ditrace doctor shows what is there");
	return r;
}

static void set_program_types(struct probes_bpf *s)
{
	struct bpf_program *const all[] = {s->progs.op_entry, s->progs.op_exit, s->progs.code_freed,
					   s->progs.schema_parsed, s->progs.step_callbacks};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bpf_program__set_type(all[i], BPF_PROG_TYPE_KPROBE);
		bpf_program__set_expected_attach_type(
		    all[i], (enum bpf_attach_type)BPF_ATTACH_UPROBE_MULTI);
	}
}

/* A power of two (kernel/bpf/ringbuf.c, ringbuf_map_alloc). */
static uint64_t ring_bytes(const struct probes_bpf *s, uint64_t wanted)
{
	const uint64_t bytes = engine_ring_bytes(wanted, bpf_map__max_entries(s->maps.ring));
	uint64_t n = 4096;
	while (n < bytes)
		n *= 2;
	return n;
}

static int load(struct engine_bpf *b, const struct engine_wanted *w, struct err *e)
{
	uint64_t ns_dev, ns_ino;
	int r = bpf_begin(&ns_dev, &ns_ino);
	if (r)
		return err_set(e, r, "cannot read /proc/self/ns/pid: %s", strerror(-r));
	b->skel = probes_bpf__open();
	if (!b->skel)
		return load_failed(-errno, e);
	b->skel->rodata->ns_dev = ns_dev;
	b->skel->rodata->ns_ino = ns_ino;
	b->skel->rodata->may_sum = b->may_sum;
	const uint64_t ring = ring_bytes(b->skel, w->buffer);
	b->skel->rodata->ring_bytes = ring;
	bpf_map__set_max_entries(b->skel->maps.ring, (uint32_t)ring);
	bpf_map__set_max_entries(b->skel->maps.plans, w->nplans);
	if (!b->may_sum)
		bpf_map__set_max_entries(b->skel->maps.sums, 1);
	set_program_types(b->skel);
	r = probes_bpf__load(b->skel);
	if (r)
		return load_failed(r, e);
	b->sums = (struct sum_rows){.map = bpf_map__fd(b->skel->maps.sums),
				    .epoch = &b->skel->bss->sum_epoch,
				    .freed_now = &b->skel->bss->sum_freed,
				    .users = b->skel->bss->sum_users,
				    .rows = &b->skel->bss->sum_rows,
				    .sent = &b->skel->bss->sent_freed};
	b->exit_link = bpf_program__attach(b->skel->progs.thread_exit);
	if (!b->exit_link)
		return load_failed(-errno, e);
	b->ring = ring_buffer__new(bpf_map__fd(b->skel->maps.ring), on_record, b, NULL);
	if (!b->ring)
		return err_set(e, -errno, "cannot map the ring buffer: %s", strerror(errno));
	r = links_open(&b->links);
	if (r)
		return err_set(e, r, "cannot start a process: %s", strerror(-r));
	r = backlog_open(move_records, b, &b->backlog);
	return r ? err_set(e, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

int engine_bpf_open(const struct engine_wanted *w, struct engine **out, struct err *e)
{
	struct engine_bpf *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, -ENOMEM, "no memory");
	b->nplans = w->nplans;
	b->may_sum = w->may_sum;
	b->engine = (struct engine){
	    .name = "bpf",
	    .gone =
		"the process of ditrace that puts probes in and out (ditrace-probes) was killed",
	    .gone_hint = "the traced processes run on; probes that it was busy with may stay in "
			 "their code, which costs some time",
	    .wake = -1,
	    .set_plans = set_plans,
	    .set_proc = set_proc,
	    .attach = attach,
	    .detach = detach,
	    .consume = consume,
	    .count_dispatch = count_dispatch,
	    .counters = counters,
	    .set_turn = set_turn,
	    .turn = turn_of,
	    .programs = programs,
	    .calibrate = calibrate,
	    .close = engine_close,
	};
	int r = load(b, w, e);
	if (r) {
		engine_close(&b->engine);
		return r;
	}
	*out = &b->engine;
	return 0;
}
