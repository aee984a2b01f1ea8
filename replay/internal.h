/* What the files of this folder share. */
#ifndef REPLAY_INTERNAL_H
#define REPLAY_INTERNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture_find.h"
#include "replay/row.h"
#include "replay/worker.h"
#include "symbolizer/when/when.h"

/* Which captures: --ops and --not-ops on the names of their ops. */

/* Keep the captures whose op the list `ops` names (NULL: all) and `not_ops` (NULL: none) does not;
 * lists as in symbolizer/ops/filter.h. A capture's name, of ditorch or of an operator, is taken for
 * the operator in it: torch.Tensor.add for aten::add. -EINVAL for a list that is none, -ENOENT when
 * nothing is left. */
int capture_choose(struct capture_places *p, const char *ops, const char *not_ops, struct err *e);

/* Jobs for several runners at once. */

enum { POOL_MAX = 64 };

struct pool {
	const char *python;	     /* the interpreter */
	unsigned jobs;		     /* runners, 1 .. POOL_MAX */
	char torch[64], version[32]; /* of the runners: "2.13.0", "3.11.2"; set by pool_open */

	size_t count; /* jobs to do */
	void *ctx;
	/* The request of job `i`; its reference is taken over. NULL: it has text that is not UTF-8.
	 */
	json_t *(*request)(void *ctx, size_t i);
	/* A message about job `i`. Tensors in w's memory are valid during the call. Not 0 ends all.
	 */
	int (*message)(void *ctx, size_t i, struct worker *w, json_t *m, struct err *e);
	/* Job `i` has ended: `how` is "done", "skipped" (nothing that could be compared),
	 * "refused", "damaged", "error" or "died", `why` the reason, "" for done. */
	void (*ended)(void *ctx, size_t i, const char *how, const char *why);

	struct pool_worker {
		struct worker w;
		size_t job; /* SIZE_MAX: none */
	} workers[POOL_MAX];
	unsigned nworkers;
};

/* Start the first runner. -ENOENT with a hint when this is no Python with PyTorch. */
int pool_open(struct pool *p, struct err *e);

/* Do all jobs. A runner that dies costs its job and is started anew. 0 or -errno. */
int pool_run(struct pool *p, struct err *e);

void pool_close(struct pool *p);

/* Which captures: --when on what their calls were given. */

/* Read a condition for captures into *out (when_free it): as when_compile, and -EINVAL for one that
 * asks for what a capture does not keep: results, and when and where in the run the call was. */
int capture_when_compile(const char *text, struct when **out, struct err *e);

/* For which of the captures `w` holds, into `keep`, one for each. `pool` is open, and is as before
 * afterwards; its runners look at the captures (`trust`: also at those that hold more than
 * numbers). A capture that cannot be read is kept, so that running it says why. -EINVAL for a
 * condition that applies to none of them, else as pool_run. */
int capture_when(const struct capture_places *p, struct when *w, struct pool *pool, bool trust,
		 bool *keep, struct when_counts *counts, struct err *e);

/* Record in *e that it holds for none of `all` captures: -ENOENT. */
int capture_when_none(size_t all, const struct when_counts *counts, struct err *e);

/* Which Python runs captures. */

struct python_choice {
	char path[PATH_MAX];
	char note[2 * PATH_MAX]; /* what a user would not expect of the choice, "" for nothing */
};

/* `given`, when it is not NULL; else the interpreter that most of the captures come from; where
 * they do not say, or it is not there any more (replay/capture/capture_files.h), or has no torch
 * now, the first of python3 and python on the PATH that has. -ENOENT with a hint when there is
 * none. */
int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e);

/* The note as a line for people, when there is one. */
void python_choice_say(const struct python_choice *c, FILE *f);

/* Which calls of two runs are the same: the same op from the same source line, the same time it
 * came there, in the process of the same rank. */

struct diff_pair {
	size_t a, b; /* indices in the two lists */
};

struct diff_match {
	struct diff_pair *pairs; /* in the order of the calls of the first run */
	size_t n;
	size_t only_a, only_b; /* calls without a partner */
};

/* Match the captures of two runs, both as capture_find sorts them; processes are taken in the order
 * of their numbers. A source line that only one of two runs knows is taken for the same. Returns 0
 * or -ENOMEM; diff_match_free gives the pairs back. */
int diff_match(const struct capture_places *a, const struct capture_places *b,
	       struct diff_match *out);

void diff_match_free(struct diff_match *m);

/* What replay found, for people and for programs. */

enum outcome_kind {
	OUTCOME_DONE,
	OUTCOME_SKIPPED, /* nothing that could be compared: random ops */
	OUTCOME_NOT_RUN, /* could not be run: damaged, refused, died */
};

/* How it went with one captured call. */
struct outcome {
	enum outcome_kind kind;
	char *why; /* owned; NULL for OUTCOME_DONE */
};

struct replay_report {
	const struct capture_places *places;
	struct outcome *outcomes; /* one for each place; has not begun: OUTCOME_DONE */
	struct rows rows;
	bool detail;		    /* programs get all that is known of a row */
	size_t done;		    /* calls that ended */
	const char *torch, *python; /* versions */
	const char *interpreter;    /* path */
	const char
	    *judged; /* what: "results in the capture", "results of a new run"; NULL: nothing */
};

struct replay_counts {
	size_t calls, skipped, not_run;
	size_t right, wrong, not_judged; /* tensors and values */
	size_t wrong_calls;
};

void replay_count(const struct replay_report *r, struct replay_counts *c);

/* A row a tensor, worst first. Sorts the rows. 0, -ENOMEM or -EIO. */
int replay_print_table(FILE *f, struct replay_report *r, int width, bool color);

/* The same in the order in which the rows are. */
int replay_print_rows(FILE *f, const struct replay_report *r, int width, bool color);

/* What failed, by op, worst first; what could not be run; how much there was. Sorts the rows. */
void replay_print_summary(FILE *f, struct replay_report *r);

/* A JSON object a line for each row (and for each call that was not run): op, id, role, index,
 * verdict, allclose, cosine, max_abs_diff, max_relative_diff, ulp, atol, rtol, reason, file, line,
 * and with `detail` more (ditrace-replay(1)). Numbers that JSON has not are strings: "nan", "inf",
 * "-inf". */
int replay_print_json(FILE *f, const struct replay_report *r);

/* The same as CSV with a header line. */
int replay_print_csv(FILE *f, const struct replay_report *r);

void replay_report_free(struct replay_report *r);

#endif
