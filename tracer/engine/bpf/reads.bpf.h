/* The reads of the plan. Part of probes.bpf.c. */

/* What tracer/engine/plan_exec.h asks for. */

typedef struct exec {
	struct bpf_thread *t;
	const struct proc_conf *conf;
	int is_exit;
} exec_t;

/* bpf_probe_read_user and all that go by it take any address. */
#define exec_read(x, to, n, from) read_user(to, n, from)
#define exec_read_sure exec_read
#define exec_read_unsure exec_read
#define exec_word(x, addr) user_word(addr)
#define exec_word_unsure exec_word
#define exec_byte(x, addr) user_byte(addr)
#define exec_byte_unsure exec_byte
#define exec_item(x, kind, read, aux) begin_item((x)->t, kind, (__u8)(read), aux)
#define exec_copy(x, len, addr) copy_user((x)->t, len, addr)
#define exec_copy_object(x, len, addr) copy_object((x)->t, len, addr)
#define exec_put_word(x, w) put_word((x)->t, w)
#define exec_each(n, fn, arg) bpf_loop(n, fn, arg, 0)
#define exec_tensor(x, impl, read) put_tensor((x)->t, (x)->conf, impl, read, (x)->is_exit)
#define exec_kind(x, tag, obj) ((void)(tag), 0)
#define exec_doubt(x, unsure) ((void)0)
#define EXEC_FUNCTION static __noinline

enum { EXEC_LIST_MAX = 128 }; /* as copy_user takes no more */

static __always_inline __u64 exec_word_at(const exec_t *x, __u8 loc)
{
	struct bpf_thread *t = x->t;
	if (loc & LOC_NOW) {
		__u32 r = loc & 31;
		return r < REGS ? t->regs[r] : 0;
	}
	return t->open[(t->depth - 1) & (OPEN_MAX - 1)].w[loc & (LOC_MAX - 1)];
}

__noinline int put_tensor(struct bpf_thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			  int is_exit);

#include "tracer/engine/plan_exec.h"

/* Whether a lean record has it, too: what tells the op, and unless it is of calls that are summed
 * up, the forward op of a node. */
static __always_inline int is_needed(const struct bpf_thread *t, const struct op_plan *plan,
				     __u32 read)
{
	return plan->identity >> (read & 31) & 1 ||
	       (t->lean == LEAN && plan->flags & PLAN_BACKWARD && read == NODE_READ);
}

/* One read of the plan, if the record has it. `r` is its index. */
__noinline int do_read(struct bpf_thread *t, const struct proc_conf *p, const struct op_plan *plan,
		       __u32 r, int is_exit)
{
	__u64 at = r;
	OPAQUE(at);
	if (!t || !p || !plan || at >= PLAN_READS || (t->lean && !is_needed(t, plan, r)))
		return 0;
	const exec_t x = {t, p, is_exit};
	exec_run(&x, &plan->read[at], t->open[(t->depth - 1) & (OPEN_MAX - 1)].sp, r);
	return 0;
}

/* A tensor, by the address of its TensorImpl. Part of probes.bpf.c. */

/* Append sizes and strides that are stored out of line. The tensor's window is at buf[at]; returns
 * TPART_OUTLINE when they were appended, else 0. */
static __always_inline __u32 put_outline(const exec_t *x, __u32 at)
{
	const struct tensor_read *c = &x->conf->tensor;
	if (at > BUF_MAX + 1024)
		return 0;
	__u64 ndim = *(__u64 *)&x->t->buf[at + (c->sizes & 0xf8)];
	if (ndim <= c->inline_dims || ndim > 64)
		return 0;
	__u64 line = *(__u64 *)&x->t->buf[at + (c->sizes & 0xf8) + 8];
	return exec_copy(x, (__u32)ndim * 16, line) ? 0 : TPART_OUTLINE;
}

static __always_inline __u32 meta_part(const exec_t *x, __u64 meta)
{
	const struct tensor_read *c = &x->conf->tensor;
	__u32 from = x->t->off;
	if (exec_copy(x, c->meta_len, meta + c->meta_from))
		return TPART_META_FAULT;
	if (from > BUF_MAX + 2048)
		return TPART_META;
	return exec_beside_meta(x, meta, *(__u64 *)&x->t->buf[from],
				*(__u64 *)&x->t->buf[from + (c->grad_fn & 0xf8)]);
}

/* Append the parts that a tensor's window, at buf[at], points to; TPART_* of those appended. */
static __always_inline __u32 tensor_parts(const exec_t *x, __u32 at)
{
	const struct tensor_read *c = &x->conf->tensor;
	__u32 flags = 0;
	if (at > BUF_MAX + 1024)
		return 0;
	__u64 storage = *(__u64 *)&x->t->buf[at + (c->storage & 0xf8)];
	__u64 meta = *(__u64 *)&x->t->buf[at + (c->meta & 0xf8)];
	if (storage && c->storage_len && c->storage_len <= PART_MAX &&
	    !exec_copy(x, c->storage_len, storage + c->storage_from))
		flags |= TPART_STORAGE;
	if (meta && c->meta_len && c->meta_len <= PART_MAX)
		flags |= meta_part(x, meta);
	return flags | put_outline(x, at);
}

__noinline int snapshot_part(struct bpf_thread *t, const struct proc_conf *conf, __u64 p)
{
	const exec_t made = {t, conf, 0}, *x = &made;
	if (!t || !conf)
		return 0;
	put_word(t, p);
	__u32 at = t->off, there = 0;
	put_word(t, 0);
	put_word(t, 0);
	if (p >= 0x10000 && p < (1ULL << 47) && !(p & 7))
		there = exec_copy_object(x, PART_MAX, p);
	if (there && at <= BUF_MAX + 2048) {
		*(__u64 *)&t->buf[at] = exec_part_valid(x, p);
		*(__u64 *)&t->buf[at + 8] = there;
	}
	t->off = at + 16 + PART_MAX;
	return 0;
}

static __always_inline void snapshot(const exec_t *x, __u8 read, __u64 impl)
{
	const struct tensor_read *c = &x->conf->tensor;
	struct bpf_thread *t = x->t;
	struct item *it = exec_item(x, ITEM_SNAPSHOT, read, 0);
	if (!it)
		return;
	__u32 start = t->off;
	put_word(t, impl);
	__u32 there = exec_copy_object(x, WIN_MAX, impl);
	if (!there || start > BUF_MAX + 64) {
		it->aux = TPART_FAULT;
		it->len = 8;
		t->off = start + 8;
		return;
	}
	t->off = start + 8 + WIN_MAX;
	put_word(t, there);
	for (int k = 0; k < 3; k++)
		snapshot_part(t, x->conf, *(__u64 *)&t->buf[start + 8 + 0x10 + 8 * k]);
	if (c->sizes)
		it->aux = put_outline(x, start + 8);
	if (c->view_vtable)
		it->aux |= exec_view_grad(x, *(__u64 *)&t->buf[start + 8 + (c->meta & 0xf8)]);
	it->len = (__u16)(t->off - start);
}

/* One tensor, by the address of its TensorImpl. */
__noinline int put_tensor(struct bpf_thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			  int is_exit)
{
	if (!t || !p)
		return 0;
	const struct tensor_read *c = &p->tensor;
	const exec_t x = {t, p, is_exit};
	if (!impl || impl == c->undefined) {
		struct item *u = exec_item(&x, ITEM_TENSOR, read, TPART_UNDEFINED);
		if (u)
			put_word(t, impl), u->len = 8;
		return 0;
	}
	if (c->discover) {
		snapshot(&x, read, impl);
		return 0;
	}
	struct item *it = exec_item(&x, ITEM_TENSOR, read, 0);
	if (!it)
		return 0;
	__u32 start = t->off;
	put_word(t, impl);
	__u32 at = t->off;
	__u32 len = c->win_len;
	if (len > WIN_MAX || exec_copy(&x, len, impl))
		it->aux = TPART_FAULT;
	else
		it->aux = tensor_parts(&x, at);
	it->len = (__u16)(t->off - start);
	return 0;
}
