/* The Python interpreter of a process, by the path that would start it again: what sys.executable
 * is there. In a virtual environment that is a link whose folder decides which packages there are,
 * so the file that runs (/proc/PID/exe) does not do. */
#ifndef REPLAY_CAPTURE_INTERPRETER_H
#define REPLAY_CAPTURE_INTERPRETER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct interpreter {
	char path[PATH_MAX]; /* absolute, as the process sees it; "" when it is not known */
	char
	    changed[40]; /* when that file, or link, last changed: st_ctim, "SECONDS.NANOSECONDS" */
	/* Of which process this is; kept so that the next question about it is cheap. */
	pid_t pid;
	dev_t dev;
	ino_t ino;
};

/* Find that of process `pid`, a number as /proc here has it, into `out` (zero-initialised, or of a
 * process asked for before). As Modules/getpath.py of CPython finds sys.executable: by argv[0], the
 * PATH and the current folder, taken only when it leads to the very file that runs; else that file.
 * What is not called python or pypy is none: a program with Python built in may do anything. */
void interpreter_of(pid_t pid, struct interpreter *out);

/* Is there still that file, executable, of this user or of root, not changed since? `changed` as
 * above. The time of a change cannot be chosen by whoever makes a file, so that a capture from
 * elsewhere names no program that came with it. */
bool interpreter_is_there(const char *path, const char *changed);

#endif
