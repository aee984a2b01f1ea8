/* Which Python runs captures. */
#ifndef REPLAY_CHOOSE_PYTHON_H
#define REPLAY_CHOOSE_PYTHON_H

#include <limits.h>
#include <stdio.h>

#include "base/err.h"
#include "replay/capture_find.h"

struct python_choice {
	char path[PATH_MAX];
	char note[2 * PATH_MAX]; /* what a user would not expect of the choice, "" for nothing */
};

/* `given`, when it is not NULL; else the interpreter that most of the captures come from; where
 * they do not say, or it is not there any more (replay/capture/interpreter.h), or has no torch now,
 * the first of python3 and python on the PATH that has. -ENOENT with a hint when there is none. */
int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e);

/* The note as a line for people, when there is one. */
void python_choice_say(const struct python_choice *c, FILE *f);

#endif
