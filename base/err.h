/* Errors as a user meets them: what failed and why, and the next step to take. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* Filled by library functions that fail. `what` and `hint` are UTF-8, NUL-terminated, cut when too
 * long; `hint` may be empty. Zero-initialise before use; a NULL pointer is accepted everywhere. */
struct err {
	int code; /* negative errno of the failure, 0 if none */
	char what[512];
	char hint[512];
	char quote[256];	      /* what the user wrote, as far as it is shown; "" for none */
	unsigned quote_at, quote_len; /* bytes of `quote` that are meant */
};

/* Record a failure in `e` (may be NULL) and return `code`, a negative errno, so that callers can
 * write `return err_set(e, -ENOENT, ...)`. Clears a hint and a quote left from before. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Add the next step to take to the failure just recorded by err_set in `e` (may be NULL); returns
 * its code either way, so that callers can write `return err_hint(e, ...)`. */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Show `text`, what the user wrote, below the message, with a mark under its `len` bytes from `at`
 * on (len 0: under one column). Of a long text what surrounds that is shown. Returns as err_hint.
 */
int err_quote(struct err *e, const char *text, size_t at, size_t len);

/* Print "ditrace: WHAT\n    QUOTE\n       ^~~~\n  hint: HINT\n" on stderr with control characters
 * escaped. Commands only. */
void err_print(const struct err *e);

#endif
