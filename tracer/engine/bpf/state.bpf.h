/* State of the eBPF programs: maps, counters, threads; and the record that a thread assembles in
 * its buffer. Part of probes.bpf.c and samples.bpf.c. */

#ifndef BUF_MAX
#define BUF_MAX (20 << 10)
#endif
#define BUF_SLACK (4 << 10)
#define RING_BYTES (32 << 20)
#define WINDOW_WORDS 32 /* a power of two, at least PY_TSTATE_WINDOW / 8 */
#define REGS 21		/* words of struct pt_regs */
#define CODES 128	/* a power of two, as FRESH */
#define FRESH 16

/* Keeps the compiler from merging two bounds checks into one that the verifier cannot follow. */
#define OPAQUE(v) asm volatile("" : "+r"(v))

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct task_struct {
	struct thread_struct thread;
	unsigned int ptrace;
	sigset_t blocked;
} __attribute__((preserve_access_index));

struct frame {
	__u64 sp, seq;
	__u64 py_frame, py_instr;
	__u64 base; /* in the backward: the Python frame that called the engine; 0: none */
	__u32 op;
	__u8 muted, backward, py_sent, counted;
	__u8 aside, stop;
	__u8 summed, within; /* within: in a call that is summed up */
	__u64 ts, inner_ns;  /* inner_ns: spent in calls made by it that are summed up */
	struct sum_key key;
	__u64 w[LOC_MAX];
};

enum lean { LEAN_NOT, LEAN, LEAN_SUM };

struct bpf_thread {
	__u64 seq;
	__u64 tstate;
	__u64 fsbase;
	__u64 now_frame, now_instr; /* innermost Python frame at this hit */
	__u32 tid, depth, shown, off;
	__u32 py_misses, py_wait, gap, stop; /* stop: at the end of the current record */
	__u32 lean;			     /* enum lean */
	__u32 thrown; /* a recorded call was left by an exception: the next record tells that */
	__u64 window[WINDOW_WORDS];
	struct frame open[OPEN_MAX];
	__u64 regs[REGS + 3];
	__u64 codes[CODES];	    /* a cache of Python code objects met, by address */
	__u64 fresh[FRESH], nfresh; /* those still to be sent */
	__u8 buf[BUF_MAX + BUF_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct bpf_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_thread);
} blank SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct op_plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROC_SLOTS);
	__type(key, __u32);
	__type(value, struct proc_conf);
} procs SEC(".maps");

/* PLAN_PICK: which calls are selected, and the number of calls by process number << 32 | op. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pick);
} picked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u64);
} calls SEC(".maps");

/* Python code objects that records name, and whether they were sent (enum told): process number <<
 * 48 | address. */
enum told { TOLD_NOT, TOLD_NAMED, TOLD_SENT };
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} told SEC(".maps");
int told_full; /* some that were sent did not fit into the map */

/* Counters read by user space. */
__u64 lost;	    /* records that did not fit into the ring buffer */
__u64 lost_threads; /* hits of threads beyond the size of `threads` */
__u64 lost_depth;   /* hits nested deeper than OPEN_MAX */
__u64 hits;	    /* probe hits, lost ones included */
__u64 steps;	    /* hits of step_callbacks while counting, which are not in `hits` */
/* Hits whose time in the probe was measured, and that time: at entries, at exits, and at exits
 * while nothing is recorded. */
__u64 entry_sampled, entry_ns, exit_sampled, exit_ns, rest_sampled, rest_ns;
int measuring; /* in turns (set_turn): then */
__u64 exits;   /* hits at exits are counted, */
int resting;   /* and in some there are no probes at entries */
__u64 dispatched,
    dispatched_seen; /* calls of the dispatcher while counting; those under a probed op */
int counting;
int awaited;  /* gradients */
__u64 unheld; /* records whose thread should have stopped but blocks the signal */
const volatile __u64 ns_dev, ns_ino; /* PID namespace of ditrace */

static __always_inline struct bpf_thread *this_thread(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct bpf_thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (t)
		return t;
	__u32 zero = 0;
	struct bpf_thread *fresh = bpf_map_lookup_elem(&blank, &zero);
	if (!fresh || bpf_map_update_elem(&threads, &tid, fresh, BPF_NOEXIST)) {
		__sync_fetch_and_add(&lost_threads, 1);
		return 0;
	}
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	struct bpf_pidns_info ns = {};
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	t->fsbase = BPF_CORE_READ(task, thread.fsbase);
	t->tid = bpf_get_ns_current_pid_tgid(ns_dev, ns_ino, &ns, sizeof(ns)) ? tid : ns.pid;
	return t;
}

/* The signal that stops a picked thread. A ptraced thread stops for its tracer at any signal, even
 * an ignored one, before it returns to user code; untraced, it ignores this one by default. A
 * SIGURG of the program's own is passed on. */
enum { FREEZE_SIGNAL = 23 }; /* SIGURG */

/* Whether the current thread is traced and would stop at FREEZE_SIGNAL. */
static __always_inline int may_stop(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	unsigned long blocked = BPF_CORE_READ(task, blocked.sig[0]);
	if (!BPF_CORE_READ(task, ptrace))
		return 0;
	if (!(blocked >> (FREEZE_SIGNAL - 1) & 1))
		return 1;
	__sync_fetch_and_add(&unheld, 1);
	return 0;
}

static __always_inline void start_hit(struct bpf_thread *t, const struct frame *f, __u8 kind,
				      __u32 proc, __u32 gen, __u64 ts)
{
	struct hit *h = (struct hit *)t->buf;
	h->size = 0;
	h->kind = kind;
	h->flags = (f->backward ? HIT_BACKWARD : 0) | (t->lean ? HIT_LEAN : 0);
	h->depth = (__u16)t->shown;
	h->op = f->op;
	h->proc = (__u16)proc;
	h->generation = (__u16)gen;
	h->tid = t->tid;
	h->stop = 0;
	h->ts = ts;
	h->seq = f->seq;
	h->sp = f->sp;
	t->off = sizeof(*h);
	t->stop = f->stop;
}

/* Send what the buffer holds; `more`: HIT_MORE when fragments follow, else 0. */
__noinline int send(struct bpf_thread *t, __u8 more)
{
	__u64 size = t ? t->off : 0;
	OPAQUE(size);
	if (!t || size > BUF_MAX + BUF_SLACK)
		return 0;
	struct hit *h = (struct hit *)t->buf;
	int stop = !more && t->stop && may_stop();
	h->size = (__u32)size;
	h->flags = (h->flags & ~(HIT_MORE | HIT_STOPPED)) | more | (t->gap ? HIT_GAP : 0) |
		   (stop ? HIT_STOPPED : 0);
	t->gap = bpf_ringbuf_output(&ring, t->buf, size, BPF_RB_NO_WAKEUP) != 0;
	if (t->gap)
		__sync_fetch_and_add(&lost, 1);
	else if (stop)
		bpf_send_signal_thread(FREEZE_SIGNAL);
	return 0;
}

/* Make room for one more part of at most BUF_SLACK bytes; sends a fragment when the buffer is full.
 */
static __always_inline void make_room(struct bpf_thread *t)
{
	if (t->off <= BUF_MAX)
		return;
	send(t, HIT_MORE);
	((struct hit *)t->buf)->flags |= HIT_CONT;
	t->off = sizeof(struct hit);
}

static __always_inline struct item *begin_item(struct bpf_thread *t, __u8 kind, __u8 read,
					       __u32 aux)
{
	make_room(t);
	__u64 off = t->off;
	OPAQUE(off);
	if (off > BUF_MAX)
		return 0;
	struct item *it = (struct item *)&t->buf[off];
	it->kind = kind;
	it->read = read;
	it->len = 0;
	it->aux = aux;
	t->off = (__u32)(off + sizeof(*it));
	return it;
}

/* 0, or a negative errno and *to zeroed. Memory may be mapped with its page not present: evicted
 * from the page cache, or never touched. Sleepable programs fault it in, as the target's own access
 * would (bpf_copy_from_user, include/uapi/linux/bpf.h of 6.6). */
static __always_inline long read_user(void *to, __u32 n, __u64 from)
{
	long r = bpf_probe_read_user(to, n, (const void *)from);
#ifdef MAY_SLEEP
	if (r)
		r = bpf_copy_from_user(to, n, (const void *)from);
#endif
	return r;
}

/* Append len (at most 2048) bytes from user address src, padded to 8. 0 or a negative errno. */
static __always_inline long copy_user(struct bpf_thread *t, __u32 len, __u64 src)
{
	__u64 off = t->off, n = len;
	OPAQUE(off);
	OPAQUE(n);
	if (off > BUF_MAX + 1536)
		return -1;
	if (n > 2048)
		return -1;
	long r = read_user(&t->buf[off], n, src);
	if (r)
		return r;
	if (n & 7)
		__builtin_memset(&t->buf[off + n], 0, 7);
	t->off = (__u32)off + (((__u32)n + 7) & ~7U);
	return 0;
}

/* The same for an object that may end before `len`: if the page after `src` is not mapped, what
 * lies before it, then zeros up to `len`, as a failed read leaves them. Returns how many bytes were
 * readable and appended; 0: none. */
static __always_inline __u32 copy_object(struct bpf_thread *t, __u32 len, __u64 src)
{
	__u32 here = 4096 - (__u32)(src & 4095);
	if (!copy_user(t, len, src))
		return len;
	return here < len && !copy_user(t, here, src) ? here : 0;
}

static __always_inline void put_word(struct bpf_thread *t, __u64 w)
{
	__u64 off = t->off;
	OPAQUE(off);
	if (off > BUF_MAX + 3072)
		return;
	*(__u64 *)&t->buf[off] = w;
	t->off = (__u32)off + 8;
}

/* An item of memory: its address, and what could be read of it. Returns how many bytes that are. A
 * function of its own, which the verifier looks at once, not at each call. */
__noinline __u32 put_region(struct bpf_thread *t, __u64 addr, __u32 len)
{
	struct item *it = t ? begin_item(t, ITEM_DATA, 0, 0) : 0;
	if (!it)
		return 0;
	put_word(t, addr);
	__u32 n = copy_object(t, len, addr);
	it->len = (__u16)(8 + n);
	return n;
}

static __always_inline __u64 user_word(__u64 addr)
{
	__u64 w = 0;
	read_user(&w, sizeof(w), addr);
	return w;
}

static __always_inline __u8 user_byte(__u64 addr)
{
	__u8 b = 0;
	read_user(&b, sizeof(b), addr);
	return b;
}
