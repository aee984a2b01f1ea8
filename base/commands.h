/* The commands of ditrace. argv[0] is the command's name. Results go to standard output, all else
 * to standard error. Each returns its exit status: one of base/options.h, where no other is named.
 */
#ifndef BASE_COMMANDS_H
#define BASE_COMMANDS_H

#include <stdbool.h>

/* Of a program that is started, and of what it starts: its ops; samples of its threads, or of those
 * of a running process. The program's exit status is returned. */
int cmd_run(int argc, char **argv);
int cmd_record(int argc, char **argv);

/* Of a running process: trace it; the live view, of a recorded file too; what every thread does at
 * this moment; what it uses of the machine. */
int cmd_attach(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_stack(int argc, char **argv);
int cmd_monitor(int argc, char **argv);

/* What the library of the engine shim does in a process, and taking it out. */
int cmd_ctl(int argc, char **argv);

/* Whether tracing will work, here or of a process: EXIT_GOOD only then. */
int cmd_doctor(int argc, char **argv);

/* Of a trace file: the table of ops by source line; its events as text or JSON lines; another
 * format. */
int cmd_report(int argc, char **argv);
int cmd_script(int argc, char **argv);
int cmd_export(int argc, char **argv);

/* Run captured ops again. */
int cmd_replay(int argc, char **argv);

/* diff: of two captured runs; or of two trace files, which is meant when the command line names
 * one. */
int cmd_diff(int argc, char **argv);
int cmd_trace_diff(int argc, char **argv);
bool cmd_trace_diff_is_meant(int argc, char **argv);

#endif
