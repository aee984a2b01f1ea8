/* The list of ranks. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "tracer/stack/hang.h"

void hang_rank_free(struct hang_rank *r)
{
	for (size_t i = 0; i < r->ngroups; i++) {
		free(r->groups[i].ranks);
		free(r->groups[i].calls);
	}
	free(r->groups);
	*r = (struct hang_rank){0};
}

void hang_ranks_free(struct hang_ranks *r)
{
	for (size_t i = 0; i < r->n; i++)
		hang_rank_free(&r->all[i]);
	free(r->all);
	*r = (struct hang_ranks){0};
}

int hang_ranks_add(struct hang_ranks *r, const struct hang_rank *one)
{
	if (array_grow(&r->all, &r->room, r->n + 1, sizeof(*r->all)))
		return -ENOMEM;
	r->all[r->n++] = *one;
	return 0;
}

static bool has_rank(const struct hang_ranks *r, int32_t rank)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->all[i].rank == rank)
			return true;
	return false;
}

int hang_ranks_add_absent(struct hang_ranks *r)
{
	enum { MOST = 1 << 16 };
	int32_t size = 0;
	int failed = 0;
	for (size_t i = 0; i < r->n; i++)
		size = r->all[i].world_size > size ? r->all[i].world_size : size;
	for (int32_t rank = 0; rank < size && rank < MOST && !failed; rank++) {
		const struct hang_rank absent = {
		    .rank = rank, .world_size = size, .state = HANG_ABSENT};
		if (!has_rank(r, rank))
			failed = hang_ranks_add(r, &absent);
	}
	return failed;
}
