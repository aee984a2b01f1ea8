#ifndef PERF_CMD_SCRIPT_H
#define PERF_CMD_SCRIPT_H

/* ditrace script: the events of a trace file as text or JSON lines. Returns the exit status. */
int cmd_script(int argc, char **argv);

#endif
