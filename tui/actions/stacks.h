/* What all threads of a process do now, looked at by a process of its own: neither a slow look nor
 * a stopped thread keeps the screen up, and ending it lets all threads go. */
#ifndef TUI_ACTIONS_STACKS_H
#define TUI_ACTIONS_STACKS_H

#include <stdbool.h>
#include <sys/types.h>

/* Zero-initialise. */
struct stacks {
	pid_t child; /* that looks; 0: none does */
	int out;     /* file with what it says, while there is a child */
	char *text;  /* of the last look that ended: what ditrace stack prints, or why there is
			nothing; NULL: none yet */
};

/* Begin to look at `pid`; nothing happens while a look goes on. 0 or -errno. */
int stacks_look(struct stacks *s, pid_t pid);

/* Whether a look has ended since the last call, and s->text is new. */
bool stacks_came(struct stacks *s);

/* End a look that goes on, and free what there is. */
void stacks_close(struct stacks *s);

#endif
