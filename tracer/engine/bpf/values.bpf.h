/* Lists, arrays, strings, IValues. Part of probes.bpf.c. */

struct each {
	struct bpf_thread *t;
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

static __always_inline void put_tensors(struct bpf_thread *t, const struct proc_conf *p, __u64 base,
					__u64 count, __u32 read, int is_exit)
{
	struct item *it =
	    begin_item(t, ITEM_LIST, read, count > 0xffffffff ? 0xffffffff : (__u32)count);
	if (!it)
		return;
	struct each e = {.t = t, .p = p, .base = base, .read = read, .is_exit = is_exit};
	bpf_loop(count > LIST_MAX ? LIST_MAX : (__u32)count, each_tensor, &e, 0);
}

__noinline int put_array(struct bpf_thread *t, __u64 base, __u64 count, __u32 size, __u32 read)
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

static __always_inline void put_string(struct bpf_thread *t, __u64 base, __u64 count, __u32 read)
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

/* {text, length} of a std::string, which is how that of the C++11 ABI begins (libstdc++,
 * bits/basic_string.h); a copy-on-write one has its length before the text. */
static __always_inline long std_string(const struct proc_conf *p, __u64 at, __u64 s[2])
{
	if (!p->cow_strings)
		return read_user(s, 16, at);
	long r = read_user(&s[0], 8, at);
	return r ? r : read_user(&s[1], 8, s[0] - COW_LENGTH);
}

static __always_inline void put_string_at(struct bpf_thread *t, __u64 at, __u32 read)
{
	__u64 w[3] = {};
	if (read_user(w, sizeof(w), at))
		begin_item(t, ITEM_FAULT, read, 0);
	else if (w[0] & 0xff)
		put_string(t, w[1], w[2], read);
	else
		begin_item(t, ITEM_UNSET, read, 0);
}

/* Append raw IValues, at most 2048 bytes; returns how many. */
static __always_inline __u32 put_ivalues(struct bpf_thread *t, __u64 begin, __u64 end, __u32 read,
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

/* An element of a list: of those that are pointers only tensors are read. */
static long each_list_value(__u32 i, void *arg)
{
	struct each *e = arg;
	__u64 v[2] = {};
	read_user(v, sizeof(v), e->base + 16ULL * i);
	if ((__u32)v[1] == IVALUE_TENSOR)
		put_tensor(e->t, e->p, v[0], e->read, e->is_exit);
	else if (ivalue_may_point(v[0], (__u32)v[1]))
		begin_item(e->t, ITEM_FAULT, e->read, 0);
	return 0;
}

__noinline int put_list(struct bpf_thread *t, const struct proc_conf *p, __u64 impl, __u32 read,
			int is_exit)
{
	if (!t || !p)
		return 0;
	__u64 ends[2] = {};
	if (read_user(ends, sizeof(ends), impl + p->tensor.target_size) || !p->tensor.target_size) {
		begin_item(t, ITEM_FAULT, read, 0);
		return 0;
	}
	struct each e = {.t = t, .p = p, .base = ends[0], .read = read, .is_exit = is_exit};
	bpf_loop(put_ivalues(t, ends[0], ends[1], read, 128), each_list_value, &e, 0);
	return 0;
}

/* What an IValue points to. A std::vector is {begin, end, end of storage}; a std::string {data,
 * length, capacity or the text itself}. */
static __always_inline int put_object(struct bpf_thread *t, const struct proc_conf *p, __u64 obj,
				      __u32 read, int is_exit)
{
	if (!t || !p)
		return 0;
	struct item *it = begin_item(t, ITEM_OBJECT, read, 0);
	if (!it)
		return 0;
	__u32 there = copy_object(t, OBJECT_SIZE, obj);
	if (!there) {
		it->kind = ITEM_FAULT;
		return 0;
	}
	it->len = (__u16)there;
	__u64 at = p->tensor.target_size, w[3] = {};
	if (!at || read_user(w, sizeof(w), obj + at))
		return 0;
	int cow = p->cow_strings;
	if (!cow && w[1] <= STRING_MAX * 16 && w[0] >= 0x10000 &&
	    (w[0] == obj + at + 16 ? w[1] < 16 : w[2] >= w[1])) {
		it->aux = OBJECT_STRING;
		put_string(t, w[0], w[1], read);
	} else if (w[1] >= w[0] && w[2] >= w[1] && !((w[1] - w[0]) & 15) && !(w[0] & 7)) {
		it->aux = OBJECT_LIST;
		put_list(t, p, obj, read, is_exit);
	} else if (cow && !std_string(p, obj + at, w) && w[1] <= STRING_MAX * 16) {
		it->aux = OBJECT_STRING;
		put_string(t, w[0], w[1], read);
	}
	return 0;
}

static long each_stack_value(__u32 i, void *arg)
{
	struct each *e = arg;
	__u64 v[2] = {};
	read_user(v, sizeof(v), e->base + 16ULL * i);
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
__noinline int put_stack_values(struct bpf_thread *t, const struct proc_conf *p, __u64 vec,
				__u32 read, int is_exit)
{
	if (!t || !p)
		return 0;
	__u64 ends[2] = {};
	if (read_user(ends, sizeof(ends), vec) || ends[1] < ends[0]) {
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
static __always_inline void put_ilist(struct bpf_thread *t, const struct proc_conf *p, __u64 at,
				      __u32 read, int is_exit)
{
	__u64 v[3] = {};
	read_user(v, sizeof(v), at);
	__u32 tag = (__u32)v[2];
	if (tag == 0) {
		put_tensors(t, p, v[0], v[1], read, is_exit);
	} else if (tag == 1) {
		put_list(t, p, user_word(v[0]), read, is_exit);
	} else {
		begin_item(t, ITEM_FAULT, read, 0);
	}
}
