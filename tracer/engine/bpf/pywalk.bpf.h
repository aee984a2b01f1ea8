/* The Python stack of the hitting thread, walked as symbolizer/python/python.h describes.
 * Part of probes.bpf.c and samples.bpf.c. */

static __always_inline __u64 *met_place(struct bpf_thread *t, __u64 code)
{
	return &t->codes[(code >> 5 ^ code >> 12) & (CODES - 1)];
}

/* Note the code object as one to send, unless this thread has met it: most frames' code was. */
static __always_inline void meet_code(struct bpf_thread *t, __u64 code)
{
	__u64 *place = met_place(t, code);
	__u64 n = t->nfresh;
	if (*place == code || n >= FRESH)
		return;
	*place = code;
	t->fresh[n & (FRESH - 1)] = code;
	t->nfresh = n + 1;
}

struct frame_walk {
	struct bpf_thread *t;
	const struct py_walk *w;
	__u64 frame, base;
	__u32 n, cut, own, inside;
};

static __always_inline __u64 window_word(const struct bpf_thread *t, __u32 off)
{
	return t->window[(off >> 3) & (WINDOW_WORDS - 1)];
}

static __always_inline int read_window(struct bpf_thread *t, __u64 at, __u32 len)
{
	__u64 n = len;
	OPAQUE(n);
	if (n > sizeof(t->window))
		return -1;
	return read_user(t->window, n, at);
}

/* Read the thread state at `ts` and check that it is this thread's. */
static __always_inline int own_tstate(struct bpf_thread *t, const struct py_walk *w, __u64 ts)
{
	return ts && !read_window(t, ts + w->tstate_window, w->tstate_window_len) &&
	       window_word(t, w->tw_thread_id) == t->fsbase;
}

struct find {
	struct bpf_thread *t;
	const struct py_walk *w;
	__u64 ts, interp;
	int found;
};

static long each_tstate(__u32 i, void *arg)
{
	struct find *f = arg;
	(void)i;
	if (!f->ts) {
		/* End of this interpreter's list: go to the next interpreter. */
		f->interp = f->interp ? user_word(f->interp + f->w->interp_next) : 0;
		if (!f->interp)
			return 1;
		f->ts = user_word(f->interp + f->w->interp_tstate_head);
		return 0;
	}
	if (own_tstate(f->t, f->w, f->ts)) {
		f->found = 1;
		return 1;
	}
	f->ts = user_word(f->ts + f->w->tstate_next);
	return 0;
}

/* Leaves the window of this thread's own state in t->window. The cached state is checked each time,
 * since threads come and go; a search costs one read per thread. */
__noinline int find_tstate(struct bpf_thread *t, const struct proc_conf *p)
{
	if (!t || !p)
		return 0;
	const struct py_walk *w = &p->py;
	if (own_tstate(t, w, t->tstate))
		return 1;
	t->tstate = 0;
	/* A thread without Python would search at every hit: back off. */
	if (t->py_wait) {
		t->py_wait--;
		return 0;
	}
	struct find f = {.t = t, .w = w, .interp = user_word(w->interp_head_addr)};
	if (f.interp)
		f.ts = user_word(f.interp + w->interp_tstate_head);
	bpf_loop(512, each_tstate, &f, 0);
	if (!f.found) {
		t->py_misses = t->py_misses < 6 ? t->py_misses + 1 : 6;
		t->py_wait = (1U << t->py_misses) - 1;
		return 0;
	}
	t->py_misses = 0;
	t->tstate = f.ts;
	return 1;
}

static __always_inline int not_python(const struct bpf_thread *t, const struct py_walk *w)
{
	if (w->fw_owner == PY_NO_OFFSET)
		return 0;
	__u8 owner = (__u8)(window_word(t, w->fw_owner) >> (8 * (w->fw_owner & 7)));
	return owner >= w->owner_not_python;
}

static __always_inline __u64 frame_instr(const struct bpf_thread *t, const struct py_walk *w)
{
	__u64 v = window_word(t, w->fw_instr);
	if (w->instr_size == 4)
		v = (__u32)(v >> (8 * (w->fw_instr & 4)));
	return v;
}

static long each_frame(__u32 i, void *arg)
{
	struct frame_walk *k = arg;
	__u64 frame = k->frame;
	(void)i;
	if (!frame)
		return 1;
	if (frame == k->base)
		k->inside = 0;
	if (read_window(k->t, frame + k->w->frame_window, k->w->frame_window_len)) {
		k->cut = 1;
		return 1;
	}
	k->frame = window_word(k->t, k->w->fw_previous);
	if (not_python(k->t, k->w))
		return 0;
	__u64 code = window_word(k->t, k->w->fw_code) & ~7ULL;
	meet_code(k->t, code);
	put_word(k->t, code);
	put_word(k->t, frame_instr(k->t, k->w));
	put_word(k->t, k->w->fw_local == PY_NO_OFFSET ? user_word(frame + k->w->frame_local)
						      : window_word(k->t, k->w->fw_local));
	k->n++;
	k->own += k->inside;
	return 0;
}

/* The innermost Python frame, markers skipped; 0: none. Leaves its window in t->window. */
__noinline __u64 innermost(struct bpf_thread *t, const struct proc_conf *p)
{
	if (!t || !p || !find_tstate(t, p))
		return 0;
	const struct py_walk *w = &p->py;
	__u64 frame = window_word(t, w->tw_frame);
	if (frame && w->cframe_frame != PY_NO_OFFSET)
		frame = user_word(frame + w->cframe_frame);
	for (int i = 0; i < 4 && frame; i++) {
		if (read_window(t, frame + w->frame_window, w->frame_window_len))
			return 0;
		if (!not_python(t, w))
			return frame;
		frame = window_word(t, w->fw_previous);
	}
	return 0;
}

/* Frames inside `base` (0: all) are the backward's own, if `is_backward`. */
__noinline int put_frames(struct bpf_thread *t, const struct proc_conf *p, __u64 frame, __u64 base,
			  __u32 is_backward)
{
	if (!t || !p)
		return 0;
	struct item *it = begin_item(t, ITEM_STACK, 0, 0);
	if (!it)
		return 0;
	struct frame_walk k = {
	    .t = t, .w = &p->py, .frame = frame, .base = base, .inside = is_backward};
	bpf_loop(PY_FRAMES, each_frame, &k, 0);
	it->len = (__u16)(k.n * STACK_FRAME_SIZE);
	it->aux = k.own << STACK_OWN_SHIFT;
	if (k.cut || (k.n >= PY_FRAMES && k.frame))
		it->aux |= STACK_CUT;
	return 0;
}

struct chain {
	struct bpf_thread *t;
	const struct py_walk *w;
	__u64 frame, wanted, instr;
};

static long each_outer(__u32 i, void *arg)
{
	struct chain *c = arg;
	(void)i;
	if (!c->frame || read_window(c->t, c->frame + c->w->frame_window, c->w->frame_window_len))
		return 1;
	if (c->frame == c->wanted) {
		c->instr = frame_instr(c->t, c->w);
		return 1;
	}
	c->frame = window_word(c->t, c->w->fw_previous);
	return 0;
}

/* Whether the op whose caller was Python frame `wanted` at `instr` must have ended, given that the
 * thread's innermost frame is t->now_frame at t->now_instr: while an op runs, the Python code that
 * called it does not advance. Needed for ops left by an exception when the stack is deeper now than
 * it was then. */
__noinline int has_moved_on(struct bpf_thread *t, const struct proc_conf *p, __u64 wanted,
			    __u64 instr)
{
	if (!t || !p || !wanted || !t->now_frame)
		return 0;
	if (t->now_frame == wanted)
		return t->now_instr != instr;
	struct chain c = {
	    .t = t, .w = &p->py, .frame = t->now_frame, .wanted = wanted, .instr = ~0ULL};
	bpf_loop(PY_FRAMES, each_outer, &c, 0);
	return c.frame != wanted || c.instr != instr;
}

/* An op called by another without Python in between has the same Python stack: the frame that
 * called the outer op cannot have advanced. */
static __always_inline void put_python(struct bpf_thread *t, const struct proc_conf *p, int up_sent,
				       const struct frame *up, struct frame *f)
{
	f->py_sent = !f->aside; /* in what is recorded, it encloses nothing */
	if (!f->py_frame)
		begin_item(t, ITEM_STACK, 0, STACK_NONE);
	else if (up_sent && up->py_frame == f->py_frame && up->py_instr == f->py_instr)
		begin_item(t, ITEM_STACK, 0, STACK_SAME);
	else
		put_frames(t, p, f->py_frame, f->base, f->backward);
}
