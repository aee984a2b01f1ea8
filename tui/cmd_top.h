#ifndef TUI_CMD_TOP_H
#define TUI_CMD_TOP_H

/* ditrace top: the live op view, of a process or a recorded file. Returns the exit status. */
int cmd_top(int argc, char **argv);

#endif
