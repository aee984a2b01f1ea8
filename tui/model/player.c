#include "tui/model/top.h"

#include <errno.h>
#include <stdlib.h>

#include "base/system.h"

struct player {
	struct trace_reader *reader;
	enum player_state state;
	struct err trouble;
	double speed;
	/* Trace time from_trace is played at from_clock; 0: set by the next event. */
	uint64_t from_trace, from_clock;
	struct trace_item item; /* an event that is not due yet */
	bool has_item;
};

int player_open(const char *path, double speed, struct player **out, struct err *e)
{
	struct player *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	s->speed = speed;
	int r = trace_reader_open(path, &s->reader, e);
	if (r) {
		free(s);
		return r;
	}
	*out = s;
	return 0;
}

void player_close(struct player *s)
{
	if (!s)
		return;
	trace_reader_close(s->reader);
	free(s);
}

/* 1: s->item is the next item; 0: none available now. */
static int next(struct player *s)
{
	struct err e = {0};
	/* player_decode may have overwritten what the item points to. */
	if (s->has_item)
		return trace_decode_event(s->reader, &s->item.raw, &s->item.event, &e) == 0;
	if (s->state == PLAYER_ENDED || s->state == PLAYER_BROKEN)
		return 0;
	int n = trace_read_next(s->reader, &s->item, &e);
	s->state = n > 0	  ? PLAYER_GOES_ON
		   : n == -EAGAIN ? PLAYER_WAITS
		   : n == 0	  ? PLAYER_ENDED
				  : PLAYER_BROKEN;
	if (s->state == PLAYER_BROKEN)
		s->trouble = e;
	return n > 0;
}

/* Whether the event's time has come. */
static bool is_due(struct player *s, uint64_t now)
{
	const struct op_event *ev = &s->item.event;
	uint64_t ns = ev->end_ns ? ev->end_ns : ev->start_ns;
	if (s->speed <= 0 || s->item.type != TRACE_EVENT)
		return true;
	if (!s->from_clock) {
		s->from_clock = now;
		s->from_trace = ns;
	}
	return ns <= s->from_trace ||
	       (double)(ns - s->from_trace) <= (double)(now - s->from_clock) * s->speed;
}

int player_take(struct player *s, struct view *v, uint64_t deadline_ns)
{
	enum { LOOK_AT_CLOCK = 256 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (unsigned n = 1; next(s); n++) {
		s->has_item = !is_due(s, now);
		if (s->has_item) {
			view_now(v, s->from_trace +
					(uint64_t)((double)(now - s->from_clock) * s->speed));
			return 0;
		}
		int r = view_add(v, &s->item);
		if (r)
			return r;
		if (n % LOOK_AT_CLOCK == 0 && (now = clock_ns(CLOCK_MONOTONIC)) >= deadline_ns)
			return 0;
	}
	if (s->state == PLAYER_WAITS) /* written on this machine: same clock */
		view_now(v, now);
	return 0;
}

enum player_state player_state(const struct player *s)
{
	return s->state;
}

const struct err *player_trouble(const struct player *s)
{
	return &s->trouble;
}

void player_set_speed(struct player *s, double speed)
{
	s->speed = speed;
	player_resume(s);
}

double player_speed(const struct player *s)
{
	return s->speed;
}

void player_resume(struct player *s)
{
	s->from_clock = 0;
}

int player_decode(struct player *s, const struct grouping_call *call, struct op_event *out,
		  struct err *e)
{
	const struct trace_raw_event raw = {.id = call->id,
					    .last_id = call->last_id,
					    .last_ns = call->last_ns,
					    .payload = call->bytes,
					    .size = call->size};
	return trace_decode_event(s->reader, &raw, out, e);
}
