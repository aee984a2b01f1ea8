/* Errors as users see them: what failed, why, and the next step to take. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

/* Filled by library functions that fail. `what` and `hint` are UTF-8, NUL-terminated, truncated
 * when too long; `hint` may be empty. Zero-initialise before use; a NULL pointer is accepted
 * everywhere. */
struct err {
	int code; /* negative errno of the failure, 0 if none */
	char what[512];
	char hint[512];
	char quote[256];	      /* excerpt of what the user wrote; "" for none */
	unsigned quote_at, quote_len; /* bytes of `quote` to mark */
};

/* Record a failure in `e` (may be NULL) and return `code`, a negative errno, so that callers can
 * write `return err_set(e, -ENOENT, ...)`. Clears any earlier hint and quote. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Add the next step to take to the failure that err_set has just recorded in `e` (may be NULL). For
 * -EMFILE and -ENFILE err_set has added it: whatever was tried, the limit on open files is in the
 * way. Returns its code, even for NULL, so that callers can write `return err_hint(e, ...)`. */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Show `text`, what the user wrote, below the message, with the `len` bytes from byte `at`
 * underlined (len 0: one column). A long text is cut to an excerpt around them. Returns the code,
 * as err_hint does. */
int err_quote(struct err *e, const char *text, size_t at, size_t len);

/* Print "ditrace: WHAT\n    QUOTE\n       ^~~~\n  hint: HINT\n" on stderr with control characters
 * escaped and, on a terminal, lines broken between words. Commands only. */
void err_print(const struct err *e);

#endif
