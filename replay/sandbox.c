#define _GNU_SOURCE
#include "replay/replay.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "replay/internal.h"

static void sandbox_word(struct sandbox *s, const char *word)
{
	char *copy = strdup(word);
	if (!copy || array_grow(&s->argv, &s->size, s->n + 2, sizeof(*s->argv))) {
		free(copy);
		s->failed = true;
		return;
	}
	s->argv[s->n++] = copy;
	s->argv[s->n] = NULL;
}

static void sandbox_words(struct sandbox *s, const char *const *words)
{
	while (*words)
		sandbox_word(s, *words++);
}

/* Show a folder under the name that it has outside. */
static void sandbox_show(struct sandbox *s, const char *folder)
{
	char cwd[PATH_MAX], name[2 * PATH_MAX], real[PATH_MAX];
	if (!realpath(folder, real) || !getcwd(cwd, sizeof(cwd)))
		return; /* whoever reads it says so */
	snprintf(name, sizeof(name), "%s%s%s", *folder == '/' ? "" : cwd, *folder == '/' ? "" : "/",
		 folder);
	sandbox_words(s, (const char *[]){"--ro-bind", real, name, NULL});
}

/* The virtual environment of an interpreter, where /tmp or /run has it. */
static void sandbox_show_python(struct sandbox *s, const char *python)
{
	char folder[PATH_MAX];
	snprintf(folder, sizeof(folder), "%s", python);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(folder, '/');
		if (!slash || slash == folder)
			return;
		*slash = '\0';
	}
	if (strncmp(folder, "/tmp/", 5) == 0 || strncmp(folder, "/run/", 5) == 0)
		sandbox_show(s, folder);
}

/* The devices that ops are run on. */
static void sandbox_devices(struct sandbox *s)
{
	static const char *const kinds[] = {
	    "/dev/nvidia*",  "/dev/dri",       "/dev/kfd",	   "/dev/davinci*",
	    "/dev/hisi_hdc", "/dev/devmm_svm", "/dev/cambricon_*", NULL};
	for (int i = 0; kinds[i]; i++) {
		glob_t found;
		if (glob(kinds[i], 0, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			sandbox_words(s, (const char *[]){"--dev-bind", found.gl_pathv[k],
							  found.gl_pathv[k], NULL});
		globfree(&found);
	}
}

int sandbox_make(struct sandbox *s, const char *bwrap, const char *python, char *const *folders,
		 size_t n)
{
	*s = (struct sandbox){0};
	sandbox_words(s,
		      (const char *[]){bwrap, "--unshare-all", "--die-with-parent", "--new-session",
				       "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
				       "--tmpfs", "/tmp", "--tmpfs", "/run", NULL});
	sandbox_devices(s);
	sandbox_show_python(s, python);
	sandbox_show(s, ".");
	for (size_t i = 0; i < n; i++)
		sandbox_show(s, folders[i]);
	sandbox_word(s, "--");
	if (!s->failed)
		return 0;
	sandbox_free(s);
	return -ENOMEM;
}

static bool sandbox_program(char *out, size_t size)
{
	const char *path = getenv("PATH");
	for (const char *s = path ? path : "/usr/bin"; *s;) {
		size_t n = strcspn(s, ":");
		if (*s == '/' && (size_t)snprintf(out, size, "%.*s/bwrap", (int)n, s) < size &&
		    !access(out, X_OK))
			return true;
		s += n + (s[n] == ':');
	}
	return false;
}

int sandbox_open(struct sandbox *s, const char *python, char *const *folders, size_t n,
		 struct err *e)
{
	char bwrap[PATH_MAX];
	if (!sandbox_program(bwrap, sizeof(bwrap))) {
		err_set(e, -ENOENT, "--sandbox needs bwrap (bubblewrap), which is not on the PATH");
		return err_hint(e, "on Debian: apt install bubblewrap");
	}
	return sandbox_make(s, bwrap, python, folders, n)
		   ? err_set(e, -ENOMEM, "no memory for the sandbox")
		   : 0;
}

void sandbox_free(struct sandbox *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->argv[i]);
	free(s->argv);
	*s = (struct sandbox){0};
}

json_t *request_with(json_t *request, const struct caution *c)
{
	json_object_set_new(request, "trust", json_boolean(c->trust));
	json_object_set_new(request, "max_bytes", json_integer((json_int_t)c->max_bytes));
	return request;
}

int caution_before(struct caution *c, const char *python, char *const *folders, size_t n,
		   char *const **before, struct err *e)
{
	int r = c->sandboxed ? sandbox_open(&c->sandbox, python, folders, n, e) : 0;
	*before = c->sandbox.argv;
	return r;
}
