/* A judged tensor (or value) of a captured call: a row of the tables of replay and diff. */
#ifndef REPLAY_ROW_H
#define REPLAY_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture_find.h"
#include "replay/numbers/verdict.h"
#include "replay/worker.h"

struct replay_row {
	size_t place;	 /* index of the capture in its list */
	size_t number;	 /* of the row, in order of arrival */
	char role[16];	 /* "output", "grad"; of diff also "input", "grad_output" */
	char index[64];	 /* "0", or "1,0" if nested; of a gradient its argument; "" for the only one
			  */
	char dtype[24];	 /* "float32"; "" if not a tensor */
	char device[24]; /* where it was computed; "" if unknown */
	enum verdict verdict;
	double score; /* see verdict_judge; sorts rows */
	char why[512];
	char note[64]; /* a remark, or "" */
	bool has_figures;
	bool allclose, equal;
	double cosine, max_abs, max_rel, ulp, atol, rtol;
	bool has_cpu;	   /* the CPU in the same dtype was computed, too */
	bool cpu_emulated; /* computed in float32 and rounded: no such kernel on this CPU */
	double cpu_max_abs, cpu_ulp;
	/* The figures of the verdict, in its units. */
	double worst, rms, mean, along, cpu_worst, cpu_rms, cpu_mean, cpu_along, reach;
};

struct rows {
	struct replay_row *list;
	size_t n, size;
};

struct row_rules {
	bool by_allclose; /* ditorch's tolerances decide */
	unsigned threads; /* for a comparison; 0: all */
};

/* Append a zeroed row; NULL without memory. Owned by `rows`; valid until the next rows_add. */
struct replay_row *rows_add(struct rows *rows);
void rows_free(struct rows *rows);

/* Fill a row from a runner's message about a tensor, a value, a mismatch or something not judged;
 * tensors are in the memory of `w`. 0, -EPROTO for a malformed message, or -errno of the
 * comparison. */
int row_fill(struct replay_row *r, const char *op, json_t *message, struct worker *w,
	     const struct row_rules *rules, struct err *e);

/* Worst first: wrong, not judged, right; then by score, place and number. For qsort. */
int row_order(const void *a, const void *b);

/* Durations of captured ops when run again: ditorch's table and CSV, and a summary. */

struct times {
	size_t place; /* index of the capture in its list */
	char device[24];
	uint64_t *forward, *backward; /* ns, in order of the runs */
	size_t nforward, nbackward;
	char *texts[4]; /* input, output, grad_inputs, grad_outputs in ditorch's format; or NULL */
	char *why_no_backward;
};

struct times_list {
	struct times *list;
	size_t n, size;
};

/* Append the runner's message. 0 or -ENOMEM. */
int times_add(struct times_list *l, size_t place, json_t *message);
void times_free(struct times_list *l);

/* ditorch's table: a row for each run. */
int times_print_runs(FILE *f, const struct times_list *l, const struct capture_places *p);

/* A row for each op call: the first run, then min, median and p99 of the others. */
int times_print_summary(FILE *f, const struct times_list *l, const struct capture_places *p,
			int width, bool color);

/* A row for each run, in the CSV format of op_time_measure_hook.py; `head`: with a header line. */
void times_csv_rows(FILE *f, const struct times_list *l, const struct capture_places *p, bool head);

/* Create the file for them (file_replace_stream), at ditorch's path below the current directory:
 * op_tools_results/op_time_measure_result/op_elasped_info_pidPID_Y-m-d-H-M-S.csv. Its name goes
 * into `path`. NULL with *e. */
FILE *times_open_csv(char *path, size_t size, struct err *e);

/* times_open_csv and times_csv_rows. 0 or -errno with *e. */
int times_write_csv(const struct times_list *l, const struct capture_places *p, char *path,
		    size_t size, struct err *e);

#endif
