#define _GNU_SOURCE
#include "tui/actions/actions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "tracer/intervene/intervene.h"

static const char *const now[INTERVENE_FEATURES] = {
    [INTERVENE_FALLBACK] = "computed on the CPU",
    [INTERVENE_COMPARE] = "compared with the CPU",
};

static int ask(const struct change *c, enum intervene_feature f, const char *verb, const char *name,
	       struct err *e)
{
	json_t *status = NULL;
	char *words[] = {(char *)intervene_names[f], (char *)verb, (char *)name};
	int r = intervene_ctl_send(c->pid, words, 3, &status, e);
	json_decref(status);
	return r;
}

static int begin(struct change *c, enum intervene_feature f, const char *name, struct err *e)
{
	c->o = (struct background_opts){.pid = c->pid, .session.depth = SESSION_ALL_LEVELS};
	if (f == INTERVENE_COMPARE)
		c->o.change.compare = name;
	else
		c->o.change.fallback = name;
	free(c->text);
	c->text = NULL;
	int r = background_start(&c->o, &c->background, e);
	c->running = !r;
	c->stopping = false;
	return r;
}

bool change_can(const struct change *c, struct top *t, pid_t pid, bool reachable,
		enum intervene_feature feature)
{
	json_t *status = NULL;
	char *words[] = {(char *)"status"};
	bool can = c->running || reachable || !intervene_ctl_send(pid, words, 1, &status, NULL);
	json_decref(status);
	if (!can)
		top_say(
		    t,
		    "the engine ptrace is tracing, and lets nothing else in: d detaches, then %c, "
		    "then a attaches again",
		    feature == INTERVENE_COMPARE ? 'C' : 'f');
	return can;
}

void change_add(struct change *c, struct top *t, pid_t pid, enum intervene_feature feature,
		const char *name)
{
	struct err e = {0};
	c->pid = pid;
	if (c->n == CHANGES_MAX || c->stopping) {
		top_say(t, c->stopping ? "the last change is still being taken back"
				       : "there are too many changes; u takes one back");
		return;
	}
	snprintf(c->done[c->n].name, sizeof(c->done[0].name), "%s", name);
	c->done[c->n].feature = feature;
	int r = ask(c, feature, "add", name, &e);
	if (r && !c->running)
		r = begin(c, feature, c->done[c->n].name, &e);
	if (r) {
		top_say(t, "%s", e.what);
		return;
	}
	c->n++;
	top_say(t, "calls of %s that the program makes are %s from now on; u undoes it", name,
		now[feature]);
}

bool change_undo(struct change *c, struct top *t)
{
	struct err e = {0};
	if (!c->n || c->stopping)
		return false;
	const char *name = c->done[--c->n].name;
	int r = 0;
	if (c->running && !c->n) {
		background_stop(&c->background);
		c->stopping = true;
	} else {
		r = ask(c, c->done[c->n].feature, "remove", name, &e);
	}
	if (r)
		top_say(t, "%s", e.what);
	else
		top_say(t, "calls of %s are no longer %s", name, now[c->done[c->n].feature]);
	return true;
}

bool change_tick(struct change *c, struct top *t)
{
	char line[TOP_MESSAGE_MAX];
	if (!c->running)
		return false;
	bool ended = background_ended(&c->background, false);
	while (background_message(&c->background, line, sizeof(line)))
		if (!c->stopping && (!strncmp(line, "ditrace: ", 9) || strstr(line, "FAILED")))
			top_say(t, "%s", strncmp(line, "ditrace: ", 9) ? line : line + 9);
	if (!ended)
		return false;
	c->text = io_text(c->background.messages, SIZE_MAX);
	background_free(&c->background);
	c->running = c->stopping = false;
	c->n = 0;
	return c->text != NULL;
}

void change_close(struct change *c)
{
	struct err e = {0};
	while (c->n && (c->n > 1 || !c->running)) {
		c->n--;
		ask(c, c->done[c->n].feature, "remove", c->done[c->n].name, &e);
	}
	if (c->running) {
		background_stop(&c->background);
		background_ended(&c->background, true);
		background_free(&c->background);
	}
	free(c->text);
}
