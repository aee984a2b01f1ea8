/* The line on a terminal that shows how far tracing has come. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "tracer/trace_loop.h"

enum { EVERY_NS = 500000000 };

void status_line_open(struct status_line *l)
{
	l->on = isatty(STDERR_FILENO) == 1;
	l->begun_ns = clock_ns(CLOCK_MONOTONIC);
}

bool status_line_due(struct status_line *l)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!l->on || now < l->next_ns)
		return false;
	l->next_ns = now + EVERY_NS;
	return true;
}

void status_line_show(struct status_line *l, const char *what, uint64_t n, uint64_t bytes,
		      uint64_t lost)
{
	char count[40], size[32], gone[32];
	uint64_t s = (clock_ns(CLOCK_MONOTONIC) - l->begun_ns) / 1000000000;
	fprintf(stderr, "\r\033[K%" PRIu64 ":%02" PRIu64 "  %s  %s  %s lost", s / 60, s % 60,
		text_counted(count, sizeof(count), n, what), text_bytes(size, sizeof(size), bytes),
		text_count(gone, sizeof(gone), lost));
	fflush(stderr);
	l->shown = true;
}

void status_line_clear(struct status_line *l)
{
	if (!l->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	l->shown = false;
}
