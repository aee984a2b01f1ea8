#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decoder.h"
#include "symbolizer/python/pycode.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/session/internal.h"

struct proc *session_proc(struct session *s, pid_t pid)
{
	for (unsigned i = 0; i < PROCS_MAX; i++)
		if (s->procs[i].target && s->procs[i].alive && s->procs[i].target->pid == pid)
			return &s->procs[i];
	return NULL;
}

bool session_has_torch(pid_t pid)
{
	struct maps maps;
	struct libraries l;
	if (maps_read(pid, &maps, NULL))
		return false;
	libraries_find(&maps, &l);
	maps_free(&maps);
	return l.torch;
}

bool session_is_complete(pid_t pid)
{
	struct maps maps;
	struct libraries l;
	if (maps_read(pid, &maps, NULL))
		return false;
	libraries_find(&maps, &l);
	maps_free(&maps);
	return l.torch && l.c10;
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

/* Whether the probes of `p` are to be put in, by the lists of names. Of boxed calls, Python
 * functions and their nodes only the events tell the name. */
static bool is_probed(const struct session *s, const struct op_probe *p)
{
	if (p->exit_kind == EXIT_NONE)
		return false;
	if (p->role == ROLE_GRADS)
		return OBSERVERS_FIRST(s, on_grads);
	/* Nodes mark what is backward, wanted or not. */
	if (is_node(p) && (s->o->phase == SESSION_FORWARD || s->needs & OBSERVER_NODES))
		return true;
	if (s->needs & OBSERVER_ALL)
		return true;
	if (p->role != ROLE_CALL && p->role != ROLE_NODE)
		return true;
	if (s->o->ops && !filter_match(&s->ops_filter, &p->desc))
		return s->o->phase == SESSION_BACKWARD && is_node(p);
	if (p->role == ROLE_CALL && !observers_want(s, &p->desc))
		return false;
	return !s->o->not_ops || !filter_match(&s->not_filter, &p->desc);
}

/* Whether the events of a probed op may be recorded. */
static bool is_chosen(const struct session *s, const struct op_probe *p)
{
	if ((p->role != ROLE_CALL && p->role != ROLE_NODE) || p->exit_kind == EXIT_NONE)
		return false;
	if (s->o->phase == SESSION_FORWARD && is_node(p))
		return false;
	if (s->o->ops && !filter_match(&s->ops_filter, &p->desc))
		return false;
	return !s->o->not_ops || !filter_match(&s->not_filter, &p->desc);
}

/* Keeps the chosen ones of `ops`; n of them when it begins. */
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
		if (s->ops->ops[i].role == ROLE_CALL || s->ops->ops[i].role == ROLE_NODE)
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

/* In the order of enum shim_op. */
static size_t add_observed(struct session *s)
{
	static const uint8_t roles[] = {ROLE_BOXED, ROLE_NAMED, ROLE_NAMED_NODE, ROLE_ENGINE};
	size_t n = 0;
	for (size_t k = 0; k < sizeof(roles); k++)
		for (uint32_t i = 0; i < s->ops->n; i++)
			if (s->ops->ops[i].role == roles[k])
				s->sites[n++] = (struct probe_site){0, i, SITE_OBSERVED};
	return n;
}

bool session_wants(const struct session *s, const struct op_desc *op)
{
	return (!s->o->ops || filter_match(&s->ops_filter, op)) &&
	       (!s->o->not_ops || !filter_match(&s->not_filter, op));
}

/* Of an engine that picks calls: which operator a boxed call is of only its event tells, and Python
 * functions are not captured. */
static __u8 stop_flags(const struct session *s, const struct op_probe *p)
{
	if (!s->engine->count_call || p->role == ROLE_BOXED)
		return PLAN_STOP;
	return p->role == ROLE_FUNCTION ? 0 : PLAN_STOP | PLAN_PICK;
}

/* What the options add to the plan of an op. */
static __u8 session_flags(const struct session *s, const struct op_probe *p)
{
	bool is_named = p->role == ROLE_CALL || p->role == ROLE_NODE;
	if (is_node(p) && s->o->phase == SESSION_FORWARD)
		return PLAN_MARK;
	__u8 stop = stop_flags(s, p);
	if (s->needs & OBSERVER_NODES && is_node(p))
		return stop;
	if (s->stops && (!is_named || session_wants(s, &p->desc)))
		return stop;
	return s->o->ops && p->role == ROLE_NODE && !filter_match(&s->ops_filter, &p->desc)
		   ? PLAN_MARK
		   : 0;
}

/* The plan of this session: what the options leave of the table's. */
static int make_plan(struct session *s, struct err *e)
{
	int r = check_filters(s, e);
	if (r)
		return r;
	s->sites = malloc(s->ops->nsites * sizeof(*s->sites) + 1);
	if (!s->sites)
		return err_set(e, -ENOMEM, "no memory");
	size_t n = 0;
	if (s->engine->observes)
		n = add_observed(s);
	else
		for (uint32_t i = 0; i < s->ops->n; i++)
			add_sites(s, i, OPS_CPU, &n);
	s->cpu_sites = n;
	for (uint32_t i = 0; !s->engine->observes && i < s->ops->n; i++)
		add_sites(s, i, OPS_PYTHON, &n);
	s->python_sites = n - s->cpu_sites;
	for (uint32_t i = 0; i < s->ops->n; i++)
		s->ops->plans[i].flags |= session_flags(s, &s->ops->ops[i]);
	return s->engine->set_plans(s->engine, 0, s->ops->plans, s->ops->n, e);
}

static int probe_library(struct session *s, uint16_t index, const struct libraries *l, unsigned lib,
			 const struct probe_site *sites, size_t n, struct err *e)
{
	char path[PATH_MAX];
	pid_t pid = s->procs[index].target->pid;
	const struct mapping *m = ops_mapping(l, lib);
	if (!m || !n)
		return 0;
	int r = maps_open_path(pid, m, path, sizeof(path), e);
	struct probe_file f = {path, sites, n};
	return r ? r : s->engine->attach(s->engine, pid, index, &f, e);
}

static struct proc *free_slot(struct session *s)
{
	for (unsigned i = 0; i < PROCS_MAX; i++)
		if (!s->procs[i].target)
			return &s->procs[i];
	return NULL;
}

static char *copy_or_empty(const char *s)
{
	return strdup(s ? s : "");
}

void session_free_target_info(struct trace_target *t)
{
	free((char *)t->comm);
	free((char *)t->argv);
	free((char *)t->torch_version);
	free((char *)t->python_version);
	free((char *)t->torch_dir);
}

static void describe(struct session *s, const struct target *t)
{
	char argv[1024];
	struct process p;
	if (s->ntargets == TARGETS_MAX || process_read(t->pid, &p, NULL))
		return;
	struct trace_target *i = &s->targets[s->ntargets++];
	*i = (struct trace_target){
	    .pid = t->pid,
	    .start_ns = (int64_t)s->start_ns,
	    .comm = copy_or_empty(p.comm),
	    .argv = copy_or_empty(process_cmdline(t->pid, argv, sizeof(argv))),
	    .torch_version = copy_or_empty(t->package.version),
	    .python_version = copy_or_empty(t->py ? python_version(t->py) : NULL),
	    .engine = s->engine->name,
	    .torch_dir = copy_or_empty(t->package.dir),
	};
	OBSERVERS_CALL(s, on_target, i);
}

static int probe_process(struct session *s, struct proc *p, const struct libraries *l,
			 struct err *e)
{
	uint16_t index = (uint16_t)(p - s->procs);
	p->target->conf.phase = (uint8_t)s->o->phase;
	p->target->conf.max_depth = s->o->depth > UINT16_MAX ? 0 : (uint16_t)s->o->depth;
	p->generation = p->target->conf.generation;
	int r = s->engine->set_proc(s->engine, index, &p->target->conf);
	if (r)
		return err_set(e, r, "cannot set up process %d: %s", p->target->pid, strerror(-r));
	r = decoder_add_target(s->decoder, index, p->target);
	r = r ? r : probe_library(s, index, l, OPS_CPU, s->sites, s->cpu_sites, e);
	return r ? r
		 : probe_library(s, index, l, OPS_PYTHON, s->sites + s->cpu_sites, s->python_sites,
				 e);
}

static void inherit(struct session *s, struct target *t)
{
	struct process child;
	struct proc *p =
	    process_read(t->pid, &child, NULL) ? NULL : session_proc(s, child.status.ppid);
	if (p)
		target_inherit(t, p->target);
}

static int no_torch(pid_t pid, struct err *e)
{
	err_set(e, -ENODATA, "process %d has no PyTorch loaded", pid);
	return err_hint(e, "wait for it with: ditrace attach --wait %d", pid);
}

/* The first process decides which libtorch is traced. */
static int know_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e)
{
	int r = s->ops ? 0 : session_load_ops(s, pid, l, e);
	if (r || s->sites)
		return r;
	r = make_plan(s, &s->fatal);
	if (r && e)
		*e = s->fatal;
	return r;
}

static int check_same_torch(const struct session *s, pid_t pid, const struct libraries *l,
			    struct err *e)
{
	if (session_has_ops_of(s, l->torch))
		return 0;
	return err_set(
	    e, -ENOTSUP,
	    "process %d uses another libtorch than the first one traced; it is left alone", pid);
}

static int open_proc(struct session *s, struct proc *p, pid_t pid, const struct maps *maps,
		     const struct libraries *l, struct err *e)
{
	struct err py_note = {0};
	uint16_t index = (uint16_t)(p - s->procs);
	OBSERVERS_CALL(s, forget_process, pid);
	*p = (struct proc){.alive = true, .added = session_now()};
	int r = target_open(pid, s->ops, maps, &p->target, &py_note, e);
	if (r)
		return r;
	inherit(s, p->target);
	r = probe_process(s, p, l, e);
	if (r) {
		s->engine->detach(s->engine, index);
		decoder_remove_target(s->decoder, index);
		target_close(p->target);
		p->target = NULL;
	}
	return r;
}

static int add_mapped(struct session *s, pid_t pid, const struct maps *maps, struct err *e)
{
	struct libraries l;
	libraries_find(maps, &l);
	if (s->fatal.code)
		return s->fatal.code;
	if (!l.torch)
		return no_torch(pid, e);
	int r = know_ops(s, pid, &l, e);
	r = r ? r : check_same_torch(s, pid, &l, e);
	if (r)
		return r;
	struct proc *p = free_slot(s);
	if (!p)
		return err_set(e, -E2BIG,
			       "more than %d processes at once; process %d is left alone",
			       PROCS_MAX, pid);
	r = open_proc(s, p, pid, maps, &l, e);
	if (r)
		return r;
	s->total++;
	if (!s->first_ns)
		s->first_ns = session_now();
	describe(s, p->target);
	session_complete_procs(s);
	return 0;
}

int session_add(struct session *s, pid_t pid, struct err *e)
{
	struct maps maps;
	if (session_proc(s, pid))
		return 0;
	int r = maps_read(pid, &maps, e);
	if (r)
		return r;
	r = add_mapped(s, pid, &maps, e);
	maps_free(&maps);
	return r;
}

void session_remove(struct session *s, pid_t pid)
{
	struct proc *p = session_proc(s, pid);
	if (!p)
		return;
	/* What it sent last may still be on its way: session_free_ended has the slot. */
	p->alive = false;
	s->engine->detach(s->engine, (uint16_t)(p - s->procs));
}

/* A probe at a place in a file that is only known by an address in the process. */
static int probe_address(struct session *s, struct proc *p, uint64_t addr, uint32_t kind,
			 uint32_t op)
{
	struct maps maps;
	char path[PATH_MAX];
	if (maps_read(p->target->pid, &maps, NULL))
		return -ESRCH;
	const struct mapping *m = maps_find(&maps, addr);
	int r =
	    m && m->inode ? maps_open_path(p->target->pid, m, path, sizeof(path), NULL) : -ENOENT;
	if (!r) {
		struct probe_site site = {addr - m->start + m->offset, op, kind};
		struct probe_file f = {path, &site, 1};
		r = s->engine->attach(s->engine, p->target->pid, (uint16_t)(p - s->procs), &f,
				      NULL);
	}
	maps_free(&maps);
	return r;
}

static void probe_code_freed(struct session *s, struct proc *p)
{
	uint64_t addr;
	if (p->code_freed || !p->target->py || py_code_dealloc_addr(p->target->py, &addr))
		return;
	p->code_freed = true;
	probe_address(s, p, addr, SITE_CODE_FREED, 0);
}

/* Its exits are found as those of the others, from the code in the file. */
static void probe_boxed(struct session *s, struct proc *p)
{
	enum { TRY_NS = 60ULL * 1000 * 1000 * 1000 };
	struct target *t = p->target;
	if (p->boxed || s->now - p->added > TRY_NS)
		return;
	uint64_t at = target_find_boxed(t);
	if (!at)
		return;
	p->boxed = true;
	uint64_t vaddr = at - t->bias[OPS_CPU];
	struct probe_site sites[1 + EXITS_MAX + 1];
	size_t own = op_table_boxed_sites(s->ops, vaddr, sites);
	int changed = own ? -1 : op_table_call_boxed(s->ops, vaddr);
	struct maps maps;
	struct libraries l;
	if ((!own && changed < 0) || maps_read(t->pid, &maps, NULL))
		return;
	libraries_find(&maps, &l);
	if (changed >= 0)
		s->engine->set_plans(s->engine, (uint32_t)changed, &s->ops->plans[changed], 1,
				     NULL);
	for (unsigned file = 0; file < OPS_FILES; file++) {
		size_t n = file == OPS_CPU ? own : 0;
		if (changed >= 0)
			n = op_table_call_boxed_sites(s->ops, file, sites);
		/* The operators that they call may be gone when their calls are looked at. */
		if (file == OPS_CPU && s->ops->schema_off)
			sites[n++] = (struct probe_site){s->ops->schema_off, 0, SITE_SCHEMA};
		if (n)
			probe_library(s, (uint16_t)(p - s->procs), &l, file, sites, n, NULL);
	}
	maps_free(&maps);
}

static void find_python(struct session *s, struct proc *p)
{
	struct err why = {0};
	if (p->target->py || target_find_python(p->target, &why))
		return;
	s->engine->set_proc(s->engine, (uint16_t)(p - s->procs), &p->target->conf);
}

static void learn_pynode(struct session *s, struct proc *p)
{
	uint16_t off = s->pynode_known ? 0 : target_pynode_obj(p->target);
	int op = off ? op_table_set_pynode(s->ops, off) : -1;
	if (op < 0)
		return;
	s->pynode_known = true;
	s->engine->set_plans(s->engine, (uint32_t)op, &s->ops->plans[op], 1, NULL);
}

void session_complete_procs(struct session *s)
{
	s->now = session_now();
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		if (!p->target || !p->alive)
			continue;
		find_python(s, p);
		learn_pynode(s, p);
		if (target_prepare(p->target))
			s->engine->set_proc(s->engine, (uint16_t)i, &p->target->conf);
		probe_code_freed(s, p);
		probe_boxed(s, p);
	}
}

/* A tenth of the first seconds, less later on: each call of the dispatcher costs a trap meanwhile.
 */
void session_sample_dispatch(struct session *s)
{
	enum { WINDOW_NS = 50 * 1000 * 1000, PAUSE_NS = 1000 * 1000 * 1000 };
	uint16_t index = PROCS_MAX;
	if (!s->ops || !s->ops->dispatch_off || !s->first_ns)
		return;
	if (s->dispatch_since && s->now - s->dispatch_since >= WINDOW_NS) {
		s->engine->count_dispatch(s->engine, 0);
		s->engine->detach(s->engine, index);
		s->dispatch_since = 0;
		s->dispatch_next = s->now + PAUSE_NS * (1 + (s->now - s->first_ns) / PAUSE_NS / 4);
		return;
	}
	if (s->dispatch_since || s->now < s->dispatch_next)
		return;
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		const struct proc *p = &s->procs[i];
		if (!p->target || !p->alive)
			continue;
		struct probe_site site = {s->ops->dispatch_off, 0, SITE_DISPATCH};
		struct probe_file f = {s->ops->path[OPS_CPU], &site, 1};
		if (!s->engine->attach(s->engine, p->target->pid, index, &f, NULL)) {
			s->engine->count_dispatch(s->engine, 1);
			s->dispatch_since = s->now;
		}
		break;
	}
}
