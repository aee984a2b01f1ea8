#define _GNU_SOURCE
#include "tracer/doctor/checks.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"

static const char by_root[] =
    "run it as root: sudo ditrace ...; or once: "
    "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore+ep "
    "$(command -v ditrace)";

void checks_add(struct checks *c, enum check_status status, const char *text, const char *fix)
{
	if (array_grow(&c->list, &c->room, c->n + 1, sizeof(*c->list))) {
		c->failed = true;
		return;
	}
	struct check x = {status, strdup(text), strdup(fix), c->of_bpf};
	c->failed = c->failed || status == CHECK_FAIL || !x.text || !x.fix;
	if (x.text && x.fix) {
		c->list[c->n++] = x;
		return;
	}
	free(x.text);
	free(x.fix);
}

void checks_addf(struct checks *c, enum check_status status, const char *fix, const char *fmt, ...)
{
	char text[8192];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	checks_add(c, status, text, fix);
}

void checks_spare_bpf(struct checks *c)
{
	c->failed = false;
	for (size_t i = 0; i < c->n; i++) {
		struct check *x = &c->list[i];
		if (x->of_bpf && x->status == CHECK_FAIL)
			x->status = CHECK_WARN;
		c->failed |= x->status == CHECK_FAIL;
	}
}

void checks_free(struct checks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->list[i].text);
		free(c->list[i].fix);
	}
	free(c->list);
	*c = (struct checks){0};
}

void check_env_init(struct check_env *env)
{
	*env = (struct check_env){.proc = "/proc", .sys = "/sys"};
	selftest_bpf(&env->bpf);
	env->perf = selftest_perf();
	env->pidfd = selftest_pidfd();
	env->ptrace = selftest_ptrace();
	target_files_check(&env->files);
}

/* The first line of ROOT/NAME without its newline; false when it cannot be read. */
static bool read_line(const char *root, const char *name, char *out, size_t size)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(out, (int)size, f);
	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	return ok;
}

static bool exists(const char *root, const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	return !access(path, R_OK);
}

static bool has(const struct check_env *env, int cap)
{
	return caps_has(caps_effective(env->proc), cap);
}

void check_kernel(const struct check_env *env, struct checks *c)
{
	char release[128] = "";
	unsigned major = 0, minor = 0;
	read_line(env->proc, "sys/kernel/osrelease", release, sizeof(release));
	if (sscanf(release, "%u.%u", &major, &minor) != 2) {
		checks_addf(c, CHECK_WARN, "mount -t proc proc /proc",
			    "the version of the kernel is not known");
		return;
	}
	/* Vendors backport it to older kernels. */
	bool works = !env->bpf.load && !env->bpf.link;
	if (!works && (major < 6 || (major == 6 && minor < 6))) {
		checks_addf(c, CHECK_FAIL,
			    "boot Linux 6.6 or later (Debian 12: apt install -t bookworm-backports "
			    "linux-image-amd64)",
			    "kernel %u.%u is too old: uprobe_multi came with 6.6", major, minor);
		return;
	}
	if (!exists(env->sys, "kernel/btf/vmlinux")) {
		checks_addf(c, CHECK_FAIL,
			    "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions "
			    "build theirs",
			    "kernel %u.%u has no BTF (/sys/kernel/btf/vmlinux)", major, minor);
		return;
	}
	checks_addf(c, CHECK_OK, "", "kernel %u.%u: eBPF, uprobe_multi, BTF", major, minor);
}

/* The initial user namespace maps all IDs to themselves. */
static bool in_first_user_ns(const struct check_env *env)
{
	char line[128];
	unsigned inside, outside, n;
	if (!read_line(env->proc, "self/uid_map", line, sizeof(line)))
		return true;
	return sscanf(line, "%u %u %u", &inside, &outside, &n) == 3 && !inside && !outside &&
	       n == UINT_MAX;
}

void check_capabilities(const struct check_env *env, struct checks *c)
{
	static const int need[] = {CAPS_BPF, CAPS_PERFMON};
	uint64_t mask = caps_effective(env->proc);
	char missing[128];
	long off = 0;
	process_setting(env->proc, "kernel/unprivileged_bpf_disabled", &off);
	caps_missing(mask, need, 2, missing, sizeof(missing));
	if (*missing)
		checks_addf(c, CHECK_FAIL, by_root,
			    "missing %s: not allowed to probe (unprivileged_bpf_disabled is %ld)",
			    missing, off);
	else if (!in_first_user_ns(env))
		checks_add(c, CHECK_FAIL,
			   "CAP_BPF and CAP_PERFMON are of a user namespace (a rootless "
			   "container), which eBPF does not honour",
			   "run it on the host: sudo ditrace attach PID");
	else
		checks_add(c, CHECK_OK, "CAP_BPF, CAP_PERFMON", "");
	if (!*missing && !caps_has(mask, CAPS_SYS_PTRACE))
		checks_add(c, CHECK_WARN,
			   "missing CAP_SYS_PTRACE: only processes of this user can be traced",
			   by_root);
}

static void probes_refused(const struct check_env *env, struct checks *c, const char *what,
			   int code)
{
	if (code != -EPERM && code != -EACCES)
		checks_addf(
		    c, CHECK_FAIL,
		    "boot a kernel with CONFIG_BPF_SYSCALL, CONFIG_UPROBES and CONFIG_BPF_EVENTS",
		    "%s: %s", what, strerror(-code));
	else if (has(env, CAPS_BPF) && has(env, CAPS_PERFMON))
		checks_addf(c, CHECK_FAIL,
			    "allow bpf(2) in the container's seccomp profile: docker run "
			    "--security-opt seccomp=unconfined --privileged ...",
			    "%s: not permitted, though the capabilities are there (seccomp, or a "
			    "security module)",
			    what);
	/* Else check_capabilities has reported it. */
}

void check_probes(const struct check_env *env, struct checks *c)
{
	const struct bpf_selftest *t = &env->bpf;
	if (t->load)
		probes_refused(env, c, "loading an eBPF program", t->load);
	else if (t->link)
		probes_refused(env, c, "a uprobe_multi link", t->link);
	else if (!t->first)
		checks_add(c, CHECK_FAIL, "a probe in ditrace itself was not hit",
			   "boot another kernel: the uprobes of this one do not work");
	else if (!t->other)
		checks_add(c, CHECK_FAIL,
			   "probes miss all threads but the first (a fault of Linux 6.6 to 6.9)",
			   "boot Linux 6.10 or later");
	else
		checks_add(c, CHECK_OK, "a probe in ditrace itself was hit, on two threads", "");
}

void check_perf_events(const struct check_env *env, struct checks *c)
{
	long level = 2;
	process_setting(env->proc, "kernel/perf_event_paranoid", &level);
	if (env->perf)
		checks_addf(c, CHECK_FAIL,
			    level > 2
				? "sysctl kernel.perf_event_paranoid=2"
				: "allow perf_event_open(2) in the container's seccomp profile",
			    "perf_event_open: %s (perf_event_paranoid is %ld): cannot follow a "
			    "command and its children",
			    strerror(-env->perf), level);
	else
		checks_addf(c, CHECK_OK, "", "perf events (perf_event_paranoid is %ld)", level);
}

void check_pidfd(const struct check_env *env, struct checks *c)
{
	if (env->pidfd)
		checks_addf(c, CHECK_FAIL,
			    "boot Linux 5.3 or later; in a container its seccomp profile must "
			    "allow pidfd_open(2)",
			    "pidfd_open: %s: cannot follow a command and its children",
			    strerror(-env->pidfd));
}

void check_files(const struct check_env *env, struct checks *c)
{
	bool reaches_maps = has(env, CAPS_CHECKPOINT_RESTORE);
	if (env->files.code)
		checks_add(c, reaches_maps ? CHECK_WARN : CHECK_FAIL, env->files.what,
			   env->files.hint);
}

void check_yama(const struct check_env *env, struct checks *c)
{
	static const char lower[] = "sysctl kernel.yama.ptrace_scope=0";
	bool ptrace = has(env, CAPS_SYS_PTRACE);
	long scope;
	if (!process_setting(env->proc, "kernel/yama/ptrace_scope", &scope))
		return;
	if (scope >= 3)
		checks_addf(c, CHECK_FAIL,
			    "set kernel.yama.ptrace_scope=0 in /etc/sysctl.d and reboot (3 cannot "
			    "be undone)",
			    "Yama ptrace_scope is %ld: nobody can read the memory of a process",
			    scope);
	else if (scope == 2 && !ptrace)
		checks_addf(c, CHECK_FAIL, lower,
			    "Yama ptrace_scope is 2: only root can read the memory of a process");
	else if (scope == 1 && !ptrace)
		checks_addf(c, env->attach ? CHECK_FAIL : CHECK_WARN,
			    "run it with ditrace run, or sysctl kernel.yama.ptrace_scope=0",
			    "Yama ptrace_scope is 1: a plain user cannot attach");
	else
		checks_addf(c, CHECK_OK, "", "Yama ptrace_scope is %ld", scope);
}

void check_seccomp(const struct check_env *env, struct checks *c)
{
	char path[PATH_MAX], line[256];
	int mode = 0;
	snprintf(path, sizeof(path), "%s/self/status", env->proc);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Seccomp:", 8))
			mode = atoi(line + 8);
	if (f)
		fclose(f);
	if (!mode)
		return;
	bool refused = env->bpf.load || env->bpf.link || env->perf || env->pidfd || env->files.code;
	checks_add(
	    c, refused ? CHECK_WARN : CHECK_OK,
	    refused ? "a seccomp filter is on ditrace (a container's): it may be what refuses"
		    : "a seccomp filter is on ditrace, and lets through what it needs",
	    refused ? "docker run --security-opt seccomp=unconfined ..., or run ditrace on the host"
		    : "");
}

/* Inode number of the initial PID namespace: include/linux/proc_ns.h, PROC_PID_INIT_INO. */
static const char first_pid_ns[] = "pid:[4026531836]";

void check_container(const struct check_env *env, struct checks *c)
{
	char path[PATH_MAX], link[64];
	snprintf(path, sizeof(path), "%s/self/ns/pid", env->proc);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return;
	link[n] = '\0';
	if (strcmp(link, first_pid_ns))
		checks_add(c, CHECK_WARN,
			   "ditrace is in a container: it sees only the processes in it",
			   "to trace others, run it on the host: sudo ditrace attach PID");
}

void check_lockdown(const struct check_env *env, struct checks *c)
{
	char line[128];
	if (!read_line(env->sys, "kernel/security/lockdown", line, sizeof(line)))
		return;
	if (strstr(line, "[confidentiality]"))
		checks_add(c, CHECK_FAIL,
			   "kernel lockdown is confidentiality: eBPF programs cannot read memory",
			   "boot without lockdown=confidentiality (integrity does no harm)");
	else
		checks_addf(c, CHECK_OK, "", "kernel lockdown: %s", line);
}

/* The options of the file system at /proc, from PROC/self/mounts (proc_pid_mounts(5)). */
void check_hidepid(const struct check_env *env, struct checks *c)
{
	char path[PATH_MAX], line[1024], *at = NULL;
	snprintf(path, sizeof(path), "%s/self/mounts", env->proc);
	FILE *f = fopen(path, "re");
	while (f && !at && fgets(line, sizeof(line), f))
		if (!strncmp(line, "proc /proc proc ", 16))
			at = strstr(line, "hidepid=");
	if (f)
		fclose(f);
	if (!at || !strncmp(at, "hidepid=0", 9) || !strncmp(at, "hidepid=off", 11) ||
	    has(env, CAPS_SYS_PTRACE))
		return;
	at[strcspn(at, ", \n")] = '\0';
	checks_addf(c, CHECK_WARN, "mount -o remount,hidepid=0 /proc",
		    "/proc is mounted with %s: the processes of other users cannot be seen", at);
}

void check_ptrace(const struct check_env *env, struct checks *c)
{
	if (env->ptrace)
		checks_addf(c, CHECK_WARN,
			    "allow ptrace(2), process_vm_readv(2) and kcmp(2) in the container's "
			    "seccomp profile: docker run --cap-add=SYS_PTRACE ...",
			    "a child of ditrace cannot be traced by ptrace: %s",
			    strerror(-env->ptrace));
	else
		checks_addf(c, CHECK_OK, "", "ptrace of a child works; %s",
			    has(env, CAPS_SYS_PTRACE)
				? "CAP_SYS_PTRACE: that of any process"
				: "without CAP_SYS_PTRACE, that of processes of this user");
}

void checks_machine(const struct check_env *env, struct checks *c)
{
	c->of_bpf = true;
	check_kernel(env, c);
	check_capabilities(env, c);
	check_probes(env, c);
	check_perf_events(env, c);
	check_pidfd(env, c);
	check_lockdown(env, c);
	c->of_bpf = false;
	check_files(env, c);
	check_ptrace(env, c);
	check_yama(env, c);
	check_seccomp(env, c);
	check_container(env, c);
	check_hidepid(env, c);
}
