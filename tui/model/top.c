#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tui/model/internal.h"
#include "tui/model/top.h"

void top_say(struct top *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(t->message, sizeof(t->message), format, args);
	va_end(args);
}

void top_ask(struct top *t, enum top_question question, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(t->question, sizeof(t->question), format, args);
	va_end(args);
	t->asks = question;
}

void top_jump(struct top *t, uint32_t id)
{
	view_set_filter(t->view, "");
	t->chosen = id;
	t->sticks = true;
	t->detail = id;
}

void undo_made(struct undo *u, const char *path)
{
	char *whole = realpath(path, NULL);
	if (whole && strlen(whole) < UNDO_PATH) {
		if (u->n == UNDO_STEPS)
			memmove(&u->steps[0], &u->steps[1], --u->n * sizeof(u->steps[0]));
		strcpy(u->steps[u->n++].path, whole);
	}
	free(whole);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path) ? errno : 0;
}

int undo_last(struct undo *u, char *out, size_t size)
{
	enum { FILES = 16 };
	if (!u->n)
		return 0;
	snprintf(out, size, "%s", u->steps[--u->n].path);
	int r = nftw(u->steps[u->n].path, remove_one, FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return r ? -(r > 0 ? r : errno) : 1;
}

static void choose(struct watch *w, pid_t pid, const struct view *v)
{
	int32_t of, tid;
	size_t i = 0;
	while (view_thread(v, i, &of, &tid))
		i++;
	w->n = 0;
	while (i-- && w->n < LOOKS_THREADS)
		if (view_thread(v, i, &of, &tid) && of == pid && process_thread_state(pid, tid))
			w->tids[w->n++] = tid;
}

int watch_look(struct watch *w, pid_t pid, struct view *v)
{
	enum { EVERY_NS = 40000000, CHOOSE_NS = 1000000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = 0;
	if (now < w->looked_ns + EVERY_NS)
		return 0;
	w->looked_ns = now;
	if (now >= w->chosen_ns + CHOOSE_NS) {
		choose(w, pid, v);
		w->chosen_ns = now;
	}
	for (size_t i = 0; i < w->n && !r; i++) {
		now = clock_ns(CLOCK_MONOTONIC);
		char state = process_thread_state(pid, w->tids[i]);
		if (state && state != 't') /* stopped by the tracer: neither running nor waiting */
			r = view_look(v, pid, w->tids[i], now, state == 'R');
	}
	return r;
}
