/* What a process that is changed tells of one call, in the style of ditorch: its forward_id, the
 * line it comes from, and tables. */
#ifndef TRACER_INTERVENE_INTERVENE_TABLES_H
#define TRACER_INTERVENE_INTERVENE_TABLES_H

#include <jansson.h>
#include <stdio.h>

#include "base/table.h"

/* Print {"title", "where", "stack": [line, ...], "tables": [[columns, rows], ...]}, all of them
 * texts, and `last`, a table with its columns and cells, NULL for none. What is missing is left
 * out. */
void intervene_tables_print(FILE *f, const json_t *m, const struct table *last);

#endif
