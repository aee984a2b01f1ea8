#include "base/clock.h"
#include "symbolizer/target/process.h"
#include "tui/model/internal.h"

static void choose(struct watch *w, pid_t pid, const struct view *v)
{
	int32_t of, tid;
	size_t i = 0;
	while (view_thread(v, i, &of, &tid))
		i++;
	w->n = 0;
	while (i-- && w->n < LOOKS_THREADS)
		if (view_thread(v, i, &of, &tid) && of == pid && process_thread_state(pid, tid))
			w->tids[w->n++] = tid;
}

int watch_look(struct watch *w, pid_t pid, struct view *v)
{
	enum { EVERY_NS = 40000000, CHOOSE_NS = 1000000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = 0;
	if (now < w->looked_ns + EVERY_NS)
		return 0;
	w->looked_ns = now;
	if (now >= w->chosen_ns + CHOOSE_NS) {
		choose(w, pid, v);
		w->chosen_ns = now;
	}
	for (size_t i = 0; i < w->n && !r; i++) {
		now = clock_ns(CLOCK_MONOTONIC);
		char state = process_thread_state(pid, w->tids[i]);
		if (state && state != 't') /* stopped by the tracer: neither running nor waiting */
			r = view_look(v, pid, w->tids[i], now, state == 'R');
	}
	return r;
}
