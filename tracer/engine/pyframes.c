#include "tracer/engine/plan_reader.h"

#include <stdatomic.h>
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

struct frame {
	uint64_t code, instr, local, previous;
	bool is_marker; /* an interpreter-internal frame without Python code */
};

/* Word by word: inside the process itself each is a plain load. */
static inline __attribute__((always_inline)) int
read_frame(struct remote *mem, const struct py_walk *w, struct frame *f, uint64_t frame)
{
	uint64_t at = frame + w->frame_window;
	uint32_t lasti = 0;
	uint8_t owner = 0;
	int r = remote_live(mem, at + w->fw_code, &f->code, 8);
	r |= remote_live(mem, at + w->fw_previous, &f->previous, 8);
	if (w->instr_size == 4) {
		r |= remote_live(mem, at + w->fw_instr, &lasti, 4);
		f->instr = lasti;
	} else {
		r |= remote_live(mem, at + w->fw_instr, &f->instr, 8);
	}
	if (w->fw_local != PY_NO_OFFSET)
		r |= remote_live(mem, at + w->fw_local, &f->local, 8);
	else
		r |= remote_live(mem, frame + w->frame_local, &f->local, 8);
	if (w->fw_owner != PY_NO_OFFSET)
		r |= remote_live(mem, at + w->fw_owner, &owner, 1);
	f->is_marker = w->fw_owner != PY_NO_OFFSET && owner >= w->owner_not_python;
	/* CPython 3.11 and later allocates frames contiguously: prefetch the neighbours. */
	if (r)
		remote_want(mem, frame & ~4095ULL, (frame & 4095) + 1);
	return r;
}

static bool is_own(const struct py_thread *t, const struct py_walk *w, struct remote *mem,
		   uint64_t ts, struct window *win)
{
	return ts && !read_window(mem, win, ts + w->tstate_window, w->tstate_window_len) &&
	       word_of(win, w->tw_thread_id) == t->fsbase;
}

/* The thread's own state among those of all interpreters; 0: none. */
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

/* The innermost frame, or the cframe that leads there; false: not known. The cached state is
 * checked each time, since threads come and go; a search is expensive. */
static bool find_frame(struct py_thread *t, const struct py_walk *w, struct remote *mem,
		       bool collecting, uint64_t *frame)
{
	enum { MOST_MISSES = 6 };
	struct window win;
	if (t->is_certain)
		return t->tstate &&
		       !remote_live(mem, t->tstate + w->tstate_window + w->tw_frame, frame, 8);
	if (is_own(t, w, mem, t->tstate, &win)) {
		*frame = word_of(&win, w->tw_frame);
		return true;
	}
	if (collecting) {
		if (t->wait || !search(t, w, mem, &win))
			return false;
		*frame = word_of(&win, w->tw_frame);
		return true;
	}
	t->tstate = 0;
	/* A thread without Python would search at every hit: back off. */
	if (t->wait) {
		t->wait--;
		return false;
	}
	t->tstate = search(t, w, mem, &win);
	if (!t->tstate) {
		t->misses = t->misses < MOST_MISSES ? t->misses + 1 : MOST_MISSES;
		t->wait = (1U << t->misses) - 1;
		return false;
	}
	t->misses = 0;
	*frame = word_of(&win, w->tw_frame);
	return true;
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
	struct frame f;
	uint64_t frame = 0;
	if (!find_frame(t, w, mem, collecting, &frame))
		return (struct py_place){0};
	if (frame && w->cframe_frame != PY_NO_OFFSET)
		remote_live(mem, frame + w->cframe_frame, &frame, sizeof(frame));
	for (unsigned i = 0; i < MARKERS && frame; i++) {
		if (read_frame(mem, w, &f, frame))
			break;
		if (!f.is_marker)
			return (struct py_place){frame, f.instr};
		frame = f.previous;
	}
	return (struct py_place){0};
}

/* The code objects that some record has named, by their addresses; UNSENT: but what is there now
 * was not sent. Where NEAR places are taken by others, all that would come there count as named. */
enum { NAMED_BITS = 14, NEAR = 16, UNSENT = 1 };

static _Atomic uint64_t named[(1 << NAMED_BITS) + NEAR];
static _Atomic uint32_t unsent; /* how often one was marked so, or all were forgotten */

static _Atomic uint64_t *first_place(uint64_t code)
{
	return &named[code * 0x9e3779b97f4a7c15 >> (64 - NAMED_BITS)];
}

/* Whether it was not named before, or not sent. */
static bool name_first(uint64_t code)
{
	_Atomic uint64_t *place = first_place(code);
	for (unsigned i = 0; i < NEAR; i++) {
		uint64_t there = atomic_load_explicit(&place[i], memory_order_relaxed);
		const bool is_free = !there || there == (code | UNSENT);
		if (is_free && atomic_compare_exchange_strong_explicit(&place[i], &there, code,
								       memory_order_relaxed,
								       memory_order_relaxed))
			return true;
		if (there == code)
			return false;
	}
	return false;
}

static void mark_unsent(uint64_t code)
{
	_Atomic uint64_t *place = first_place(code);
	for (unsigned i = 0; i < NEAR; i++) {
		uint64_t there = code;
		if (atomic_compare_exchange_strong_explicit(&place[i], &there, code | UNSENT,
							    memory_order_relaxed,
							    memory_order_relaxed) ||
		    !there)
			return;
	}
}

/* Counted when it is marked: who has seen the number has forgotten what it knew before. */
void pyframes_unsent(uint64_t code)
{
	mark_unsent(code);
	unsent++;
}

/* The table of all is large, and a walk would fill the caches with its lines. */
static void name_code(struct py_thread *t, uint64_t code)
{
	uint64_t *known = &t->named[code * 0x9e3779b97f4a7c15 >> 57];
	if (*known == code)
		return;
	*known = code;
	if (code && name_first(code) && t->nmet < PY_FRAMES)
		t->met[t->nmet++] = code;
}

_Static_assert(PY_NAMED == 1 << (64 - 57), "the hash in name_code");

/* Before the codes of a stack are named. */
static void name_begin(struct py_thread *t)
{
	const uint32_t now = atomic_load_explicit(&unsent, memory_order_relaxed);
	if (t->named_at == now)
		return;
	for (unsigned i = 0; i < PY_NAMED; i++)
		t->named[i] = 0;
	t->named_at = now;
}

void pyframes_begin(void)
{
	for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
		atomic_store_explicit(&named[i], 0, memory_order_relaxed);
	unsent++;
}

bool pyframes_may_have_named(uint64_t code)
{
	const _Atomic uint64_t *place = first_place(code);
	for (unsigned i = 0; i < NEAR; i++) {
		uint64_t there = atomic_load_explicit(&place[i], memory_order_relaxed);
		if (!there || (there & ~(uint64_t)UNSENT) == code)
			return there;
	}
	return true;
}

void pyframes_put(struct py_thread *t, const struct py_walk *walk, struct remote *mem,
		  struct hit_buf *out, uint64_t frame, bool is_backward, uint64_t base)
{
	const struct py_walk own_walk = *walk,
			     *w = &own_walk; /* what is written may not change it */
	struct item *it = hit_buf_item(out, ITEM_STACK, 0, 0);
	uint64_t *to = (uint64_t *)(it + 1);
	struct frame f;
	uint32_t n = 0, recent = 0, own = 0;
	bool cut = false, inside = is_backward;
	name_begin(t);
	for (uint32_t i = 0; i < PY_FRAMES && frame; i++) {
		inside = inside && frame != base;
		if (!REMOTE_IS_OWN && recent < PY_RECENT)
			t->recent[recent++] = frame;
		if (read_frame(mem, w, &f, frame)) {
			cut = true;
			break;
		}
		frame = f.previous;
		if (f.is_marker)
			continue;
		name_code(t, f.code & ~7ULL);
		*to++ = f.code & ~7ULL;
		*to++ = f.instr;
		*to++ = f.local;
		n++;
		own += inside;
	}
	t->nrecent = recent;
	hit_buf_grow(out, n * STACK_FRAME_SIZE);
	it->len = (__u16)(n * STACK_FRAME_SIZE);
	it->aux = own << STACK_OWN_SHIFT | (cut || (n >= PY_FRAMES && frame) ? STACK_CUT : 0);
}

bool pyframes_moved_on(const struct py_walk *w, struct remote *mem, struct py_place now,
		       struct py_place was)
{
	struct frame f;
	uint64_t frame = now.frame;
	if (!was.frame || !now.frame)
		return false;
	if (now.frame == was.frame)
		return now.instr != was.instr;
	for (unsigned i = 0; i < PY_FRAMES && frame; i++) {
		if (read_frame(mem, w, &f, frame))
			break;
		if (frame == was.frame)
			return f.instr != was.instr;
		frame = f.previous;
	}
	return true;
}
