/* Which part of a training on many processes a process is. */
#ifndef SYMBOLIZER_TARGET_RANK_H
#define SYMBOLIZER_TARGET_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Numbers are -1 where they are not known. */
struct process_rank {
	int32_t rank, world_size; /* both are known, or neither is */
	int32_t local_rank;	  /* among the ranks of its host */
	int32_t node;		  /* of its launcher among the launchers */
	int32_t restarts;	  /* of all ranks by the launcher before this one started */
	char host[64];		  /* "": not known */
};

/* Read it from the environment that process `pid` was started with: RANK, WORLD_SIZE, LOCAL_RANK,
 * GROUP_RANK, TORCHELASTIC_RESTART_COUNT (torch/distributed/elastic/agent/server/
 * local_elastic_agent.py, _start_workers, 1.13 to 2.13). What the program has put into its
 * environment since is not seen. */
void process_rank_read(pid_t pid, struct process_rank *out);

/* The same from `size` bytes of NUL-terminated NAME=VALUE; host is left empty. */
void process_rank_parse(const char *environ, size_t size, struct process_rank *out);

/* Whether both have the same place: one of them is then a helper of the other, such as a worker of
 * a DataLoader, which inherits the environment. False if no rank is known. */
bool process_rank_same(const struct process_rank *a, const struct process_rank *b);

#endif
