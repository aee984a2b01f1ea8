#ifndef PERF_CMD_TRACE_DIFF_H
#define PERF_CMD_TRACE_DIFF_H

#include <stdbool.h>

/* ditrace diff of two trace files: returns the exit status. */
int cmd_trace_diff(int argc, char **argv);

/* Whether the command line names a trace file: then it is for cmd_trace_diff. */
bool cmd_trace_diff_is_meant(int argc, char **argv);

#endif
