/* The reads of the plan. Part of probes.bpf.c. */

static __always_inline __u64 word_at(struct bpf_thread *t, const struct frame *f, __u8 loc)
{
	if (loc & LOC_NOW) {
		__u32 r = loc & 31;
		return r < REGS ? t->regs[r] : 0;
	}
	return f->w[loc & (LOC_MAX - 1)];
}

static __always_inline void put_bytes(struct bpf_thread *t, __u64 addr, __u32 size, __u32 read)
{
	struct item *it = begin_item(t, ITEM_DATA, read, 0);
	if (!it)
		return;
	if (copy_user(t, size, addr))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)size;
}

/* The TensorImpl of the Python tensor at `obj`: in one of the two words after its header
 * (THPVariable.cdata, torch/csrc/autograd/python_variable.h; in 1.13 a MaybeOwned, flag first). */
static __always_inline __u64 py_tensor(const struct proc_conf *p, __u64 obj)
{
	__u64 w[4] = {};
	__u64 vt = p->tensor.vt_impl;
	if (!vt || obj < 0x10000 || read_user(w, sizeof(w), obj))
		return 0;
	if (w[2] >= 0x10000 && user_word(w[2]) == vt)
		return w[2];
	return w[3] >= 0x10000 && user_word(w[3]) == vt ? w[3] : 0;
}

static __always_inline void read_vector(struct bpf_thread *t, const struct proc_conf *p, __u64 at,
					__u32 r, int is_exit)
{
	__u64 ends[2] = {};
	read_user(ends, sizeof(ends), at);
	put_tensors(t, p, ends[0], ends[1] > ends[0] ? (ends[1] - ends[0]) / 8 : 0, r, is_exit);
}

static __always_inline void read_array(struct bpf_thread *t, const struct frame *f,
				       const struct probe_read *rd, __u64 a, __u32 r)
{
	if (rd->deref) {
		put_string_at(t, a, r);
		return;
	}
	__u64 n = word_at(t, f, rd->b);
	if (rd->c != LOC_NONE && !(word_at(t, f, rd->c) & 0xff))
		begin_item(t, ITEM_UNSET, r, 0);
	else if (rd->size == 1)
		put_string(t, a, n, r);
	/* c10::optional<ArrayRef> when empty: {null, 1} (c10/util/Optional.h, 1.13). */
	else if (!a && n)
		begin_item(t, ITEM_UNSET, r, 0);
	else
		put_array(t, a, n, rd->size, r);
}

static __always_inline void read_std_string(struct bpf_thread *t, const struct proc_conf *p,
					    __u64 at, __u32 r)
{
	__u64 s[2] = {};
	std_string(p, at, s);
	put_string(t, s[0], s[1], r);
}

static __always_inline void read_py_tensor(struct bpf_thread *t, const struct proc_conf *p, __u64 a,
					   __u32 r, int is_exit)
{
	__u64 impl = py_tensor(p, a);
	/* A tuple: {head, size, first item} (Include/cpython/tupleobject.h). */
	if (!impl)
		impl = py_tensor(p, user_word(a + 24));
	if (impl)
		put_tensor(t, p, impl, r, is_exit);
}

static __always_inline void read_word(struct bpf_thread *t, __u64 w, __u32 r)
{
	struct item *it = begin_item(t, ITEM_DATA, r, 0);
	if (it)
		put_word(t, w), it->len = 8;
}

static __always_inline void read_node(struct bpf_thread *t, const struct proc_conf *p, __u64 a,
				      __u32 r)
{
	struct item *it = begin_item(t, ITEM_DATA, r, 0);
	if (!it)
		return;
	put_word(t, a);
	it->len = p->tensor.node_seq && !copy_user(t, 8, a + p->tensor.node_seq) ? 16 : 8;
}

/* One read of the plan. `r` is its index. */
__noinline int do_read(struct bpf_thread *t, const struct proc_conf *p, const struct op_plan *plan,
		       __u32 r, int is_exit)
{
	if (!t || !p || !plan || r >= PLAN_READS)
		return 0;
	const struct probe_read *rd = &plan->read[r];
	__u32 d = t->depth - 1;
	struct frame *f = &t->open[d & (OPEN_MAX - 1)];
	__u64 a = word_at(t, f, rd->a);
	__u64 at = a + (__s64)rd->off;
	switch (rd->kind) {
	case READ_WORD:
		read_word(t, a, r);
		break;
	case READ_MEM:
		put_bytes(t, rd->deref ? user_word(at) + rd->b : at, rd->size, r);
		break;
	case READ_SLOT:
		put_bytes(t, f->sp + (__s64)rd->off, 8, r);
		break;
	case READ_OPT_TENSOR:
		if (!(user_word(a + rd->size) & 0xff)) {
			begin_item(t, ITEM_UNSET, r, 0);
			break;
		}
		/* fall through */
	case READ_TENSOR:
		put_tensor(t, p, user_word(at), r, is_exit);
		break;
	case READ_TENSORS:
		put_tensors(t, p, a, word_at(t, f, rd->b), r, is_exit);
		break;
	case READ_VECTOR:
		read_vector(t, p, at, r, is_exit);
		break;
	case READ_ARRAY:
		read_array(t, f, rd, a, r);
		break;
	case READ_STD_STRING:
		read_std_string(t, p, user_word(a) + (__s64)rd->off, r);
		break;
	case READ_LIST:
		put_list(t, p, user_word(at), r, is_exit);
		break;
	case READ_ILIST:
		put_ilist(t, p, at, r, is_exit);
		break;
	case READ_IVALUES:
		put_stack_values(t, p, a, r, is_exit);
		break;
	case READ_PYTENSOR:
		read_py_tensor(t, p, a, r, is_exit);
		break;
	case READ_NODE:
		read_node(t, p, a, r);
		break;
	}
	return 0;
}
