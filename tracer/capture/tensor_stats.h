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

/* The observer that takes them, with --first-nan, too; something is asked for. Reads
 * OP_OVERFLOW_CHECK_LIST and OP_OVERFLOW_CHECK_DISABLE_LIST of the environment. `selection` has the
 * options of which calls, and the folder for the capture of --first-nan; it, `o` and `when` (may be
 * NULL) must outlive *out. `log` takes what --first-nan finds. 0, -EINVAL with *e, or -ENOMEM. */
int stats_collector_open(const struct stats_opts *o, const struct capture_opts *selection,
			 const struct when *when, FILE *log, struct observer **out, struct err *e);

#endif
