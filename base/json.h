/* JSON written as a stream, a value at a time: no tree of it in memory, however long it is. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Initialise with {.f = stream}; the stream stays the caller's, who looks for its errors (ferror).
 * For use by one thread, as the stream is then, too. Of the members only `f` is for callers. */
struct json_out {
	FILE *f;
	bool comma; /* a value precedes in this object or array */
	bool line;  /* the next value stands on a line of its own */
};

/* Each function writes one value: in an object under `key`, in an array, or as the outermost value,
 * with key NULL. A key is a literal that needs no escaping, never text of the target. */

/* Open and close an object, '{' and '}', or an array, '[' and ']'. */
void json_open(struct json_out *j, const char *key, char bracket);
void json_close(struct json_out *j, char bracket);

/* A line break before the next value or closing bracket, behind the comma if there is one. */
void json_line(struct json_out *j);

/* A string; null for NULL. What could drive a terminal is escaped, bytes that are not UTF-8 become
 * U+FFFD. json_bytes: the first `len` bytes, NULs too. */
void json_text(struct json_out *j, const char *key, const char *s);
void json_bytes(struct json_out *j, const char *key, const char *s, size_t len);

void json_u64(struct json_out *j, const char *key, uint64_t n);
void json_i64(struct json_out *j, const char *key, int64_t n);

/* The shortest decimal that reads back as the same double; NaN and the infinities, which JSON
 * lacks, are the strings "nan", "inf" and "-inf". */
void json_float(struct json_out *j, const char *key, double d);

void json_bool(struct json_out *j, const char *key, bool b);

/* null */
void json_nothing(struct json_out *j, const char *key);

/* What printf makes of the arguments, as it is: it must be JSON, such as a number with a precision.
 */
void json_format(struct json_out *j, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
