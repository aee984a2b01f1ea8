/* What tracing costs and how much of the ops it sees. */
#include "perf/trace/trace_write.h"
#include "tracer/session/session_internal.h"

void session_stats(struct session *s, struct trace_stats *out)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	*out = (struct trace_stats){
	    .probe_ns = c.mean_ns ? c.hits * (c.mean_ns + c.trap_ns) : 0,
	    .seen_permille = TRACE_SEEN_UNKNOWN,
	    .wall_ns = s->now - (s->first_ns ? s->first_ns : s->now),
	};
	bool all = !s->o->ops && !s->o->not_ops && !s->when && s->o->depth == SESSION_ALL_LEVELS &&
		   s->o->phase == SESSION_ALL;
	if (all && c.dispatched >= DISPATCH_LEAST)
		out->seen_permille = (uint32_t)(1000 * c.dispatched_seen / c.dispatched);
}

void session_calibrate(struct session *s)
{
	if (!s->calibrated)
		s->engine->calibrate(s->engine);
	s->calibrated = true;
}

/* Whoever reads the file while it grows is told once a second, if anything happened. */
void session_write_stats(struct session *s)
{
	enum { EVERY_NS = 1000 * 1000 * 1000 };
	struct trace_stats stats;
	struct engine_counters c;
	/* While dispatched ops are counted a measurement would count, too. */
	if (!s->writer || !s->first_ns || s->dispatch_since || s->now - s->stats_ns < EVERY_NS)
		return;
	s->stats_ns = s->now;
	s->engine->counters(s->engine, &c);
	if (c.hits == s->stats_hits)
		return;
	s->stats_hits = c.hits;
	session_calibrate(s);
	session_stats(s, &stats);
	trace_write_stats(s->writer, &stats);
}
