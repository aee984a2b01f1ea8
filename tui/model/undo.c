#define _GNU_SOURCE
#include "tui/model/top.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void undo_made(struct undo *u, const char *path)
{
	char *whole = realpath(path, NULL);
	if (whole && strlen(whole) < UNDO_PATH) {
		if (u->n == UNDO_STEPS)
			memmove(&u->steps[0], &u->steps[1], --u->n * sizeof(u->steps[0]));
		strcpy(u->steps[u->n++].path, whole);
	}
	free(whole);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path) ? errno : 0;
}

int undo_last(struct undo *u, char *out, size_t size)
{
	enum { FILES = 16 };
	if (!u->n)
		return 0;
	snprintf(out, size, "%s", u->steps[--u->n].path);
	int r = nftw(u->steps[u->n].path, remove_one, FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return r ? -(r > 0 ? r : errno) : 1;
}
