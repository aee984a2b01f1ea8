#define _GNU_SOURCE
#include "perf/report/aggregate.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/decode/decoder.h"
#include "tracer/session/internal.h"

/* The writer has to define all again what it knew by the addresses of what is freed. */
enum { MANY = 32 };

/* What was held back comes out now; nothing refers to the target afterwards. */
static void finish(struct session *s, uint16_t index)
{
	struct target *t = s->procs[index].target;
	decoder_remove_target(s->decoder, index);
	if (!session_proc(s, t->pid))
		session_forget_counts(s, t->pid);
}

static void free_all(struct session *s)
{
	for (uint16_t i = 0; i < PROCS_MAX; i++)
		if (s->procs[i].decoded)
			finish(s, i);
	if (s->writer)
		trace_writer_forget(s->writer);
	aggregate_forget(s->sum);
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

void session_forget_counts(struct session *s, pid_t pid)
{
	if (s->capture)
		capture_forget(s->capture, pid);
	if (s->tensor_stats)
		stats_collector_forget(s->tensor_stats, pid);
}
