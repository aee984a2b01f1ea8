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

#endif
