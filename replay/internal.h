/* Internal to replay: choosing captures, running them in Python processes, and printing results. */
#ifndef REPLAY_INTERNAL_H
#define REPLAY_INTERNAL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/replay.h"
#include "symbolizer/when/when.h"

/* Choosing captures: --ops and --not-ops. */

/* Keep the captures whose op is in the list `ops` (NULL: all) and not in `not_ops` (NULL: none);
 * lists as in symbolizer/ops/filter.h. A name, of ditorch or of an operator, is compared as the
 * operator: torch.Tensor.add as aten::add. 0; -EINVAL for an invalid list, -ENOENT when nothing is
 * left. */
int capture_choose(struct capture_places *p, const char *ops, const char *not_ops, struct err *e);

/* Captures of ranks: capture_ranks.c. */

/* Set rank and start by the path. */
void capture_place_read_rank(struct capture_place *p);

/* What the JSON says; NULL: nothing, or what cannot be. */
struct capture_of_collective *capture_of_collective_new(json_t *o);
void capture_of_collective_free(struct capture_of_collective *c); /* NULL allowed */

/* Whether it is known which collective of its group the call is. */
bool capture_is_numbered(const struct capture_place *p);

/* Order of numbered calls by group, its ranks and number; 0: they are of one collective, of
 * different ranks or runs perhaps. */
int capture_compare_collectives(const struct capture_place *x, const struct capture_place *y);

/* What is judged together: one call, or those of all ranks that are one collective. */
struct replay_job {
	size_t first, n; /* in replay_jobs.order */
};

struct replay_jobs {
	struct replay_job *list;
	size_t n;
	size_t *order; /* indices of places */
};

/* Collectives are matched by the start of the ranks, the group's name and ranks, and the number in
 * it; by rank within a job. 0 or -ENOMEM; free with replay_jobs_free. */
int replay_jobs_make(const struct capture_places *p, struct replay_jobs *out);
void replay_jobs_free(struct replay_jobs *j);

/* The request about the calls of a collective; NULL as of struct pool. */
json_t *replay_collective_request(const struct capture_places *p, const struct replay_jobs *jobs,
				  size_t job);

/* How far files are trusted: options of replay and diff. */
struct caution {
	bool trust;	    /* --trust: also what holds more than numbers */
	bool sandboxed;	    /* --sandbox */
	uint64_t max_bytes; /* --max-bytes: of memory that one file may ask for, or its own size */
	const char *import; /* --import: modules, separated by commas, that register operators */
	struct sandbox sandbox;
};

enum { CAUTION_BYTES = 1 << 30 }; /* --max-bytes unless given */

/* Add it to a request about captures, which is returned. NULL for NULL. */
json_t *request_with(json_t *request, const struct caution *c);

/* The sandbox, if there is to be one, of that interpreter, in which the folders can be read: what
 * pool.before is to be, or NULL for none. 0 or -errno with *e. */
int caution_before(struct caution *c, const char *python, char *const *folders, size_t n,
		   char *const **before, struct err *e);

/* A pool of Python runners, one job each at a time. */

enum { POOL_MAX = 64 };

struct pool {
	const char *python;  /* the interpreter */
	char *const *before; /* words that start it, of a sandbox; NULL: none */
	unsigned jobs;	     /* number of runners, 1 .. POOL_MAX */
	char torch[64],
	    version[32]; /* versions of the runners, "2.13.0", "3.11.2"; set by pool_open */

	size_t count; /* number of jobs */
	void *ctx;
	/* The request of job `i`, a new reference for the pool; NULL: it has text that is not
	 * UTF-8. */
	json_t *(*request)(void *ctx, size_t i);
	/* A message about job `i`. Tensors in w's memory are valid during the call. Any value but 0
	 * ends pool_run with it. */
	int (*message)(void *ctx, size_t i, struct worker *w, json_t *m, struct err *e);
	/* Job `i` has ended: `how` is "done", "skipped" (nothing to compare), "refused", "damaged",
	 * "error" or "died"; `why` is the reason, "" for done. */
	void (*ended)(void *ctx, size_t i, const char *how, const char *why);

	struct pool_worker {
		struct worker w;
		size_t job; /* SIZE_MAX: none */
	} workers[POOL_MAX];
	unsigned nworkers;
};

/* Start the first runner. 0; -ENOENT with a hint if this is no Python with PyTorch. */
int pool_open(struct pool *p, struct err *e);

/* Run all jobs. If a runner dies, its job has failed and a new runner takes its place. 0 or -errno.
 */
int pool_run(struct pool *p, struct err *e);

void pool_close(struct pool *p);

/* Choosing captures: --when on the arguments of their calls. */

/* Compile a condition for captures into *out (free with when_free). Errors as of when_compile; also
 * -EINVAL for what a capture does not record: results, and time and place of the call in the run.
 */
int capture_when_compile(const char *text, struct when **out, struct err *e);

/* Set keep[i] for each capture: whether `w` holds for it. `pool` is open and has no jobs; its
 * runners read the captures, with that caution. A capture that
 * cannot be read is kept, so that running it reports why. -EINVAL for a condition that applies to
 * none of them, else as pool_run. */
int capture_when(const struct capture_places *p, struct when *w, struct pool *pool,
		 const struct caution *caution, bool *keep, struct when_counts *counts,
		 struct err *e);

/* Record in *e that the condition holds for none of `all` captures. Returns -ENOENT. */
int capture_when_none(size_t all, const struct when_counts *counts, struct err *e);

/* Choosing the Python that runs captures. */

struct python_choice {
	char path[PATH_MAX];
	char note[2 * PATH_MAX]; /* a remark about an unexpected choice, or "" */
};

/* Choose `given` if not NULL; else the interpreter that most of the captures come from
 * (replay/capture/capture_files.h). Where that is not recorded, is gone or has no torch, the first
 * of python3 and python on the PATH that has torch. No interpreter looks for modules in the current
 * folder: empty folders are taken out of PYTHONPATH. -ENOENT with a hint if there is none. */
int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e);

/* Print the note as a line, if there is one. */
void python_choice_say(const struct python_choice *c, FILE *f);

/* Matching the calls of two runs: the same op at the same source line, the same occurrence of it,
 * in the process of the same rank. */

struct diff_pair {
	size_t a, b; /* indices in the two lists */
};

struct diff_match {
	struct diff_pair *pairs; /* in order of the first run's calls */
	size_t n;
	size_t only_a, only_b; /* calls without a partner */
};

/* Match the captures of two runs, both sorted as by capture_find: by rank, and without, processes
 * in the order of pids. Two single ranks are matched whatever they are. Collectives are matched by
 * group and number. Source lines count only if both runs have them. 0 or -ENOMEM; free with
 * diff_match_free. */
int diff_match(const struct capture_places *a, const struct capture_places *b,
	       struct diff_match *out);

void diff_match_free(struct diff_match *m);

/* Whether these are two ranks, not two runs. */
bool diff_is_of_ranks(const struct capture_places *a, const struct capture_places *b);

/* Bring the captures of the first run, and so the pairs, into the order of time, whatever rank they
 * are of. 0 or -ENOMEM. */
int diff_order_by_time(struct capture_places *p, struct diff_match *m);

/* Results of replay and diff as text, JSON and CSV. */

enum outcome_kind {
	OUTCOME_DONE,
	OUTCOME_SKIPPED, /* nothing to compare: random ops */
	OUTCOME_NOT_RUN, /* damaged, refused or died */
};

/* What became of one captured call. */
struct outcome {
	enum outcome_kind kind;
	char *why; /* owned; NULL for OUTCOME_DONE */
};

struct replay_report {
	const struct capture_places *places;
	struct outcome *outcomes; /* one for each place; OUTCOME_DONE also before it begins */
	struct rows rows;
	bool detail;		    /* JSON and CSV with all fields of a row */
	size_t done;		    /* calls that have ended */
	const char *torch, *python; /* versions */
	const char *interpreter;    /* path */
	const char *
	    judged; /* what was judged: "results in the capture", "results of a new run"; or NULL */
};

struct replay_counts {
	size_t calls, skipped, not_run;
	size_t right, wrong, not_judged; /* tensors and values */
	size_t wrong_calls;
};

void replay_count(const struct replay_report *r, struct replay_counts *c);

/* A table with a row for each tensor, worst first; sorts r->rows. 0, -ENOMEM or -EIO. */
int replay_print_table(FILE *f, struct replay_report *r, int width, bool color);

/* The same table, in the present order of the rows. */
int replay_print_rows(FILE *f, const struct replay_report *r, int width, bool color);

/* Failures by op, worst first; what could not be run; totals. Sorts r->rows. */
void replay_print_summary(FILE *f, struct replay_report *r);

/* A line of JSON for each row, and for each call that was not run: op, id, role, index, verdict,
 * allclose, cosine, max_abs_diff, max_relative_diff, ulp, atol, rtol, reason, file, line, and more
 * with `detail` (ditrace-replay(1)). Numbers that JSON lacks are strings: "nan", "inf", "-inf". 0,
 * -ENOMEM or -EIO. */
int replay_print_json(FILE *f, const struct replay_report *r);

/* The same as CSV with a header line. */
int replay_print_csv(FILE *f, const struct replay_report *r);

void replay_report_free(struct replay_report *r);

#endif
