#define _GNU_SOURCE
#include "symbolizer/decode/decoder.h"
#include "tracer/session/internal.h"

/* Free this many at a time: each time, the trace writer forgets all ops, frames and stacks that it
 * knew by address and must look them up again by content. */
enum { MANY = 32 };

/* Flush what was held back; after this nothing refers to the target. */
static void finish(struct session *s, uint16_t index)
{
	struct target *t = s->procs[index].target;
	decoder_remove_target(s->decoder, index);
	if (!session_proc(s, t->pid))
		OBSERVERS_CALL(s, forget_process, t->pid);
}

static void free_all(struct session *s)
{
	for (uint16_t i = 0; i < PROCS_MAX; i++)
		if (s->procs[i].decoded)
			finish(s, i);
	OBSERVERS_CALL(s, forget_addresses);
	s->textless = NULL;
	for (uint16_t i = 0; i < PROCS_MAX; i++) {
		if (!s->procs[i].decoded)
			continue;
		target_close(s->procs[i].target);
		s->procs[i] = (struct proc){0};
	}
}

void session_free_ended(struct session *s, bool all)
{
	unsigned unused = 0, decoded = 0;
	for (uint16_t i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		unused += !p->target;
		if (all && p->target && !p->alive)
			p->decoded = decoder_end_target(s->decoder, i);
		decoded += p->decoded;
	}
	if (decoded >= MANY || (decoded && unused < MANY))
		free_all(s);
}
