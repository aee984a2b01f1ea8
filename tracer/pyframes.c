#include "tracer/pyframes.h"

#include <string.h>

struct window {
	uint64_t word[PY_TSTATE_WINDOW / 8];
};

_Static_assert(PY_FRAME_WINDOW <= PY_TSTATE_WINDOW, "one window holds either");

static uint64_t word_of(const struct window *win, uint32_t off)
{
	return off / 8 < PY_TSTATE_WINDOW / 8 ? win->word[off / 8] : 0;
}

static int read_window(struct remote *mem, struct window *win, uint64_t at, uint32_t len)
{
	return len > sizeof(*win) ? -1 : remote_read(mem, at, win, len);
}

static int read_frame(struct remote *mem, const struct py_walk *w, struct window *win,
		      uint64_t frame)
{
	int r = w->frame_window_len > sizeof(*win)
		    ? -1
		    : remote_live(mem, frame + w->frame_window, win, w->frame_window_len);
	/* Frames of CPython 3.11 and later lie one behind the other: those around come along. */
	if (r)
		remote_want(mem, frame & ~4095ULL, (frame & 4095) + 1);
	return r;
}

static bool is_own(const struct py_thread *t, const struct py_walk *w, struct remote *mem,
		   uint64_t ts, struct window *win)
{
	if (t->is_certain && ts == t->tstate && w->tstate_window_len <= sizeof(*win))
		return ts && !remote_live(mem, ts + w->tstate_window, win, w->tstate_window_len);
	return ts && !read_window(mem, win, ts + w->tstate_window, w->tstate_window_len) &&
	       word_of(win, w->tw_thread_id) == t->fsbase;
}

/* The thread's state among all of all interpreters; 0: none. */
static uint64_t search(const struct py_thread *t, const struct py_walk *w, struct remote *mem,
		       struct window *win)
{
	enum { MOST = 512 };
	uint64_t interp = remote_word(mem, w->interp_head_addr), ts = 0;
	if (interp)
		ts = remote_word(mem, interp + w->interp_tstate_head);
	for (unsigned i = 0; i < MOST; i++) {
		if (!ts) {
			interp = interp ? remote_word(mem, interp + w->interp_next) : 0;
			if (!interp)
				return 0;
			ts = remote_word(mem, interp + w->interp_tstate_head);
			continue;
		}
		if (is_own(t, w, mem, ts, win))
			return ts;
		ts = remote_word(mem, ts + w->tstate_next);
	}
	return 0;
}

/* The window of the thread's own state. A state is remembered and looked at again each time:
 * threads come and go, and a search is dear. */
static bool find_tstate(struct py_thread *t, const struct py_walk *w, struct remote *mem,
			bool collecting, struct window *win)
{
	enum { MOST_MISSES = 6 };
	if (is_own(t, w, mem, t->tstate, win))
		return true;
	if (t->is_certain)
		return false;
	if (collecting)
		return !t->wait && search(t, w, mem, win);
	t->tstate = 0;
	/* A thread without Python asks again and again: back off. */
	if (t->wait) {
		t->wait--;
		return false;
	}
	t->tstate = search(t, w, mem, win);
	if (!t->tstate) {
		t->misses = t->misses < MOST_MISSES ? t->misses + 1 : MOST_MISSES;
		t->wait = (1U << t->misses) - 1;
		return false;
	}
	t->misses = 0;
	return true;
}

static bool not_python(const struct window *win, const struct py_walk *w)
{
	if (w->fw_owner == PY_NO_OFFSET)
		return false;
	uint8_t owner = (uint8_t)(word_of(win, w->fw_owner) >> (8 * (w->fw_owner & 7)));
	return owner >= w->owner_not_python;
}

static uint64_t instr_of(const struct window *win, const struct py_walk *w)
{
	uint64_t v = word_of(win, w->fw_instr);
	return w->instr_size == 4 ? (uint32_t)(v >> (8 * (w->fw_instr & 4))) : v;
}

void pyframes_foresee(const struct py_thread *t, const struct py_walk *w, struct remote *mem)
{
	if (t->tstate)
		remote_want(mem, t->tstate + w->tstate_window, w->tstate_window_len);
	for (uint32_t i = 0; i < t->nrecent; i++)
		remote_want(mem, t->recent[i] + w->frame_window, w->frame_window_len);
}

struct py_place pyframes_innermost(struct py_thread *t, const struct py_walk *w, struct remote *mem,
				   bool collecting)
{
	enum { MARKERS = 4 };
	struct window win;
	if (!find_tstate(t, w, mem, collecting, &win))
		return (struct py_place){0};
	uint64_t frame = word_of(&win, w->tw_frame);
	if (frame && w->cframe_frame != PY_NO_OFFSET)
		remote_live(mem, frame + w->cframe_frame, &frame, sizeof(frame));
	for (unsigned i = 0; i < MARKERS && frame; i++) {
		if (read_frame(mem, w, &win, frame))
			break;
		if (!not_python(&win, w))
			return (struct py_place){frame, instr_of(&win, w)};
		frame = word_of(&win, w->fw_previous);
	}
	return (struct py_place){0};
}

void pyframes_put(struct py_thread *t, const struct py_walk *w, struct remote *mem,
		  struct hit_buf *out, uint64_t frame)
{
	struct item *it = hit_buf_item(out, ITEM_STACK, 0, 0);
	struct window win;
	uint32_t n = 0, i = 0;
	bool cut = false;
	t->nrecent = 0;
	for (; i < PY_FRAMES && frame; i++) {
		if (t->nrecent < PY_RECENT)
			t->recent[t->nrecent++] = frame;
		if (read_frame(mem, w, &win, frame)) {
			cut = true;
			break;
		}
		uint64_t local = frame + w->frame_local;
		frame = word_of(&win, w->fw_previous);
		if (not_python(&win, w))
			continue;
		hit_buf_word(out, word_of(&win, w->fw_code) & ~7ULL);
		hit_buf_word(out, instr_of(&win, w));
		hit_buf_word(out, w->fw_local == PY_NO_OFFSET ? remote_word(mem, local)
							      : word_of(&win, w->fw_local));
		n++;
	}
	it->len = (__u16)(n * STACK_FRAME_SIZE);
	if (cut || (n >= PY_FRAMES && frame))
		it->aux = STACK_CUT;
}

bool pyframes_moved_on(const struct py_walk *w, struct remote *mem, struct py_place now,
		       struct py_place was)
{
	struct window win;
	uint64_t frame = now.frame;
	if (!was.frame || !now.frame)
		return false;
	if (now.frame == was.frame)
		return now.instr != was.instr;
	for (unsigned i = 0; i < PY_FRAMES && frame; i++) {
		if (read_frame(mem, w, &win, frame))
			break;
		if (frame == was.frame)
			return instr_of(&win, w) != was.instr;
		frame = word_of(&win, w->fw_previous);
	}
	return true;
}
