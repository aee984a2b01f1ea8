#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"

enum { PATH_SIZE = 512, STATUS_SIZE = 8192 };

static ssize_t read_proc_file(const char *proc, pid_t pid, const char *name, char *out, size_t size)
{
	char path[PATH_SIZE];
	size_t len = 0;
	ssize_t n = 1;
	snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	out[0] = '\0';
	if (fd < 0)
		return -errno;
	while (len < size - 1 && n > 0) {
		n = read(fd, out + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	int r = n < 0 ? -errno : 0;
	close(fd);
	out[r ? 0 : len] = '\0';
	return r ? r : (ssize_t)len;
}

ssize_t process_file(pid_t pid, const char *name, char *out, size_t size)
{
	return read_proc_file("/proc", pid, name, out, size);
}

bool process_setting(const char *proc, const char *name, long *out)
{
	char path[PATH_MAX];
	long n;
	snprintf(path, sizeof(path), "%s/sys/%s", proc, name);
	FILE *f = fopen(path, "re");
	bool found = f && fscanf(f, "%ld", &n) == 1;
	if (f)
		fclose(f);
	if (found)
		*out = n;
	return found;
}

/* The rest of the line after the `skip`-th field after the command name; "" if there is none. The
 * name is in parentheses and may itself contain any characters, parentheses too. */
static const char *stat_field(const char *line, int skip)
{
	const char *p = strrchr(line, ')');
	for (; p && skip >= 0; skip--)
		p = strchr(p + 1, ' ');
	return p ? p + 1 : "";
}

char process_thread_state(pid_t pid, pid_t tid)
{
	char name[64], line[1024];
	snprintf(name, sizeof(name), "task/%d/stat", tid);
	return read_proc_file("/proc", pid, name, line, sizeof(line)) > 0 ? *stat_field(line, 0)
									  : 0;
}

static bool has_ended(char state)
{
	return !state || state == 'Z' || state == 'X';
}

bool process_thread_ended(pid_t pid, pid_t tid)
{
	return has_ended(process_thread_state(pid, tid));
}

bool process_alive(pid_t pid)
{
	pid_t *tids;
	bool alive = !process_thread_ended(pid, pid);
	if (alive)
		return true;
	/* The main thread may exit first; it stays a zombie until the others have exited. */
	ssize_t n = process_threads(pid, &tids);
	for (ssize_t i = 0; i < n && !alive; i++)
		alive = !process_thread_ended(pid, tids[i]);
	if (n >= 0)
		free(tids);
	return alive;
}

const char *process_line(const char *text, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, name, n) && p[n] == ':')
			return p + n + 1 + strspn(p + n + 1, " \t");
		if (!*p)
			break;
	}
	return NULL;
}

bool process_ids(const char *text, const char *name, uint32_t ids[4])
{
	uint32_t n[4];
	const char *p = process_line(text, name);
	if (!p || sscanf(p, "%u %u %u %u", &n[0], &n[1], &n[2], &n[3]) != 4)
		return false;
	memcpy(ids, n, sizeof(n));
	return true;
}

static long long status_number(const char *text, const char *name, int base, long long missing)
{
	const char *p = process_line(text, name);
	return p ? (long long)strtoull(p, NULL, base) : missing;
}

bool process_number(const char *text, const char *name, uint64_t *out)
{
	const char *p = process_line(text, name);
	if (p)
		*out = strtoull(p, NULL, 10);
	return p;
}

static void parse_ns_pids(const char *p, struct process_status *out)
{
	while (p && *p >= '0' && *p <= '9') {
		char *end;
		out->ns_pid = (pid_t)strtoul(p, &end, 10);
		out->ns_levels++;
		p = end + strspn(end, " \t");
	}
}

void process_parse_status(const char *text, struct process_status *out)
{
	*out = (struct process_status){0};
	const char *state = process_line(text, "State");
	uint32_t uid[4] = {(uint32_t)-1};
	process_ids(text, "Uid", uid);
	out->state = state && *state != '\n' ? *state : 0;
	out->tgid = (pid_t)status_number(text, "Tgid", 10, 0);
	out->ppid = (pid_t)status_number(text, "PPid", 10, 0);
	out->tracer = (pid_t)status_number(text, "TracerPid", 10, 0);
	out->threads = (unsigned)status_number(text, "Threads", 10, 0);
	out->caps = (uint64_t)status_number(text, "CapEff", 16, 0);
	out->seccomp = (unsigned)status_number(text, "Seccomp", 10, 0);
	out->seccomp_filters = (unsigned)status_number(text, "Seccomp_filters", 10, 0);
	out->uid = uid[0];
	parse_ns_pids(process_line(text, "NSpid"), out);
}

static void read_exe(const char *proc, struct process *p)
{
	static const char deleted[] = " (deleted)";
	char path[PATH_SIZE];
	snprintf(path, sizeof(path), "%s/%d/exe", proc, p->pid);
	ssize_t n = readlink(path, p->exe, sizeof(p->exe) - 1);
	p->exe[n > 0 ? n : 0] = '\0';
	ssize_t k = sizeof(deleted) - 1;
	if (n > k && !strcmp(p->exe + n - k, deleted))
		p->exe[n - k] = '\0';
}

/* Whether the namespace `name` of `pid` differs from ours; clears *known when it cannot be read. */
static bool is_other_namespace(const char *proc, pid_t pid, const char *name, bool *known)
{
	char path[PATH_SIZE];
	struct stat own, its;
	snprintf(path, sizeof(path), "%s/self/ns/%s", proc, name);
	bool read = !stat(path, &own);
	snprintf(path, sizeof(path), "%s/%d/ns/%s", proc, pid, name);
	read = read && !stat(path, &its);
	*known = *known && read;
	return read && (own.st_ino != its.st_ino || own.st_dev != its.st_dev);
}

int process_read_at(const char *proc, pid_t pid, struct process *out, struct err *e)
{
	char text[STATUS_SIZE];
	*out = (struct process){.pid = pid};
	if (pid <= 0 || read_proc_file(proc, pid, "status", text, sizeof(text)) <= 0)
		return process_error(pid, -ESRCH, "attach to", e);
	process_parse_status(text, &out->status);
	if (out->status.tgid > 0)
		out->pid = out->status.tgid;
	if (read_proc_file(proc, out->pid, "stat", text, sizeof(text)) > 0)
		out->start_ticks = strtoull(stat_field(text, 19), NULL, 10);
	if (read_proc_file(proc, out->pid, "comm", out->comm, sizeof(out->comm)) > 0)
		out->comm[strcspn(out->comm, "\n")] = '\0';
	read_exe(proc, out);
	out->ns_known = true;
	out->other_mnt_ns = is_other_namespace(proc, out->pid, "mnt", &out->ns_known);
	out->other_pid_ns = is_other_namespace(proc, out->pid, "pid", &out->ns_known);
	return 0;
}

int process_read(pid_t pid, struct process *out, struct err *e)
{
	int r = process_read_at("/proc", pid, out, e);
	if (!r && has_ended(out->status.state) && !process_alive(out->pid))
		return process_error(pid, -ESRCH, "attach to", e);
	return r;
}

/* One listing; *all: as many threads as there are now (a directory of proc has a link for each). */
static ssize_t list_threads(const char *path, pid_t **out, bool *all)
{
	size_t n = 0, room = 0;
	struct stat st;
	int r = 0;
	*out = NULL;
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *x; !r && (x = readdir(d));) {
		int tid = atoi(x->d_name);
		if (tid <= 0)
			continue;
		r = array_grow(out, &room, n + 1, sizeof(**out));
		if (!r)
			(*out)[n++] = tid;
	}
	*all = fstat(dirfd(d), &st) || n + 2 >= st.st_nlink;
	closedir(d);
	if (r) {
		free(*out);
		*out = NULL;
		return r;
	}
	return (ssize_t)n;
}

/* A listing ends early where the thread that it has come to ends (proc_task_readdir in
 * fs/proc/base.c, Linux 6.18). */
ssize_t process_threads(pid_t pid, pid_t **out)
{
	enum { TRIES = 100 };
	char path[PATH_SIZE];
	bool all = true;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	ssize_t n = list_threads(path, out, &all);
	for (unsigned i = 1; i < TRIES && !all && n > 0; i++) {
		free(*out);
		n = list_threads(path, out, &all);
	}
	return n;
}

static ssize_t add_children_of_thread(pid_t pid, pid_t tid, pid_t **all, size_t *room, ssize_t n)
{
	enum { MOST = 1 << 16 };
	char file[64], *text = malloc(MOST), *at = text, *end;
	if (!text)
		return -ENOMEM;
	snprintf(file, sizeof(file), "task/%d/children", tid);
	process_file(pid, file, text, MOST);
	for (long child; n >= 0 && (child = strtol(at, &end, 10)) > 0; at = end) {
		if (array_grow(all, room, (size_t)n + 1, sizeof(**all)))
			n = -ENOMEM;
		else
			(*all)[n++] = (pid_t)child;
	}
	free(text);
	return n;
}

ssize_t process_children(pid_t pid, pid_t **out)
{
	pid_t *tids = NULL, *all = NULL;
	size_t room = 0;
	ssize_t threads = process_threads(pid, &tids), n = 0;
	for (ssize_t i = 0; i < threads && n >= 0; i++)
		n = add_children_of_thread(pid, tids[i], &all, &room, n);
	free(tids);
	*out = all;
	return n;
}

static bool process_owner(pid_t pid, uid_t *uid)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (pid <= 0 || stat(path, &st))
		return false;
	*uid = st.st_uid;
	return true;
}

bool process_shares_memory(pid_t a, pid_t b)
{
	return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0;
}

const char *process_user(uid_t uid, char *out, size_t size)
{
	const struct passwd *pw = getpwuid(uid);
	if (pw)
		snprintf(out, size, "%s", pw->pw_name);
	else
		snprintf(out, size, "%u", uid);
	return out;
}

static int error_not_mine(pid_t pid, uid_t uid, int code, const char *what, struct err *e)
{
	char who[64], command[128];
	process_user(uid, who, sizeof(who));
	err_set(e, code, "cannot %s %d: it belongs to user %s", what, pid, who);
	err_hint(e, "sudo ditrace attach %d, or let %s start it with: ditrace run -- %s", pid, who,
		 process_cmdline(pid, command, sizeof(command)));
	return code;
}

static int error_gone(pid_t pid, const char *what, const char *why, struct err *e)
{
	err_set(e, -ESRCH, "cannot %s %d: %s", what, pid, why);
	err_hint(e, "list the Python processes with: pgrep -af python");
	return -ESRCH;
}

int process_parse_pid(const char *word, pid_t *pid, struct err *e)
{
	enum { PID_LIMIT = 1 << 22 }; /* Linux include/linux/threads.h, PID_MAX_LIMIT */
	uint64_t n;
	if (!text_number(word, &n) || !n || n > PID_LIMIT) {
		err_set(e, -EINVAL, "\"%s\" is not a process ID", word);
		return err_hint(e, "list the Python processes with: pgrep -af python");
	}
	*pid = (pid_t)n;
	return 0;
}

int process_error(pid_t pid, int code, const char *what, struct err *e)
{
	uid_t uid;
	if (!process_owner(pid, &uid))
		return error_gone(pid, what, "no such process", e);
	if (!process_alive(pid))
		return error_gone(pid, what,
				  "it has ended (a zombie that its parent has not waited for)", e);
	if ((code == -EPERM || code == -EACCES) && geteuid() && uid != geteuid())
		return error_not_mine(pid, uid, code, what, e);
	if (code == -ESRCH)
		return error_gone(
		    pid, what, "it has no memory of its own (a kernel thread, or it is ending)", e);
	err_set(e, code, "cannot %s %d: %s", what, pid, strerror(-code));
	if (code == -EPERM || code == -EACCES)
		err_hint(e,
			 "run it as root: sudo ditrace attach %d; ditrace doctor %d shows what is "
			 "missing",
			 pid, pid);
	return code;
}

int process_check(pid_t pid, struct err *e)
{
	struct process self;
	uid_t uid;
	if (!process_owner(pid, &uid) || !process_alive(pid))
		return process_error(pid, -ESRCH, "attach to", e);
	if (!geteuid() || uid == geteuid())
		return 0;
	/* Another user's process needs CAP_SYS_PTRACE: ptrace(2), "Ptrace access mode checking". */
	if (!process_read(getpid(), &self, NULL) && self.status.caps & (1ULL << CAP_SYS_PTRACE))
		return 0;
	return process_error(pid, -EPERM, "attach to", e);
}

const char *process_cmdline(pid_t pid, char *out, size_t size)
{
	ssize_t n = read_proc_file("/proc", pid, "cmdline", out, size);
	while (n > 0 && !out[n - 1])
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (!out[i])
			out[i] = ' ';
	if (n <= 0)
		snprintf(out, size, "?");
	return out;
}

int process_seize_error(pid_t pid, int code, struct err *e)
{
	struct process p, by;
	if (code != -EPERM || process_read(pid, &p, NULL) || !p.status.tracer)
		return process_error(pid, code, "trace", e);
	bool named = !process_read(p.status.tracer, &by, NULL);
	err_set(e, -EBUSY, "cannot trace %d by ptrace: process %d (%s) traces it already", pid,
		p.status.tracer, named ? by.comm : "not seen from here");
	return err_hint(e, "end that one (a debugger, strace, another ditrace), or trace beside it "
			   "with: --engine bpf, as root");
}

bool process_has_shadow_stack(pid_t pid)
{
	char text[STATUS_SIZE];
	process_file(pid, "status", text, sizeof(text));
	const char *features = process_line(text, "x86_Thread_features");
	const char *shadow = features ? strstr(features, "shstk") : NULL;
	return shadow && shadow < features + strcspn(features, "\n");
}

uint64_t auxv_read(pid_t pid, uint64_t type)
{
	enum { MOST = 64 };
	char path[32];
	Elf64_auxv_t v[MOST];
	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, v, sizeof(v));
	close(fd);
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(v[0]); i++)
		if (v[i].a_type == type)
			return v[i].a_un.a_val;
	return 0;
}
