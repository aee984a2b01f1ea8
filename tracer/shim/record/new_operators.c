#include "tracer/shim/record/internal.h"

#include <stdatomic.h>
#include <string.h>

enum { OPERATORS = 1024, TRIED = 16 };

static _Atomic uint64_t met[OPERATORS]; /* an open-addressed set of IDs; 0: empty */

void new_operators_begin(void)
{
	for (unsigned i = 0; i < OPERATORS; i++)
		met[i] = 0;
}

/* FNV-1a of name and handle. Both, since a handle is reused once its operator is gone. */
static uint64_t id_of(const char *name, uint64_t handle)
{
	uint64_t h = 0xcbf29ce484222325 ^ handle;
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3;
	return h ? h : 1;
}

bool new_operators_meet(const char *name, uint64_t handle)
{
	if (!strncmp(name, "aten::", strlen("aten::")))
		return false;
	uint64_t id = id_of(name, handle);
	for (unsigned i = 0; i < TRIED; i++) {
		_Atomic uint64_t *place = &met[(id + i) % OPERATORS];
		uint64_t there = atomic_load_explicit(place, memory_order_relaxed);
		if (!there && atomic_compare_exchange_strong(place, &there, id))
			return true;
		if (there == id)
			return false;
	}
	return false;
}
