/* How long captured ops took when they were run again: ditorch's table and CSV, and a summary. */
#ifndef REPLAY_TIMES_H
#define REPLAY_TIMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture_find.h"

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
