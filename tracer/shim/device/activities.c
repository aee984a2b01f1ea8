/* What devices do, recorded by the vendor's library, on its way to ditrace: when it begins and
 * ends, and the ring. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tracer/engine/engine.h"
#include "tracer/shim/device/internal.h"
#include "tracer/shim/shim.h"

/* Guarded by shim_lock, so that nobody forks while the vendor's library is at work for us. */
static bool on, over; /* over: not again in this connection */
static bool is_child;
static unsigned looks;

static _Atomic bool wanted;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static struct chunks_writer writer;
static unsigned writer_epoch; /* shim_epoch when `writer` began; 0: it has not */

bool activities_are_on(void)
{
	return wanted;
}

static void *room(struct shim_share *s, uint32_t size)
{
	struct shim_activities *a = &s->activities;
	const unsigned epoch = shim_epoch();
	if (writer_epoch != epoch)
		chunks_begin(&a->records, &writer, s->chunks);
	writer_epoch = epoch;
	return chunks_room(&a->records, &writer, s->activity_ring, size, 0);
}

static bool put(struct shim_share *s, const struct shim_activity *a, const char *text)
{
	enum { TEXT_MAX = 16 << 10 };
	uint32_t len = text ? (uint32_t)strnlen(text, TEXT_MAX - 1) + 1 : 0;
	uint32_t size = (uint32_t)sizeof(*a) + len;
	pthread_mutex_lock(&writing);
	struct shim_activity *to = room(s, (size + 7) & ~7U);
	if (to) {
		*to = *a;
		to->hit.size = size;
		if (len) {
			memcpy(to->text, text, len - 1);
			to->text[len - 1] = '\0';
		}
		chunks_done(&s->activities.records, &to->hit);
	} else {
		s->activities.lost++;
	}
	pthread_mutex_unlock(&writing);
	return to;
}

bool activities_take(const struct shim_activity *a, const char *text)
{
	if (!inside_begin())
		return false;
	struct shim_share *s = shim_share();
	bool done = s && put(s, a, text);
	inside_end();
	return done;
}

void activities_lose(uint64_t n)
{
	if (!inside_begin())
		return;
	struct shim_share *s = shim_share();
	if (s)
		s->activities.lost += n;
	inside_end();
}

static void say(enum shim_device_state state)
{
	struct shim_share *s = shim_share();
	if (s)
		s->activities.state = state;
}

/* Whether enough ops have passed to show that a profiler of the program's own observes them: it
 * does so in the thread that began it, most likely the main one. */
static bool have_shown(const struct shim_share *s)
{
	enum { LOOKS = 5, OPS = 64 };
	bool any = false;
	for (unsigned i = 0; i < shim_nthreads(s); i++) {
		const struct shim_thread *t = &s->thread[i];
		if (t->tid == getpid() && t->hits >= OPS)
			return true;
		any |= t->hits > 0;
	}
	return any && ++looks > LOOKS;
}

/* The program may have a profiler of its own that uses the vendor's library already: of what is
 * traced from its start none can have begun. */
static bool may_start(const struct shim_share *s, bool early)
{
	return !jumps_see_others() && (early || have_shown(s));
}

/* ditrace has to know the ops of the first launches, also where it gets no processor for a while.
 * With calls one by one there is no waiting for long: CUDA is soon initialised. */
static bool are_awaited(struct shim_share *s, bool early)
{
	enum { LOOKS = 5 };
	static unsigned waited;
	if (s->activities.state == SHIM_DEVICE_OFF) {
		say(SHIM_DEVICE_NEAR);
		waited = 0;
		return false;
	}
	return s->activities.noted || (early && ++waited > LOOKS);
}

static void start(struct shim_share *s)
{
	enum cupti_found found = cupti_find();
	if (found == CUPTI_ABSENT) {
		over = true;
		say(SHIM_DEVICE_NO_LIBRARY);
	}
	if (found == CUPTI_LATE && s->activities.wanted == SHIM_DEVICES_EARLY) {
		over = true;
		say(SHIM_DEVICE_UNASKED);
		return;
	}
	if (found < CUPTI_EARLY || !may_start(s, found == CUPTI_EARLY))
		return;
	if (!are_awaited(s, found == CUPTI_EARLY))
		return;
	wanted = true;
	int r = cupti_start(found == CUPTI_EARLY);
	on = !r;
	over = r;
	s->activities.error = r;
	say(on ? SHIM_DEVICE_ON : SHIM_DEVICE_FAILED);
	wanted = on;
}

/* shim_lock is held. */
static void end(bool for_good)
{
	if (on)
		cupti_stop();
	wanted = on = false;
	looks = 0;
	over = for_good;
}

/* Between inside_begin and inside_end. */
static void look(struct shim_share *s)
{
	uint32_t asked = s->activities.flush;
	if (!on && !over && !is_child && s->activities.wanted && s->on)
		start(s);
	else if (on && s->on)
		cupti_flush(asked != s->activities.flushed);
	else if (on)
		end(false);
	s->activities.flushed = asked;
}

void activities_look(void)
{
	if (!inside_begin())
		return;
	struct shim_share *s = shim_share();
	shim_lock();
	if (s)
		look(s);
	shim_unlock();
	inside_end();
}

static void stop(bool for_good)
{
	shim_lock();
	end(for_good);
	shim_unlock();
}

void activities_stop(void)
{
	stop(false);
}

/* The state is said first: the program goes on with the profiler as soon as this returns. */
void activities_yield(void)
{
	if (!wanted)
		return;
	if (inside_begin()) {
		say(SHIM_DEVICE_YIELDED);
		inside_end();
	}
	stop(true);
}

void activities_exit(void)
{
	shim_lock();
	if (on)
		cupti_flush(true);
	on = false;
	over = true;
	shim_unlock();
}

void activities_forked(void)
{
	pthread_mutex_init(&writing, NULL);
	wanted = on = false;
	is_child = true;
}
