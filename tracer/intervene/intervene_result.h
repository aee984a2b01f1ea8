/* One judged result in the columns of ditorch's autocompare. */
#ifndef TRACER_INTERVENE_INTERVENE_RESULT_H
#define TRACER_INTERVENE_INTERVENE_RESULT_H

#include <stdint.h>
#include <stdio.h>

#include "base/table.h"
#include "replay/capture_find.h"
#include "replay/row.h"

enum { INTERVENE_RESULT_SIZE = 96 };

/* Which result of its call: "output", "output[1]", "grad[weight]". Returns `out`. */
const char *intervene_result_name(char out[static INTERVENE_RESULT_SIZE],
				  const struct replay_row *r);

/* The columns name ("torch.add output[1]"), allclose, max_abs_diff, max_relative_diff, atol, rtol
 * and error_info of an empty table, and a row of them; `op` is the function's name. */
void intervene_result_columns(struct table *t);
void intervene_result_cells(struct table *t, const char *op, const struct replay_row *r);

/* Their CSV, with the forward_id before them and what ditrace knows beside: verdict, cosine, ulp,
 * dtype, device, file, line. numbers[r->number] is the forward_id of the row r. 0 or -EIO. */
int intervene_result_csv(FILE *f, const struct capture_places *places, const struct rows *rows,
			 const int64_t *numbers);

#endif
