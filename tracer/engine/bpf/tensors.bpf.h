/* A tensor, by the address of its TensorImpl. Part of probes.bpf.c. */

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

/* TPART_BASE_* of the autograd meta at `meta`; 0 unless it is a view without a gradient of its
 * own. */
static __always_inline __u32 view_grad(const struct tensor_read *c, __u64 meta)
{
	if (!meta || user_word(meta) != c->view_vtable || user_word(meta + c->grad_fn) ||
	    user_byte(meta + c->requires_grad))
		return 0;
	return base_grad(c, meta);
}

/* Append sizes and strides that are stored out of line. The tensor's window is at buf[at]; returns
 * TPART_OUTLINE when they were appended, else 0. */
static __always_inline __u32 put_outline(struct bpf_thread *t, const struct tensor_read *c,
					 __u32 at)
{
	if (at > BUF_MAX + 1024)
		return 0;
	__u64 ndim = *(__u64 *)&t->buf[at + (c->sizes & 0xf8)];
	if (ndim <= c->inline_dims || ndim > 64)
		return 0;
	__u64 line = *(__u64 *)&t->buf[at + (c->sizes & 0xf8) + 8];
	return copy_user(t, (__u32)ndim * 16, line) ? 0 : TPART_OUTLINE;
}

/* Append the parts that a tensor's window, at buf[at], points to; TPART_* of those appended. */
static __always_inline __u32 tensor_parts(struct bpf_thread *t, const struct tensor_read *c,
					  __u32 at, int is_exit)
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

/* What the snapshot says of a readable part at `p`: 1, or SNAPSHOT_NODE (symbolizer/torch/layout.h)
 * plus the sequence number of the node that this autograd meta holds. */
static __always_inline __u64 part_valid(const struct tensor_read *c, __u64 p)
{
	__u64 vt = user_word(p), seq = 0;
	if (!c->node_seq || !vt || (vt != c->meta_vtable[0] && vt != c->meta_vtable[1]))
		return 1;
	__u64 node = user_word(p + c->grad_fn);
	if (!node || read_user(&seq, sizeof(seq), node + c->node_seq))
		return 1;
	return 2 + seq;
}

static __always_inline void snapshot_part(struct bpf_thread *t, const struct tensor_read *c,
					  __u64 p)
{
	put_word(t, p);
	__u32 at = t->off, there = 0;
	put_word(t, 0);
	put_word(t, 0);
	if (p >= 0x10000 && p < (1ULL << 47) && !(p & 7))
		there = copy_object(t, PART_MAX, p);
	if (there && at <= BUF_MAX + 2048) {
		*(__u64 *)&t->buf[at] = part_valid(c, p);
		*(__u64 *)&t->buf[at + 8] = there;
	}
	t->off = at + 16 + PART_MAX;
}

static __always_inline void snapshot(struct bpf_thread *t, const struct tensor_read *c, __u8 read,
				     __u64 impl)
{
	struct item *it = begin_item(t, ITEM_SNAPSHOT, read, 0);
	if (!it)
		return;
	__u32 start = t->off;
	put_word(t, impl);
	__u32 there = copy_object(t, WIN_MAX, impl);
	if (!there || start > BUF_MAX + 64) {
		it->aux = TPART_FAULT;
		it->len = 8;
		t->off = start + 8;
		return;
	}
	t->off = start + 8 + WIN_MAX;
	put_word(t, there);
	for (int k = 0; k < 3; k++)
		snapshot_part(t, c, *(__u64 *)&t->buf[start + 8 + 0x10 + 8 * k]);
	if (c->sizes)
		it->aux = put_outline(t, c, start + 8);
	if (c->view_vtable)
		it->aux |= view_grad(c, *(__u64 *)&t->buf[start + 8 + (c->meta & 0xf8)]);
	it->len = (__u16)(t->off - start);
}

/* One tensor, by the address of its TensorImpl. */
__noinline int put_tensor(struct bpf_thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
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
