#define _GNU_SOURCE
#include "tracer/proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"

void spawn_caller_save(struct spawn_caller *s)
{
	struct sigaction a;
	*s = (struct spawn_caller){0};
	sigprocmask(SIG_SETMASK, NULL, &s->mask);
	sigemptyset(&s->ignored);
	for (int i = 1; i < NSIG; i++)
		if (!sigaction(i, NULL, &a) && a.sa_handler == SIG_IGN)
			sigaddset(&s->ignored, i);
}

static void restore_signals(const struct spawn_caller *s)
{
	for (int i = 1; i < NSIG; i++) {
		struct sigaction a = {.sa_handler =
					  sigismember(&s->ignored, i) == 1 ? SIG_IGN : SIG_DFL};
		if (i != SIGKILL && i != SIGSTOP)
			sigaction(i, &a, NULL);
	}
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

static ssize_t read_retry(int fd, void *buf, size_t n)
{
	ssize_t r;
	do
		r = read(fd, buf, n);
	while (r < 0 && errno == EINTR);
	return r;
}

/* What went wrong in the child. */
struct failure {
	int code; /* errno */
	bool of_user;
};

static void run_as(char *const argv[], const struct spawn_caller *c, char **environment,
		   struct failure *f)
{
	if (c->user) {
		f->code = -spawn_user_become(c->user);
		f->of_user = f->code;
		environ = environment;
	}
	if (f->code)
		return;
	restore_signals(c);
	file_limit_restore();
	execvp(argv[0], argv);
	f->code = errno;
}

/* After fork only async-signal-safe calls are allowed. */
static void run_child(char *const argv[], const struct spawn_caller *c, char **environment,
		      pid_t tracer, int gate, int report)
{
	char go;
	struct failure f = {0};
	files_let_go();
	if (tracer) {
		prctl(PR_SET_PTRACER, tracer); /* fails without Yama, harmlessly */
		if (write(gate, "", 1) != 1)
			_exit(126);
	}
	if (read_retry(gate, &go, 1) != 1)
		_exit(126);
	run_as(argv, c, environment, &f);
	if (write(report, &f, sizeof(f)) != sizeof(f))
		_exit(126);
	_exit(127);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int spawn_prepare(char *const argv[], const struct spawn_caller *c, pid_t tracer, struct spawn *out,
		  struct err *e)
{
	int gate[2] = {-1, -1}, report[2] = {-1, -1}, code;
	char ready, **environment = c->user ? spawn_user_environment(c->user) : NULL;
	*out = (struct spawn){
	    .pid = -1, .gate = -1, .report = -1, .user = c->user ? c->user->name : NULL};
	if (c->user && !environment)
		return err_set(e, -ENOMEM, "no memory");
	/* A socket: writing to a pipe whose reader was killed would raise SIGPIPE. */
	if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) &&
	    !pipe2(report, O_CLOEXEC) && (out->pid = fork()) >= 0) {
		if (!out->pid) {
			close(gate[1]);
			close(report[0]);
			run_child(argv, c, environment, tracer, gate[0], report[1]);
		}
		free(environment);
		out->gate = gate[1];
		out->report = report[0];
		close(gate[0]);
		close(report[1]);
		if (tracer && read_retry(gate[1], &ready, 1) != 1)
			return err_set(e, -ECHILD, "cannot start a process: it was killed");
		return 0;
	}
	code = -errno;
	free(environment);
	for (int i = 0; i < 2; i++) {
		close_end(&gate[i]);
		close_end(&report[i]);
	}
	return err_set(e, code, "cannot start a process: %s", strerror(-code));
}

static void reap(struct spawn *p)
{
	close_end(&p->gate);
	close_end(&p->report);
	while (p->pid > 0 && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
	p->pid = -1;
}

void spawn_cancel(struct spawn *p)
{
	reap(p);
}

/* execvp fails with EACCES when a directory of PATH cannot be searched, whether the command exists
 * or not. */
static bool is_nowhere(const char *name)
{
	char path[4096];
	const char *dirs = getenv("PATH");
	if (strchr(name, '/'))
		return false;
	while (dirs && *dirs) {
		size_t n = strcspn(dirs, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)n, dirs, name);
		if (n && !access(path, F_OK))
			return false;
		dirs += n + (dirs[n] == ':');
	}
	return true;
}

static int no_rights(const struct spawn *p, int code, struct err *e)
{
	err_set(e, -code, "cannot become user %s: %s", p->user, strerror(code));
	return err_hint(e, "that takes CAP_SETUID and CAP_SETGID, which root lacks in some "
			   "containers, and a user ID that is mapped there");
}

static int no_program(const struct spawn *p, int code, const char *name, struct err *e)
{
	if (code == EACCES && is_nowhere(name))
		code = ENOENT;
	err_set(e, -code, "cannot run %s%s%s: %s", name, p->user ? " as user " : "",
		p->user ? p->user : "", strerror(code));
	if (code == ENOENT)
		err_hint(e, "check the name and PATH, as in: ditrace run -- python3 train.py");
	else if (code == EACCES && p->user)
		err_hint(e,
			 "that user must be able to execute it and to pass all folders above it");
	else if (code == EACCES)
		err_hint(e,
			 "make it executable, or name the interpreter: ditrace run -- python3 %s",
			 name);
	return -code;
}

int spawn_release(struct spawn *p, char *const argv[], struct err *e)
{
	struct failure f = {0};
	if (send(p->gate, "", 1, MSG_NOSIGNAL) != 1)
		f.code = errno;
	close_end(&p->gate);
	if (!f.code && read_retry(p->report, &f, sizeof(f)) != sizeof(f))
		f.code = 0; /* closed by exec: success */
	close_end(&p->report);
	if (!f.code)
		return 0;
	reap(p);
	return f.of_user ? no_rights(p, f.code, e) : no_program(p, f.code, argv[0], e);
}

pid_t spawn_part(int sig)
{
	pid_t parent = getpid(), pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, sig);
		if (getppid() != parent)
			_exit(1);
		files_let_go();
	}
	return pid;
}

void spawn_end_refused(pid_t pid)
{
	if (pid && !kill(pid, SIGTERM))
		fprintf(stderr, "ditrace: process %d is ended; --keep-going lets it run\n", pid);
}

int spawn_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int spawn_failure_status(int code)
{
	return code == -ENOENT ? 127 : 126;
}

static void let_go_of_files(int keep)
{
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		if (fd != keep)
			dup2(null, fd);
	if (null > 2)
		close(null);
}

/* Lowering oom_score_adj needs CAP_SYS_RESOURCE. */
static void be_spared(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "-1000", 5) < 0)
		errno = 0;
	close(fd);
}

pid_t helper_start(void (*serve)(int sock, void *arg), void *arg, int *sock)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid_t pid = fork();
	if (!pid) {
		close(pair[0]);
		serve(pair[1], arg);
		_exit(0);
	}
	int r = -errno;
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return r;
	}
	*sock = pair[0];
	return pid;
}

void helper_begin(const char *name, int sock)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, name);
	let_go_of_files(sock);
	files_let_go();
	be_spared();
}

static void close_between(unsigned first, unsigned last)
{
	enum { MOST = 1 << 16 }; /* for kernels before Linux 5.9, which have no close_range(2) */
	if (first > last || !close_range(first, last, 0))
		return;
	for (unsigned fd = first; fd <= last && fd < MOST; fd++)
		close((int)fd);
}

void helper_keep(int a, int b)
{
	const unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
	close_between(3, low - 1);
	close_between(low + 1, high - 1);
	close_between(high + 1, ~0U);
}

bool helper_send(int sock, const void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = send(sock, (const char *)buf + at, n - at, MSG_NOSIGNAL);
		if (r < 0 && errno != EINTR)
			return false;
		at += r > 0 ? (size_t)r : 0;
	}
	return true;
}

bool helper_receive(int sock, void *buf, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = recv(sock, (char *)buf + at, n - at, MSG_WAITALL);
		if (r == 0 || (r < 0 && errno != EINTR))
			return false;
		at += r > 0 ? (size_t)r : 0;
	}
	return true;
}

bool helper_answer(int sock, pid_t pid, void *buf, size_t n)
{
	enum { SOON_MS = 100 };
	struct pollfd p = {.fd = sock, .events = POLLIN};
	while (poll(&p, 1, SOON_MS) <= 0)
		kill(pid, SIGCONT); /* no more than a wake-up for one that is not stopped */
	return helper_receive(sock, buf, n);
}
