#define _GNU_SOURCE
#include "tracer/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/system.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/python/python.h"
#include "tracer/device/launches.h"
#include "tracer/engine/engine.h"
#include "tracer/session/internal.h"

static void on_stopped_hit(const struct hit *h, void *arg)
{
	struct session *s = arg;
	/* With the shim, some threads have already resumed. */
	s->stopped = !s->engine->observes || h->flags & HIT_STOPPED;
	session_cost_hit(s, h);
	session_look_for_kernels(s, h);
	decoder_feed_now(s->decoder, h);
	const struct observer *o = s->engine->count_call ? OBSERVERS_FIRST(s, awaits) : NULL;
	if (o)
		s->engine->set_awaited(s->engine, o->awaits(o));
}

static void on_hit(const struct hit *h, void *arg)
{
	struct session *s = arg;
	session_cost_hit(s, h);
	session_look_for_kernels(s, h);
	decoder_feed(s->decoder, h);
}

/* Pass new records to the decoder. Returns like the engine's consume. */
static int consume(struct session *s)
{
	return s->engine->consume(s->engine, s->stops ? on_stopped_hit : on_hit, s);
}

static void count_lost(struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	uint64_t lost = c.lost + decoder_dropped(s->decoder);
	if (lost > s->lost && (!s->o->turns || s->turns.over)) {
		OBSERVERS_CALL(s, on_lost, s->now, lost - s->lost);
		session_devices_lost(s);
	}
	s->lost = lost;
	s->lost_ns = s->now;
}

static void read_stats(struct session *s, struct trace_stats *out)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	const uint64_t cpu_ns = session_cost_cpu(s), probe_ns = session_cost_probes(s, &c);
	*out = (struct trace_stats){
	    .probe_ns = probe_ns,
	    .probe_is_least = c.probe_is_least,
	    .cpu_ns = cpu_ns && c.probe_is_stop ? cpu_ns + probe_ns : cpu_ns,
	    .seen_permille = TRACE_SEEN_UNKNOWN,
	    .lean = s->lean,
	    .no_blocks = s->no_blocks + c.no_blocks,
	    .wall_ns = s->now - (s->first_ns ? s->first_ns : s->now),
	};
	bool all = !s->o->ops && !s->o->not_ops && !s->when && s->o->depth == SESSION_ALL_LEVELS &&
		   s->o->phase == SESSION_ALL;
	if (all && c.dispatched >= DISPATCH_LEAST)
		out->seen_permille = (uint32_t)(1000 * c.dispatched_seen / c.dispatched);
	session_turns_tell(s, out);
	/* What was hit is no measure while some turns leave ops out, and nothing is recorded. */
	if (s->o->turns && !s->turns.over)
		out->probe_ns = 0;
}

static void calibrate(struct session *s)
{
	if (!s->calibrated)
		s->engine->calibrate(s->engine);
	s->calibrated = true;
}

/* Pass statistics on once a second if there were hits, for those who read the file while it grows.
 */
static void write_stats(struct session *s)
{
	enum { EVERY_NS = 1000 * 1000 * 1000 };
	struct trace_stats stats;
	struct engine_counters c;
	/* Not while dispatched ops are counted: calibration would be counted, too. */
	if (!OBSERVERS_FIRST(s, on_stats) || !s->first_ns || s->dispatch_since ||
	    !session_is_settled(s) || s->now - s->stats_ns < EVERY_NS)
		return;
	s->stats_ns = s->now;
	s->engine->counters(s->engine, &c);
	if (c.hits == s->stats_hits)
		return;
	s->stats_hits = c.hits;
	calibrate(s);
	session_cost_update(s);
	read_stats(s, &stats);
	OBSERVERS_CALL(s, on_stats, &stats);
}

static void housekeeping(struct session *s)
{
	enum { EVERY_NS = 20 * 1000 * 1000, COST_NS = 200 * 1000 * 1000 };
	const uint64_t RANKS_NS = 500000000;
	if (s->now - s->kept_house < EVERY_NS)
		return;
	if (s->now / COST_NS != s->kept_house / COST_NS)
		session_cost_update(s);
	if (s->now / RANKS_NS != s->kept_house / RANKS_NS)
		session_find_launchers(s);
	s->kept_house = s->now;
	session_complete_procs(s);
	session_sample_dispatch(s);
	count_lost(s);
	write_stats(s);
}

static int engine_failed(const struct session *s, int code, struct err *e)
{
	if (code != -ECHILD)
		return err_set(e, code, "cannot read the engine's records: %s", strerror(-code));
	err_set(e, code, "%s", s->engine->gone);
	return err_hint(e, "%s", s->engine->gone_hint);
}

/* The trouble of the first observer that has any, reported or not; NULL: none. */
static const struct err *trouble(const struct session *s)
{
	for (const struct observer *o = s->observers; o; o = o->next)
		if (o->trouble && o->trouble(o)->code)
			return o->trouble(o);
	return NULL;
}

/* The first unreported trouble, which counts as reported from now on; NULL: none. */
static const struct err *unreported(struct session *s)
{
	for (struct observer *o = s->observers; o; o = o->next) {
		if (o->reported || !o->trouble || !o->trouble(o)->code)
			continue;
		o->reported = true;
		return o->trouble(o);
	}
	return NULL;
}

static bool is_over(const struct session *s)
{
	for (const struct observer *o = s->observers; o; o = o->next)
		if (o->is_over && o->is_over(o))
			return true;
	uint64_t from = s->limit_from_ns ? s->limit_from_ns : s->first_ns;
	if (s->o->turns)
		from = s->turns.from_ns;
	return (s->o->for_ns && from && s->now - from >= s->o->for_ns) ||
	       (s->o->count && s->events >= s->o->count);
}

static void look_for_news(struct session *s)
{
	const uint64_t resolved = py_stacks_resolved();
	if (s->resolved != resolved)
		s->news_ns = s->now;
	s->resolved = resolved;
}

/* What is new is read at once, as the process may end. */
int session_pause(const struct session *s)
{
	enum { NEW_NS = 500 * 1000 * 1000 };
	return s->now - s->news_ns >= NEW_NS && s->engine->pause_ms > 1 ? s->engine->pause_ms : 1;
}

int session_step(struct session *s, struct err *e)
{
	s->now = session_now();
	if (s->fatal.code) {
		if (e)
			*e = s->fatal;
		return s->fatal.code;
	}
	int r = consume(s);
	decoder_tick(s->decoder, s->now);
	look_for_news(s);
	int devices = r < 0 ? r : session_take_activities(s, r >= ENGINE_AT_ONCE);
	if (devices < 0)
		return engine_failed(s, devices, e);
	session_free_ended(s, r < ENGINE_AT_ONCE);
	session_update_procs(s);
	OBSERVERS_CALL(s, tick, s->now);
	session_turns_step(s);
	housekeeping(s);
	const struct err *failed = unreported(s);
	if (failed && e)
		*e = *failed;
	if (s->engine->trouble.code && e && !e->code) {
		*e = s->engine->trouble;
		s->engine->trouble = (struct err){0};
	}
	return is_over(s);
}

const char *session_note(const struct session *s)
{
	return s->engine_note.code ? s->engine_note.what : NULL;
}

int session_wake(const struct session *s)
{
	return s->engine->wake;
}

pid_t session_tracer(const struct session *s)
{
	return s->engine->tracer;
}

bool session_follows(const struct session *s)
{
	return s->engine->follow;
}

void session_start_time(struct session *s)
{
	if (s->first_ns)
		s->limit_from_ns = session_now();
}

bool session_enters(const struct session *s)
{
	return s->engine->is_outside;
}

bool session_is_stray(struct session *s, pid_t pid)
{
	return s->engine->is_outside && process_has_all_torch(pid) && !session_proc(s, pid) &&
	       s->engine->is_outside(pid);
}

void session_expect(struct session *s, pid_t pid)
{
	if (s->engine->expect)
		s->engine->expect(s->engine, pid);
}

int session_watch(struct session *s, pid_t pid, struct err *e)
{
	return s->engine->watch(s->engine, pid, e);
}

int session_follow(struct session *s, follow_fn *fn, void *arg)
{
	return s->engine->follow(s->engine, fn, arg);
}

void session_set_away(struct session *s, bool away)
{
	if (s->engine->set_away)
		s->engine->set_away(s->engine, away);
}

const char *session_engine(const struct session *s)
{
	return s->engine->name;
}

bool session_is_quiet(const struct session *s)
{
	return s->o->quiet;
}

unsigned session_ops(const struct session *s)
{
	unsigned n = 0;
	for (uint32_t i = 0; s->ops && i < s->ops->n; i++)
		n += s->ops->ops[i].role == ROLE_CALL && session_wants(s, &s->ops->ops[i].desc);
	return n;
}

void session_progress(struct session *s, uint64_t *ops, uint64_t *bytes, uint64_t *lost)
{
	struct trace_writer *w = session_writer(s);
	*ops = s->events;
	*bytes = w ? trace_writer_bytes(w) : 0;
	*lost = s->lost;
}

int session_status(const struct session *s)
{
	int status = EXIT_GOOD;
	for (const struct observer *o = s->observers; o && !status; o = o->next)
		status = o->status ? o->status(o) : EXIT_GOOD;
	return status;
}

pid_t session_refused(const struct session *s)
{
	return s->fatal_pid;
}

unsigned session_total(const struct session *s)
{
	return s->total;
}

unsigned session_missed(const struct session *s)
{
	return s->engine->missed;
}

/* Remove all probes, then consume everything they sent. */
static void stop_probes(struct session *s)
{
	const uint64_t until_ns = session_now();
	/* What calibration calls, and what runs while probes are removed, is not missed. */
	s->engine->count_dispatch(s->engine, 0);
	calibrate(s);
	session_cost_update(s);
	s->engine->detach(s->engine, ENGINE_ALL_PROCS);
	for (bool more = true; consume(s) > 0 || more;) {
		more = session_take_activities(s, true) >= ENGINE_AT_ONCE;
		session_update_procs(s);
	}
	decoder_finish(s->decoder);
	s->now = session_now();
	count_lost(s);
	session_end_launches(s, 0, until_ns);
}

struct trace_writer *session_writer(struct session *s)
{
	struct observer *o = OBSERVERS_FIRST(s, writer);
	return o ? o->writer(o) : NULL;
}

/* Rows of each part of the table at the end: as many as leave its first lines on the screen. */
static size_t rows_of_part(struct terminal t)
{
	enum { MOST = 20, LEAST = 4, OTHER_LINES = 15 };
	int rows = t.height ? (t.height - OTHER_LINES) / 2 : MOST;
	return rows < LEAST ? LEAST : rows > MOST ? MOST : (size_t)rows;
}

int session_finish(struct session *s, struct err *e)
{
	struct trace_stats stats;
	stop_probes(s);
	session_turns_finish(s);
	read_stats(s, &stats);
	const struct report_opts whole = {
	    .targets = s->targets,
	    .ntargets = s->ntargets,
	    .stats = &stats,
	    .when = s->when ? &s->when_counts : NULL,
	    .limit = rows_of_part(terminal_of(stderr)),
	    .no_table = s->o->capture.dir || s->o->measure.stats || s->o->measure.first_nan,
	    .percent_limit = REPORT_PERCENT_LIMIT,
	    .chosen = s->chosen[0] ? s->chosen : NULL,
	    .each = session_needs_each(s),
	    .engine = s->is_note_of_start ? NULL : session_note(s),
	    .terminal = terminal_of(stderr),
	};
	OBSERVERS_CALL(s, on_stats, &stats);
	OBSERVERS_CALL(s, summary, stderr, s->o->quiet ? NULL : &whole);
	OBSERVERS_CALL(s, finish);
	const struct err *failed = unreported(s), *more = failed ? unreported(s) : NULL;
	if (failed && e)
		*e = *failed;
	if (more)
		err_print(more);
	if (s->engine->trouble.code)
		err_print(&s->engine->trouble);
	failed = trouble(s);
	return failed ? failed->code : 0;
}
