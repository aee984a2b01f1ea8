/* What screen_keys.c tells screen.c. */
#ifndef TUI_SCREEN_INTERNAL_H
#define TUI_SCREEN_INTERNAL_H

/* The terminal is gone. */
void screen_hangup(void);

#endif
