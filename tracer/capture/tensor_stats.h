/* Statistics while tracing (--stats, --first-nan): tensors of chosen calls are measured while the
 * thread is stopped, arguments at the entry of the op and results at its exit. */
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

/* --first-nan: the first op with a NaN or an infinity in a result while all its inputs are finite.
 */

struct first_nan;

/* `dir`: folder for the capture (root of struct capture_files). `log` gets what is found. With
 * `hold` the process is left stopped. NULL without memory. */
struct first_nan *first_nan_new(const char *dir, bool hold, FILE *log);

/* Reads the registers of a stopped thread (struct engine). Without it no native stack is shown. */
typedef int first_nan_registers_fn(void *arg, pid_t tid, uint64_t *out);
void first_nan_registers(struct first_nan *f, first_nan_registers_fn *fn, void *arg);

/* Judge a call that has ended, by its statistics, while its thread is stopped. `before` reads its
 * arguments as they were at the entry, as far as they could be kept, `now` as they are. The first
 * finding is printed and saved; later calls are ignored. */
void first_nan_judge(struct first_nan *f, struct target *t, const struct op_event *ev,
		     const struct source *before, const struct source *now);

/* The id of the event that was found; 0: none. */
uint64_t first_nan_found(const struct first_nan *f);

/* Print what was found, or that nothing was, and what could not be judged. */
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
		    "stop at the first op that makes a NaN or infinity of finite inputs",          \
		    (const char *const[])                                                          \
		{                                                                                  \
			"hold", NULL                                                               \
		}                                                                                  \
	}

/* Create the observer for --stats and --first-nan, at least one of which is given. Reads
 * OP_OVERFLOW_CHECK_LIST and OP_OVERFLOW_CHECK_DISABLE_LIST of the environment. `selection` has the
 * options that choose calls, and the folder for the capture of --first-nan; it, `o` and `when` (may
 * be NULL) must outlive *out. `log` gets what --first-nan finds. 0, -EINVAL with *e, or -ENOMEM. */
int stats_collector_open(const struct stats_opts *o, const struct capture_opts *selection,
			 const struct when *when, FILE *log, struct observer **out, struct err *e);

#endif
