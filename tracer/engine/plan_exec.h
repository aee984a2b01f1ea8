/* The reads of a plan, for eBPF programs and engines in user space alike. Part of
 * tracer/engine/bpf/reads.bpf.h and tracer/engine/plan_reader.c, which define what they differ in:
 *
 *	exec_t		 where to read from and what to append to; conf: its struct proc_conf
 *	exec_item	 begin an item; NULL: no room
 *	exec_copy	 append bytes of the target, padded to 8; 0: done
 *	exec_copy_object the same of an object that may end before; how many bytes were there
 *	exec_put_word	 append a word
 *	exec_read	 copy bytes; 0: done. Also _sure: they are there for certain; _unsure: the
 *			 address may be none
 *	exec_word	 a word, 0 where it cannot be read; also _unsure, exec_byte,
 *exec_byte_unsure exec_word_at	 what the plan's location had at the entry, or has now exec_each
 *call a function for 0 to n - 1 exec_tensor	 append the tensor of this TensorImpl exec_kind the
 *kind of an IValue's object (OBJECT_*) where that is certain; 0: it is not exec_doubt	 from now on
 *what is read may not be what it looks like
 *	EXEC_LIST_MAX	 the most elements of a list that are read
 *	EXEC_FUNCTION	 what a function is that is called at several places
 */

enum { ELEMENT_MAX = 64, ELEMENTS_BYTES_MAX = 2048 };

/* For exec_each. */
struct exec_values {
	const exec_t *x;
	__u64 base;
	__u32 read;
};

static __always_inline __u32 exec_count(__u64 n)
{
	return n > 0xffffffff ? 0xffffffff : (__u32)n;
}

static __always_inline void exec_bytes(const exec_t *x, __u64 addr, __u32 size, __u32 read)
{
	struct item *it = exec_item(x, ITEM_DATA, read, 0);
	if (!it)
		return;
	if (exec_copy(x, size, addr))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)size;
}

static __always_inline void exec_elements(const exec_t *x, __u64 base, __u64 count, __u32 size,
					  __u32 read)
{
	struct item *it = exec_item(x, ITEM_DATA, read, exec_count(count));
	if (!it || !base || !count || !size || size > ELEMENT_MAX)
		return;
	__u64 bytes = (count > LIST_MAX ? LIST_MAX : count) * size;
	__u32 len = bytes > ELEMENTS_BYTES_MAX ? ELEMENTS_BYTES_MAX : (__u32)bytes;
	if (exec_copy(x, len, base))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)len;
}

static __always_inline void exec_string(const exec_t *x, __u64 base, __u64 count, __u32 read)
{
	struct item *it = exec_item(x, ITEM_STRING, read, exec_count(count));
	if (!it)
		return;
	__u32 len = count > STRING_MAX ? STRING_MAX : (__u32)count;
	if (len && exec_copy(x, len, base))
		it->kind = ITEM_FAULT;
	else
		it->len = (__u16)len;
}

/* An optional string_view in memory: whether there is one, address, length. */
static __always_inline void exec_optional_string(const exec_t *x, __u64 at, __u32 read)
{
	__u64 w[3] = {};
	if (exec_read_unsure(x, w, sizeof(w), at))
		exec_item(x, ITEM_FAULT, read, 0);
	else if (w[0] & 0xff)
		exec_string(x, w[1], w[2], read);
	else
		exec_item(x, ITEM_UNSET, read, 0);
}

static __always_inline void exec_array(const exec_t *x, const struct probe_read *rd, __u64 a,
				       __u32 read)
{
	if (rd->deref) {
		exec_optional_string(x, a, read);
		return;
	}
	__u64 n = exec_word_at(x, rd->b);
	if (rd->c != LOC_NONE && !(exec_word_at(x, rd->c) & 0xff))
		exec_item(x, ITEM_UNSET, read, 0);
	else if (rd->size == 1)
		exec_string(x, a, n, read);
	/* c10::optional<ArrayRef> when empty: {null, 1} (c10/util/Optional.h, 1.13). */
	else if (!a && n)
		exec_item(x, ITEM_UNSET, read, 0);
	else
		exec_elements(x, a, n, rd->size, read);
}

/* {text, length} of the std::string at `at`, which is how that of the C++11 ABI begins (libstdc++,
 * bits/basic_string.h); a copy-on-write one has its length before the text. 0 or a negative errno.
 */
static __always_inline long exec_std_string(const exec_t *x, __u64 at, __u64 s[2])
{
	if (!x->conf->cow_strings)
		return exec_read(x, s, 2 * sizeof(*s), at);
	long r = exec_read(x, &s[0], sizeof(*s), at);
	return r ? r : exec_read(x, &s[1], sizeof(*s), s[0] - COW_LENGTH);
}

static __always_inline void exec_string_object(const exec_t *x, __u64 at, __u32 read)
{
	__u64 s[2] = {};
	exec_std_string(x, at, s);
	exec_string(x, s[0], s[1], read);
}

static long exec_each_tensor(__u32 i, void *arg)
{
	struct exec_values *v = arg;
	exec_tensor(v->x, exec_word(v->x, v->base + 8ULL * i), v->read);
	return 0;
}

static __always_inline void exec_tensors(const exec_t *x, __u64 base, __u64 count, __u32 read)
{
	struct exec_values v = {x, base, read};
	if (exec_item(x, ITEM_LIST, read, exec_count(count)))
		exec_each(count > LIST_MAX ? LIST_MAX : (__u32)count, exec_each_tensor, &v);
}

/* A std::vector of tensors. */
static __always_inline void exec_vector(const exec_t *x, __u64 at, __u32 read)
{
	__u64 ends[2] = {};
	exec_read(x, ends, sizeof(ends), at);
	exec_tensors(x, ends[0], ends[1] > ends[0] ? (ends[1] - ends[0]) / 8 : 0, read);
}

/* Append raw IValues, at most `most`; returns how many. */
static __always_inline __u32 exec_ivalues(const exec_t *x, __u64 first, __u64 end, __u32 read,
					  __u32 most)
{
	__u64 n = end > first ? (end - first) / 16 : 0;
	struct item *it = exec_item(x, ITEM_DATA, read, exec_count(n));
	if (!it)
		return 0;
	__u32 take = n > most ? most : (__u32)n;
	if (take && exec_copy(x, take * 16, first)) {
		it->kind = ITEM_FAULT;
		return 0;
	}
	it->len = (__u16)(take * 16);
	return take;
}

/* An element of a list in a list: of those that are pointers only tensors are read. */
static long exec_each_leaf(__u32 i, void *arg)
{
	struct exec_values *e = arg;
	__u64 v[2] = {};
	exec_read(e->x, v, sizeof(v), e->base + 16ULL * i);
	if ((__u32)v[1] == IVALUE_TENSOR)
		exec_tensor(e->x, v[0], e->read);
	else if (ivalue_may_point(v[0], (__u32)v[1]))
		exec_item(e->x, ITEM_FAULT, e->read, 0);
	return 0;
}

#ifdef __bpf__
#define exec_each_element exec_each_leaf
#else
/* What may be a list: its elements. The engine bpf sees no operator that is given such. */
static int exec_inner_list(const exec_t *x, __u64 obj, __u32 read)
{
	__u64 w[3] = {};
	__u32 at = x->conf->tensor.target_size;
	if (!at || exec_read_unsure(x, w, sizeof(w), obj + at) || w[1] < w[0] || w[2] < w[1] ||
	    (w[1] - w[0]) & 15 || w[0] & 7)
		return -1;
	struct item *it = exec_item(x, ITEM_OBJECT, read, OBJECT_LIST);
	it->len = exec_copy(x, 8, obj) ? 0 : 8;
	struct exec_values v = {x, w[0], read};
	exec_each(exec_ivalues(x, w[0], w[1], read, EXEC_LIST_MAX), exec_each_leaf, &v);
	return 0;
}

/* An element of a list: of those that are pointers only tensors and lists are read. */
static long exec_each_element(__u32 i, void *arg)
{
	struct exec_values *e = arg;
	__u64 v[2] = {};
	exec_read(e->x, v, sizeof(v), e->base + 16ULL * i);
	if ((__u32)v[1] == IVALUE_TENSOR)
		exec_tensor(e->x, v[0], e->read);
	else if (ivalue_may_point(v[0], (__u32)v[1]) && exec_inner_list(e->x, v[0], e->read))
		exec_item(e->x, ITEM_FAULT, e->read, 0);
	return 0;
}
#endif

/* c10::ListImpl. */
EXEC_FUNCTION int exec_list(const exec_t *x, __u64 impl, __u32 read)
{
	__u64 ends[2] = {};
	__u32 at = x->conf->tensor.target_size;
	if (!at || exec_read(x, ends, sizeof(ends), impl + at)) {
		exec_item(x, ITEM_FAULT, read, 0);
		return 0;
	}
	struct exec_values v = {x, ends[0], read};
	exec_each(exec_ivalues(x, ends[0], ends[1], read, EXEC_LIST_MAX), exec_each_element, &v);
	return 0;
}

/* Whether the base of the view whose autograd meta is at `meta` requires grad: TPART_BASE_*. */
static __always_inline __u32 exec_base_grad(const exec_t *x, __u64 meta)
{
	const struct tensor_read *c = &x->conf->tensor;
	__u64 base = exec_byte(x, meta + c->view_has_base) ? exec_word(x, meta + c->view_base) : 0;
	__u64 base_meta = base ? exec_word(x, base + c->meta) : 0;
	if (!base_meta)
		return TPART_BASE_NO_GRAD;
	if (exec_word(x, base_meta + c->grad_fn) || exec_byte(x, base_meta + c->requires_grad))
		return TPART_BASE_GRAD;
	return TPART_BASE_NO_GRAD;
}

/* Append what belongs to a meta with this vtable and grad_fn; returns TPART_*. */
static __always_inline __u32 exec_beside_meta(const exec_t *x, __u64 meta, __u64 vtable, __u64 node)
{
	const struct tensor_read *c = &x->conf->tensor;
	__u32 flags = TPART_META;
	if (x->is_exit && c->node_seq && node && !exec_copy(x, 8, node + c->node_seq))
		flags |= TPART_NODE;
	if (!node && c->view_vtable && vtable == c->view_vtable &&
	    !exec_byte(x, meta + c->requires_grad))
		flags |= exec_base_grad(x, meta);
	return flags;
}

/* TPART_BASE_* of the autograd meta at `meta`; 0 unless it is a view without a gradient of its
 * own. */
static __always_inline __u32 exec_view_grad(const exec_t *x, __u64 meta)
{
	const struct tensor_read *c = &x->conf->tensor;
	if (!meta || exec_word_unsure(x, meta) != c->view_vtable ||
	    exec_word_unsure(x, meta + c->grad_fn) || exec_byte_unsure(x, meta + c->requires_grad))
		return 0;
	return exec_base_grad(x, meta);
}

/* What the snapshot says of a readable part at `p`: 1, or SNAPSHOT_NODE (symbolizer/torch/layout.h)
 * plus the sequence number of the node that this autograd meta holds. */
static __always_inline __u64 exec_part_valid(const exec_t *x, __u64 p)
{
	const struct tensor_read *c = &x->conf->tensor;
	__u64 vt = exec_word_unsure(x, p), seq = 0;
	if (!c->node_seq || !vt || (vt != c->meta_vtable[0] && vt != c->meta_vtable[1]))
		return 1;
	__u64 node = exec_word_unsure(x, p + c->grad_fn);
	if (!node || exec_read_unsure(x, &seq, sizeof(seq), node + c->node_seq))
		return 1;
	return 2 + seq;
}

/* What is inside an object that may be a list or a string: a std::vector is {begin, end, end of
 * storage}; a std::string {data, length, capacity or the text itself}. */
static __always_inline void exec_contents(exec_t *x, struct item *it, __u32 kind, __u64 obj,
					  __u32 read)
{
	int cow = x->conf->cow_strings;
	__u32 at = x->conf->tensor.target_size;
	__u64 w[3] = {};
	/* A copy-on-write string is a single word; do not read past it. */
	if (!at || exec_read(x, w, cow && kind == OBJECT_STRING ? 8 : sizeof(w), obj + at))
		return;
	if (!cow && w[1] <= STRING_MAX * 16 && w[0] >= 0x10000 &&
	    (w[0] == obj + at + 16 ? w[1] < 16 : w[2] >= w[1])) {
		it->aux |= OBJECT_STRING;
		exec_doubt(x, kind != OBJECT_STRING);
		exec_string(x, w[0], w[1], read);
	} else if (kind != OBJECT_STRING && w[1] >= w[0] && w[2] >= w[1] && !((w[1] - w[0]) & 15) &&
		   !(w[0] & 7)) {
		it->aux |= OBJECT_LIST;
		exec_doubt(x, kind != OBJECT_LIST);
		exec_list(x, obj, read);
	} else if (cow && kind != OBJECT_LIST) {
		exec_doubt(x, kind != OBJECT_STRING);
		if (exec_std_string(x, obj + at, w) || w[1] > STRING_MAX * 16)
			return;
		it->aux |= OBJECT_STRING;
		exec_string(x, w[0], w[1], read);
	}
}

/* The address in the only slot of what may be an object of a class that TorchScript knows; 0: it
 * is none. Its slots are a std::vector<IValue> (ATen/core/ivalue_inl.h, struct Object). */
static __always_inline __u64 exec_slot(const exec_t *x, __u64 obj)
{
	__u64 w[3] = {}, v[2] = {};
	__u32 at = x->conf->tensor.target_size;
	if (!at || exec_read_unsure(x, w, sizeof(w), obj + at + OBJECT_TYPE_SIZE) || (w[0] & 7) ||
	    w[0] < 0x10000 || w[1] - w[0] != 16 || w[2] < w[1] ||
	    exec_read_unsure(x, v, sizeof(v), w[0]))
		return 0;
	return ivalue_may_point(v[0], (__u32)v[1]) ? v[0] : 0;
}

static __always_inline void exec_held(const exec_t *x, __u64 obj, __u32 read)
{
	struct item *it = exec_item(x, ITEM_OBJECT, read, 0);
	if (!it)
		return;
	exec_put_word(x, obj);
	it->len = (__u16)(8 + exec_copy_object(x, OBJECT_SIZE, obj));
}

/* What an IValue points to. If the kind is known its first word, the class, is enough; the object
 * may end soon after. */
static __always_inline void exec_object(const exec_t *as, __u32 tag, __u64 obj, __u32 read)
{
	exec_t own = *as, *x = &own;
	__u32 kind = exec_kind(x, tag, obj);
	exec_doubt(x, !kind);
	__u64 slot = kind ? 0 : exec_slot(x, obj);
	struct item *it = exec_item(x, ITEM_OBJECT, read, slot ? OBJECT_SLOT : 0);
	if (!it)
		return;
	__u32 len = kind ? (exec_copy(x, 8, obj) ? 0 : 8) : exec_copy_object(x, OBJECT_SIZE, obj);
	it->len = (__u16)len;
	if (len)
		exec_contents(x, it, kind, obj, read);
	else
		it->kind = ITEM_FAULT;
	if (len && slot)
		exec_held(x, slot, read);
}

static long exec_each_value(__u32 i, void *arg)
{
	struct exec_values *e = arg;
	__u64 v[2] = {};
	exec_read_sure(e->x, v, sizeof(v), e->base + 16ULL * i);
	if ((__u32)v[1] == IVALUE_TENSOR)
		exec_tensor(e->x, v[0], e->read);
	else if (ivalue_may_point(v[0], (__u32)v[1]))
		exec_object(e->x, (__u32)v[1], v[0], e->read);
	return 0;
}

/* The values on top of a boxed call's stack. */
EXEC_FUNCTION int exec_stack_values(const exec_t *x, __u64 vec, __u32 read)
{
	__u64 ends[2] = {};
	if (exec_read_sure(x, ends, sizeof(ends), vec) || ends[1] < ends[0]) {
		exec_item(x, ITEM_FAULT, read, 0);
		return 0;
	}
	if (ends[1] - ends[0] > STACK_VALUES * 16)
		ends[0] = ends[1] - STACK_VALUES * 16;
	struct exec_values v = {x, ends[0], read};
	exec_each(exec_ivalues(x, ends[0], ends[1], read, STACK_VALUES), exec_each_value, &v);
	return 0;
}

/* at::ITensorListRef: {payload (16 bytes), tag}; tags Unboxed 0, Boxed 1, Materialized 2
 * (ATen/core/IListRef.h). */
static __always_inline void exec_ilist(const exec_t *x, __u64 at, __u32 read)
{
	__u64 v[3] = {};
	exec_read_unsure(x, v, sizeof(v), at);
	__u32 tag = (__u32)v[2];
	if (tag == 0)
		exec_tensors(x, v[0], v[1], read);
	else if (tag == 1)
		exec_list(x, exec_word_unsure(x, v[0]), read);
	else
		exec_item(x, ITEM_FAULT, read, 0);
}

/* The TensorImpl of the Python tensor at `obj`: in one of the two words after its header
 * (THPVariable.cdata, torch/csrc/autograd/python_variable.h; in 1.13 a MaybeOwned, flag first). */
static __always_inline __u64 exec_py_impl(const exec_t *x, __u64 obj)
{
	__u64 w[4] = {}, vt = x->conf->tensor.vt_impl;
	if (!vt || obj < 0x10000 || exec_read_unsure(x, w, sizeof(w), obj))
		return 0;
	if (w[2] >= 0x10000 && exec_word_unsure(x, w[2]) == vt)
		return w[2];
	return w[3] >= 0x10000 && exec_word_unsure(x, w[3]) == vt ? w[3] : 0;
}

/* The tensor of the Python object, or of the first item of the tuple {head, size, first item}
 * (Include/cpython/tupleobject.h). */
static __always_inline void exec_py_tensor(const exec_t *x, __u64 obj, __u32 read)
{
	__u64 impl = exec_py_impl(x, obj);
	if (!impl)
		impl = exec_py_impl(x, exec_word_unsure(x, obj + 24));
	if (impl)
		exec_tensor(x, impl, read);
}

static __always_inline void exec_value(const exec_t *x, __u64 w, __u32 read)
{
	struct item *it = exec_item(x, ITEM_DATA, read, 0);
	if (!it)
		return;
	exec_put_word(x, w);
	it->len = 8;
}

static __always_inline void exec_node(const exec_t *x, __u64 node, __u32 read)
{
	const struct tensor_read *c = &x->conf->tensor;
	struct item *it = exec_item(x, ITEM_DATA, read, 0);
	if (!it)
		return;
	exec_put_word(x, node);
	it->len = c->node_seq && !exec_copy(x, 8, node + c->node_seq) ? 16 : 8;
}

static __always_inline void exec_optional_tensor(const exec_t *x, const struct probe_read *rd,
						 __u64 a, __u32 read)
{
	if (exec_word(x, a + rd->size) & 0xff)
		exec_tensor(x, exec_word(x, a + (__s64)rd->off), read);
	else
		exec_item(x, ITEM_UNSET, read, 0);
}

/* One read of the plan; `sp`: the stack pointer at the entry. */
static __always_inline void exec_run(const exec_t *x, const struct probe_read *rd, __u64 sp,
				     __u32 read)
{
	__u64 a = exec_word_at(x, rd->a), at = a + (__s64)rd->off;
	switch (rd->kind) {
	case READ_WORD:
		exec_value(x, a, read);
		break;
	case READ_MEM:
		exec_bytes(x, rd->deref ? exec_word(x, at) + rd->b : at, rd->size, read);
		break;
	case READ_SLOT:
		exec_bytes(x, sp + (__s64)rd->off, 8, read);
		break;
	case READ_TENSOR:
		exec_tensor(x, exec_word(x, at), read);
		break;
	case READ_OPT_TENSOR:
		exec_optional_tensor(x, rd, a, read);
		break;
	case READ_TENSORS:
		exec_tensors(x, a, exec_word_at(x, rd->b), read);
		break;
	case READ_VECTOR:
		exec_vector(x, at, read);
		break;
	case READ_ARRAY:
		exec_array(x, rd, a, read);
		break;
	case READ_STD_STRING:
		exec_string_object(x, exec_word(x, a) + (__s64)rd->off, read);
		break;
	case READ_LIST:
		exec_list(x, exec_word_unsure(x, at), read);
		break;
	case READ_ILIST:
		exec_ilist(x, at, read);
		break;
	case READ_IVALUES:
		exec_stack_values(x, a, read);
		break;
	case READ_PYTENSOR:
		exec_py_tensor(x, a, read);
		break;
	case READ_NODE:
		exec_node(x, a, read);
		break;
	}
}
