/* Text tables: plain ones with one line a row, and boxed ones in the style of ditorch; CSV fields.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/map.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT, TABLE_CENTER };

/* Style of a cell on a terminal; must never be the only carrier of information. */
enum table_style { TABLE_PLAIN, TABLE_DIM, TABLE_WARM, TABLE_HOT, TABLE_STYLES };

enum { TABLE_COLUMNS_MAX = 32, TABLE_LAST_MIN = 24 };

/* See table_column_optional and table_print. */
enum { TABLE_ORDER_SOON = 7, TABLE_CUT = 20, TABLE_CUT_MORE = 12 };

struct table;

/* NULL when out of memory; free with table_free. A table that runs out of memory later stays
 * usable; its print functions then return -ENOMEM and print nothing. */
struct table *table_new(void);

/* Remove columns and rows, keep the memory. */
void table_reset(struct table *t);

/* Add a column; all columns must be added before the first cell. The header is copied. One more
 * than TABLE_COLUMNS_MAX has the effect of missing memory. */
void table_column(struct table *t, const char *header, enum table_align align);

/* Add several, whose headers '|' separates; ">Calls|Op": Calls is aligned right, Op left. */
void table_columns(struct table *t, const char *headers);

/* As table_column, of a column that is left out where a row does not fit: those with the highest
 * `order`, from 1, first. */
void table_column_optional(struct table *t, const char *header, enum table_align align, int order);

/* Add the next cell, row by row. The text is sanitised (text_safe) and copied; at most 4095 bytes
 * of it are kept. */
void table_cell(struct table *t, const char *text);
void table_cell_styled(struct table *t, const char *text, enum table_style style);

/* A full-width line of text between rows, sanitised, from column 0. table_print only. */
void table_line(struct table *t, const char *text);

/* Print with columns two spaces apart, in at most `width` columns of the terminal (0: no limit). A
 * last column that is left-aligned takes what is left, and its text is truncated with "…"; where
 * that is less than TABLE_LAST_MIN, others give way in turn: optional ones of order
 * TABLE_ORDER_SOON or more; the width of left-aligned ones above TABLE_CUT, the widest first; the
 * other optional ones; and widths above TABLE_CUT_MORE. The header line is omitted when all headers
 * are
 * "". `color` uses escape sequences for the styles. 0, -ENOMEM, or -EIO when writing failed. */
int table_print(const struct table *t, FILE *f, int width, bool color);

/* Print with a +---+ box around every cell; optional columns are left out where it is wider than
 * `width` (0: no limit). TABLE_CENTER puts the odd space where Python's
 * PrettyTable puts it, to match ditorch's tables. Returns as table_print. */
int table_print_boxed(const struct table *t, FILE *f, int width);

/* NULL allowed. */
void table_free(struct table *t);

/* Fields of a CSV file (RFC 4180). Before a text that a spreadsheet would compute, as it begins
 * with
 * =, +, - or @ and is no number, they write a '. */

/* Write `text` as a field, quoted if needed. Control characters and invalid UTF-8 become \xNN, so
 * that a field stays on its line and cannot drive a terminal. */
void csv_text(FILE *f, const char *text);

/* `text` as Python's csv module writes it: quoted where it has a comma, a quote or an end of line,
 * else as it is. */
void csv_field(FILE *f, const char *text);

/* The same on one line: each control character appears as a space. */
void csv_line_field(FILE *f, const char *text);

/* Write `text`, which must already be safe, as a quoted field. */
void csv_quoted(FILE *f, const char *text);

/* Names of files for a table: as short as tells them apart. */

/* Zero-initialise. */
struct file_names {
	struct intern paths, ends; /* ends: of all paths, each from behind a '/' */
	uint32_t *shared;	   /* by end: the number of paths that have it */
	size_t room;
};

/* Add a path, copied; NULL and one that is there add nothing. 0 or -ENOMEM. */
int file_names_add(struct file_names *n, const char *path);

/* The shortest end of the path, from its base name on, that no other path added has; its base name
 * if it was not added, or `n` is NULL. Points into `path`. */
const char *file_names_short(const struct file_names *n, const char *path);

void file_names_free(struct file_names *n);

#endif
