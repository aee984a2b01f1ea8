#define _GNU_SOURCE
#include "tui/actions/capture_next.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_folder(char *dir, size_t size, pid_t pid)
{
	for (int i = 1; i < 1000; i++) {
		snprintf(dir, size, i > 1 ? "ditrace-top-%d-capture-%d" : "ditrace-top-%d-capture",
			 (int)pid, i);
		if (!mkdir(dir, 0777))
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

void capture_next_begin(struct capture_next *c, struct top *t, pid_t pid, struct capture_what *what,
			int engine)
{
	struct err e = {0};
	if (c->phase != CAPTURE_NONE) {
		top_say(t, "still waiting for a call of %s; u stops that", c->what.text);
		capture_what_free(what);
		return;
	}
	capture_what_free(&c->what);
	*c = (struct capture_next){.o.pid = pid, .what = *what};
	int r = make_folder(c->dir, sizeof(c->dir), pid);
	if (r) {
		top_say(t, "cannot make the folder %s: %s", c->dir, strerror(-r));
		return;
	}
	/* All calls are picked, and one is taken: the first may come before it can be decoded. */
	c->o.session = (struct session_opts){
	    .ops = c->what.ops,
	    .when = c->what.when,
	    .depth = SESSION_ALL_LEVELS,
	    .quiet = true,
	    .engine = engine,
	    .capture = {.dir = c->dir, .nth = "1-", .max_calls = 1},
	};
	r = background_start(&c->o, &c->background, &e);
	if (r) {
		rmdir(c->dir);
		top_say(t, "%s", e.what);
		return;
	}
	c->phase = CAPTURE_BEGINS;
	top_say(t, "waiting for the next call of %s, to capture it into %s; u stops that",
		c->what.text, c->dir);
}

static void listen(struct capture_next *c)
{
	char line[TOP_MESSAGE_MAX];
	while (background_message(&c->background, line, sizeof(line))) {
		bool saved = !strncmp(line, "ditrace: saved ", 15);
		c->files += saved;
		if (!saved && !strncmp(line, "ditrace: ", 9) &&
		    strncmp(line, "ditrace: captured ", 18) != 0)
			snprintf(c->last, sizeof(c->last), "%s", line + 9);
	}
}

static void capture_next_say(struct capture_next *c, struct top *t, bool asked)
{
	if (c->files) {
		undo_made(&t->undo, c->dir);
		top_say(t, "captured a call of %s in %s (%u files); u removes it", c->what.text,
			c->dir, c->files);
		return;
	}
	rmdir(c->dir);
	if (asked)
		top_say(t, "no longer waiting for a call of %s", c->what.text);
	else
		top_say(t, "no call of %s was captured%s%s", c->what.text, c->last[0] ? ": " : "",
			c->last);
}

void capture_next_tick(struct capture_next *c, struct top *t)
{
	struct err e = {0};
	if (c->phase == CAPTURE_NONE)
		return;
	int r = background_ready(&c->background, false, &e);
	if (r < 0) {
		rmdir(c->dir);
		if (c->phase != CAPTURE_STOPS)
			top_say(t, "cannot capture: %s", e.what);
		c->phase = CAPTURE_NONE;
		return;
	}
	listen(c);
	if (r && c->phase == CAPTURE_BEGINS)
		c->phase = CAPTURE_WAITS;
	if (!background_ended(&c->background, false))
		return;
	listen(c);
	background_free(&c->background);
	bool asked = c->phase == CAPTURE_STOPS;
	c->phase = CAPTURE_NONE;
	capture_next_say(c, t, asked);
}

bool capture_next_stop(struct capture_next *c, struct top *t)
{
	if (c->phase == CAPTURE_NONE)
		return false;
	background_stop(&c->background);
	c->phase = CAPTURE_STOPS;
	top_say(t, "no longer waiting for a call of %s", c->what.text);
	return true;
}

void capture_next_close(struct capture_next *c)
{
	if (c->phase != CAPTURE_NONE) {
		background_stop(&c->background);
		background_ended(&c->background, true);
		listen(c);
		background_free(&c->background);
		if (!c->files)
			rmdir(c->dir);
		c->phase = CAPTURE_NONE;
	}
	capture_what_free(&c->what);
}
