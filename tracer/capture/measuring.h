/* Statistics while tracing (--stats, --first-nan): the tensors of chosen calls are looked at while
 * the thread stands still, arguments when the op begins and results when it ends. */
#ifndef TRACER_CAPTURE_MEASURING_H
#define TRACER_CAPTURE_MEASURING_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event_stats.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/capturing.h"
#include "tracer/capture/first_nan.h"

struct measuring_opts {
	bool stats;	       /* --stats */
	const char *first_nan; /* --first-nan: "" or "hold"; NULL: not asked for */
};

#define MEASURE_OPTIONS(m)                                                                         \
	{0,	     "stats", OPTION_FLAG,                                                         \
	 &(m).stats, NULL,    "record minimum, mean, NaN count and more of every tensor",          \
	 NULL},                                                                                    \
	{                                                                                          \
		0, "first-nan", OPTION_DEFAULTED, &(m).first_nan, "hold",                          \
		    "stop at the first op that makes a NaN or infinity of finite inputs", NULL     \
	}

struct measuring;

/* NULL unless something is to be measured. Reads OP_OVERFLOW_CHECK_LIST and
 * OP_OVERFLOW_CHECK_DISABLE_LIST of the environment. `selection` has the options of which calls,
 * and the folder for the capture of --first-nan; it, `o` and `when` (may be NULL) must outlive
 * *out. `log` takes what --first-nan finds. 0, -EINVAL with *e, or -ENOMEM. */
int measuring_open(const struct measuring_opts *o, const struct capturing_opts *selection,
		   const struct when *when, FILE *log, struct measuring **out, struct err *e);

/* See first_nan_registers. */
void measuring_registers(struct measuring *m, first_nan_registers_fn *fn, void *arg);

/* Must ops be seen that are not chosen, to count steps? */
bool measuring_needs_all(const struct measuring *m);

/* An op starts, and its thread stands still, or `t` is NULL; `wanted`: the filters of the session
 * leave it. */
void measuring_entry(struct measuring *m, struct target *t, const struct op_event *ev, bool wanted);

/* An op has ended, and its thread stands still unless it was thrown or `t` is NULL. Returns what
 * was measured of it, NULL for nothing; valid until measuring_done. To be called for each event. */
const struct event_stats *measuring_exit(struct measuring *m, struct target *t,
					 const struct op_event *ev);

/* The last of an event: `recorded` tells whether all filters left it, and then --first-nan judges
 * it. ev->stats is what measuring_exit gave. */
void measuring_done(struct measuring *m, struct target *t, const struct op_event *ev,
		    bool recorded);

/* --first-nan has found what it looks for. */
bool measuring_is_over(const struct measuring *m);

/* And this op began after that one, before the thread could be let go for good. */
bool measuring_is_past(const struct measuring *m, const struct op_event *ev);

/* What --first-nan found, or that it found nothing. */
void measuring_summary(const struct measuring *m, FILE *f);

/* Process `pid` has ended, or another has its number: its calls and steps are counted anew. */
void measuring_forget(struct measuring *m, pid_t pid);

void measuring_free(struct measuring *m);

#endif
