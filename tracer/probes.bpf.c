/* The eBPF side of the engine bpf: carries out the probe plan at each hit and sends what it read
 * through a ring buffer. Knows nothing of torch but how the reads of tracer/plan.h are done. */
#define __bpf__ 1
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "tracer/plan.h"

char LICENSE[] SEC("license") = "GPL";

#define BUF_MAX (20 << 10)
#define BUF_SLACK (4 << 10)
#define WINDOW_WORDS 32 /* a power of two, at least PY_TSTATE_WINDOW / 8 */
#define REGS 21		/* words of struct pt_regs */

/* Keeps the compiler from merging two range checks into one that the verifier cannot follow. */
#define OPAQUE(v) asm volatile("" : "+r"(v))

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_struct thread;
} __attribute__((preserve_access_index));

struct frame {
	__u64 sp, seq;
	__u64 py_frame, py_instr;
	__u32 op;
	__u8 muted, backward, py_sent, counted;
	__u64 w[LOC_MAX];
};

struct thread {
	__u64 seq;
	__u64 tstate;
	__u64 fsbase;
	__u64 now_frame, now_instr; /* innermost Python frame at this hit */
	__u32 tid, depth, shown, off;
	__u32 py_misses, py_wait, gap, pad;
	__u64 window[WINDOW_WORDS];
	struct frame open[OPEN_MAX];
	__u64 regs[REGS + 3];
	__u8 buf[BUF_MAX + BUF_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread);
} blank SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct op_plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct proc_conf);
} procs SEC(".maps");

/* Counters read by user space. */
__u64 lost;		   /* records that did not fit into the ring */
__u64 lost_threads;	   /* hits of threads beyond the size of `threads` */
__u64 lost_depth;	   /* hits nested deeper than OPEN_MAX */
__u64 hits;		   /* probe hits, whatever became of them */
__u64 sampled, sampled_ns; /* hits whose time in here was measured, and that time */
__u64 dispatched,
    dispatched_seen; /* calls of the dispatcher while counting; those under a probed op */
int counting;
const volatile __u64 ns_dev, ns_ino; /* PID namespace of ditrace */

static __always_inline struct thread *this_thread(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (t)
		return t;
	__u32 zero = 0;
	struct thread *fresh = bpf_map_lookup_elem(&blank, &zero);
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

static __always_inline void send(struct thread *t, __u8 more)
{
	__u64 size = t->off;
	OPAQUE(size);
	if (size > BUF_MAX + BUF_SLACK)
		return;
	struct hit *h = (struct hit *)t->buf;
	h->size = (__u32)size;
	h->flags = (h->flags & ~HIT_MORE) | more | (t->gap ? HIT_GAP : 0);
	t->gap = bpf_ringbuf_output(&ring, t->buf, size, BPF_RB_NO_WAKEUP) != 0;
	if (t->gap)
		__sync_fetch_and_add(&lost, 1);
}

/* Room for one more part of at most BUF_SLACK bytes; sends what there is when the buffer is full.
 */
static __always_inline void make_room(struct thread *t)
{
	if (t->off <= BUF_MAX)
		return;
	send(t, HIT_MORE);
	((struct hit *)t->buf)->flags |= HIT_CONT;
	t->off = sizeof(struct hit);
}

static __always_inline struct item *begin_item(struct thread *t, __u8 kind, __u8 read, __u32 aux)
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

/* Append len (at most 2048) bytes from user address src; 0 or a negative errno. Padded to 8. */
static __always_inline int copy_user(struct thread *t, __u32 len, __u64 src)
{
	__u64 off = t->off, n = len;
	OPAQUE(off);
	OPAQUE(n);
	if (off > BUF_MAX + 1536)
		return -1;
	if (n > 2048)
		return -1;
	int r = bpf_probe_read_user(&t->buf[off], n, (const void *)src);
	if (r)
		return r;
	t->off = (__u32)off + (((__u32)n + 7) & ~7U);
	return 0;
}

static __always_inline void put_word(struct thread *t, __u64 w)
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
	bpf_probe_read_user(&w, sizeof(w), (const void *)addr);
	return w;
}

static __always_inline __u8 user_byte(__u64 addr)
{
	__u8 b = 0;
	bpf_probe_read_user(&b, sizeof(b), (const void *)addr);
	return b;
}

/* Whether the base of the view whose autograd meta is at `meta` requires grad: TPART_BASE_*. */
static __always_inline __u32 base_grad(const struct tensor_read *c, __u64 meta)
{
	__u64 base = user_byte(meta + c->view_has_base) ? user_word(meta + c->view_base) : 0;
	__u64 base_meta = base ? user_word(base + c->meta) : 0;
	if (!base_meta)
		return TPART_BASE_NO_GRAD;
	if (user_word(base_meta + c->grad_fn) || user_byte(base_meta + c->requires_grad))
		return TPART_BASE_GRAD;
	return TPART_BASE_NO_GRAD;
}

/* The same of whatever autograd meta there is at `meta`; 0 if it does not need its base. */
static __always_inline __u32 view_grad(const struct tensor_read *c, __u64 meta)
{
	if (!meta || user_word(meta) != c->view_vtable || user_word(meta + c->grad_fn) ||
	    user_byte(meta + c->requires_grad))
		return 0;
	return base_grad(c, meta);
}

/* Sizes and strides that the tensor does not hold itself. Its window is at buf[at]; returns
 * TPART_OUTLINE when they were added, else 0. */
static __always_inline __u32 put_outline(struct thread *t, const struct tensor_read *c, __u32 at)
{
	if (at > BUF_MAX + 1024)
		return 0;
	__u64 ndim = *(__u64 *)&t->buf[at + (c->sizes & 0xf8)];
	if (ndim <= c->inline_dims || ndim > 64)
		return 0;
	__u64 line = *(__u64 *)&t->buf[at + (c->sizes & 0xf8) + 8];
	return copy_user(t, (__u32)ndim * 16, line) ? 0 : TPART_OUTLINE;
}

/* The parts behind a tensor's window. The window is at buf[at]; returns TPART_* of what was added.
 */
static __always_inline __u32 tensor_parts(struct thread *t, const struct tensor_read *c, __u32 at,
					  int is_exit)
{
	__u32 flags = 0;
	if (at > BUF_MAX + 1024)
		return 0;
	__u64 storage = *(__u64 *)&t->buf[at + (c->storage & 0xf8)];
	if (storage && c->storage_len && c->storage_len <= PART_MAX &&
	    !copy_user(t, c->storage_len, storage + c->storage_from))
		flags |= TPART_STORAGE;
	__u64 meta = *(__u64 *)&t->buf[at + (c->meta & 0xf8)];
	if (meta && c->meta_len && c->meta_len <= PART_MAX) {
		__u32 from = t->off;
		if (copy_user(t, c->meta_len, meta + c->meta_from)) {
			flags |= TPART_META_FAULT;
		} else {
			flags |= TPART_META;
			if (from > BUF_MAX + 2048)
				return flags;
			__u64 vtable = *(__u64 *)&t->buf[from];
			__u64 node = *(__u64 *)&t->buf[from + (c->grad_fn & 0xf8)];
			if (is_exit && c->node_seq && node && !copy_user(t, 8, node + c->node_seq))
				flags |= TPART_NODE;
			if (!node && c->view_vtable && vtable == c->view_vtable &&
			    !user_byte(meta + c->requires_grad))
				flags |= base_grad(c, meta);
		}
	}
	return flags | put_outline(t, c, at);
}

/* What the snapshot says of a part at `p` that could be read: 1, or SNAPSHOT_NODE
 * (symbolizer/layout.h) and the sequence number of the node that this autograd meta holds. */
static __always_inline __u64 part_valid(const struct tensor_read *c, __u64 p)
{
	__u64 vt = user_word(p), seq = 0;
	if (!c->node_seq || !vt || (vt != c->meta_vtable[0] && vt != c->meta_vtable[1]))
		return 1;
	__u64 node = user_word(p + c->grad_fn);
	if (!node || bpf_probe_read_user(&seq, sizeof(seq), (const void *)(node + c->node_seq)))
		return 1;
	return 2 + seq;
}

static __always_inline void snapshot(struct thread *t, const struct tensor_read *c, __u8 read,
				     __u64 impl)
{
	struct item *it = begin_item(t, ITEM_SNAPSHOT, read, 0);
	if (!it)
		return;
	__u32 start = t->off;
	put_word(t, impl);
	if (copy_user(t, WIN_MAX, impl)) {
		it->aux = TPART_FAULT;
		it->len = 8;
		return;
	}
	for (int k = 0; k < 3; k++) {
		if (start > BUF_MAX + 64)
			break;
		__u64 p = *(__u64 *)&t->buf[start + 8 + 0x10 + 8 * k];
		put_word(t, p);
		__u32 at = t->off;
		put_word(t, 0);
		if (p >= 0x10000 && p < (1ULL << 47) && !(p & 7) && !copy_user(t, PART_MAX, p)) {
			if (at <= BUF_MAX + 2048)
				*(__u64 *)&t->buf[at] = part_valid(c, p);
		} else {
			t->off = at + 8 + PART_MAX;
		}
	}
	if (c->sizes)
		it->aux = put_outline(t, c, start + 8);
	if (c->view_vtable && start <= BUF_MAX + 64)
		it->aux |= view_grad(c, *(__u64 *)&t->buf[start + 8 + (c->meta & 0xf8)]);
	it->len = (__u16)(t->off - start);
}

/* One tensor, by the address of its TensorImpl. */
__noinline int put_tensor(struct thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			  int is_exit)
{
	if (!t || !p)
		return 0;
	const struct tensor_read *c = &p->tensor;
	if (!impl || impl == c->undefined) {
		struct item *u = begin_item(t, ITEM_TENSOR, read, TPART_UNDEFINED);
		if (u)
			put_word(t, impl), u->len = 8;
		return 0;
	}
	if (c->discover) {
		snapshot(t, c, read, impl);
		return 0;
	}
	struct item *it = begin_item(t, ITEM_TENSOR, read, 0);
	if (!it)
		return 0;
	__u32 start = t->off;
	put_word(t, impl);
	__u32 at = t->off;
	__u32 len = c->win_len;
	if (len > WIN_MAX || copy_user(t, len, impl))
		it->aux = TPART_FAULT;
	else
		it->aux = tensor_parts(t, c, at, is_exit);
	it->len = (__u16)(t->off - start);
	return 0;
}

struct each {
	struct thread *t;
	const struct proc_conf *p;
	__u64 base;
	__u32 read, count;
	int is_exit;
};

static long each_tensor(__u32 i, void *arg)
{
	struct each *e = arg;
	put_tensor(e->t, e->p, user_word(e->base + 8ULL * i), e->read, e->is_exit);
	return 0;
}

static __always_inline void put_tensors(struct thread *t, const struct proc_conf *p, __u64 base,
					__u64 count, __u32 read, int is_exit)
{
	struct item *it =
	    begin_item(t, ITEM_LIST, read, count > 0xffffffff ? 0xffffffff : (__u32)count);
	if (!it)
		return;
	struct each e = {.t = t, .p = p, .base = base, .read = read, .is_exit = is_exit};
	bpf_loop(count > LIST_MAX ? LIST_MAX : (__u32)count, each_tensor, &e, 0);
}

__noinline int put_array(struct thread *t, __u64 base, __u64 count, __u32 size, __u32 read)
{
	if (!t)
		return 0;
	struct item *it =
	    begin_item(t, ITEM_DATA, read, count > 0xffffffff ? 0xffffffff : (__u32)count);
	if (!it || !base || !count || !size)
		return 0;
	__u64 n = count > LIST_MAX ? LIST_MAX : count;
	if (size > 64)
		return 0;
	__u64 bytes = n * size;
	__u32 len = bytes > 2048 ? 2048 : (__u32)bytes;
	if (copy_user(t, len, base))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)len;
	return 0;
}

static __always_inline void put_string(struct thread *t, __u64 base, __u64 count, __u32 read)
{
	struct item *it =
	    begin_item(t, ITEM_STRING, read, count > 0xffffffff ? 0xffffffff : (__u32)count);
	if (!it)
		return;
	__u32 len = count > STRING_MAX ? STRING_MAX : (__u32)count;
	if (len && copy_user(t, len, base))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)len;
}

static __always_inline void put_string_at(struct thread *t, __u64 at, __u32 read)
{
	__u64 w[3] = {};
	if (bpf_probe_read_user(w, sizeof(w), (const void *)at))
		begin_item(t, ITEM_FAULT, read, 0);
	else if (w[0] & 0xff)
		put_string(t, w[1], w[2], read);
	else
		begin_item(t, ITEM_UNSET, read, 0);
}

/* Raw IValues, 2048 bytes at most; returns how many, and where they lie in the buffer. */
static __always_inline __u32 put_ivalues(struct thread *t, __u64 begin, __u64 end, __u32 read,
					 __u32 most)
{
	__u64 n = end > begin ? (end - begin) / 16 : 0;
	struct item *it = begin_item(t, ITEM_DATA, read, n > 0xffffffff ? 0xffffffff : (__u32)n);
	if (!it)
		return 0;
	__u32 take = n > most ? most : (__u32)n;
	if (take > 128)
		take = 128;
	if (take && copy_user(t, take * 16, begin)) {
		it->kind = ITEM_FAULT;
		return 0;
	}
	it->len = (__u16)(take * 16);
	return take;
}

/* An element of a list: only tensors are read deeper, and strings. */
static long each_list_value(__u32 i, void *arg)
{
	struct each *e = arg;
	__u64 v[2] = {};
	bpf_probe_read_user(v, sizeof(v), (const void *)(e->base + 16ULL * i));
	if ((__u32)v[1] == IVALUE_TENSOR)
		put_tensor(e->t, e->p, v[0], e->read, e->is_exit);
	else if (ivalue_may_point(v[0], (__u32)v[1]))
		begin_item(e->t, ITEM_FAULT, e->read, 0);
	return 0;
}

__noinline int put_list(struct thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			int is_exit)
{
	if (!t || !p)
		return 0;
	__u64 ends[2] = {};
	if (bpf_probe_read_user(ends, sizeof(ends), (const void *)(impl + p->tensor.target_size)) ||
	    !p->tensor.target_size) {
		begin_item(t, ITEM_FAULT, read, 0);
		return 0;
	}
	struct each e = {.t = t, .p = p, .base = ends[0], .read = read, .is_exit = is_exit};
	bpf_loop(put_ivalues(t, ends[0], ends[1], read, 128), each_list_value, &e, 0);
	return 0;
}

/* What an IValue points to. A std::vector is {begin, end, end of storage}; a std::string {data,
 * length, capacity or the text itself}. */
static __always_inline int put_object(struct thread *t, const struct proc_conf *p, __u64 obj,
				      __u32 read, int is_exit)
{
	if (!t || !p)
		return 0;
	struct item *it = begin_item(t, ITEM_OBJECT, read, 0);
	if (!it)
		return 0;
	if (copy_user(t, OBJECT_SIZE, obj)) {
		it->kind = ITEM_FAULT;
		return 0;
	}
	it->len = OBJECT_SIZE;
	__u64 at = p->tensor.target_size, w[3] = {};
	if (!at || bpf_probe_read_user(w, sizeof(w), (const void *)(obj + at)))
		return 0;
	if (w[1] <= STRING_MAX * 16 && w[0] >= 0x10000 &&
	    (w[0] == obj + at + 16 ? w[1] < 16 : w[2] >= w[1])) {
		it->aux = OBJECT_STRING;
		put_string(t, w[0], w[1], read);
	} else if (w[1] >= w[0] && w[2] >= w[1] && !((w[1] - w[0]) & 15) && !(w[0] & 7)) {
		it->aux = OBJECT_LIST;
		put_list(t, p, obj, read, is_exit);
	}
	return 0;
}

static long each_stack_value(__u32 i, void *arg)
{
	struct each *e = arg;
	__u64 v[2] = {};
	bpf_probe_read_user(v, sizeof(v), (const void *)(e->base + 16ULL * i));
	if ((__u32)v[1] == IVALUE_TENSOR) {
		put_tensor(e->t, e->p, v[0], e->read, e->is_exit);
		return 0;
	}
	if (!ivalue_may_point(v[0], (__u32)v[1]))
		return 0;
	put_object(e->t, e->p, v[0], e->read, e->is_exit);
	return 0;
}

/* The values on top of a boxed call's stack. */
__noinline int put_stack_values(struct thread *t, const struct proc_conf *p, __u64 vec, __u32 read,
				int is_exit)
{
	if (!t || !p)
		return 0;
	__u64 ends[2] = {};
	if (bpf_probe_read_user(ends, sizeof(ends), (const void *)vec) || ends[1] < ends[0]) {
		begin_item(t, ITEM_FAULT, read, 0);
		return 0;
	}
	if (ends[1] - ends[0] > STACK_VALUES * 16)
		ends[0] = ends[1] - STACK_VALUES * 16;
	struct each e = {.t = t, .p = p, .base = ends[0], .read = read, .is_exit = is_exit};
	bpf_loop(put_ivalues(t, ends[0], ends[1], read, STACK_VALUES), each_stack_value, &e, 0);
	return 0;
}

/* at::ITensorListRef: {payload (16 bytes), tag}; tags Unboxed 0, Boxed 1, Materialized 2
 * (ATen/core/IListRef.h). */
static __always_inline void put_ilist(struct thread *t, const struct proc_conf *p, __u64 at,
				      __u32 read, int is_exit)
{
	__u64 v[3] = {};
	bpf_probe_read_user(v, sizeof(v), (const void *)at);
	__u32 tag = (__u32)v[2];
	if (tag == 0) {
		put_tensors(t, p, v[0], v[1], read, is_exit);
	} else if (tag == 1) {
		put_list(t, p, user_word(v[0]), read, is_exit);
	} else {
		begin_item(t, ITEM_FAULT, read, 0);
	}
}

static __always_inline __u64 word_at(struct thread *t, const struct frame *f, __u8 loc)
{
	if (loc & LOC_NOW) {
		__u32 r = loc & 31;
		return r < REGS ? t->regs[r] : 0;
	}
	return f->w[loc & (LOC_MAX - 1)];
}

static __always_inline void put_bytes(struct thread *t, __u64 addr, __u32 size, __u32 read)
{
	struct item *it = begin_item(t, ITEM_DATA, read, 0);
	if (!it)
		return;
	if (copy_user(t, size, addr))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)size;
}

/* The TensorImpl of the Python tensor at `obj`: in one of the two words behind the object's head
 * (THPVariable.cdata, torch/csrc/autograd/python_variable.h; in 1.13 a MaybeOwned, flag first). */
static __always_inline __u64 py_tensor(const struct proc_conf *p, __u64 obj)
{
	__u64 w[4] = {};
	__u64 vt = p->tensor.vt_impl;
	if (!vt || obj < 0x10000 || bpf_probe_read_user(w, sizeof(w), (const void *)obj))
		return 0;
	if (w[2] >= 0x10000 && user_word(w[2]) == vt)
		return w[2];
	return w[3] >= 0x10000 && user_word(w[3]) == vt ? w[3] : 0;
}

/* One read of the plan. `r` is its index. */
__noinline int do_read(struct thread *t, const struct proc_conf *p, const struct op_plan *plan,
		       __u32 r, int is_exit)
{
	if (!t || !p || !plan || r >= PLAN_READS)
		return 0;
	const struct probe_read *rd = &plan->read[r];
	__u32 d = t->depth - 1;
	struct frame *f = &t->open[d & (OPEN_MAX - 1)];
	__u64 a = word_at(t, f, rd->a);
	__u64 at = a + (__s64)rd->off;
	struct item *it;
	switch (rd->kind) {
	case READ_WORD:
		it = begin_item(t, ITEM_DATA, r, 0);
		if (it)
			put_word(t, a), it->len = 8;
		break;
	case READ_MEM:
		put_bytes(t, rd->deref ? user_word(at) + rd->b : at, rd->size, r);
		break;
	case READ_SLOT:
		put_bytes(t, f->sp + (__s64)rd->off, 8, r);
		break;
	case READ_TENSOR:
		put_tensor(t, p, user_word(at), r, is_exit);
		break;
	case READ_OPT_TENSOR:
		if (user_word(a + rd->size) & 0xff)
			put_tensor(t, p, user_word(at), r, is_exit);
		else
			begin_item(t, ITEM_UNSET, r, 0);
		break;
	case READ_TENSORS:
		put_tensors(t, p, a, word_at(t, f, rd->b), r, is_exit);
		break;
	case READ_VECTOR: {
		__u64 ends[2] = {};
		bpf_probe_read_user(ends, sizeof(ends), (const void *)at);
		put_tensors(t, p, ends[0], ends[1] > ends[0] ? (ends[1] - ends[0]) / 8 : 0, r,
			    is_exit);
		break;
	}
	case READ_ARRAY:
		if (rd->deref) {
			put_string_at(t, a, r);
			break;
		}
		if (rd->c != LOC_NONE && !(word_at(t, f, rd->c) & 0xff)) {
			begin_item(t, ITEM_UNSET, r, 0);
			break;
		}
		/* c10::optional<ArrayRef> when empty: {null, 1} (c10/util/Optional.h, 1.13). */
		if (rd->size != 1 && !a && word_at(t, f, rd->b)) {
			begin_item(t, ITEM_UNSET, r, 0);
			break;
		}
		if (rd->size == 1)
			put_string(t, a, word_at(t, f, rd->b), r);
		else
			put_array(t, a, word_at(t, f, rd->b), rd->size, r);
		break;
	case READ_STD_STRING: {
		__u64 s[2] = {};
		bpf_probe_read_user(s, sizeof(s), (const void *)(user_word(a) + (__s64)rd->off));
		put_string(t, s[0], s[1], r);
		break;
	}
	case READ_LIST:
		put_list(t, p, user_word(at), r, is_exit);
		break;
	case READ_ILIST:
		put_ilist(t, p, at, r, is_exit);
		break;
	case READ_IVALUES:
		put_stack_values(t, p, a, r, is_exit);
		break;
	case READ_PYTENSOR: {
		__u64 impl = py_tensor(p, a);
		/* A tuple: {head, size, first item} (Include/cpython/tupleobject.h). */
		if (!impl)
			impl = py_tensor(p, user_word(a + 24));
		if (impl)
			put_tensor(t, p, impl, r, is_exit);
		break;
	}
	case READ_NODE:
		it = begin_item(t, ITEM_DATA, r, 0);
		if (it) {
			put_word(t, a);
			it->len =
			    p->tensor.node_seq && !copy_user(t, 8, a + p->tensor.node_seq) ? 16 : 8;
		}
		break;
	}
	return 0;
}

static __always_inline void start_hit(struct thread *t, const struct frame *f, __u8 kind,
				      __u32 proc, __u32 gen, __u64 ts)
{
	struct hit *h = (struct hit *)t->buf;
	h->size = 0;
	h->kind = kind;
	h->flags = f->backward ? HIT_BACKWARD : 0;
	h->depth = (__u16)t->shown;
	h->op = f->op;
	h->proc = (__u16)proc;
	h->generation = (__u16)gen;
	h->tid = t->tid;
	h->pad = 0;
	h->ts = ts;
	h->seq = f->seq;
	h->sp = f->sp;
	t->off = sizeof(*h);
}

/* Close frames that an exception has left: their stack pointer is below `sp`, where the thread is
 * now. */
static __always_inline void prune(struct thread *t, __u64 sp)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		__u32 d = t->depth;
		if (d == 0 || d > OPEN_MAX)
			break;
		struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
		if (f->sp > sp)
			break;
		if (!f->muted)
			t->shown--;
		t->depth = d - 1;
	}
}

#include "tracer/pywalk.bpf.h"

struct moved {
	struct thread *t;
	const struct proc_conf *p;
};

static long each_open(__u32 i, void *arg)
{
	struct moved *m = arg;
	struct thread *t = m->t;
	__u32 d = t->depth;
	(void)i;
	if (d == 0 || d > OPEN_MAX)
		return 1;
	struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
	if (!has_moved_on(t, m->p, f->py_frame, f->py_instr))
		return 1;
	if (!f->muted)
		t->shown--;
	t->depth = d - 1;
	return 0;
}

/* The same where the stack pointer does not tell. */
static __always_inline void prune_moved(struct thread *t, const struct proc_conf *p)
{
	struct moved m = {.t = t, .p = p};
	bpf_loop(OPEN_MAX, each_open, &m, 0);
}

static __always_inline void keep_regs(struct pt_regs *ctx, struct thread *t)
{
	const unsigned long *r = (const unsigned long *)ctx;
#pragma unroll
	for (int i = 0; i < REGS; i++)
		t->regs[i] = r[i];
}

static __always_inline void keep_moved(struct pt_regs *ctx, struct thread *t,
				       const struct op_plan *plan, struct frame *f)
{
	keep_regs(ctx, t);
#pragma unroll
	for (int i = 0; i < LOC_STACK; i++) {
		__u32 r = plan->arg_reg[i] & 31;
		f->w[i] = r < REGS ? t->regs[r] : 0;
	}
}

static __always_inline void keep_words(struct pt_regs *ctx, struct thread *t,
				       const struct op_plan *plan, struct frame *f)
{
	__u32 nstack = plan->nstack;
	f->w[0] = PT_REGS_PARM1(ctx);
	f->w[1] = PT_REGS_PARM2(ctx);
	f->w[2] = PT_REGS_PARM3(ctx);
	f->w[3] = PT_REGS_PARM4(ctx);
	f->w[4] = PT_REGS_PARM5(ctx);
	f->w[5] = ctx->r9; /* libbpf 1.1 has no PT_REGS_PARM6 */
	if (plan->flags & PLAN_MOVED)
		keep_moved(ctx, t, plan, f);
	if (nstack && nstack <= LOC_MAX - LOC_STACK)
		bpf_probe_read_user(&f->w[LOC_STACK], nstack * 8, (const void *)(f->sp + 8));
}

static __always_inline int is_muted(const struct proc_conf *p, const struct op_plan *plan,
				    const struct thread *t, const struct frame *f)
{
	if (plan->flags & PLAN_MARK)
		return 1;
	if (p->phase == 1 && f->backward)
		return 1;
	if (p->phase == 2 && !f->backward)
		return 1;
	return p->max_depth && t->shown >= p->max_depth;
}

/* At most eight functions may be active at once: a loop, where a callback would be one more. */
static __always_inline void do_reads(struct thread *t, const struct proc_conf *p,
				     const struct op_plan *plan, __u32 from, __u32 n, int is_exit)
{
	for (__u32 i = 0; i < PLAN_READS && i < n; i++)
		do_read(t, p, plan, from + i, is_exit);
}

static __always_inline void account(__u64 since)
{
	__u64 n = __sync_fetch_and_add(&hits, 1);
	if ((n & 63) == 63) { /* not the very first, which finds nothing in the caches */
		__sync_fetch_and_add(&sampled, 1);
		__sync_fetch_and_add(&sampled_ns, bpf_ktime_get_ns() - since);
	}
}

static __always_inline void open_op(struct pt_regs *ctx, struct thread *t,
				    const struct proc_conf *p, const struct op_plan *plan,
				    __u64 cookie, __u64 ts)
{
	__u64 sp = PT_REGS_SP(ctx) + plan->entry_sp;
	t->now_frame = p->py_on ? innermost(t, p) : 0;
	t->now_instr = t->now_frame ? frame_instr(t, &p->py) : 0;
	prune(t, sp);
	if (t->now_frame)
		prune_moved(t, p);
	__u32 d = t->depth;
	if (d >= OPEN_MAX) {
		__sync_fetch_and_add(&lost_depth, 1);
		return;
	}
	struct frame *up = &t->open[(d - 1) & (OPEN_MAX - 1)]; /* the enclosing op's, if d > 0 */
	struct frame *f = &t->open[d & (OPEN_MAX - 1)];
	f->sp = sp;
	f->seq = ++t->seq;
	f->op = (__u32)cookie;
	f->backward = (plan->flags & PLAN_BACKWARD) || (d && up->backward);
	f->py_sent = 0;
	f->counted = 0;
	f->py_frame = t->now_frame;
	f->py_instr = t->now_instr;
	f->muted = (__u8)is_muted(p, plan, t, f);
	keep_words(ctx, t, plan, f);
	if (!f->muted)
		start_hit(t, f, HIT_ENTRY, (__u32)(cookie >> 48), p->generation, ts);
	t->depth = d + 1;
	if (f->muted)
		return;
	do_reads(t, p, plan, 0, plan->nentry, 0);
	if (p->py_on && (plan->flags & PLAN_PY))
		put_python(t, p, d ? up->py_sent : 0, up, f);
	t->shown++;
	send(t, 0);
}

SEC("uprobe")
int op_entry(struct pt_regs *ctx)
{
	__u64 ts = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = (__u32)cookie, proc = (__u32)(cookie >> 48);
	const struct op_plan *plan = bpf_map_lookup_elem(&plans, &op);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct thread *t = this_thread();
	if (plan && p && t)
		open_op(ctx, t, p, plan, cookie, ts);
	account(ts);
	return 0;
}

/* Close everything above the innermost open frame of `op`; 0 when there is none. */
static __always_inline struct frame *find_open(struct thread *t, __u32 op, __u64 sp)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		__u32 d = t->depth;
		if (d == 0 || d > OPEN_MAX)
			return 0;
		struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
		if (f->op == op && f->sp >= sp)
			return f;
		t->depth = d - 1;
		if (!f->muted)
			t->shown--;
	}
	return 0;
}

static __always_inline int is_open(const struct thread *t, __u32 op, __u64 sp)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		__u32 d = t->depth - i;
		if (d == 0 || d > OPEN_MAX)
			return 0;
		const struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
		if (f->op == op && f->sp >= sp)
			return 1;
	}
	return 0;
}

SEC("uprobe")
int op_exit(struct pt_regs *ctx)
{
	__u64 ts = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 op = (__u32)cookie, proc = (__u32)(cookie >> 48);
	__u64 sp = PT_REGS_SP(ctx);
	const struct op_plan *plan = bpf_map_lookup_elem(&plans, &op);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct thread *t = this_thread();
	/* An op that was running when the probes came has no open frame. */
	if (!plan || !p || !t || !is_open(t, op, sp))
		goto out;
	struct frame *f = find_open(t, op, sp);
	if (!f)
		goto out;
	if (!f->muted) {
		t->shown--;
		keep_regs(ctx, t);
		start_hit(t, f, HIT_EXIT, proc, p->generation, ts);
		do_reads(t, p, plan, plan->nentry, plan->nexit, 1);
		send(t, 0);
	}
	t->depth--;
out:
	account(ts);
	return 0;
}

static __always_inline void put_region(struct thread *t, __u64 addr, __u32 len)
{
	struct item *it = begin_item(t, ITEM_DATA, 0, 0);
	if (!it)
		return;
	put_word(t, addr);
	if (copy_user(t, len, addr)) {
		/* The page behind may not be there: the object ends before it. */
		len = (__u32)(4096 - (addr & 4095)) & 0x3f8;
		if (copy_user(t, len, addr))
			len = 0;
	}
	it->len = (__u16)(8 + len);
}

/* A code object is going: what was learnt of its address holds no more. Code that runs once, as
 * that of exec(), is gone before user space can look at it: it is sent along. */
SEC("uprobe")
int code_freed(struct pt_regs *ctx)
{
	enum { STRING_OBJECT = 256, LINES_OBJECT = 1024 };
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 proc = (__u32)(cookie >> 48);
	const struct proc_conf *p = bpf_map_lookup_elem(&procs, &proc);
	struct thread *t = this_thread();
	__u64 code = PT_REGS_PARM1(ctx);
	if (!p || !t)
		return 0;
	struct frame none = {.sp = code};
	start_hit(t, &none, HIT_CODE_FREED, proc, 0, bpf_ktime_get_ns());
	put_region(t, code, p->code.size & 0x1ff);
	put_region(t, user_word(code + p->code.filename), STRING_OBJECT);
	put_region(t, user_word(code + p->code.name), STRING_OBJECT);
	put_region(t, user_word(code + p->code.linetable), LINES_OBJECT);
	send(t, 0);
	return 0;
}

/* torch::jit::parseSchema(const std::string &, ...): its result goes through a hidden pointer. */
SEC("uprobe")
int schema_parsed(struct pt_regs *ctx)
{
	__u32 proc = (__u32)(bpf_get_attach_cookie(ctx) >> 48);
	struct thread *t = this_thread();
	struct frame none = {};
	__u64 s[2] = {};
	if (!t || bpf_probe_read_user(s, sizeof(s), (const void *)PT_REGS_PARM2(ctx)))
		return 0;
	start_hit(t, &none, HIT_SCHEMA, proc, 0, bpf_ktime_get_ns());
	put_string(t, s[0], s[1], 0);
	send(t, 0);
	return 0;
}

/* at::getStepCallbacksUnlessEmpty(RecordScope): called once a dispatched op, whatever the way. It
 * returns through a hidden pointer, so the scope is the second argument; FUNCTION is 0
 * (ATen/record_function.h). */
SEC("uprobe")
int step_callbacks(struct pt_regs *ctx)
{
	if (!counting || (__u32)PT_REGS_PARM2(ctx) != 0)
		return 0;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	__sync_fetch_and_add(&dispatched, 1);
	__u32 d = t ? t->depth : 0;
	if (d == 0 || d > OPEN_MAX)
		return 0;
	struct frame *f = &t->open[(d - 1) & (OPEN_MAX - 1)];
	/* An op's own call comes once, before anything it calls; `counted` remembers that it came.
	 */
	if (f->sp > PT_REGS_SP(ctx) && !f->counted) {
		f->counted = 1;
		__sync_fetch_and_add(&dispatched_seen, 1);
	}
	return 0;
}

SEC("raw_tp/sched_process_exit")
int thread_exit(void *ctx)
{
	(void)ctx;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}
