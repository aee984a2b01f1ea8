#ifndef REPLAY_CMD_REPLAY_H
#define REPLAY_CMD_REPLAY_H

/* ditrace replay: captured ops run again. Returns the exit status. */
int cmd_replay(int argc, char **argv);

#endif
