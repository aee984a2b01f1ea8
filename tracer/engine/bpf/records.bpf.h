/* A record being assembled in a thread's buffer. Part of probes.bpf.c and samples.bpf.c. */

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
static __always_inline void send(struct bpf_thread *t, __u8 more)
{
	__u64 size = t->off;
	OPAQUE(size);
	if (size > BUF_MAX + BUF_SLACK)
		return;
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
