/* What a stream can show. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

struct terminal {
	int width;  /* columns; 0: not a terminal, or it does not say */
	bool color; /* escape sequences for colours are welcome */
};

/* Of `f`: width and colour when it is a terminal; no colour when NO_COLOR is set to anything
 * (https://no-color.org) or TERM is "dumb" or unset. */
struct terminal terminal_of(FILE *f);

/* Long output on a terminal goes through a pager, as git does it. */

/* When standard output is a terminal, start $PAGER ("less" when it is not set; with LESS=FRX unless
 * that is set) and make it standard output. Does nothing for an empty $PAGER, "cat", and when there
 * is no less. Whether a pager was started. */
int pager_start(void);

/* Close standard output and wait until the pager has ended. Does nothing without one. */
void pager_wait(void);

#endif
