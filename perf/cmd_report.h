#ifndef PERF_CMD_REPORT_H
#define PERF_CMD_REPORT_H

/* ditrace report: the table of ops by source line. Returns the exit status. */
int cmd_report(int argc, char **argv);

#endif
