/* --measure-overhead: in turns, the engine records and leaves out, and what an op takes in both is
 * compared. What comes meanwhile is decoded, as what is learned from it is needed later, and thrown
 * away: the recording has no gaps, it begins late. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "tracer/session/internal.h"

enum {
	MS = 1000 * 1000,
	WARM_MS = 1000,	     /* from the first hit on: code is read, schemas are learned */
	LONG_WARM_MS = 5000, /* while there are fewer hits than this: the program begins */
	WARM_HITS = 10000,
	LAST_MS = 150, /* sums are read every 50 ms */
	USUAL = 24,
};

int session_turns_parse(const char *text, uint32_t *turns, struct err *e)
{
	uint64_t n = USUAL;
	if (*text && (!text_number(text, &n) || n < 2 * PAIRS_LEAST || n > TURNS_MAX || n % 2)) {
		err_set(e, -EINVAL, "--measure-overhead=%s: not an even number of turns, %d to %d",
			text, 2 * PAIRS_LEAST, TURNS_MAX);
		return err_hint(e, "--measure-overhead takes %d, of half a second", USUAL);
	}
	*turns = (uint32_t)n;
	return 0;
}

static uint32_t turns_of(const struct session *s)
{
	uint32_t n = 0;
	session_turns_parse(s->o->turns, &n, &(struct err){0});
	return n;
}

/* Half a second, now more, now less: what the program does periodically hits both kinds. */
static uint64_t duration_ms(uint32_t turn)
{
	return 400 + turn * 7 % 12 * 20;
}

/* What such an engine does not know. */
static void add_cpu(const struct session *s, struct turn_spent *spent, uint32_t n)
{
	struct turn_programs p;
	for (uint32_t i = 0; i < n; i++)
		spent[i].cpu_ns = s->turns.cpu_ns[i + 1];
	s->engine->programs(s->engine, &p);
	turns_leave_out_exits(spent, n, &p);
}

static struct turns_found found(const struct session *s)
{
	struct turn_spent spent[TURNS_MAX];
	const uint32_t n = turns_of(s);
	for (uint32_t i = 0; i < n; i++)
		spent[i] = s->engine->turn(s->engine, i + 1);
	if (s->engine->programs)
		add_cpu(s, spent, n);
	return turns_compare(spent, n);
}

static void set(struct session *s, uint32_t turn, uint64_t ms)
{
	session_cost_update(s);
	const uint64_t cpu_ns = session_cost_cpu(s), from_ns = s->turns.cpu_from;
	s->turns.cpu_ns[s->turns.n] = cpu_ns > from_ns ? cpu_ns - from_ns : 0;
	s->engine->set_turn(s->engine, turn);
	session_cost_update(s);
	s->turns.cpu_from = session_cost_cpu(s);
	s->turns.n = turn;
	s->turns.next_ns = session_now() + ms * MS;
}

static void begin(struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	if (!c.hits)
		return;
	if (!s->turns.next_ns)
		s->turns.next_ns = s->now + (uint64_t)WARM_MS * MS;
	const uint64_t long_ns = s->turns.next_ns + (uint64_t)(LONG_WARM_MS - WARM_MS) * MS;
	if (s->now >= (c.hits < WARM_HITS ? long_ns : s->turns.next_ns))
		set(s, 1, duration_ms(1));
}

static void end(struct session *s)
{
	s->turns.from_ns = session_now();
	s->turns.over = true;
	set(s, 0, 0);
	s->first_ns = s->turns.from_ns;
	session_cost_restart(s);
	if (s->o->quiet)
		return;
	if (found(s).turns)
		fprintf(stderr, "ditrace: the overhead is measured; recording begins\n");
	else
		fprintf(stderr,
			"ditrace: the overhead could not be measured, as too few of the turns had "
			"%d ops or "
			"more; recording begins\n",
			TURN_OPS_LEAST);
}

/* A turn lasts until enough ops were called, within reason. */
static bool is_due(const struct session *s)
{
	const struct session_turns *t = &s->turns;
	const uint64_t most_ns = t->next_ns + 4 * duration_ms(t->n) * MS;
	if (s->now < t->next_ns)
		return false;
	return s->now >= most_ns || t->n == TURNS_LAST ||
	       s->engine->turn(s->engine, t->n).entered >= 2 * TURN_OPS_LEAST;
}

void session_turns_step(struct session *s)
{
	struct session_turns *t = &s->turns;
	if (!s->o->turns || t->over)
		return;
	if (!t->n)
		begin(s);
	else if (!is_due(s))
		return;
	else if (t->n == TURNS_LAST)
		end(s);
	else if (t->n == turns_of(s))
		set(s, TURNS_LAST, LAST_MS);
	else
		set(s, t->n + 1, duration_ms(t->n + 1));
}

void session_turns_finish(const struct session *s)
{
	struct err e = {0};
	if (!s->o->turns || s->turns.over || s->o->quiet)
		return;
	const uint32_t done = s->turns.n ? s->turns.n - 1 : 0, all = turns_of(s);
	err_set(&e, -ENODATA,
		"the overhead is not measured, and nothing is recorded: tracing ended after %u of "
		"%u turns",
		done < all ? done : all, all);
	err_hint(&e,
		 all > 2 * PAIRS_LEAST
		     ? "let it run longer; --measure-overhead=%d takes the least time, some seven "
		       "seconds of ops"
		     : "let it run longer: %d turns take some seven seconds of ops",
		 2 * PAIRS_LEAST);
	err_print(&e);
}

bool session_turns_is_before(const struct session *s, const struct op_event *ev)
{
	if (!s->o->turns)
		return false;
	if (!s->turns.over || ev->start_ns < s->turns.from_ns)
		return true;
	return ev->depth && decoder_open_since(s->decoder, ev->pid, ev->tid) < s->turns.from_ns;
}

void session_turns_tell(const struct session *s, struct trace_stats *out)
{
	if (!s->o->turns)
		return;
	const struct turns_found f = found(s);
	out->turns = f.turns;
	out->slowdown = (int64_t)llround(f.slowdown * 1e6);
	out->slowdown_error = (uint64_t)llround(f.error * 1e6);
	out->turns_ops = s->turns.left_out;
	for (uint32_t i = 1; i <= TURNS_LAST; i++)
		if (turn_rests(i))
			out->turns_ops += s->engine->turn(s->engine, i).ops;
}
