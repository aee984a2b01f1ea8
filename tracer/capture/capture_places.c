/* Where the captures of a process are: in the folder of its rank. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "tracer/capture/internal.h"

enum { NAMES_MAX = 100 };

/* The name that no process has before it: of a rank that was started again, or whose folder is of
 * an earlier run. */
static void name_place(const struct capture *c, struct capture_process *p)
{
	char path[4096];
	unsigned nth = 0;
	for (size_t i = 0; i < c->processes.n; i++)
		nth += !c->processes.all[i].worker && c->processes.all[i].rank == p->rank;
	for (unsigned last = nth + NAMES_MAX; nth < last; nth++) {
		if (nth)
			snprintf(p->place, sizeof(p->place), "rank%d.%u", p->rank, nth);
		else
			snprintf(p->place, sizeof(p->place), "rank%d", p->rank);
		snprintf(path, sizeof(path), "%s/%s", c->files.root, p->place);
		if (access(path, F_OK))
			return;
	}
}

static const struct capture_process *process_of_rank(const struct capture *c, int32_t rank)
{
	for (size_t i = c->processes.n; i-- > 0;)
		if (c->processes.all[i].rank == rank && !c->processes.all[i].worker)
			return &c->processes.all[i];
	return NULL;
}

void capture_places_add(struct capture *c, const struct trace_process *told)
{
	struct capture_processes *all = &c->processes;
	struct capture_process p = {
	    .pid = told->pid, .rank = told->rank.rank, .worker = told->worker};
	const struct capture_process *of = p.worker ? process_of_rank(c, p.rank) : NULL;
	if (p.rank < 0 || array_grow(&all->all, &all->room, all->n + 1, sizeof(*all->all)))
		return;
	if (of)
		memcpy(p.place, of->place, sizeof(p.place));
	else
		name_place(c, &p);
	all->all[all->n++] = p;
}

void capture_place_of(const struct capture *c, pid_t pid, char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = c->processes.n; i-- > 0;)
		if (c->processes.all[i].pid == pid) {
			snprintf(out, size, "%s", c->processes.all[i].place);
			return;
		}
}
