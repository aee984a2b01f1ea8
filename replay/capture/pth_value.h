/* Values of an event as torch.save pickles them. Part of pth_write. */
#ifndef REPLAY_CAPTURE_PTH_VALUE_H
#define REPLAY_CAPTURE_PTH_VALUE_H

#include "replay/capture/pickle.h"
#include "replay/capture/pth.h"
#include "replay/capture/pth_storage.h"

/* What is known while a file is being made. */
struct pth_state {
	const struct source *src;
	struct pth_storages storages;
	struct pickle pickle;
	unsigned limits; /* PTH_* */
};

/* First pass: enter the storages of every tensor in `v` into s->storages. *refusal says why `v`
 * cannot be written, and *refused which value in it. Returns 0, -ENOTSUP or -ENOMEM. */
int pth_value_collect(struct pth_state *s, const struct value *v, enum refusal *refusal,
		      const struct value **refused);

/* Second pass, when all values were collected: append `v` to s->pickle and its limits to
 * s->limits. */
void pth_value_pickle(struct pth_state *s, const struct value *v);

#endif
