#ifndef REPLAY_CMD_REPLAY_H
#define REPLAY_CMD_REPLAY_H

/* "ditrace replay": returns an exit status, see base/options.h. */
int cmd_replay(int argc, char **argv);

#endif
