#ifndef TRACER_CMD_RECORD_H
#define TRACER_CMD_RECORD_H

/* ditrace record: samples of a program's threads. Returns the exit status. */
int cmd_record(int argc, char **argv);

#endif
