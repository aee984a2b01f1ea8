/* Records of the code objects that stacks name. Part of probes.bpf.c. */

static __always_inline void put_region(struct bpf_thread *t, __u64 addr, __u32 len)
{
	struct item *it = begin_item(t, ITEM_DATA, 0, 0);
	if (!it)
		return;
	put_word(t, addr);
	it->len = (__u16)(8 + copy_object(t, len, addr));
}

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
