#ifndef TRACER_CMD_RUN_H
#define TRACER_CMD_RUN_H

/* ditrace run: start a program under trace. Returns the program's exit status, or that of a
 * failure. */
int cmd_run(int argc, char **argv);

#endif
