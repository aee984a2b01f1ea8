/* Writes the files of captured calls, and logs each. */
#include <string.h>

#include "base/text.h"
#include "tracer/capture/internal.h"

static void give_up(struct capture *c, const struct err *why)
{
	c->over = true;
	c->trouble = *why;
	err_hint(&c->trouble, "%s; the program runs on untouched, and what was saved is whole",
		 why->hint[0] ? why->hint : "free some space, or another folder: --capture=DIR");
}

static void log_saved(struct capture *c, const struct capture_saved *saved)
{
	char size[32], limits[512];
	pth_limits_text(limits, sizeof(limits), saved->limits);
	fputs("ditrace: saved ", c->log);
	text_print_safe(c->log, saved->path);
	fprintf(c->log, " (%s)%s%s\n", text_bytes(size, sizeof(size), saved->bytes),
		limits[0] ? "; " : "", limits);
}

/* Successive refusals of the same op for the same reason are logged once; the summary has their
 * number. */
static void log_refused(struct capture *c, const struct capture_call *call, int code,
			const struct err *why)
{
	if (c->refused_code == code && !strcmp(c->refused_op, call->op))
		return;
	c->refused_code = code;
	snprintf(c->refused_op, sizeof(c->refused_op), "%s", call->op);
	fputs("ditrace: not saved: ", c->log);
	text_print_safe(c->log, why->what);
	fprintf(c->log, "%s%s\n", why->hint[0] ? "; " : "", why->hint);
}

void capture_save(struct capture *c, struct captured_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src)
{
	struct capture_saved saved;
	struct err why = {0};
	if (c->trouble.code)
		return;
	int r = capture_write(&c->files, &call->call, part, ev, src, &saved, &why);
	if (capture_is_over(r)) {
		give_up(c, &why);
	} else if (r) {
		log_refused(c, &call->call, r, &why);
	} else {
		c->saved += !call->files;
		call->files++;
		log_saved(c, &saved);
	}
}

void capture_save_live(struct capture *c, struct target *t, struct captured_call *call,
		       enum capture_part part, const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	capture_save(c, call, part, ev, &live);
}
