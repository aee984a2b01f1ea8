#ifndef REPLAY_CMD_DIFF_H
#define REPLAY_CMD_DIFF_H

/* ditrace diff: the numbers of two captured runs side by side. Returns the exit status. */
int cmd_diff(int argc, char **argv);

#endif
