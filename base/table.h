/* Columns: tables of one line a row for reports, and boxed ones in the style of ditorch. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum table_align { TABLE_LEFT, TABLE_RIGHT, TABLE_CENTER };

/* How a cell looks on a terminal; never the only sign of anything. */
enum table_style { TABLE_PLAIN, TABLE_DIM, TABLE_WARM, TABLE_HOT, TABLE_STYLES };

struct table;

/* NULL without memory. A table that runs out of memory later stays usable; its print functions then
 * return -ENOMEM and print nothing. */
struct table *table_new(void);

/* Forget columns and rows, keep the memory. */
void table_reset(struct table *t);

/* All columns come before the first cell. The header is copied. */
void table_column(struct table *t, const char *header, enum table_align align);

/* The next cell, row by row. The text is made safe for a terminal (text_safe) and copied; at most
 * 4095 bytes of it are kept. */
void table_cell(struct table *t, const char *text);
void table_cell_styled(struct table *t, const char *text, enum table_style style);

/* A line between rows, as it is (made safe), from column 0. Only for table_print. */
void table_line(struct table *t, const char *text);

/* Columns two spaces apart, the last one cut with "…" where a line would be wider than `width` (0:
 * never); no line of headers where all are "". `color` uses escape sequences for the styles. 0,
 * -ENOMEM, or -EIO when writing failed. */
int table_print(const struct table *t, FILE *f, int width, bool color);

/* With a +---+ box around every cell. Alignment is honoured; TABLE_CENTER puts the odd space where
 * Python's PrettyTable puts it, whose look ditorch's tables have. */
int table_print_boxed(const struct table *t, FILE *f);

void table_free(struct table *t);

/* Fields of a CSV file (RFC 4180). */

/* `text` as a field, quoted where needed. Control characters and bytes that are not UTF-8 appear as
 * \xNN, so that a field stays on its line and cannot drive a terminal. */
void csv_text(FILE *f, const char *text);

/* `text`, which needs no such care, as a quoted field. */
void csv_quoted(FILE *f, const char *text);

#endif
