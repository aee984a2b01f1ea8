#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"

enum { ENVIRON_MAX = 1 << 20 };

/* The value of the first variable of that name, as libc's getenv; NULL: none. */
static const char *variable_of(const char *environ, size_t size, const char *name)
{
	size_t len = strlen(name);
	for (const char *s = environ, *end = environ + size; s < end;) {
		size_t n = strnlen(s, (size_t)(end - s));
		if (s + n == end)
			return NULL; /* cut */
		if (n > len && s[len] == '=' && !memcmp(s, name, len))
			return s + len + 1;
		s += n + 1;
	}
	return NULL;
}

static int32_t variable_number(const char *environ, size_t size, const char *name)
{
	uint64_t n;
	const char *text = variable_of(environ, size, name);
	return text && text_number(text, &n) && n < INT32_MAX ? (int32_t)n : -1;
}

/* How launchers tell a process its place; the first that tells both rank and size counts. A script
 * of sbatch has SLURM_PROCID, too, but only a step of srun has SLURM_STEP_NUM_TASKS. */
static const struct launcher {
	const char *rank, *world_size, *local_rank, *node;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ""},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID"},
};

void process_rank_parse(const char *environ, size_t size, struct process_rank *out)
{
	*out = (struct process_rank){
	    .rank = -1, .world_size = -1, .local_rank = -1, .node = -1, .restarts = -1};
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *l = &launchers[i];
		int32_t rank = variable_number(environ, size, l->rank),
			world_size = variable_number(environ, size, l->world_size);
		if (rank < 0 || rank >= world_size)
			continue;
		*out = (struct process_rank){
		    .rank = rank,
		    .world_size = world_size,
		    .local_rank = variable_number(environ, size, l->local_rank),
		    .node = variable_number(environ, size, l->node),
		    .restarts = variable_number(environ, size, "TORCHELASTIC_RESTART_COUNT"),
		};
		return;
	}
}

/* The name of the host, if the process is not in a UTS namespace of its own, as in a container;
 * there the HOSTNAME that container engines set. */
static void find_host(pid_t pid, const char *environ, size_t size, char *out, size_t room)
{
	char path[64], theirs[64] = "", ours[64] = "";
	struct utsname u;
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", pid);
	ssize_t n = readlink(path, theirs, sizeof(theirs) - 1);
	ssize_t m = readlink("/proc/self/ns/uts", ours, sizeof(ours) - 1);
	const char *name = variable_of(environ, size, "HOSTNAME");
	if (n > 0 && m > 0 && !strcmp(theirs, ours) && !uname(&u))
		name = u.nodename;
	snprintf(out, room, "%.63s", name ? name : "");
	text_drop_part(out);
}

void process_rank_read(pid_t pid, struct process_rank *out)
{
	char *environ = malloc(ENVIRON_MAX);
	ssize_t n = environ ? process_file(pid, "environ", environ, ENVIRON_MAX) : 0;
	size_t size = n > 0 ? (size_t)n : 0;
	process_rank_parse(environ, size, out);
	find_host(pid, environ, size, out->host, sizeof(out->host));
	free(environ);
}

/* A program may set some of these variables itself, from those of srun, before it starts a worker;
 * only torchrun sets the number of restarts. */
static bool is_same_rank(const struct process_rank *a, const struct process_rank *b)
{
	return a->rank == b->rank && a->world_size == b->world_size && a->restarts == b->restarts;
}

/* A shell or a ditrace above a rank has its environment, too. */
static bool is_below_rank(pid_t pid, const struct process_rank *rank)
{
	enum { ABOVE = 8 };
	struct process p;
	struct process_rank above;
	for (int i = 0; i < ABOVE && pid > 1 && !process_read(pid, &p, NULL); i++) {
		pid = p.status.ppid;
		process_rank_read(pid, &above);
		if (is_same_rank(&above, rank) && process_has_torch(pid))
			return true;
	}
	return false;
}

/* A launcher starts no fewer ranks than there are launchers: a rank may start a smaller training.
 */
static bool has_started_ranks(pid_t pid, const struct process_rank *rank)
{
	pid_t *children = NULL;
	ssize_t n = process_children(pid, &children);
	bool other = false, same = false;
	for (ssize_t i = 0; i < n; i++) {
		struct process_rank child;
		process_rank_read(children[i], &child);
		same |= is_same_rank(&child, rank);
		other |= child.world_size >= rank->world_size && !is_same_rank(&child, rank);
	}
	free(children);
	return other || (same && !process_has_torch(pid));
}

enum rank_role process_rank_role(pid_t pid, const struct process_rank *rank)
{
	if (rank->rank < 0)
		return RANK_NONE;
	if (is_below_rank(pid, rank))
		return RANK_WORKER;
	return has_started_ranks(pid, rank) ? RANK_LAUNCHER : RANK_OWN;
}
