#include <errno.h>

#include "symbolizer/event/names.h"
#include "tracer/device/launches.h"
#include "tracer/session/internal.h"

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

static uint64_t open_since(int32_t pid, int32_t tid, void *arg)
{
	const struct session *s = arg;
	return decoder_open_since(s->decoder, pid, tid);
}

int session_begin_devices(struct session *s)
{
	if (!s->engine->activities || !OBSERVERS_FIRST(s, on_activity))
		return 0;
	s->launches = launches_new(on_activity, open_since, s);
	if (s->launches)
		launches_on_memory(s->launches, on_memory);
	return s->launches ? 0 : -ENOMEM;
}

static void on_record(const struct activity_record *r, void *arg)
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
	int r = s->engine->activities(s->engine, on_record, s);
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
