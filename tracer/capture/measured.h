/* The calls that are being measured, from their start to their end, and which calls were chosen. */
#ifndef TRACER_CAPTURE_MEASURED_H
#define TRACER_CAPTURE_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/capture/snapshot.h"
#include "symbolizer/event/event_stats.h"

enum { MEASURED_SLOTS = 1024, CHOSEN_MAX = 65536 };

struct measured {
	struct measured *next; /* in its slot, or among those that are free */
	uint64_t id;	       /* of the event */
	struct tensor_stats *rows;
	uint32_t n, size;
	struct snapshot before; /* its arguments */
};

/* Zero-initialise. */
struct measured_calls {
	struct measured *slot[MEASURED_SLOTS];
	struct measured *unused;
	uint64_t *chosen; /* the last CHOSEN_MAX ids, a ring; they only grow */
	uint64_t nchosen; /* ever */
};

/* A record for the event `id`, without rows; NULL without memory. */
struct measured *measured_begin(struct measured_calls *c, uint64_t id);

/* NULL when there is none. */
struct measured *measured_find(const struct measured_calls *c, uint64_t id);

/* The next row, for the tensor at `place`, all else zero. NULL without memory. Rows are to come in
 * the order of their places. Valid until the next one. */
struct tensor_stats *measured_row(struct measured *m, const struct tensor_place *place);

/* Its record is free for another call. */
void measured_end(struct measured_calls *c, struct measured *m);

/* Remember that call `id` was chosen, larger than all before; whether it was. The oldest of more
 * than CHOSEN_MAX are forgotten. */
void measured_choose(struct measured_calls *c, uint64_t id);
bool measured_was_chosen(const struct measured_calls *c, uint64_t id);

void measured_free(struct measured_calls *c);

#endif
