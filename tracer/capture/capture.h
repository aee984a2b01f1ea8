/* Captures while tracing: chooses calls, and writes their tensors while the thread is stopped at
 * the op. Prints the lines that the command shows. */
#ifndef TRACER_CAPTURE_CAPTURE_H
#define TRACER_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture/source.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"
#include "tracer/observe/observer.h"

struct capture_opts {
	const char *dir;	   /* --capture=DIR, "" for the current one; NULL: no capture */
	const char *nth, *steps;   /* ranges_parse; NULL: all */
	const char *step_op;	   /* filter_compile; NULL: the optimizer's step */
	uint64_t every, max_calls; /* see struct selection_policy */
	uint64_t max_bytes;	   /* 0: no limit */
	bool collectives; /* of these alone, which takes the engine shim, and has no gradients */
};

/* Whether a list as of --ops chooses collectives of torch.distributed alone. */
bool capture_is_of_collectives(const char *ops);

#define CAPTURE_OPTIONS(c)                                                                         \
	{0,	   "capture", OPTION_DEFAULTED,                                                    \
	 &(c).dir, "DIR",     "save inputs, outputs and gradients below DIR (here)",               \
	 NULL},                                                                                    \
	    {0,	       "nth",	  OPTION_STRING,                                                   \
	     &(c).nth, "3,10-20", "capture: these calls of each op, counted from 1",               \
	     NULL},                                                                                \
	    {0,		 "every", OPTION_POSITIVE,                                                 \
	     &(c).every, "K",	  "capture, compare: every K-th call of each op",                  \
	     NULL},                                                                                \
	    {0,	  "max-calls", OPTION_POSITIVE, &(c).max_calls, "N", "capture: at most N calls",   \
	     NULL},                                                                                \
	    {0,		  "max-bytes",                                                             \
	     OPTION_SIZE, &(c).max_bytes,                                                          \
	     "2G",	  "capture: at most so many bytes of files",                               \
	     NULL},                                                                                \
	    {0,		 "step", OPTION_STRING,                                                    \
	     &(c).steps, "A-B",	 "capture: in these training steps, counted from 1",               \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "capture: a step ends with OP, not with the optimizer's step", NULL            \
	}

/* Create the observer that captures. Reads the options, and OP_CAPTURE_LIST and
 * OP_CAPTURE_DISABLE_LIST of the environment. `when` (may be NULL) and `o` must outlive it. Without
 * `with_grads` a call is complete at its exit. `log` gets a line for each saved file. 0, -EINVAL
 * with *e, or -ENOMEM. */
int capture_open(const struct capture_opts *o, const struct when *when, bool with_grads, FILE *log,
		 struct observer **out, struct err *e);

/* Statistics while tracing (--stats, --first-nan): tensors of chosen calls are measured while the
 * thread is stopped, arguments at the entry of the op and results at its exit. */

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

/* Whether nothing was found, but not all could be measured. */
bool first_nan_unsure(const struct first_nan *f);

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
