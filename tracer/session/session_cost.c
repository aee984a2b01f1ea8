/* What tracing costs: the time in probes beside the CPU time of the threads that hit them, and
 * --measure-overhead. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/turns.h"
#include "tracer/session/internal.h"

/* proc_pid_schedstat(5): its first number, in nanoseconds. */
static bool thread_cpu(const struct traced_thread *t, uint64_t *ns)
{
	char name[48], text[64], *end;
	snprintf(name, sizeof(name), "task/%d/schedstat", t->tid);
	if (process_file(t->pid, name, text, sizeof(text)) <= 0)
		return false;
	*ns = strtoull(text, &end, 10);
	return end != text;
}

static void thread_update(struct traced_thread *t, bool counts)
{
	uint64_t now;
	if (!thread_cpu(t, &now))
		return;
	/* Less than before: another thread has its number. */
	if (counts)
		t->spent_ns += now >= t->last_ns ? now - t->last_ns : now;
	t->last_ns = now;
}

static void threads_update(struct session *s, bool counts)
{
	for (unsigned i = 0; i < s->cost.n; i++)
		thread_update(&s->cost.threads[i], counts);
}

static struct traced_thread *traced_thread_find(struct session_cost *c, pid_t pid, pid_t tid)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->threads[i].tid == tid && c->threads[i].pid == pid)
			return &c->threads[i];
	return NULL;
}

static struct traced_thread *traced_thread_add(struct session_cost *c, pid_t pid, pid_t tid)
{
	if (c->n == COST_THREADS)
		return NULL;
	c->threads[c->n] = (struct traced_thread){.pid = pid, .tid = tid};
	return &c->threads[c->n++];
}

void session_cost_meet(struct session *s, const struct hit *h)
{
	const pid_t tid = (pid_t)h->tid;
	struct session_cost *c = &s->cost;
	const uint16_t proc = h->proc;
	const struct target *target = proc < PROCS_MAX ? s->procs[proc].target : NULL;
	if (!target)
		return;
	c->last_tid = tid;
	c->last_proc = proc;
	if (traced_thread_find(c, target->pid, tid))
		return;
	struct traced_thread *t = traced_thread_add(c, target->pid, tid);
	c->unknown |= !t;
	if (!t || !thread_cpu(t, &t->last_ns))
		return;
	/* Hits are read late while much is to be learned, and count from when they were: as if the
	 * thread had run since then; but not from before the probes were in. */
	const uint64_t now = session_now(), from = h->ts > c->from_ns ? h->ts : c->from_ns;
	const uint64_t past = now > from ? now - from : 0;
	t->spent_ns = past < t->last_ns ? past : t->last_ns;
}

static uint64_t hits_of(const struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	return c.hits;
}

void session_cost_placing(struct session *s)
{
	session_cost_update(s);
	s->cost.hits_before = hits_of(s);
}

void session_cost_placed(struct session *s)
{
	threads_update(s, false);
	s->cost.from_ns = session_now();
	s->cost.hits_left_out += hits_of(s) - s->cost.hits_before;
}

void session_cost_update(struct session *s)
{
	threads_update(s, true);
	s->cost.hits_counted = hits_of(s) - s->cost.hits_left_out;
}

void session_cost_restart(struct session *s)
{
	threads_update(s, false);
	s->cost.from_ns = session_now();
	for (unsigned i = 0; i < s->cost.n; i++)
		s->cost.threads[i].spent_ns = 0;
	s->cost.hits_left_out = hits_of(s);
	s->cost.hits_counted = 0;
}

uint64_t session_cost_cpu(const struct session *s)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < s->cost.n; i++)
		sum += s->cost.threads[i].spent_ns;
	return s->cost.unknown ? 0 : sum;
}

uint64_t session_cost_probes(const struct session *s, const struct engine_counters *c)
{
	const double hits = (double)s->cost.hits_counted;
	return c->hits ? (uint64_t)((double)c->probe_ns * hits / (double)c->hits) : 0;
}

/* --measure-overhead: in turns, the engine records and leaves out, and what an op takes in both is
 * compared. What comes meanwhile is decoded, as what is learned from it is needed later, and thrown
 * away: the recording has no gaps, it begins late. */

enum {
	MS = 1000 * 1000,
	WARM_MS = 1000,	     /* from the first hit on: code is read, schemas are learned */
	LONG_WARM_MS = 5000, /* while there are fewer hits than this: the program begins */
	WARM_HITS = 10000,
	LAST_MS = 150,	/* sums are read every 50 ms */
	LATE_MS = 3000, /* a thread that waits for a processor has yet to write what it spent */
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
static uint64_t turn_ms(uint32_t turn)
{
	return 400 + turn * 7 % 12 * 20;
}

/* What such an engine does not know. */
static void turns_add_cpu(const struct session *s, struct turn_spent *spent, uint32_t n)
{
	struct turn_programs p;
	for (uint32_t i = 0; i < n; i++)
		spent[i].cpu_ns = s->turns.cpu_ns[i + 1];
	s->engine->programs(s->engine, &p);
	turns_leave_out_exits(spent, n, &p);
}

static struct turns_found turns_result(const struct session *s)
{
	struct turn_spent spent[TURNS_MAX];
	const uint32_t n = turns_of(s);
	for (uint32_t i = 0; i < n; i++)
		spent[i] = s->engine->turn(s->engine, i + 1);
	if (s->engine->programs)
		turns_add_cpu(s, spent, n);
	return turns_compare(spent, n);
}

static void turn_set(struct session *s, uint32_t turn, uint64_t ms)
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

static void turns_begin(struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	if (!c.hits)
		return;
	if (!s->turns.next_ns)
		s->turns.next_ns = s->now + (uint64_t)WARM_MS * MS;
	const uint64_t long_ns = s->turns.next_ns + (uint64_t)(LONG_WARM_MS - WARM_MS) * MS;
	if (s->now >= (c.hits < WARM_HITS ? long_ns : s->turns.next_ns))
		turn_set(s, 1, turn_ms(1));
}

static void turns_end(struct session *s)
{
	s->turns.over = true;
	turn_set(s, 0, 0);
	/* What began before is not whole: probes were placed one after the other. */
	s->turns.from_ns = session_now();
	s->first_ns = s->turns.from_ns;
	session_cost_restart(s);
	if (s->o->quiet)
		return;
	if (turns_result(s).turns)
		fprintf(stderr, "ditrace: the overhead is measured; recording begins\n");
	else
		fprintf(stderr,
			"ditrace: the overhead could not be measured, as too few of the turns had "
			"%d ops or "
			"more; recording begins\n",
			TURN_OPS_LEAST);
}

static bool turn_has_enough(const struct session *s)
{
	const uint32_t turn = s->turns.n;
	if (turn == TURNS_LAST)
		return turns_result(s).turns > 0;
	return s->engine->turn(s->engine, turn).entered >= 2 * TURN_OPS_LEAST;
}

/* A turn lasts until enough ops were called, within reason. */
static bool turn_is_due(const struct session *s)
{
	const struct session_turns *t = &s->turns;
	const uint64_t more_ms = t->n == TURNS_LAST ? LATE_MS : 4 * turn_ms(t->n);
	if (s->now < t->next_ns)
		return false;
	return s->now >= t->next_ns + more_ms * MS || turn_has_enough(s);
}

void session_turns_step(struct session *s)
{
	struct session_turns *t = &s->turns;
	if (!s->o->turns || t->over)
		return;
	if (!t->n)
		turns_begin(s);
	else if (!turn_is_due(s))
		return;
	else if (t->n == TURNS_LAST)
		turns_end(s);
	else if (t->n == turns_of(s))
		turn_set(s, TURNS_LAST, LAST_MS);
	else
		turn_set(s, t->n + 1, turn_ms(t->n + 1));
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
	const struct turns_found f = turns_result(s);
	out->turns = f.turns;
	out->slowdown = (int64_t)llround(f.slowdown * 1e6);
	out->slowdown_error = (uint64_t)llround(f.error * 1e6);
	out->turns_ops = s->turns.left_out;
	for (uint32_t i = 1; i <= TURNS_LAST; i++)
		if (turn_rests(i))
			out->turns_ops += s->engine->turn(s->engine, i).ops;
}

enum { PAIRS_MAX = TURNS_MAX / 2 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* How many of `n` ordered values may be left out at each end, so that the others span the median of
 * what they are drawn from with a probability of 95 %, however they are distributed: it is below
 * the k + 1st with the probability that at most k of n coins show heads. */
static unsigned left_out(unsigned n)
{
	double each = pow(0.5, n), below = each;
	unsigned k = 0;
	while (2 * below <= 0.05 && k < n / 2) {
		each = each * (n - k) / (k + 1);
		below += each;
		k++;
	}
	return k ? k - 1 : 0;
}

static bool is_enough(const struct turn_spent *s)
{
	return s->ops >= TURN_OPS_LEAST && s->cpu_ns > s->idle_ns;
}

static double each(const struct turn_spent *s)
{
	return (double)(s->cpu_ns - s->idle_ns) / (double)s->ops;
}

void turns_leave_out_exits(struct turn_spent *spent, unsigned n, const struct turn_programs *p)
{
	for (unsigned i = 0; i + 1 < n; i += 2) {
		struct turn_spent *off = &spent[turn_rests(i + 1) ? i : i + 1];
		const struct turn_spent *on = &spent[turn_rests(i + 1) ? i + 1 : i];
		if (!on->ops || !off->ops)
			continue;
		off->idle_ns = 0;
		const double entry = each(on) - each(off) - (p->exit - p->rest);
		const double exit = entry - p->entry + p->rest;
		off->idle_ns = exit > 0 ? (uint64_t)(exit * (double)off->ops) : 0;
	}
}

struct turns_found turns_compare(const struct turn_spent *spent, unsigned n)
{
	double more[PAIRS_MAX];
	unsigned pairs = 0;
	for (unsigned i = 0; i + 1 < n && i + 1 < TURNS_MAX; i += 2) {
		const bool first = turn_rests(i + 1);
		const struct turn_spent *off = &spent[first ? i : i + 1];
		const struct turn_spent *on = &spent[first ? i + 1 : i];
		if (is_enough(on) && is_enough(off))
			more[pairs++] = each(on) / each(off) - 1;
	}
	if (pairs < PAIRS_LEAST)
		return (struct turns_found){0};
	qsort(more, pairs, sizeof(*more), by_value);
	const unsigned out = left_out(pairs);
	return (struct turns_found){
	    .slowdown = (more[(pairs - 1) / 2] + more[pairs / 2]) / 2,
	    .error = (more[pairs - 1 - out] - more[out]) / 2,
	    .turns = 2 * pairs,
	};
}
