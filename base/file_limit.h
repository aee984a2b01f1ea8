/* The limit on open files (RLIMIT_NOFILE, getrlimit(2)). */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include "base/err.h"

/* Raise this process's limit as far as it may. Call it once, before there are threads. */
void file_limit_raise(void);

/* Set it back to what it was before that: for what is started, in the child before exec.
 * Async-signal-safe. */
void file_limit_restore(void);

/* 0 when `n` files can be open; -EMFILE with *e. */
int file_limit_check(unsigned n, struct err *e);

#endif
