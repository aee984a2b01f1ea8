#define _GNU_SOURCE
#include "perf/report/aggregate.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/decode/decoder.h"
#include "tracer/session/internal.h"

/* The writer has to define all again what it knew by the addresses of what is freed. */
enum { MANY = 32 };

static bool has_ended(const struct proc *p)
{
	return p->target && !p->alive;
}

static bool is_decoded(const struct session *s, const struct proc *p)
{
	enum { TURNS = 2 };
	return has_ended(p) && p->all_taken && s->reorder_buffer.turns >= p->taken_turn + TURNS;
}

/* What was held back comes out now; nothing refers to the target afterwards. */
static void finish(struct session *s, uint16_t index)
{
	struct target *t = s->procs[index].target;
	target_settle(t);
	decoder_drain(s->decoder, index);
	decoder_remove_target(s->decoder, index);
	if (!session_proc(s, t->pid))
		session_forget_counts(s, t->pid);
}

static void free_all(struct session *s)
{
	for (uint16_t i = 0; i < PROCS_MAX; i++)
		if (is_decoded(s, &s->procs[i]))
			finish(s, i);
	if (s->writer)
		trace_writer_forget(s->writer);
	aggregate_forget(s->sum);
	s->textless = NULL;
	for (uint16_t i = 0; i < PROCS_MAX; i++) {
		if (!is_decoded(s, &s->procs[i]))
			continue;
		target_close(s->procs[i].target);
		s->procs[i] = (struct proc){0};
	}
}

void session_free_ended(struct session *s, bool all)
{
	unsigned unused = 0, decoded = 0;
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		unused += !p->target;
		if (all && has_ended(p) && !p->all_taken) {
			p->all_taken = true;
			p->taken_turn = s->reorder_buffer.turns;
		}
		decoded += is_decoded(s, p);
	}
	if (decoded >= MANY || (decoded && unused < MANY))
		free_all(s);
}

void session_forget_counts(struct session *s, pid_t pid)
{
	if (s->capture)
		capture_forget(s->capture, pid);
	if (s->tensor_stats)
		stats_collector_forget(s->tensor_stats, pid);
}
