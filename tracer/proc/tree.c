#define _GNU_SOURCE
#include "tracer/proc/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "symbolizer/target/process.h"

int process_list_add(struct process_list *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->pids[i] == pid)
			return 0;
	if (array_grow(&l->pids, &l->room, l->n + 1, sizeof(*l->pids)))
		return -ENOMEM;
	l->pids[l->n++] = pid;
	return 0;
}

static int add_children_of_thread(struct process_list *l, pid_t pid, pid_t tid)
{
	enum { MOST = 1 << 16 };
	char file[64];
	int r = 0;
	char *text = malloc(MOST);
	if (!text)
		return -ENOMEM;
	snprintf(file, sizeof(file), "task/%d/children", tid);
	char *at = text, *end;
	if (process_file(pid, file, text, MOST) > 0)
		for (long child; !r && (child = strtol(at, &end, 10)) > 0; at = end)
			r = process_list_add(l, (pid_t)child);
	free(text);
	return r;
}

int process_list_add_below(struct process_list *l)
{
	int r = 0;
	for (size_t i = 0; i < l->n && !r; i++) {
		pid_t *tids = NULL;
		ssize_t n = process_threads(l->pids[i], &tids);
		for (ssize_t k = 0; k < n && !r; k++)
			r = add_children_of_thread(l, l->pids[i], tids[k]);
		free(tids);
	}
	return r;
}

void process_list_free(struct process_list *l)
{
	free(l->pids);
	*l = (struct process_list){0};
}
