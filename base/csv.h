/* Fields of a CSV file (RFC 4180). */
#ifndef BASE_CSV_H
#define BASE_CSV_H

#include <stdio.h>

/* `text` as a field, quoted where needed. Control characters and bytes that are not UTF-8 appear as
 * \xNN, so that a field stays on its line and cannot drive a terminal. */
void csv_text(FILE *f, const char *text);

/* `text`, which needs no such care, as a quoted field. */
void csv_quoted(FILE *f, const char *text);

#endif
