#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "tracer/trace_loop.h"

/* Detach the standard streams from the terminal: what they write goes to `out`, which is closed. */
static int redirect(int out)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int r = in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0
		    ? -errno
		    : 0;
	if (out > 2)
		close(out);
	return r;
}

static int redirect_to_nothing(void)
{
	return redirect(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

/* Other programs may write there as well as this one, and hold it open longer than this ditrace. */
static int redirect_to_file(const char *path, struct err *e)
{
	int out = file_replace(path, e);
	if (out < 0)
		return out;
	flock(out, LOCK_UN);
	fcntl(out, F_SETFL, O_APPEND);
	return redirect(out);
}

static int begin(struct trace_loop *l, struct background_opts *o, struct err *e)
{
	int status, r = o->pid ? redirect_to_nothing() : redirect_to_file(o->program_output, e);
	if (r)
		return e->code ? r : err_set(e, r, "cannot redirect output: %s", strerror(-r));
	l->pid = o->pid;
	if (o->pid) {
		trace_loop_signals(l);
		return start_attached(l, &o->session, false, e);
	}
	/* l has no child yet, so that signals end tracing instead of being passed on to the
	 * program. */
	r = start_program(l, &o->session, o->argv, &o->caller, &status, e);
	l->is_child = !r;
	return r;
}

/* Intervene instead of tracing. `ready` is written at once; a message reports when the changes are
 * in force. */
static int change(struct background_opts *o, int ready)
{
	if (redirect_to_nothing() || write(ready, "", 1) != 1)
		return 1;
	close(ready);
	int r = intervene_attach(&o->change, &o->session, o->pid, false);
	fflush(stderr);
	return r;
}

static int trace(struct background_opts *o, int ready)
{
	struct trace_loop l = {0};
	struct err e = {0};
	int r = begin(&l, o, &e);
	if (!r) {
		if (write(ready, "", 1) == 1)
			r = trace_loop_run(&l, &e);
		close(ready);
		if (!r && session_total(l.session) == 0)
			r = err_set(&e, -ENODATA, "no process of this program loaded PyTorch");
		struct err finishing = {0};
		int f = session_finish(l.session, &finishing);
		if (!r && f) {
			r = f;
			e = finishing;
		}
	}
	if (e.code)
		err_print(&e);
	session_close(l.session);
	follow_free(l.follow);
	return r ? 1 : 0;
}

/* Messages go to `messages`, which is not inherited by any program. */
static void child(const struct background_opts *opts, int messages, int ready, pid_t parent)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct background_opts o = *opts;
	setpgid(0, 0);
	/* The caller's handlers are wrong in this process. Until it sets its own, a signal kills
	 * it. */
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		signal(ends[i], SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	FILE *f = fdopen(messages, "a");
	if (!f)
		_exit(1);
	setvbuf(f, NULL, _IOLBF, 0);
	stderr = f;
	_exit(intervene_wanted(&o.change) ? change(&o, ready) : trace(&o, ready));
}

static void take_reason(struct background *b, struct err *e)
{
	char line[512];
	err_set(e, -ECHILD, "tracing could not begin");
	while (background_message(b, line, sizeof(line))) {
		if (!strncmp(line, "ditrace: ", 9))
			err_set(e, -ECHILD, "%s", line + 9);
		else if (!strncmp(line, "  hint: ", 8))
			err_hint(e, "%s", line + 8);
	}
}

int background_start(const struct background_opts *o, struct background *b, struct err *e)
{
	int ready[2] = {-1, -1};
	*b = (struct background){.messages = memfd_create("messages", MFD_CLOEXEC), .ready = -1};
	pid_t parent = getpid();
	if (b->messages < 0 || pipe2(ready, O_CLOEXEC) || (b->tracer = fork()) < 0) {
		int code = -errno;
		if (ready[0] >= 0) {
			close(ready[0]);
			close(ready[1]);
		}
		background_free(b);
		return err_set(e, code, "cannot start tracing: %s", strerror(-code));
	}
	if (!b->tracer) {
		close(ready[0]);
		child(o, b->messages, ready[1], parent);
	}
	close(ready[1]);
	b->ready = ready[0];
	return 0;
}

int background_ready(struct background *b, bool wait, struct err *e)
{
	struct pollfd p = {.fd = b->ready, .events = POLLIN};
	char byte;
	ssize_t n;
	if (b->ready < 0)
		return 1;
	if (!wait && poll(&p, 1, 0) != 1)
		return 0;
	while ((n = read(b->ready, &byte, 1)) < 0 && errno == EINTR)
		;
	close(b->ready);
	b->ready = -1;
	if (n == 1)
		return 1;
	background_ended(b, true);
	take_reason(b, e);
	background_free(b);
	return e->code;
}

bool background_message(struct background *b, char *out, size_t size)
{
	ssize_t n = b->messages < 0 ? -1 : pread(b->messages, out, size - 1, (off_t)b->read);
	if (n <= 0)
		return false;
	out[n] = '\0';
	char *end = memchr(out, '\n', (size_t)n);
	if (!end && (size_t)n < size - 1)
		return false;
	if (end)
		*end = '\0';
	b->read += strlen(out) + (end != NULL);
	return true;
}

void background_stop(struct background *b)
{
	if (b->tracer > 0)
		kill(b->tracer, SIGTERM);
}

bool background_ended(struct background *b, bool wait)
{
	int r;
	if (b->tracer <= 0)
		return true;
	while ((r = waitpid(b->tracer, NULL, wait ? 0 : WNOHANG)) < 0 && errno == EINTR)
		;
	if (r != 0)
		b->tracer = 0;
	return r != 0;
}

void background_free(struct background *b)
{
	if (b->messages >= 0)
		close(b->messages);
	if (b->ready >= 0)
		close(b->ready);
	b->messages = b->ready = -1;
}
