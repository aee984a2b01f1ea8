#ifndef TRACER_CMD_MONITOR_H
#define TRACER_CMD_MONITOR_H

/* ditrace monitor: what a process uses of the machine, over time. */
int cmd_monitor(int argc, char **argv);

#endif
