/* The commands of ditrace. argv[0] is the command's name. Results go to standard output, all else
 * to standard error. Each returns its exit status, one of base/options.h unless stated otherwise.
 */
#ifndef BASE_COMMANDS_H
#define BASE_COMMANDS_H

#include <stdbool.h>

/* These start a program and follow its children: run traces its ops; record samples its threads, or
 * those of a running process. They return the program's exit status. */
int cmd_run(int argc, char **argv);
int cmd_record(int argc, char **argv);

/* On a running process: trace it; the live view, also of a recorded file; a snapshot of all thread
 * stacks; its resource usage. */
int cmd_attach(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_stack(int argc, char **argv);
int cmd_monitor(int argc, char **argv);

/* Wait for a training that hangs, and write its stacks. Also 3: it has hung. */
int cmd_watch(int argc, char **argv);

/* ditrace without a command, on a terminal: the processes that run PyTorch, for cmd_top. */
int cmd_processes(int argc, char **argv);

/* Inspect and remove the shim library in a process. */
int cmd_ctl(int argc, char **argv);

/* Check whether tracing will work, on this machine or on one process; EXIT_GOOD only if so. */
int cmd_doctor(int argc, char **argv);

/* On a trace file: the table of ops by source line; the source with the times of its lines; its
 * events as text or JSON lines; conversion to another format. */
int cmd_report(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_script(int argc, char **argv);
int cmd_export(int argc, char **argv);

/* Gather the traces of several hosts in one folder. */
int cmd_merge(int argc, char **argv);

/* Run captured ops again. */
int cmd_replay(int argc, char **argv);

/* cmd_diff compares two captured runs, cmd_trace_diff two trace files; cmd_trace_diff_is_meant says
 * whether the command line names a trace file. */
int cmd_diff(int argc, char **argv);
int cmd_trace_diff(int argc, char **argv);
bool cmd_trace_diff_is_meant(int argc, char **argv);

#endif
