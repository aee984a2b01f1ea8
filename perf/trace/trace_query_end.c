/* The end of a query: what it left out and what the recording lost is said, and what failed. */
#include <errno.h>
#include <stdio.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/trace/internal.h"

static void print_counts(const struct trace_query *q, unsigned say)
{
	char text[160];
	uint64_t summed = say & TRACE_SAY_SUMMED
			      ? trace_query_sums_left_out(q) + trace_query_summed(q)
			  : say & TRACE_SAY_LEFT_OUT ? trace_query_sums_left_out(q)
						     : 0;
	if (summed)
		fprintf(stderr,
			"ditrace: %s, of which the recording has sums only, left out; ditrace "
			"report counts them\n",
			text_counted(text, sizeof(text), summed, "op"));
	const struct when_counts *counts = trace_query_counts(q);
	if (say & TRACE_SAY_LEFT_OUT && counts)
		fprintf(stderr, "ditrace: %s\n", when_counts_text(text, sizeof(text), counts));
	if (say & TRACE_SAY_LOST && trace_query_lost(q))
		fprintf(stderr, "ditrace: %s lost while recording\n",
			text_counted(text, sizeof(text), trace_query_lost(q), "event"));
	if (say & TRACE_SAY_LOST && trace_query_activities_lost(q))
		fprintf(stderr, "ditrace: %s %s of devices lost while recording\n",
			text_count(text, sizeof(text), trace_query_activities_lost(q)),
			trace_query_activities_lost(q) == 1 ? "activity" : "activities");
}

static void print_clocks(const struct trace_query *q)
{
	char text[TRACE_CLOCK_TEXT_MAX];
	const struct trace_clock *c;
	for (size_t i = 0; (c = trace_query_clock(q, i)); i++) {
		fputs("ditrace: ", stderr);
		text_print_safe(stderr, trace_clock_text(text, sizeof(text), c));
		putc('\n', stderr);
	}
}

int trace_query_end(struct trace_query *q, unsigned say, int code, const struct err *e)
{
	fflush(stdout);
	if (q)
		print_counts(q, say);
	if (q && say & TRACE_SAY_CLOCKS)
		print_clocks(q);
	if (code == -EAGAIN) {
		fputs("ditrace: ", stderr);
		text_print_safe(stderr, trace_query_path(q));
		fputs(" is still being written: this is what it holds so far\n", stderr);
	} else if (code) {
		err_print(e);
	}
	if (q)
		trace_query_close(q);
	return code && code != -EAGAIN ? EXIT_FAILED : EXIT_GOOD;
}
