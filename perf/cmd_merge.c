#define _GNU_SOURCE
#include "base/commands.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/options.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"

enum { PATH_SIZE = 4096, NAMES_MAX = 1000 };

struct merge {
	const char *folder;
	char stage[PATH_SIZE]; /* a folder in it, for what rsync fetches */
	unsigned files, from;  /* from: of this source */
};

/* Everything in the folder, and itself. */
static void remove_folder(const char *path)
{
	struct dirent **names;
	struct stat st;
	char at[PATH_SIZE];
	int n = scandir(path, &names, NULL, NULL);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		bool is_dots = !strcmp(name, ".") || !strcmp(name, "..");
		snprintf(at, sizeof(at), "%s/%s", path, name);
		if (!is_dots && !lstat(at, &st) && S_ISDIR(st.st_mode))
			remove_folder(at);
		else if (!is_dots)
			unlink(at);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	rmdir(path);
}

/* Whether rsync takes it for a path on this host: a colon before any slash is of a host. */
static bool is_local(const char *source)
{
	const char *colon = strchr(source, ':');
	return !colon || memchr(source, '/', (size_t)(colon - source));
}

/* Ctrl-C ends rsync, and what it has fetched is removed. The status of wait(2), or -errno. */
static int run(const char *const *argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	posix_spawnattr_t attr;
	sigset_t interrupt;
	pid_t pid;
	int status = 0;
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigaction(SIGINT, &ignore, &before);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &interrupt);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	int r = posix_spawnp(&pid, argv[0], NULL, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	while (!r && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sigaction(SIGINT, &before, NULL);
	return r ? -r : status;
}

/* Links are not followed, and files of this host that can be are hard-linked. */
static int fetch(const struct merge *m, const char *source, struct err *e)
{
	char *real = is_local(source) ? realpath(source, NULL) : NULL;
	char link[PATH_SIZE + 16] = "--times";
	if (is_local(source) && !real) {
		err_set(e, -errno, "cannot read %s: %s", source, strerror(errno));
		return err_hint(e, "name folders of traces, of other hosts as HOST:DIR");
	}
	if (real) /* relative to the folder that it is in */
		snprintf(link, sizeof(link), "--link-dest=%.*s/", (int)(strrchr(real, '/') - real),
			 real);
	const char *const argv[] = {"rsync",
				    "-rt",
				    "--protect-args",
				    "--include=*/",
				    "--include=*.data",
				    "--exclude=*",
				    link,
				    "--",
				    real ? real : source,
				    m->stage,
				    NULL};
	int status = run(argv);
	free(real);
	if (!status)
		return 0;
	if (status == -ENOENT) {
		err_set(e, status, "cannot fetch %s: there is no rsync", source);
		return err_hint(e, "install it, here and on the other host: apt install rsync");
	}
	if (status < 0)
		return err_set(e, status, "cannot start rsync: %s", strerror(-status));
	err_set(e, -EIO, "cannot fetch %s: rsync says why, above", source);
	return err_hint(e, "see whether this works: rsync -r %s /tmp/test", source);
}

/* Whether both files are of one recording, of which one may have been fetched earlier. */
static bool is_same_recording(const char *a, const char *b)
{
	struct trace_reader *x = NULL, *y = NULL;
	bool same = !trace_reader_open(a, &x, NULL) && !trace_reader_open(b, &y, NULL) &&
		    !memcmp(trace_reader_clock(x), trace_reader_clock(y), 16) &&
		    trace_reader_begun(x) == trace_reader_begun(y) &&
		    trace_reader_origin(x) == trace_reader_origin(y);
	trace_reader_close(x);
	trace_reader_close(y);
	return same;
}

/* The file gets its name in the folder, or NAME.1.data and so on where others have it. */
static int place(struct merge *m, const char *path, struct err *e)
{
	const char *name = strrchr(path, '/') + 1;
	char to[PATH_SIZE];
	int stem = (int)(strlen(name) - strlen(".data"));
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		if (i)
			snprintf(to, sizeof(to), "%s/%.*s.%u.data", m->folder, stem, name, i);
		else
			snprintf(to, sizeof(to), "%s/%s", m->folder, name);
		bool again = !access(to, F_OK) && is_same_recording(path, to);
		int r = file_move(path, to, again);
		if (r == -EEXIST)
			continue;
		if (r)
			return err_set(e, r, "cannot write %s: %s", to, strerror(-r));
		m->from++;
		return 0;
	}
	return err_set(e, -EEXIST, "cannot write %s: there are too many of that name", to);
}

/* What was fetched: a trace, or folders of them. */
static int place_all(struct merge *m, const char *path, struct err *e)
{
	struct dirent **names;
	struct stat st;
	char at[PATH_SIZE];
	int r = 0, n = scandir(path, &names, NULL, versionsort);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		snprintf(at, sizeof(at), "%s/%s", path, name);
		if (!r && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !lstat(at, &st))
			r = S_ISDIR(st.st_mode)	       ? place_all(m, at, e)
			    : trace_query_can_read(at) ? place(m, at, e)
						       : 0;
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return r;
}

/* What root's rsync writes there must not be led elsewhere by another user. */
static int make_folder(const char *path, struct err *e)
{
	struct stat st;
	int r = folders_make(path, e);
	if (r)
		return r;
	if (stat(path, &st))
		return err_set(e, -errno, "cannot write into %s: %s", path, strerror(errno));
	if (geteuid() != 0 || (st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH))))
		return 0;
	err_set(e, -EPERM, "cannot merge into %s as root: other users may write there", path);
	return err_hint(e, "run it without sudo, which it does not need");
}

static int add_source(struct merge *m, const char *source, struct err *e)
{
	m->from = 0;
	int r = folder_new(m->stage, e);
	if (r)
		return r;
	r = fetch(m, source, e);
	r = r ? r : place_all(m, m->stage, e);
	remove_folder(m->stage);
	if (r || m->from) {
		m->files += m->from;
		return r;
	}
	err_set(e, -ENOENT, "%s has no trace, no file *.data", source);
	return err_hint(e, "name what ditrace run -o wrote there");
}

/* How the clocks of the files differ is found when they are read; here it is told. */
static int tell_clocks(const struct merge *m)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct trace_query *q = NULL;
	struct err e = {0};
	int r = trace_query(m->folder, &opts, &q, &e);
	fprintf(stderr, "ditrace: %u %s merged into ", m->files, m->files == 1 ? "file" : "files");
	text_print_safe(stderr, m->folder);
	fputs("/; see: ditrace report ", stderr);
	text_print_safe(stderr, m->folder);
	putc('\n', stderr);
	return trace_query_end(q, TRACE_SAY_CLOCKS, r, &e);
}

int cmd_merge(int argc, char **argv)
{
	struct merge m = {.folder = "ditrace.data"};
	struct err e = {0};
	const struct option_def options[] = {
	    {'o', "output", OPTION_STRING, &m.folder, "DIR",
	     "the folder, to which files are added (default: ditrace.data)", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "merge",
	    .operands = "DIR|HOST:DIR...",
	    .about = "Gather the traces of several hosts in one folder, which all commands read as "
		     "one trace.",
	    .options = options,
	    .notes = "rsync fetches from other hosts, over ssh. Their clocks are aligned whenever "
		     "the folder is read. What was fetched before is replaced.",
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	snprintf(m.stage, sizeof(m.stage), "%s/.merge-%d", m.folder, (int)getpid());
	int r = make_folder(m.folder, &e);
	for (int i = first; i < argc && !r; i++)
		r = add_source(&m, argv[i], &e);
	if (!r)
		return tell_clocks(&m);
	err_print(&e);
	return EXIT_FAILED;
}
