#ifndef TRACER_CMD_ATTACH_H
#define TRACER_CMD_ATTACH_H

/* ditrace attach: trace a running process. Returns the exit status. */
int cmd_attach(int argc, char **argv);

#endif
