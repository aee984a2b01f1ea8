#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tui/model/internal.h"
#include "tui/model/top.h"

enum live_phase { LIVE_TRACES, LIVE_DETACHES, LIVE_IS_DETACHED, LIVE_ENDED };

struct live {
	const struct live_opts *o;
	struct background_opts now; /* options the background was started with */
	struct background background;
	enum live_phase phase;
	bool full;  /* the file has reached its limit; start a new one */
	bool keeps; /* the trace is kept at the end */
	bool told;  /* the background has reported something since its start */
	pid_t pid;  /* 0: unknown yet */
	char path[512];
	unsigned files; /* number of files so far */
	int fd;		/* the file, for copying; -1: not open */
	struct proc_figures figures;
	struct watch watch;
};

static const char *folder(void)
{
	const char *t = getenv("TMPDIR");
	return t && t[0] ? t : "/var/tmp";
}

/* A name that nobody can guess to put anything there. */
static int choose_file(struct live *l, struct err *e)
{
	const char *output = l->o->background.session.output;
	uint64_t name;
	l->files++;
	if (output) {
		snprintf(l->path, sizeof(l->path), l->files > 1 ? "%s.%u" : "%s", output, l->files);
		return 0;
	}
	if (access(folder(), W_OK | X_OK) || getrandom(&name, sizeof(name), 0) < 0) {
		int code = -errno;
		err_set(e, code, "cannot make a file in %s: %s", folder(), strerror(-code));
		return err_hint(e, "set TMPDIR to a folder with room for the trace, or name a file "
				   "with --trace FILE");
	}
	snprintf(l->path, sizeof(l->path), "%s/ditrace-top-%016" PRIx64, folder(), name);
	return 0;
}

static void remove_file(struct live *l)
{
	if (!l->o->background.session.output && l->path[0])
		unlink(l->path);
}

static int begin(struct live *l, pid_t pid, struct err *e)
{
	int r = choose_file(l, e);
	if (r)
		return r;
	l->now = l->o->background;
	l->now.pid = pid;
	l->now.session.output = l->path;
	l->now.session.one_file = l->now.session.quiet = l->now.session.shared = true;
	r = background_start(&l->now, &l->background, e);
	r = r ? r : background_ready(&l->background, true, e);
	if (r < 0)
		remove_file(l);
	else
		l->phase = LIVE_TRACES;
	l->told = false;
	return r < 0 ? r : 0;
}

int live_open(const struct live_opts *o, struct live **out, struct err *e)
{
	struct live *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, -ENOMEM, "no memory");
	l->o = o;
	l->fd = -1;
	l->pid = o->background.pid;
	l->background.messages = l->background.ready = -1;
	int r = begin(l, l->pid, e);
	if (r) {
		free(l);
		return r;
	}
	*out = l;
	return 0;
}

/* The file is removed as soon as reader and copy have it open. */
static int open_source(struct live *l, struct top *t)
{
	struct player *s;
	if (l->fd >= 0 || !l->path[0] || player_open(l->path, 0, &s, NULL))
		return 0;
	l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
	remove_file(l);
	player_close(t->player);
	t->player = s;
	t->chosen = -1;
	t->panel =
	    t->panel == TOP_DETAIL ? TOP_TABLE : t->panel; /* the row of the details is gone */
	return view_new_file(t->view);
}

static bool tell_messages(struct live *l, struct top *t)
{
	char line[TOP_MESSAGE_MAX];
	bool told = false;
	while (background_message(&l->background, line, sizeof(line)))
		if (!strncmp(line, "ditrace: ", 9)) {
			top_say(t, "%s", line + 9);
			told = l->told = true;
		}
	return told;
}

static bool is_full(const struct live *l)
{
	struct stat st;
	return l->o->limit && l->fd >= 0 && !fstat(l->fd, &st) &&
	       (uint64_t)st.st_size >= l->o->limit;
}

/* Tracing may end without a message when the process dies: check. */
static void look_for_end(struct live *l, struct top *t)
{
	if (!background_ended(&l->background, false))
		return;
	bool told = tell_messages(l, t);
	background_free(&l->background);
	bool gone = l->pid && !process_alive(l->pid);
	bool asked = l->phase == LIVE_DETACHES;
	l->phase = gone ? LIVE_ENDED : LIVE_IS_DETACHED;
	if (gone)
		top_say(t, "process %d has ended; this is its last state", (int)l->pid);
	else if (asked && !told)
		top_say(t, "detached from process %d, which runs on; a attaches again",
			(int)l->pid);
	else if (!asked && !l->told)
		top_say(t, "no longer tracing process %d, which runs on; a attaches again",
			(int)l->pid);
}

/* Trace into a new file; open_source opens it once it exists. */
static bool begin_again(struct live *l, struct top *t)
{
	struct err e = {0};
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	if (!begin(l, l->pid, &e))
		return true;
	l->path[0] = '\0';
	top_say(t, "%s", e.what);
	return false;
}

/* The file has reached its limit and all of it was read. */
static void go_on(struct live *l, struct top *t)
{
	char size[32];
	l->full = false;
	if (begin_again(l, t))
		top_say(t, "the trace had %s: it goes on in a new file, counting anew",
			text_bytes(size, sizeof(size), l->o->limit));
}

int live_tick(struct live *l, struct top *t)
{
	struct view_head h;
	int r = open_source(l, t);
	view_head(t->view, &h);
	if (!l->pid && h.target)
		l->pid = h.target->pid;
	if (live_is_tracing(l)) {
		tell_messages(l, t);
		look_for_end(l, t);
	}
	if (l->phase == LIVE_TRACES && is_full(l)) {
		live_detach(l, t);
		l->full = true;
	} else if (l->phase == LIVE_IS_DETACHED && l->full &&
		   player_state(t->player) == PLAYER_ENDED) {
		go_on(l, t);
	}
	t->process.known = l->pid && proc_figures_read(&l->figures, l->pid, &t->process);
	return r;
}

int live_look(struct live *l, struct view *v)
{
	return l->phase == LIVE_TRACES && l->pid ? watch_look(&l->watch, l->pid, v) : 0;
}

bool live_leaves_out(const struct live *l)
{
	const struct session_opts *s = &l->o->background.session;
	return s->ops || s->not_ops || s->phase != SESSION_ALL;
}

const char *live_waits_for(const struct live *l, char *out, size_t size)
{
	char *const *argv = l->o->background.argv;
	if (argv)
		snprintf(out, size, "%s runs, and has not loaded PyTorch yet",
			 text_base_name(argv[0]));
	else
		snprintf(out, size, "process %d: nothing recorded yet", (int)l->pid);
	return out;
}

const char *live_state(const struct live *l)
{
	switch (l->phase) {
	case LIVE_TRACES:
		return "tracing";
	case LIVE_DETACHES:
		return "detaching";
	case LIVE_ENDED:
		return "ended";
	default:
		return "detached";
	}
}

pid_t live_process(const struct live *l)
{
	return l->phase == LIVE_ENDED ? 0 : l->pid;
}

bool live_has_ended(const struct live *l)
{
	return l->phase == LIVE_ENDED;
}

bool live_is_tracing(const struct live *l)
{
	return l->phase == LIVE_TRACES || l->phase == LIVE_DETACHES;
}

void live_detach(struct live *l, struct top *t)
{
	if (l->phase != LIVE_TRACES) {
		top_say(t, "nothing is attached");
		return;
	}
	background_stop(&l->background);
	l->phase = LIVE_DETACHES;
	top_say(t, "detaching");
}

void live_attach(struct live *l, struct top *t)
{
	if (l->phase == LIVE_TRACES || l->phase == LIVE_DETACHES) {
		top_say(t, "process %d is being traced already", (int)l->pid);
	} else if (l->phase == LIVE_ENDED || !l->pid) {
		top_say(t, "the process has ended");
	} else if (begin_again(l, t)) {
		top_say(t, "attached to process %d again, counting anew", (int)l->pid);
	}
}

/* A name that is free. */
static void choose_copy(const struct live *l, char *path, size_t size)
{
	struct stat st;
	int i = 1;
	do {
		snprintf(path, size, i > 1 ? "ditrace-top-%d-%d.data" : "ditrace-top-%d.data",
			 (int)l->pid, i);
	} while (++i < 1000 && !lstat(path, &st));
}

static int copy(int from, int to, uint64_t *bytes)
{
	static char block[1 << 16];
	ssize_t n;
	int r = 0;
	*bytes = 0;
	while (!r && (n = pread(from, block, sizeof(block), (off_t)*bytes)) > 0) {
		r = io_write_all(to, block, (size_t)n);
		*bytes += (uint64_t)n;
	}
	return r ? r : n < 0 ? -errno : 0;
}

/* Copy the trace so far to `path`, chosen here. 0 or -errno with *e. */
static int save_copy(const struct live *l, char *path, size_t size, uint64_t *bytes, struct err *e)
{
	struct new_file to;
	choose_copy(l, path, size);
	int r = new_file_open(&to, path, 0, e);
	if (r)
		return r;
	r = new_file_end(&to, copy(l->fd, to.fd, bytes));
	return r ? err_set(e, r, "cannot write %s: %s", path, strerror(-r)) : 0;
}

void live_save(struct live *l, struct top *t)
{
	char path[64], size[32];
	struct err e = {0};
	uint64_t bytes;
	if (l->fd < 0) {
		top_say(t, "nothing has been recorded yet");
		return;
	}
	if (save_copy(l, path, sizeof(path), &bytes, &e)) {
		top_say(t, "%s", e.what);
		return;
	}
	top_say(t, "saved to %s (%s%s); u removes it", path, text_bytes(size, sizeof(size), bytes),
		l->phase == LIVE_TRACES ? ", without its end as tracing goes on" : "");
	undo_made(&t->undo, path);
}

uint64_t live_unkept(const struct live *l)
{
	struct stat st;
	bool is_kept = l->o->background.session.output || l->fd < 0 || fstat(l->fd, &st);
	return is_kept ? 0 : (uint64_t)st.st_size;
}

void live_keep(struct live *l)
{
	l->keeps = true;
}

static void write_kept(const struct live *l)
{
	char path[64], size[32];
	struct err e = {0};
	uint64_t bytes;
	if (save_copy(l, path, sizeof(path), &bytes, &e))
		err_print(&e);
	else
		fprintf(stderr, "ditrace: trace written to %s (%s); see: ditrace report %s\n", path,
			text_bytes(size, sizeof(size), bytes), path);
}

void live_close(struct live *l, bool tell)
{
	if (!l)
		return;
	background_stop(&l->background);
	background_ended(&l->background, true);
	background_free(&l->background);
	if (l->keeps)
		write_kept(l);
	if (l->fd < 0)
		remove_file(l);
	else
		close(l->fd);
	if (tell && l->pid && process_alive(l->pid))
		fprintf(stderr, "ditrace: process %d runs on\n", (int)l->pid);
	if (tell && l->o->background.program_output)
		fprintf(stderr, "ditrace: what the program printed is in %s\n",
			l->o->background.program_output);
	if (tell && l->o->background.session.output)
		fprintf(stderr, "ditrace: trace written to %s\n", l->o->background.session.output);
	free(l);
}
