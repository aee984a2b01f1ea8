#define _GNU_SOURCE
#include "replay/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "replay/capture/capture_files.h"

extern char **environ;

/* An empty folder of PYTHONPATH is the current one, which may be a stranger's. */
static void drop_empty_folders(void)
{
	const char *path = getenv("PYTHONPATH");
	char *kept = path ? malloc(strlen(path) + 2) : NULL, *end = kept;
	for (const char *s = path; kept && *s;) {
		size_t n = strcspn(s, ":");
		if (n) {
			end = mempcpy(end, s, n);
			*end++ = ':';
		}
		s += n + (s[n] == ':');
	}
	if (!kept)
		return;
	if (end > kept) {
		end[-1] = '\0';
		setenv("PYTHONPATH", kept, 1);
	} else {
		unsetenv("PYTHONPATH");
	}
	free(kept);
}

/* Whether the interpreter can import torch. With -c Python looks into the current folder first;
 * sys is built in, and no module is imported before that is over. */
static bool has_torch(const char *python)
{
	static char script[] = "import sys; sys.path[:] = [p for p in sys.path if p]; "
			       "import importlib.util as u; sys.exit(u.find_spec('torch') is None)";
	char *argv[] = {(char *)python, "-c", script, NULL};
	posix_spawn_file_actions_t quiet;
	pid_t pid;
	int status = 1;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (!posix_spawn(&pid, python, &quiet, NULL, argv, environ))
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	posix_spawn_file_actions_destroy(&quiet);
	return !status;
}

static bool look_in(const char *dir, size_t len, char *out, size_t size)
{
	static const char *const names[] = {"python3", "python"};
	for (int i = 0; i < 2; i++) {
		int n = snprintf(out, size, "%.*s/%s", (int)len, dir, names[i]);
		if (n > 0 && (size_t)n < size && !access(out, X_OK) && has_torch(out))
			return true;
	}
	return false;
}

static int on_the_path(struct python_choice *out, struct err *e)
{
	const char *path = getenv("PATH");
	for (const char *s = path ? path : "/usr/bin"; *s;) {
		size_t n = strcspn(s, ":");
		if (n && look_in(s, n, out->path, sizeof(out->path)))
			return 0;
		s += n + (s[n] == ':');
	}
	err_set(e, -ENOENT, "no python3 on the PATH imports torch");
	return err_hint(e, "name the interpreter of the training: --python PATH");
}

static bool same(const struct capture_place *a, const struct capture_place *b)
{
	return !strcmp(a->python, b->python) && !strcmp(a->python_changed, b->python_changed);
}

/* The first capture of the most common interpreter, or NULL if none names one; *kinds is the number
 * of different interpreters. */
static const struct capture_place *commonest(const struct capture_places *p, size_t *kinds)
{
	const struct capture_place *best = NULL;
	size_t most = 0, seen = 0;
	for (size_t i = 0; i < p->n && (!i || seen < p->n); i++) {
		size_t n = 0;
		bool before = !p->list[i].python;
		for (size_t k = 0; k < i && !before; k++)
			before = p->list[k].python && same(&p->list[k], &p->list[i]);
		for (size_t k = i; k < p->n && !before; k++)
			n += p->list[k].python && same(&p->list[k], &p->list[i]);
		*kinds += n > 0;
		seen += n;
		if (n > most) {
			most = n;
			best = &p->list[i];
		}
	}
	return best;
}

/* Choose the interpreter of the captures; `p` is the first of the most common one. */
static int as_captured(const struct capture_place *p, size_t kinds, struct python_choice *out,
		       struct err *e)
{
	bool there = interpreter_is_there(p->python, p->python_changed);
	if (there && has_torch(p->python)) {
		snprintf(out->path, sizeof(out->path), "%s", p->python);
		if (kinds > 1)
			snprintf(out->note, sizeof(out->note),
				 "the captures are of %zu interpreters; all are run with %s, the "
				 "commonest",
				 kinds, p->python);
		return 0;
	}
	int r = on_the_path(out, e);
	if (!r)
		snprintf(out->note, sizeof(out->note),
			 "the captures are of %s, which %s; they are run with %s", p->python,
			 there ? "has no torch now" : "is not here, or has changed since",
			 out->path);
	return r;
}

int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e)
{
	size_t kinds = 0;
	*out = (struct python_choice){0};
	drop_empty_folders();
	if (given &&
	    (size_t)snprintf(out->path, sizeof(out->path), "%s", given) >= sizeof(out->path))
		return err_set(e, -ENAMETOOLONG, "--python: the path is too long");
	if (given)
		return 0;
	const struct capture_place *p = commonest(captures, &kinds);
	return p ? as_captured(p, kinds, out, e) : on_the_path(out, e);
}

void python_choice_say(const struct python_choice *c, FILE *f)
{
	if (!c->note[0])
		return;
	fputs("ditrace: ", f);
	text_print_safe(f, c->note);
	putc('\n', f);
}
