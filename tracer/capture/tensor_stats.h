/* Statistics while tracing (--stats, --first-nan): the tensors of chosen calls are looked at while
 * the thread stands still, arguments when the op begins and results when it ends. */
#ifndef TRACER_CAPTURE_TENSOR_STATS_H
#define TRACER_CAPTURE_TENSOR_STATS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture/source.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/capture.h"

/* --first-nan: the first op that puts a NaN or an infinity into a result while all that it was
 * given is finite. */

struct first_nan;

/* `dir`: folder for the capture (struct capture_files's root). `log` takes what is found. With
 * `hold` the process is left stopped. NULL without memory. */
struct first_nan *first_nan_new(const char *dir, bool hold, FILE *log);

/* Where registers of a stopped thread are had (struct engine). Without it no native stack is shown.
 */
typedef int first_nan_registers_fn(void *arg, pid_t tid, uint64_t *out);
void first_nan_registers(struct first_nan *f, first_nan_registers_fn *fn, void *arg);

/* Judge a call that has ended, its thread standing still, with its statistics. `before` reads its
 * arguments as they were when it began, as far as they could be kept, `now` as they are. The first
 * that is found is printed and saved; later ones are not looked at. */
void first_nan_judge(struct first_nan *f, struct target *t, const struct op_event *ev,
		     const struct source *before, const struct source *now);

/* The id of the event that was found; 0: none. */
uint64_t first_nan_found(const struct first_nan *f);

/* What was found, or that nothing was, with what could not be judged. */
void first_nan_summary(const struct first_nan *f, FILE *out);

void first_nan_free(struct first_nan *f);

struct stats_opts {
	bool stats;	       /* --stats */
	const char *first_nan; /* --first-nan: "" or "hold"; NULL: not asked for */
};

#define STATS_OPTIONS(m)                                                                           \
	{0,	     "stats", OPTION_FLAG,                                                         \
	 &(m).stats, NULL,    "record minimum, mean, NaN count and more of every tensor",          \
	 NULL},                                                                                    \
	{                                                                                          \
		0, "first-nan", OPTION_DEFAULTED, &(m).first_nan, "hold",                          \
		    "stop at the first op that makes a NaN or infinity of finite inputs", NULL     \
	}

struct stats_collector;

/* NULL unless something is to be measured. Reads OP_OVERFLOW_CHECK_LIST and
 * OP_OVERFLOW_CHECK_DISABLE_LIST of the environment. `selection` has the options of which calls,
 * and the folder for the capture of --first-nan; it, `o` and `when` (may be NULL) must outlive
 * *out. `log` takes what --first-nan finds. 0, -EINVAL with *e, or -ENOMEM. */
int stats_collector_open(const struct stats_opts *o, const struct capture_opts *selection,
			 const struct when *when, FILE *log, struct stats_collector **out,
			 struct err *e);

/* See first_nan_registers. */
void stats_collector_registers(struct stats_collector *m, first_nan_registers_fn *fn, void *arg);

/* Must ops be seen that are not chosen, to count steps? */
bool stats_collector_needs_all(const struct stats_collector *m);

/* An op starts, and its thread stands still, or `t` is NULL; `wanted`: the filters of the session
 * leave it. */
void stats_collector_entry(struct stats_collector *m, struct target *t, const struct op_event *ev,
			   bool wanted);

/* An op has ended, and its thread stands still unless it was thrown or `t` is NULL. Returns what
 * was measured of it, NULL for nothing; valid until stats_collector_done. To be called for each
 * event. */
const struct event_stats *stats_collector_exit(struct stats_collector *m, struct target *t,
					       const struct op_event *ev);

/* The last of an event: `recorded` tells whether all filters left it, and then --first-nan judges
 * it. ev->stats is what stats_collector_exit gave. */
void stats_collector_done(struct stats_collector *m, struct target *t, const struct op_event *ev,
			  bool recorded);

/* --first-nan has found what it looks for. */
bool stats_collector_is_over(const struct stats_collector *m);

/* And this op began after that one, before the thread could be let go for good. */
bool stats_collector_is_past(const struct stats_collector *m, const struct op_event *ev);

/* What --first-nan found, or that it found nothing. */
void stats_collector_summary(const struct stats_collector *m, FILE *f);

/* Process `pid` has ended, or another has its number: its calls and steps are counted anew. */
void stats_collector_forget(struct stats_collector *m, pid_t pid);

void stats_collector_free(struct stats_collector *m);

#endif
