#ifndef TRACER_CMD_STACK_H
#define TRACER_CMD_STACK_H

/* ditrace stack: what every thread of a process is doing, at this moment. */
int cmd_stack(int argc, char **argv);

#endif
