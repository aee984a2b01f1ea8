#include "symbolizer/python/python.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/python/internal.h"

struct wanted_thread {
	uint64_t thread_id;
	uint64_t tid;
	const struct mem *mem;
	struct tstate_visit found;
};

static int match_thread(const struct py_walk *w, const struct tstate_visit *v, void *arg)
{
	struct wanted_thread *t = arg;

	if (t->thread_id ? py_word_in(v->window, w->tw_thread_id) != t->thread_id
			 : py_word_in(v->window, w->tw_native_thread_id) != t->tid)
		return 0;
	t->found = *v;
	return 1;
}

/* Before 3.11 a thread state has only pthread_self(), not the TID. */
static int match_descriptor(const struct py_walk *w, const struct tstate_visit *v, void *arg)
{
	struct wanted_thread *t = arg;
	uint64_t self = py_word_in(v->window, w->tw_thread_id);

	if (pthread_tid(t->mem, self) != (pid_t)t->tid)
		return 0;
	t->found = *v;
	return 1;
}

static int find_thread(const struct py_runtime *rt, struct wanted_thread *t)
{
	bool by_descriptor = !t->thread_id && rt->layout.walk.tw_native_thread_id == PY_NO_OFFSET;
	int rc;

	t->mem = rt->mem;
	rc = py_each_tstate(rt, by_descriptor ? match_descriptor : match_thread, t);
	return rc == 1 ? 0 : rc ? rc : -ENOENT;
}

int py_find_tstate(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t *tstate)
{
	struct wanted_thread t = {.thread_id = thread_id, .tid = (uint64_t)tid};
	int rc = find_thread(rt, &t);

	*tstate = rc ? 0 : t.found.tstate;
	return rc;
}

/* Read one frame and advance *frame to the next outer one. Returns 1 with `pair` set, 0 for an
 * interpreter's marker frame, or -errno. */
static int read_frame(const struct py_runtime *rt, uint64_t *frame, uint64_t pair[2])
{
	const struct py_walk *w = &rt->layout.walk;
	uint8_t window[PY_FRAME_WINDOW];
	int rc = mem_read(rt->mem, *frame + w->frame_window, window, w->frame_window_len);

	if (rc)
		return rc;
	*frame = py_word_in(window, w->fw_previous);
	if (w->fw_owner != PY_NO_OFFSET && window[w->fw_owner] >= w->owner_not_python)
		return 0;
	pair[0] = py_word_in(window, w->fw_code) & ~7ULL;
	pair[1] = 0;
	memcpy(&pair[1], window + w->fw_instr, w->instr_size); /* little-endian */
	return 1;
}

/* Marker frames may precede the next Python frame, and also the end of the stack (3.12+), so
 * whether there are more frames is known only when the next one is found. */
static int walk_frames(const struct py_runtime *rt, uint64_t frame, uint64_t pairs[][2], size_t max,
		       bool *truncated)
{
	size_t n = 0;

	for (size_t step = 0; frame && step < 2 * max + 2; step++) {
		uint64_t pair[2] = {0};
		int rc = read_frame(rt, &frame, pair);

		if (rc < 0 && !n)
			return rc;
		if (rc < 0 || (rc && n == max)) {
			*truncated = true;
			return (int)n;
		}
		if (rc) {
			memcpy(pairs[n], pair, sizeof(pair));
			n++;
		}
	}
	*truncated = frame != 0;
	return (int)n;
}

int py_walk_from(struct py_runtime *rt, uint64_t thread_id, pid_t tid, struct py_top *top,
		 uint64_t pairs[][2], size_t max, bool *truncated)
{
	const struct py_walk *w = &rt->layout.walk;
	struct wanted_thread t = {.thread_id = thread_id, .tid = (uint64_t)tid};
	int rc = find_thread(rt, &t);

	*truncated = false;
	*top = (struct py_top){0};
	if (rc)
		return rc;
	top->tstate = t.found.tstate;
	top->frame = py_word_in(t.found.window, w->tw_frame);
	if (top->frame && w->cframe_frame != PY_NO_OFFSET) {
		top->cframe = top->frame;
		rc = py_read_word(rt, top->cframe + w->cframe_frame, &top->frame);
	}
	return rc ? rc : walk_frames(rt, top->frame, pairs, max, truncated);
}

int py_walk_thread(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t pairs[][2],
		   size_t max, bool *truncated)
{
	struct py_top top;

	return py_walk_from(rt, thread_id, tid, &top, pairs, max, truncated);
}

int py_code_range(struct py_runtime *rt, uint64_t code, uint64_t *start, uint64_t *end)
{
	enum { OB_SIZE = 16, MOST_UNITS = 1 << 24 }; /* PyVarObject, Include/object.h */
	const uint32_t adaptive = rt->layout.obj.code_adaptive;
	uint64_t units;

	if (rt->layout.instr_kind != PY_INSTR_POINTER || adaptive == PY_NO_OFFSET)
		return -ENOTSUP;
	int rc = py_read_word(rt, code + OB_SIZE, &units);
	if (rc || units > MOST_UNITS)
		return rc ? rc : -EPROTO;
	*start = code + adaptive;
	*end = *start + 2 * units;
	return 0;
}

/* Since 3.12 each interpreter has a pointer to its GIL. */
static int gil_address(const struct py_runtime *rt, uint64_t interp, uint64_t *gil)
{
	if (rt->layout.gil == PY_NO_OFFSET)
		return -ENOTSUP;
	if (rt->layout.minor >= 12)
		return py_read_word(rt, interp + rt->layout.gil, gil);
	*gil = rt->image.runtime + rt->layout.gil;
	return 0;
}

int py_gil_read(struct py_runtime *rt, uint64_t tstate, struct py_gil *out)
{
	uint64_t interp;
	int32_t locked = 0;
	int rc = py_read_word(
	    rt, tstate + rt->layout.walk.tstate_window + rt->layout.walk.tw_interp, &interp);

	*out = (struct py_gil){.size = rt->layout.gil_size};
	if (!rc)
		rc = gil_address(rt, interp, &out->addr);
	if (!rc)
		rc = mem_read(rt->mem, out->addr + rt->layout.gil_locked, &locked, sizeof(locked));
	if (!rc && locked == 1)
		rc = py_read_word(rt, out->addr + rt->layout.gil_holder, &out->holder);
	return rc;
}
