/* Terminal capabilities of a stream, and the pager. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

struct terminal {
	int width;  /* columns; 0: not a terminal, or unknown */
	int height; /* rows, as width */
	bool color; /* colour escape sequences may be used */
};

/* Width and colour support of `f`. No colour when NO_COLOR is set and not empty
 * (https://no-color.org) or TERM is "dumb" or unset. */
struct terminal terminal_of(FILE *f);

/* When standard output is a terminal, start $PAGER ("less" if unset, with LESS=FRX unless set) and
 * redirect standard output to it. Does nothing when $PAGER is empty or "cat", or less is not
 * installed. Returns whether a pager was started. */
int pager_start(void);

/* Close standard output and wait for the pager to exit; no effect without one. */
void pager_wait(void);

#endif
