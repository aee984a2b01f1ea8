#ifndef PERF_CMD_EXPORT_H
#define PERF_CMD_EXPORT_H

/* ditrace export: a trace file for other programs. Returns the exit status. */
int cmd_export(int argc, char **argv);

#endif
