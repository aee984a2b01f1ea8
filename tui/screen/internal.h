/* Internal to tui/screen. */
#ifndef TUI_SCREEN_INTERNAL_H
#define TUI_SCREEN_INTERNAL_H

/* Record that the terminal is gone, as SIGHUP does. */
void screen_hangup(void);

#endif
