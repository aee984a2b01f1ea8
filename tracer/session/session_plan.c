#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "symbolizer/target/maps.h"
#include "tracer/session/internal.h"
#include "tracer/session/session.h"

static int open_files(pid_t pid, const struct libraries *l, struct ops_file *out, struct err *e)
{
	for (unsigned i = 0; i < OPS_FILES; i++) {
		const struct mapping *m = ops_mapping(l, i);
		int fd = m ? maps_open(pid, m, e) : 0;
		if (fd < 0)
			return fd;
		if (m)
			out[i] = (struct ops_file){fd, m->path};
	}
	return 0;
}

int load_ops(pid_t pid, const struct libraries *l, enum ops_kind kind, struct op_table **out,
	     struct err *e)
{
	struct ops_file files[OPS_FILES] = {0};
	int cache = kind == OPS_LAZY ? -1 : home_cache("code");
	int r = open_files(pid, l, files, e);
	if (!r)
		r = op_table_load(files, kind, cache, out, e);
	if (cache >= 0)
		close(cache);
	for (unsigned i = 0; i < OPS_FILES; i++)
		if (files[i].path)
			close(files[i].fd);
	return r;
}

static int load(pid_t pid, const struct libraries *l, enum ops_kind kind, struct loaded_ops *out,
		struct err *e)
{
	out->inode = l->torch->inode;
	out->major = l->torch->dev_major;
	out->minor = l->torch->dev_minor;
	return load_ops(pid, l, kind, &out->table, e);
}

/* A failure is not reported here: session_load_ops tries again and reports it. */
static void *preload_main(void *arg)
{
	struct preload *p = arg;
	struct maps maps;
	struct libraries l;
	struct err why = {0};
	if (maps_read(p->pid, &maps, NULL))
		return NULL;
	libraries_find(&maps, &l);
	if (l.torch && load(p->pid, &l, p->kind, &p->ops, &why))
		p->ops.table = NULL;
	maps_free(&maps);
	return NULL;
}

static enum ops_kind ops_kind(const struct session *s, bool jumps)
{
	return !jumps ? OPS_PROBES : OBSERVERS_FIRST(s, on_written) ? OPS_COLLECTIVES : OPS_JUMPS;
}

void session_preload(struct session *s, pid_t pid)
{
	s->preload.pid = pid;
	s->preload.kind = ops_kind(s, session_expects_shim(s));
	s->preload.running = !pthread_create(&s->preload.thread, NULL, preload_main, &s->preload);
}

static void wait_for_preload(struct session *s)
{
	if (s->preload.running)
		pthread_join(s->preload.thread, NULL);
	s->preload.running = false;
}

static bool is_of(const struct loaded_ops *ops, const struct mapping *m)
{
	return ops->table && m->inode == ops->inode && m->dev_major == ops->major &&
	       m->dev_minor == ops->minor;
}

bool session_has_ops_of(const struct session *s, const struct mapping *m)
{
	return is_of(&s->loaded, m);
}

int session_load_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e)
{
	const enum ops_kind kind = ops_kind(s, s->engine->observes);
	int r = 0;
	wait_for_preload(s);
	if (s->preload.kind == kind && is_of(&s->preload.ops, l->torch)) {
		s->loaded = s->preload.ops;
		s->preload.ops.table = NULL;
	} else {
		r = load(pid, l, kind, &s->loaded, e);
	}
	if (!r)
		s->ops = s->loaded.table;
	return r;
}

void session_end_preload(struct session *s)
{
	wait_for_preload(s);
	op_table_free(s->preload.ops.table);
}

static bool is_node(const struct op_probe *p)
{
	return p->role == ROLE_NODE || p->role == ROLE_PY_NODE || p->role == ROLE_NAMED_NODE;
}

static bool observers_want(const struct session *s, const struct op_desc *op)
{
	for (const struct observer *o = s->observers; o; o = o->next)
		if (o->wants_op && !o->wants_op(o, op))
			return false;
	return true;
}

bool session_wants(const struct session *s, const struct op_desc *op)
{
	return (!s->o->ops || filter_match(&s->ops_filter, op)) &&
	       (!s->o->not_ops || !filter_match(&s->not_filter, op));
}

/* Whether the name lists require the probes of `p`. For boxed calls, Python functions and their
 * nodes, only the events tell the name. */
static bool is_probed(const struct session *s, const struct op_probe *p)
{
	if (p->exit_kind == EXIT_NONE)
		return false;
	if (p->role == ROLE_GRADS)
		return OBSERVERS_FIRST(s, on_grads);
	/* Nodes mark what is backward, whether selected or not. */
	if (is_node(p) && (s->o->phase == SESSION_FORWARD || s->needs & OBSERVER_NODES))
		return true;
	if (p->role == ROLE_WRITTEN)
		return OBSERVERS_FIRST(s, on_written);
	if (p->role == ROLE_WAIT && OBSERVERS_FIRST(s, on_written))
		return true;
	if (role_is_distributed(p->role) || p->role == ROLE_DONE)
		return session_wants(s, &p->desc);
	if (s->needs & OBSERVER_ALL)
		return true;
	if (p->role != ROLE_CALL && p->role != ROLE_NODE)
		return true;
	if (s->o->ops && !filter_match(&s->ops_filter, &p->desc))
		return s->o->phase >= SESSION_BACKWARD && is_node(p);
	if (p->role == ROLE_CALL && !observers_want(s, &p->desc))
		return false;
	return !s->o->not_ops || !filter_match(&s->not_filter, &p->desc);
}

/* Whether the events of a probed op may be recorded. */
static bool is_chosen(const struct session *s, const struct op_probe *p)
{
	if ((p->role != ROLE_CALL && p->role != ROLE_NODE) || p->exit_kind == EXIT_NONE)
		return false;
	if ((s->o->phase == SESSION_FORWARD || s->o->phase == SESSION_RECOMPUTE) && is_node(p))
		return false;
	if (s->o->ops && !filter_match(&s->ops_filter, &p->desc))
		return false;
	return !s->o->not_ops || !filter_match(&s->not_filter, &p->desc);
}

/* Filters `ops`, of n entries, in place to the chosen ones, then checks --when against them. */
static int check_when(struct session *s, const struct op_desc **ops, size_t n, struct err *e)
{
	bool more = s->o->ops && filter_may_come(&s->ops_filter, ops, n);
	n = 0;
	for (uint32_t i = 0; i < s->ops->n; i++)
		if (is_chosen(s, &s->ops->ops[i]))
			ops[n++] = &s->ops->ops[i].desc;
	int r = when_check(s->when, ops, n, more, e);
	for (const struct observer *o = s->observers; o && !r; o = o->next)
		r = o->check_when ? o->check_when(o, e) : 0;
	return r;
}

static int check_filters(struct session *s, struct err *e)
{
	const struct op_desc **all = malloc(s->ops->n * sizeof(*all));
	size_t n = 0;
	if (!all)
		return err_set(e, -ENOMEM, "no memory");
	for (uint32_t i = 0; i < s->ops->n; i++)
		if (s->ops->ops[i].role == ROLE_CALL || s->ops->ops[i].role == ROLE_NODE ||
		    role_is_distributed(s->ops->ops[i].role))
			all[n++] = &s->ops->ops[i].desc;
	int r = s->o->ops ? filter_check(&s->ops_filter, all, n, e) : 0;
	if (!r && s->o->not_ops)
		r = filter_check(&s->not_filter, all, n, e);
	if (!r && s->when)
		r = check_when(s, all, n, e);
	free(all);
	return r;
}

static void add_sites(struct session *s, uint32_t op, unsigned file, size_t *n)
{
	const struct op_probe *p = &s->ops->ops[op];
	if (p->file != file || !is_probed(s, p))
		return;
	memcpy(&s->sites[*n], &s->ops->sites[p->first_site], p->nsites * sizeof(*s->sites));
	*n += p->nsites;
}

/* Add sites in the order of enum shim_op. */
static size_t add_observed(struct session *s)
{
	static const uint8_t roles[] = {ROLE_BOXED, ROLE_NAMED, ROLE_NAMED_NODE, ROLE_ENGINE};
	size_t n = 0;
	for (size_t k = 0; k < sizeof(roles); k++)
		for (uint32_t i = 0; i < s->ops->n; i++)
			if (s->ops->ops[i].role == roles[k])
				s->sites[n++] = (struct probe_site){.op = i, .kind = SITE_OBSERVED};
	return n;
}

/* Jumps at all ops: what is not recorded announces itself, so that it is not observed. */
static size_t add_jumps(struct session *s, size_t n)
{
	for (unsigned i = 0; i < SHIM_STEPS; i++)
		s->sites[n++] = s->ops->step[i];
	for (uint32_t i = 0; i < s->ops->n; i++) {
		const struct op_probe *p = &s->ops->ops[i];
		if (p->exit_kind != EXIT_JUMP || p->file != OPS_CPU)
			continue;
		size_t first = n;
		add_sites(s, i, OPS_CPU, &n);
		if (n > first || role_is_distributed(p->role) || p->role == ROLE_DONE ||
		    p->role == ROLE_WRITTEN)
			continue;
		s->sites[n] = s->ops->sites[p->first_site];
		s->sites[n++].kind = SITE_ANNOUNCED;
	}
	return n;
}

/* For an engine that picks calls. Only the event tells which operator a boxed call is of, so all of
 * these stop; Python functions are not captured, so they never do. */
static __u8 stop_flags(const struct session *s, const struct op_probe *p)
{
	if (!s->engine->count_call || p->role == ROLE_BOXED)
		return PLAN_STOP;
	return p->role == ROLE_FUNCTION ? 0 : PLAN_STOP | PLAN_PICK;
}

/* Of an engine that can hold threads: until a kernel has probes nobody calls it. */
static __u8 hold_flags(const struct session *s)
{
	return s->engine->observes || s->engine->registers ? PLAN_STOP : 0;
}

/* The flags that the options add to the plan of an op. */
static __u8 session_flags(const struct session *s, const struct op_probe *p)
{
	bool is_named = p->role == ROLE_CALL || p->role == ROLE_NODE;
	if (p->role == ROLE_WAIT && OBSERVERS_FIRST(s, on_written))
		return PLAN_STOP;
	if (role_is_distributed(p->role) || p->role == ROLE_DONE || p->role == ROLE_SLICES)
		return 0;
	if (p->role == ROLE_WRITTEN)
		return PLAN_STOP | PLAN_PICK;
	if (is_node(p) && s->o->phase == SESSION_FORWARD)
		return PLAN_MARK;
	__u8 stop = stop_flags(s, p);
	if (role_is_counter(p->role))
		return p->role == ROLE_COUNTER_STOP ? hold_flags(s) : 0;
	if (s->needs & OBSERVER_NODES && is_node(p))
		return stop;
	if (s->stops && (!is_named || session_wants(s, &p->desc)))
		return stop;
	return s->o->ops && p->role == ROLE_NODE && !filter_match(&s->ops_filter, &p->desc)
		   ? PLAN_MARK
		   : 0;
}

int session_make_plan(struct session *s, struct err *e)
{
	int r = check_filters(s, e);
	if (r)
		return r;
	s->sites =
	    calloc(s->ops->nsites + SHIM_OPS + SHIM_STEPS + 1 + EXITS_MAX, sizeof(*s->sites));
	if (!s->sites)
		return err_set(e, -ENOMEM, "no memory");
	size_t n = 0;
	if (s->engine->observes) {
		n = add_jumps(s, add_observed(s));
		s->boxed_site = n;
		n += 1 + EXITS_MAX;
	} else {
		for (uint32_t i = 0; i < s->ops->n; i++)
			add_sites(s, i, OPS_CPU, &n);
	}
	s->cpu_sites = n;
	for (uint32_t i = 0; !s->engine->observes && i < s->ops->n; i++)
		add_sites(s, i, OPS_PYTHON, &n);
	s->python_sites = n - s->cpu_sites;
	for (uint32_t i = 0; i < s->ops->n; i++)
		add_sites(s, i, OPS_C10, &n);
	s->c10_sites = n - s->cpu_sites - s->python_sites;
	for (uint32_t i = 0; i < s->ops->n; i++)
		s->ops->plans[i].flags |= session_flags(s, &s->ops->ops[i]);
	return s->engine->set_plans(s->engine, 0, s->ops->plans, s->ops->n, e);
}
