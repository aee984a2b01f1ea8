/* ditrace ctl PID [status|off]: what the library of the engine shim does in a process, and taking
 * it out. */
#ifndef TRACER_CMD_CTL_H
#define TRACER_CMD_CTL_H

/* Returns the exit status. */
int cmd_ctl(int argc, char **argv);

#endif
