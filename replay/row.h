/* One judged tensor (or value) of a captured call: what the tables of replay and diff show. */
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
	size_t place;  /* index of the capture in its list */
	size_t number; /* of the row, as they came */
	char role[16]; /* "output", "grad"; of diff also "input", "grad_output" */
	char
	    index[64]; /* "0" or "1,0" in a nest; of a gradient the argument; "" for the only one */
	char dtype[24];	 /* "float32"; "" for what is no tensor */
	char device[24]; /* where it was computed; "" when not known */
	enum verdict verdict;
	double score; /* see verdict_judge; sorts rows */
	char why[512];
	char note[64]; /* what else is to be said, "" for nothing */
	bool has_figures;
	bool allclose, equal;
	double cosine, max_abs, max_rel, ulp, atol, rtol;
	bool has_cpu;	   /* what the CPU in the same dtype would have had */
	bool cpu_emulated; /* computed in float32 and rounded: this CPU has no such kernel */
	double cpu_max_abs, cpu_ulp;
	/* What the verdict was made of, in its units. */
	double worst, rms, mean, along, cpu_worst, cpu_rms, cpu_mean, cpu_along, reach;
};

struct rows {
	struct replay_row *list;
	size_t n, size;
};

struct row_rules {
	bool by_allclose; /* ditorch's tolerances decide */
	unsigned threads; /* of a comparison, 0: all */
};

/* The next row of `rows`, zeroed; NULL without memory. */
struct replay_row *rows_add(struct rows *rows);
void rows_free(struct rows *rows);

/* A row from a message of the runner about a tensor, a value, a mismatch or something that it does
 * not judge; the tensors lie in the memory of `w`. -EPROTO for a message that does not fit. */
int row_fill(struct replay_row *r, const char *op, json_t *message, struct worker *w,
	     const struct row_rules *rules, struct err *e);

/* Worst first: wrong before not judged before right, then by score, then as they came. For qsort.
 */
int row_order(const void *a, const void *b);

/* How long captured ops took when they were run again: ditorch's table and CSV, and a summary. */

struct times {
	size_t place; /* index of the capture in its list */
	char device[24];
	uint64_t *forward, *backward; /* ns, in the order of the runs */
	size_t nforward, nbackward;
	char *
	    texts[4]; /* input, output, grad_inputs, grad_outputs as ditorch writes them; or NULL */
	char *why_no_backward;
};

struct times_list {
	struct times *list;
	size_t n, size;
};

/* Append what the runner's message says. -ENOMEM. */
int times_add(struct times_list *l, size_t place, json_t *message);
void times_free(struct times_list *l);

/* ditorch's table: a row a run. */
int times_print_runs(FILE *f, const struct times_list *l, const struct capture_places *p);

/* A row an op call: first run, then min, median and p99 of all others. */
int times_print_summary(FILE *f, const struct times_list *l, const struct capture_places *p,
			int width, bool color);

/* A row a run of the CSV of op_time_measure_hook.py; `head`: with its columns before. */
void times_csv_rows(FILE *f, const struct times_list *l, const struct capture_places *p, bool head);

/* Make the file for them, in the same place below the current folder:
 * op_tools_results/op_time_measure_result/op_elasped_info_pidPID_Y-m-d-H-M-S.csv. Its name into
 * `path`. NULL with *e. */
FILE *times_open_csv(char *path, size_t size, struct err *e);

/* Both at once. 0 or -errno with *e. */
int times_write_csv(const struct times_list *l, const struct capture_places *p, char *path,
		    size_t size, struct err *e);

#endif
