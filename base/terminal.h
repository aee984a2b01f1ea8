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

enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

/* What the command line says of colours (any of the three) and of the pager (auto or never); both
 * auto at first. */
extern int terminal_color, terminal_pager;

/* Their words, in this order. */
extern const char *const terminal_colors[], *const terminal_pagers[];

#define COLOR_OPTION                                                                               \
	{                                                                                          \
		0, "color", OPTION_CHOICE, &terminal_color, "WHEN",                                \
		    "colours: auto (default), always or never", terminal_colors                    \
	}

#define PAGER_OPTION                                                                               \
	{                                                                                          \
		0, "pager", OPTION_CHOICE, &terminal_pager, "WHEN",                                \
		    "start $PAGER on a terminal: auto (default) or never", terminal_pagers         \
	}

/* Width and colour support of `f`. By itself no colour when NO_COLOR is set and not empty
 * (https://no-color.org) or TERM is "dumb" or unset. */
struct terminal terminal_of(FILE *f);

/* When standard output is a terminal, and terminal_pager is auto, start $PAGER ("less" if unset,
 * with LESS=FRX unless set) and redirect standard output to it. Does nothing when $PAGER is empty
 * or "cat", or less is not installed. Returns whether a pager was started. */
int pager_start(void);

/* Close standard output and wait for the pager to exit; no effect without one. */
void pager_wait(void);

#endif
