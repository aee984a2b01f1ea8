/* What the processes are given: plans, what is to be read, the sites to trace; and the library,
 * where it is injected. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"

int shim_set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		   struct err *e)
{
	struct engine_shim *m = shim_of(g);
	if (first > m->nplans || n > m->nplans - first)
		return err_set(e, -E2BIG, "too many ops for one session (%u)", first + n);
	memcpy(&m->plans[first], plans, n * sizeof(*plans));
	m->nset = first + n > m->nset ? first + n : m->nset;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->share)
			memcpy(&i->share->plan[first], plans, n * sizeof(*plans));
	return 0;
}

static void give_conf(struct shim_share *s, const struct proc_conf *conf)
{
	atomic_fetch_add(&s->conf_seq, 1);
	memcpy(&s->conf, conf, sizeof(*conf));
	atomic_fetch_add(&s->conf_seq, 1);
}

int shim_set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf)
{
	struct engine_shim *m = shim_of(g);
	if (proc >= PROC_SLOTS)
		return -E2BIG;
	m->conf[proc] = *conf;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->share && i->proc == proc)
			give_conf(i->share, conf);
	return 0;
}

/* A row whose places are all taken is left out: the walk ends there. */
static void add_row(struct unwind_table *t, const struct native_row *row)
{
	const struct unwind_row like = {.rule = row->rule};
	for (uint32_t i = 0; i < UNWIND_PROBES; i++) {
		struct unwind_row *r = &t->row[unwind_place(row->pc, i)];
		if (r->pc)
			continue;
		r->word = like.word;
		r->pc = row->pc;
		return;
	}
}

void shim_add_rows(struct engine *g, uint16_t proc, const struct native_row *rows, size_t n)
{
	for (struct inside *i = shim_of(g)->all; i; i = i->next)
		for (size_t k = 0; i->share && i->proc == proc && k < n; k++)
			add_row(&i->share->unwind, &rows[k]);
}

int shim_bring_in(struct engine_shim *m, pid_t pid, struct inside **out, struct err *e)
{
	struct shim_listener *d = NULL;
	struct inside *i = calloc(1, sizeof(*i));
	if (!i)
		return err_set(e, -ENOMEM, "no memory");
	m->target = 0;
	int r = shim_listener_open(pid, NULL, &d, e);
	r = r ? r : injector_enter(pid, INJECTOR_RECORDS, d, e);
	if (r) {
		shim_listener_close(d);
		free(i);
		return r;
	}
	d->next = m->listeners;
	m->listeners = d;
	shim_clients_wake(m, d->sock);
	*i = (struct inside){.listener = d,
			     .next = m->all,
			     .pid = pid,
			     .sock = -1,
			     .memory = -1,
			     .since = clock_ns(CLOCK_MONOTONIC)};
	m->all = i;
	*out = i;
	return 0;
}

static void begin_to_trace(struct engine_shim *m, struct inside *i)
{
	struct shim_share *s = i->share;
	memcpy(s->plan, m->plans, m->nset * sizeof(*m->plans));
	s->proc = i->proc;
	s->may_sum = m->may_sum;
	s->waits = m->waits;
	s->turn = m->turn;
	s->chunks = m->chunks;
	give_conf(s, &m->conf[i->proc]);
	s->on = 1;
}

static int jump_late(struct engine_shim *m, struct inside *i, const struct probe_file *file,
		     struct err *e)
{
	int r = shim_jumps_late(m, i, file, e);
	if (r && file->nsites && file->sites[0].op == i->share->op[SHIM_CALL]) {
		i->share->jumped[file->sites[0].op] = 0;
		i->no_blocks = true;
	}
	return r;
}

/* Of a library once, however often the process is tried. */
static void keep_beside(struct inside *i, const struct probe_file *file)
{
	unsigned k = 0;
	while (k < i->nbeside && i->beside[k].elf != file->elf)
		k++;
	if (k == SHIM_BESIDE)
		return;
	i->beside[k] = *file;
	i->nbeside += k == i->nbeside;
}

int shim_attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		struct err *e)
{
	struct engine_shim *m = shim_of(g);
	struct inside *i = inside_find(m, pid);
	if (!i && pid != m->target)
		return err_set(e, -ENOTCONN, "the library in process %d is out of use", pid);
	if (file->late)
		return i && i->share ? jump_late(m, i, file, e) : -ENOTCONN;
	int r = i ? 0 : shim_bring_in(m, pid, &i, e);
	if (r)
		return r;
	for (size_t k = 0; k < file->nsites; k++)
		if (file->sites[k].kind == SITE_CODE_FREED && i->share)
			i->share->code_freed = 1;
	if (!i->share && file->nsites && file->sites[0].len)
		keep_beside(i, file);
	if (i->share || !file->nsites || file->sites[0].kind != SITE_OBSERVED)
		return 0;
	r = inside_share(i);
	if (r)
		return err_set(e, r, "cannot make memory to share with process %d: %s", pid,
			       strerror(-r));
	i->proc = proc;
	i->file = *file;
	for (size_t k = 0; k < file->nsites && k < SHIM_OPS; k++)
		i->share->op[k] = file->sites[k].op;
	begin_to_trace(m, i);
	if (i->listener)
		shim_clients_await(m, i, i->listener);
	return 0;
}

void shim_detach(struct engine *g, uint16_t proc)
{
	for (struct inside *i = shim_of(g)->all; i; i = i->next)
		if (i->share && (proc == ENGINE_ALL_PROCS || i->proc == proc)) {
			i->share->on = 0;
			i->file.elf = NULL;
			i->nbeside = 0;
			if (shim_of(g)->jumps)
				jumps_remove(shim_of(g)->jumps, i->pid);
		}
	shim_activities_flush(shim_of(g), proc);
}
