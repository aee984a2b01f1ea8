#define _GNU_SOURCE
#include "tui/actions/actions.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"
#include "tracer/proc/spawn.h"
#include "tracer/stack/stack_snapshot.h"

static int print(pid_t pid, FILE *f)
{
	struct stack_snapshot_view v = {.pid = pid, .looks = 1, .native = true};
	struct err e = {0};
	int r = stack_reader_open(pid, true, &v.stack_reader, &e);
	if (!r)
		r = stack_reader_take(v.stack_reader, &v.look, &e);
	if (!r) {
		v.first_ns = v.look->at_ns;
		r = stack_snapshot_print(&v, f);
	}
	if (r)
		fprintf(f, "%s\n%s\n", e.what[0] ? e.what : strerror(-r), e.hint);
	return fclose(f) ? -EIO : r;
}

/* In the child: leave terminal and signals to the parent. */
static void child(pid_t pid, int out)
{
	static const int handled[] = {SIGINT, SIGTERM, SIGHUP,	SIGSEGV, SIGILL,
				      SIGFPE, SIGABRT, SIGQUIT, SIGWINCH};
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	setpgid(0, 0);
	for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		signal(handled[i], SIG_DFL);
	bus_guard(NULL);
	if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	FILE *f = fdopen(out, "w");
	_exit(!f || print(pid, f) ? 1 : 0);
}

int stacks_look(struct stacks *s, pid_t pid)
{
	if (s->child)
		return 0;
	s->out = memfd_create("stacks", MFD_CLOEXEC);
	s->child = s->out < 0 ? -1 : spawn_part(SIGKILL);
	if (s->child < 0) {
		int code = -errno;
		if (s->out >= 0)
			close(s->out);
		s->child = 0;
		return code;
	}
	if (!s->child)
		child(pid, s->out);
	return 0;
}

static bool ended(struct stacks *s, int options)
{
	int r;
	while ((r = waitpid(s->child, NULL, options)) < 0 && errno == EINTR)
		;
	return r != 0;
}

bool stacks_came(struct stacks *s)
{
	if (!s->child || !ended(s, WNOHANG))
		return false;
	free(s->text);
	s->text = io_text(s->out, SIZE_MAX);
	close(s->out);
	s->child = 0;
	return true;
}

void stacks_close(struct stacks *s)
{
	if (s->child) {
		kill(s->child, SIGKILL);
		ended(s, 0);
		close(s->out);
	}
	free(s->text);
	*s = (struct stacks){0};
}
