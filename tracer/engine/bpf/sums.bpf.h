/* Calls are summed up where the ring buffer has no room for a record of each. Part of
 * probes.bpf.c. */

/* From such a fill on records are lean, and then calls are summed up: the rest is for the ends of
 * those that were recorded, and for freed code. */
#define RING_TIGHT (ring_bytes / 4 * 3)
#define RING_FULL (ring_bytes / 8 * 7)
enum { SUM_NO, SUM_YES, SUM_LOST }; /* struct frame.summed */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SUM_ROWS);
	__type(key, struct sum_key);
	__type(value, struct sum_value);
} sums SEC(".maps");

const volatile __u64 ring_bytes;
const volatile int may_sum; /* calls are summed up, instead of lost */
__u64 sum_epoch;	    /* 64 bits, as the value before an addition to fewer takes -mcpu=v3 */
__u64 sum_freed;	    /* code objects that were freed */
__u32 sum_users[SUM_EPOCHS];
__u32 sum_rows;	  /* in the map */
__u64 sent_freed; /* HIT_CODE_FREED that were sent, or are about to be */

static __always_inline __u64 ring_fill(void)
{
	return may_sum ? bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) : 0;
}

/* Become a user of the epoch; -1: it changes all the time. */
static __always_inline __s64 sum_begin(void)
{
	for (int i = 0; i < 8; i++) {
		__u64 e = *(volatile __u64 *)&sum_epoch;
		__sync_fetch_and_add(&sum_users[e & (SUM_EPOCHS - 1)], 1);
		if (*(volatile __u64 *)&sum_epoch == e)
			return (__s64)e;
		__sync_fetch_and_add(&sum_users[e & (SUM_EPOCHS - 1)], -1);
	}
	return -1;
}

static __always_inline void sum_end(__u32 epoch)
{
	__sync_fetch_and_add(&sum_users[epoch & (SUM_EPOCHS - 1)], -1);
}

struct hashing {
	struct bpf_thread *t;
	__u64 x;
};

static long each_word(__u32 i, void *arg)
{
	struct hashing *g = arg;
	__u64 off = sizeof(struct hit) + i * 8;
	OPAQUE(off);
	if (off >= g->t->off || off > BUF_MAX)
		return 1;
	g->x = ((g->x << 29 | g->x >> 35) ^ *(__u64 *)&g->t->buf[off]) * 0x9e3779b97f4a7c15ULL;
	return 0;
}

struct emptying {
	struct bpf_thread *t;
	__u32 at; /* of the first frame */
};

static long each_local(__u32 i, void *arg)
{
	const struct emptying *c = arg;
	__u64 off = c->at + i * STACK_FRAME_SIZE + STACK_FRAME_SIZE - 8;
	OPAQUE(off);
	if (off >= c->t->off || off > BUF_MAX)
		return 1;
	*(__u64 *)&c->t->buf[off] = 0;
	return 0;
}

/* The row of what the buffer holds, made if there is none, while there are less than that many. */
static __always_inline struct sum_value *sum_row(struct bpf_thread *t, struct sum_key *k,
						 __u32 most)
{
	struct hashing g = {.t = t};
	struct hit *h = (struct hit *)t->buf;
	struct sum_value *made = (struct sum_value *)t->buf;
	if (t->off > SUM_RECORD)
		return 0;
	h->size = t->off;
	bpf_loop(SUM_RECORD / 8, each_word, &g, 0);
	k->hash = g.x;
	struct sum_value *row = bpf_map_lookup_elem(&sums, k);
	if (row || *(volatile __u32 *)&sum_rows >= most)
		return row;
	made->counts = (struct sum_counts){.min_ns = ~0ULL};
	made->open = 0;
	if (bpf_map_update_elem(&sums, k, made, BPF_NOEXIST))
		return 0;
	__sync_fetch_and_add(&sum_rows, 1);
	return bpf_map_lookup_elem(&sums, k);
}

struct nesting {
	const struct bpf_thread *t;
	__u64 frame, instr; /* of the innermost call, as its op */
	__u32 op;
	__u8 flags;
};

static long each_outer_call(__u32 i, void *arg)
{
	struct nesting *n = arg;
	const struct frame *o = &n->t->open[i & (OPEN_MAX - 1)];
	if (i + 1 >= n->t->depth)
		return 1;
	if (o->muted || o->aside || o->py_frame != n->frame || o->py_instr != n->instr)
		return 0;
	n->flags |= o->op == n->op ? HIT_NESTED | HIT_AGAIN : HIT_NESTED;
	return 0;
}

/* How the innermost call lies within others with the same Python stack. */
static __always_inline __u8 sum_nesting(const struct bpf_thread *t, const struct frame *f)
{
	struct nesting n = {.t = t, .frame = f->py_frame, .instr = f->py_instr, .op = f->op};
	bpf_loop(OPEN_MAX, each_outer_call, &n, 0);
	return n.flags;
}

static __always_inline struct frame *top(struct bpf_thread *t)
{
	__u32 d = t->depth;
	return d && d <= OPEN_MAX ? &t->open[(d - 1) & (OPEN_MAX - 1)] : 0;
}

/* It remains known that there was one. */
static __always_inline void drop_stack(struct bpf_thread *t, __u32 at)
{
	if (t->off <= at + sizeof(struct item) || at > BUF_MAX)
		return;
	struct item *stack = (struct item *)&t->buf[at];
	stack->aux = stack_left_out(stack->aux);
	stack->len = 0;
	t->off = at + sizeof(struct item);
}

/* What the stack named is not named by any record. */
static __always_inline void forget_fresh(struct bpf_thread *t)
{
	for (__u32 i = 0; i < FRESH && i < t->nfresh; i++)
		*met_place(t, t->fresh[i]) = 0;
	t->nfresh = 0;
}

/* The innermost call has begun; the buffer holds what tells its op, and from `stack` on its stack.
 */
__noinline int sum_enter(struct bpf_thread *t, __u32 proc, __u32 stack)
{
	struct frame *f = t ? top(t) : 0;
	if (!f)
		return 0;
	struct hit *h = (struct hit *)t->buf;
	h->flags |= sum_nesting(t, f);
	f->summed = SUM_LOST;
	__s64 epoch = sum_begin();
	if (epoch < 0) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	struct sum_key k = {.tid = t->tid,
			    .op = f->op,
			    .epoch = (__u32)epoch,
			    .freed = (__u32) * (volatile __u64 *)&sum_freed,
			    .proc = proc,
			    .flags = h->flags};
	struct sum_value *row = sum_row(t, &k, SUM_ROWS_FULL);
	if (!row) {
		struct emptying c = {.t = t, .at = stack + sizeof(struct item)};
		bpf_loop(PY_FRAMES, each_local, &c, 0);
		row = sum_row(t, &k, SUM_ROWS_PLAIN);
	}
	if (!row) {
		drop_stack(t, stack);
		k.bare = 1;
		k.freed = 0;
		forget_fresh(t);
		row = sum_row(t, &k, SUM_ROWS);
	}
	if (row) {
		row->open++;
		f->key = k;
		f->summed = SUM_YES;
	}
	sum_end((__u32)epoch);
	if (!row)
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

struct inner {
	struct bpf_thread *t;
	__u64 ns;
};

static long each_around(__u32 i, void *arg)
{
	struct inner *n = arg;
	__u32 d = n->t->depth;
	struct frame *up = &n->t->open[(d - 2 - i) & (OPEN_MAX - 1)];
	if (i + 2 > d)
		return 1;
	if (up->muted || up->aside)
		return 0;
	up->inner_ns += n->ns;
	return 1;
}

/* It is part of the innermost reported call around, too. */
static __always_inline void sum_inner(struct bpf_thread *t, __u64 ns)
{
	struct inner n = {.t = t, .ns = ns};
	bpf_loop(OPEN_MAX, each_around, &n, 0);
}

/* The innermost call ends. */
__noinline int sum_leave(struct bpf_thread *t, __u64 ts, __u32 thrown)
{
	struct frame *f = t ? top(t) : 0;
	if (!f || f->summed != SUM_YES)
		return 0;
	struct sum_key k = f->key;
	struct sum_value *row = bpf_map_lookup_elem(&sums, &k);
	if (!row) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	struct sum_counts *c = &row->counts;
	__u64 ns = ts > f->ts ? ts - f->ts : 0;
	if (!c->calls)
		c->first_ns = f->ts;
	c->calls++;
	c->thrown += thrown != 0;
	c->ns += ns;
	c->inner_ns += f->inner_ns;
	c->min_ns = ns < c->min_ns ? ns : c->min_ns;
	c->max_ns = ns > c->max_ns ? ns : c->max_ns;
	c->last_ns = ts;
	/* From then on the row may be deleted. */
	__sync_fetch_and_add(&row->open, -1);
	sum_inner(t, ns);
	return 0;
}

/* Records of the code objects that stacks name, while there is room. */

/* The bytes object at `at`. */
static __always_inline void put_lines(struct bpf_thread *t, const struct proc_conf *p, __u64 at)
{
	__u64 left = user_word(at + p->code.bytes_size) + p->code.bytes_data;
	for (__u32 i = 0; i < CODE_PIECES && left; i++) {
		__u64 n = left < CODE_LINES ? left : CODE_LINES;
		put_region(t, at + i * CODE_LINES, (__u32)n);
		left -= n;
	}
}

/* `seq` is that of the record, `whole`: what is in it, too. 0, or nonzero when the record was lost.
 */
static __always_inline int send_code(struct bpf_thread *t, const struct proc_conf *p, __u32 proc,
				     __u8 kind, __u64 code, __u64 seq, int whole)
{
	struct frame none = {.sp = code, .seq = seq};
	__u32 gap = t->gap;
	start_hit(t, &none, kind, proc, 0, bpf_ktime_get_ns());
	if (whole) {
		put_region(t, code, p->code.size & 0x1ff);
		put_region(t, user_word(code + p->code.filename), CODE_STRING);
		put_region(t, user_word(code + p->code.name), CODE_STRING);
		put_lines(t, p, user_word(code + p->code.linetable));
	}
	send(t, 0);
	int r = (int)t->gap;
	t->gap |= gap; /* for the ops that follow */
	return r;
}

struct telling {
	struct bpf_thread *t;
	const struct proc_conf *p;
	__u64 proc;
};

static long each_fresh(__u32 i, void *arg)
{
	struct telling *a = arg;
	__u64 code = a->t->fresh[i & (FRESH - 1)], key = a->proc << 48 | code;
	__u8 named = TOLD_NAMED, sent = TOLD_SENT;
	if (i >= a->t->nfresh)
		return 1;
	const __u8 *was = bpf_map_lookup_elem(&told, &key);
	if (was && *was == TOLD_SENT)
		return 0;
	if (bpf_map_update_elem(&told, &key, &sent, BPF_ANY))
		told_full = 1;
	if (ring_fill() < RING_FULL &&
	    !send_code(a->t, a->p, (__u32)a->proc, HIT_CODE_MET, code, 0, 1))
		return 0;
	bpf_map_update_elem(&told, &key, &named, BPF_EXIST); /* retry at its next use */
	*met_place(a->t, code) = 0;
	return 0;
}

/* Send the code objects now: the process may be gone before user space could read them. */
static __always_inline void tell_code(struct bpf_thread *t, const struct proc_conf *p, __u32 proc)
{
	struct telling a = {.t = t, .p = p, .proc = proc};
	if (!t->nfresh)
		return;
	bpf_loop(FRESH, each_fresh, &a, 0);
	t->nfresh = 0;
}
