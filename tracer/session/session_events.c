/* What the decoder and devices report: whether it is recorded, and who is told. */
#define _GNU_SOURCE
#include "tracer/session/session.h"

#include <errno.h>

#include "base/system.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/names.h"
#include "symbolizer/python/python.h"
#include "tracer/device/launches.h"
#include "tracer/engine/engine.h"
#include "tracer/session/internal.h"

/* Source lines go into the trace with their frames, while the file is still available. */
static void find_text(struct session *s, const struct op_event *ev)
{
	const struct py_frame *f = py_stack_where(ev->where_stack);
	if (!f || f->text || f == s->textless)
		return;
	/* The process may have exited and its PID may be in use again: only the right target knows
	 * the frame. */
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		const struct target *t = s->procs[i].target;
		if (t && t->pid == ev->pid && t->py && py_frame_text(t->py, f))
			return;
	}
	s->textless = f;
}

/* The process may have exited, and its last events come now. */
static uint32_t session_rank1(struct session *s, pid_t pid)
{
	if (s->ranked_pid == pid)
		return s->ranked_rank1;
	s->ranked_pid = pid;
	s->ranked_rank1 = 0;
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		if (!p->target || p->target->pid != pid)
			continue;
		p->has_ops = true;
		if (p->alive || !s->ranked_rank1)
			s->ranked_rank1 = (uint32_t)(p->rank.rank + 1);
	}
	return s->ranked_rank1;
}

static struct target *target_of(struct session *s, const struct op_event *ev)
{
	const struct proc *p = session_proc(s, ev->pid);
	return p ? p->target : NULL;
}

/* Whether the event passes --phase. An engine knows only what is in a node of the backward. */
static bool is_of_phase(const struct session *s, const struct op_event *ev)
{
	return s->o->phase == SESSION_RECOMPUTE	 ? ev->phase == PHASE_RECOMPUTE
	       : s->o->phase == SESSION_BACKWARD ? ev->phase != PHASE_RECOMPUTE
	       : s->o->phase == SESSION_FORWARD	 ? ev->phase == PHASE_FORWARD
						 : true;
}

/* Whether the event passes the filters. */
static bool is_recorded(struct session *s, const struct op_event *ev)
{
	/* Boxed calls of all ops hit the same probes, and so do Python nodes: only the event tells
	 * which op it is. */
	if ((s->o->ops || s->o->not_ops) && !session_wants(s, ev->op))
		return false;
	if (!is_of_phase(s, ev))
		return false;
	if (s->o->count && s->events >= s->o->count)
		return false;
	for (const struct observer *o = s->observers; o; o = o->next)
		if (o->is_past && o->is_past(o, ev))
			return false;
	return when_decide(s->when, ev, WHEN_AT_EXIT, &s->when_counts) == WHEN_YES;
}

/* Whether calls that have ended are recorded; what is known of their process is then filled in. */
static bool record(struct session *s, struct op_event *ev, uint64_t calls)
{
	if (session_turns_is_before(s, ev)) {
		s->turns.left_out += calls;
		return false;
	}
	if (!is_recorded(s, ev))
		return false;
	s->events += op_mark(ev->op) && !s->o->ops ? 0 : calls;
	find_text(s, ev);
	session_name_thread(s, ev);
	return true;
}

static void on_event(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	struct target *t = s->stopped ? target_of(s, ev) : NULL;
	struct op_event seen = *ev;
	seen.rank1 = session_rank1(s, ev->pid);
	OBSERVERS_CALL(s, on_end, t, &seen);
	if (!record(s, &seen, 1))
		return;
	s->lean += seen.lean;
	OBSERVERS_CALL(s, on_event, t, &seen);
	if (s->launches)
		launches_op(s->launches, &seen);
}

static void on_start(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	struct target *t = target_of(s, ev);
	bool wanted = session_wants(s, ev->op) && is_of_phase(s, ev);
	if (t)
		OBSERVERS_CALL(s, on_start, s->stopped ? t : NULL, ev, wanted);
}

static void on_sum(const struct op_sum *sum, void *arg)
{
	struct session *s = arg;
	struct op_sum seen = *sum;
	seen.of.rank1 = session_rank1(s, seen.of.pid);
	if (!record(s, &seen.of, seen.calls))
		return;
	OBSERVERS_CALL(s, on_sum, &seen);
	if (s->launches)
		launches_sum(s->launches, &seen);
}

static void on_done(const struct work_done *w, void *arg)
{
	struct session *s = arg;
	if (!s->o->turns || s->turns.over)
		OBSERVERS_CALL(s, on_done, w);
}

static void on_written(const struct work_done *w, void *arg)
{
	struct session *s = arg;
	const struct proc *p = s->stopped ? session_proc(s, w->pid) : NULL;
	OBSERVERS_CALL(s, on_written, p ? p->target : NULL, w);
}

static void on_grads(const struct decoder_grads *g, void *arg)
{
	struct session *s = arg;
	const struct proc *p = session_proc(s, g->pid);
	if (p)
		OBSERVERS_CALL(s, on_grads, p->target, g);
}

int session_begin_decoding(struct session *s)
{
	s->decoder = decoder_new(on_event, s);
	if (!s->decoder)
		return -ENOMEM;
	decoder_on_sum(s->decoder, on_sum);
	decoder_on_done(s->decoder, on_done);
	decoder_on_written(s->decoder, on_written);
	if (OBSERVERS_FIRST(s, on_start))
		decoder_on_start(s->decoder, on_start);
	if (OBSERVERS_FIRST(s, on_grads))
		decoder_on_grads(s->decoder, on_grads);
	return 0;
}

/* What devices did, and what was done with memory. */

static void on_activity(const struct activity *a, void *arg)
{
	struct session *s = arg;
	const uint64_t since = a->launched_ns ? a->launched_ns : a->of.start_ns;
	if (s->o->turns && (!s->turns.over || since < s->turns.from_ns))
		return;
	struct activity seen = *a;
	seen.of.rank1 = session_rank1(s, a->of.pid);
	OBSERVERS_CALL(s, on_activity, &seen);
}

static void on_memory(const struct memory_event *m, void *arg)
{
	struct session *s = arg;
	struct memory_event seen = *m;
	seen.of.rank1 = session_rank1(s, m->of.pid);
	seen.device_type = (int8_t)names_device_code(m->device_type, s->ops->ndevice_types);
	OBSERVERS_CALL(s, on_memory, &seen);
}

static uint64_t ops_open_since(int32_t pid, int32_t tid, void *arg)
{
	const struct session *s = arg;
	return decoder_open_since(s->decoder, pid, tid);
}

int session_begin_devices(struct session *s)
{
	if (!s->engine->activities || !OBSERVERS_FIRST(s, on_activity))
		return 0;
	s->launches = launches_new(on_activity, ops_open_since, s);
	if (s->launches)
		launches_on_memory(s->launches, on_memory);
	return s->launches ? 0 : -ENOMEM;
}

static void on_device_record(const struct activity_record *r, void *arg)
{
	struct session *s = arg;
	if (r->kind == RECORD_LOST && r->bytes)
		OBSERVERS_CALL(s, on_activities_lost, r->pid, s->now, r->bytes);
	if (r->kind == RECORD_MEMORY_LOST && r->bytes)
		OBSERVERS_CALL(s, on_memory_lost, r->pid, s->now, r->bytes);
	/* Not s->now: ops may have been decoded since that ended later. */
	launches_record(s->launches, r, session_now());
}

int session_take_activities(struct session *s, bool behind)
{
	if (!s->launches)
		return 0;
	int r = s->engine->activities(s->engine, on_device_record, s);
	launches_tick(s->launches, s->now, behind || r >= ENGINE_AT_ONCE);
	return r;
}

void session_devices_lost(struct session *s)
{
	enum { LATE_NS = 1000 * 1000 * 1000 };
	if (s->launches)
		launches_lost(s->launches, s->lost_ns > LATE_NS ? s->lost_ns - LATE_NS : 0, s->now);
}

void session_end_launches(struct session *s, pid_t pid, uint64_t until_ns)
{
	if (s->launches)
		launches_end(s->launches, pid, until_ns);
}
