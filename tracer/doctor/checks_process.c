#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/doctor/checks.h"

static void add_err(struct checks *c, enum check_status status, const struct err *e)
{
	checks_add(c, status, e->what, e->hint);
}

/* /proc/PID belongs to root when the process is not dumpable (proc(5)). */
static bool may_be_looked_at(const struct check_env *env, const struct process *p)
{
	char path[PATH_MAX];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d", p->pid);
	return caps_has(caps_effective(env->proc), CAPS_SYS_PTRACE) || stat(path, &st) ||
	       st.st_uid == geteuid();
}

/* False when it may not be traced. */
static bool check_owner(const struct check_env *env, const struct process *p, struct checks *c)
{
	struct err e = {0};
	char user[64], command[256], threads[48], ns[64] = "";
	process_user(p->status.uid, user, sizeof(user));
	process_cmdline(p->pid, command, sizeof(command));
	if (p->status.ns_levels > 1)
		snprintf(ns, sizeof(ns), ", %d in its container", p->status.ns_pid);
	if (p->status.uid != geteuid() && !caps_has(caps_effective(env->proc), CAPS_SYS_PTRACE)) {
		process_error(p->pid, -EPERM, "attach to", &e);
		add_err(c, CHECK_FAIL, &e);
		return false;
	}
	if (!may_be_looked_at(env, p)) {
		checks_addf(c, CHECK_FAIL, "sudo ditrace attach PID",
			    "process %d is not dumpable: it has changed its user or asked for that "
			    "(prctl PR_SET_DUMPABLE), and only root may trace it",
			    p->pid);
		return false;
	}
	checks_addf(c, CHECK_OK, "", "process %d%s: %s, of user %s, %s", p->pid, ns, command, user,
		    text_counted(threads, sizeof(threads), p->status.threads, "thread"));
	return true;
}

static void check_state(const struct check_env *env, const struct process *p, struct checks *c)
{
	struct process by;
	if (p->status.state == 'T')
		checks_addf(c, CHECK_WARN, "kill -CONT PID",
			    "it is stopped: no op runs until it is continued");
	if (!p->status.tracer)
		return;
	bool named = !process_read(p->status.tracer, &by, NULL);
	checks_addf(c, env->ptrace_only ? CHECK_FAIL : CHECK_WARN,
		    env->ptrace_only ? "end that one: one alone can trace by ptrace"
				     : "end that one, or go on: probes work beside it",
		    "process %d (%s) traces it by ptrace", p->status.tracer,
		    named ? by.comm : "not seen from here");
}

static void check_namespaces(const struct process *p, struct checks *c)
{
	if (p->ns_known && (p->other_mnt_ns || p->other_pid_ns))
		checks_addf(c, CHECK_OK, "", "it is in a container (another %s namespace)",
			    p->other_mnt_ns ? "mount" : "PID");
}

static void check_torch(const struct libraries *l, pid_t pid, const struct maps *m,
			struct checks *c)
{
	struct torch_package package;
	char path[PATH_MAX], fix[128];
	struct err e = {0};
	if (!l->torch) {
		snprintf(fix, sizeof(fix),
			 "ditrace attach --wait %d, which waits for it to import torch", pid);
		checks_add(c, CHECK_FAIL,
			   "it has not loaded PyTorch (no libtorch among its mappings)", fix);
		return;
	}
	if (maps_open_path(pid, l->torch, path, sizeof(path), &e)) {
		add_err(c, CHECK_FAIL, &e);
		return;
	}
	torch_package_find(pid, m, &package);
	checks_addf(c, CHECK_OK, "", "PyTorch %s in %s",
		    *package.version ? package.version : "of unknown version", l->torch->path);
}

static void check_python(const struct libraries *l, struct checks *c)
{
	if (l->python)
		checks_addf(c, CHECK_OK, "", "Python in %s", l->python->path);
	else
		checks_add(c, CHECK_WARN, "no Python found in it: ops will have no source lines",
			   "");
}

bool checks_process(const struct check_env *env, pid_t pid, struct checks *c)
{
	struct err e = {0};
	struct process p;
	struct maps m;
	struct libraries l;
	if (process_read(pid, &p, &e)) {
		add_err(c, CHECK_FAIL, &e);
		return false;
	}
	if (!check_owner(env, &p, c))
		return false;
	check_state(env, &p, c);
	check_namespaces(&p, c);
	if (maps_read(p.pid, &m, &e)) {
		add_err(c, CHECK_FAIL, &e);
		return false;
	}
	libraries_find(&m, &l);
	check_torch(&l, p.pid, &m, c);
	bool torch = l.torch;
	if (torch)
		check_python(&l, c);
	maps_free(&m);
	return torch;
}
