/* Prints of the code objects of a sample's frames (symbolizer/plan/code_print.h), and copies of
 * those that were not sent before. Part of samples.bpf.c. */

#include "symbolizer/plan/code_print.h"

#define COPIES_BYTES (8 << 20)
#define MEMO 64		/* a power of two */
#define COPY_STRING 384 /* bytes of a str that has no more than PRINT_TEXT bytes of text */
#define COPY_PIECE 2048 /* of a line table */
#define COPY_LONGEST (1 << 20)
#define COPY_MOST 4096 /* bytes of a record */
#define COPY_STEPS 144 /* records and code objects of a sample */

/* What a sample needs besides its thread. */
struct printer {
	__u64 words[PRINT_PIECE / 8];
	__u64 object[64];
	/* The frames of a sample often have the same code objects and file names: their prints, by
	 * address, of sample number `turn`. */
	__u64 of[MEMO], is[MEMO], at[MEMO];
	__u64 turn;
	__u64 fresh[FRESH]; /* the prints of bpf_thread.fresh */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct printer);
} printers SEC(".maps");

/* Records of code objects. They have a ring of their own, as frames must not take their place: what
 * is not sent while the code object lives cannot be had later. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COPIES_BYTES);
} copies SEC(".maps");

/* What was sent of a code object: so many bytes of its line table, and what else is copied of it if
 * there are any. */
struct told_code {
	__u64 table; /* its address */
	__u32 sent, size;
};

/* Code objects, by told_key. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, __u64);
	__type(value, struct told_code);
} told_prints SEC(".maps");

static __always_inline int is_told(const struct told_code *told)
{
	return told && told->sent >= told->size;
}

static __always_inline __u64 told_key(__u32 pid, __u64 code, __u64 print)
{
	return print_mix(print_mix(print, code), pid);
}

static __always_inline __u32 memo_place(__u64 addr)
{
	return (__u32)(addr >> 4 ^ addr >> 10) & (MEMO - 1);
}

static __always_inline int memo_has(const struct printer *m, __u64 addr)
{
	__u32 i = memo_place(addr);
	return m->of[i] == addr && m->at[i] == m->turn;
}

static __always_inline void memo_put(struct printer *m, __u64 addr, __u64 print)
{
	__u32 i = memo_place(addr);
	m->of[i] = addr;
	m->is[i] = print;
	m->at[i] = m->turn;
}

/* Hash the `n` bytes at `addr`; 0: unreadable. */
__noinline __u64 print_piece(struct printer *m, __u64 h, __u64 addr, __u32 n)
{
	__u64 len = n;
	if (!m)
		return 0;
	OPAQUE(len);
	if (len > PRINT_PIECE || (len && read_user(m->words, (__u32)len, addr)))
		return 0;
	h = print_bytes(h, m->words, (__u32)len);
	return h ? h : 1;
}

__noinline __u64 print_str(struct printer *m, const struct proc_conf *p, __u64 addr)
{
	if (!m || !p)
		return 0;
	if (memo_has(m, addr))
		return m->is[memo_place(addr)];
	__u64 head[8] = {}, text = 0, bytes = 0, h = 0;
	if (!read_user(head, PRINT_STR_HEAD, addr) &&
	    !print_text(&p->code, addr, head, &text, &bytes)) {
		__u32 n = bytes < PRINT_TEXT ? (__u32)bytes : PRINT_TEXT;
		h = print_piece(m, print_mix(2, bytes), text + bytes - n, n);
	}
	memo_put(m, addr, h);
	return h;
}

/* A line table: its first and its last bytes, which are all of it unless it is long. */
static __always_inline __u64 print_table(struct printer *m, const struct py_code_read *c,
					 __u64 addr)
{
	__u64 size = 0, data = addr + c->bytes_data;
	if (read_user(&size, sizeof(size), addr + c->bytes_size) || size > PRINT_LONGEST)
		return 0;
	__u32 first = size < PRINT_PIECE ? (__u32)size : PRINT_PIECE;
	__u64 left = size - first;
	__u32 last = left < PRINT_PIECE ? (__u32)left : PRINT_PIECE;
	__u64 h = print_piece(m, print_mix(3, size), data, first);
	return h && last ? print_piece(m, h, data + size - last, last) : h;
}

static __always_inline __u64 object_word(const struct printer *m, __u32 off)
{
	return m->object[(off >> 3) & 63];
}

/* The print of the code object at `code`; 0: unreadable. */
__noinline __u64 print_code(struct printer *m, const struct proc_conf *p, __u64 code)
{
	if (!m || !p)
		return 0;
	const struct py_code_read *c = &p->code;
	__u64 size = c->size;
	OPAQUE(size);
	if (size > sizeof(m->object) || read_user(m->object, (__u32)size, code))
		return 0;
	__u64 filename = object_word(m, c->filename), name = object_word(m, c->name);
	__u64 table = object_word(m, c->linetable);
	__u32 line = (__u32)(object_word(m, c->firstlineno) >> 8 * (c->firstlineno & 4));
	__u64 file = print_str(m, p, filename);
	return print_whole(line, file, print_str(m, p, name), print_table(m, c, table));
}

struct printing {
	struct bpf_thread *t;
	struct printer *m;
	const struct proc_conf *p;
	__u32 at; /* of the next frame, in the buffer */
	__u32 pid, left;
	__u32 copy; /* number of the next code object to send */
};

/* Note the code object as one to send, unless all of it was. */
static __always_inline void meet_print(struct printing *k, __u64 code, __u64 print)
{
	__u64 key = told_key(k->pid, code, print), n = k->t->nfresh;
	if (!print || n >= FRESH || is_told(bpf_map_lookup_elem(&told_prints, &key)))
		return;
	k->t->fresh[n & (FRESH - 1)] = code;
	k->m->fresh[n & (FRESH - 1)] = print;
	k->t->nfresh = n + 1;
}

static long each_print(__u32 i, void *arg)
{
	struct printing *k = arg;
	__u64 at = k->at;
	OPAQUE(at);
	if (i >= k->left || at > BUF_MAX)
		return 1;
	__u64 code = *(__u64 *)&k->t->buf[at], print;
	k->at = (__u32)at + STACK_FRAME_SIZE;
	if (memo_has(k->m, code)) {
		put_word(k->t, k->m->is[memo_place(code)]);
		return 0;
	}
	print = print_code(k->m, k->p, code);
	memo_put(k->m, code, print);
	meet_print(k, code, print);
	put_word(k->t, print);
	return 0;
}

/* Append the prints of the `n` frames that are in the buffer from `at` on. */
static __always_inline void put_prints(struct bpf_thread *t, struct printer *m,
				       const struct proc_conf *p, __u32 pid, __u32 at, __u32 n)
{
	struct item *it = begin_item(t, ITEM_DATA, 1, 0);
	if (!it)
		return;
	__u32 start = t->off;
	struct printing k = {.t = t, .m = m, .p = p, .at = at, .pid = pid, .left = n};
	m->turn++;
	t->nfresh = 0;
	bpf_loop(PY_FRAMES, each_print, &k, 0);
	it->len = (__u16)(t->off - start);
}

/* Start over with a line table that is not the one that the code object had before. */
static __always_inline void tell_table(const struct py_code_read *c, __u64 code,
				       struct told_code *told)
{
	__u64 table = user_word(code + c->linetable);
	__u64 size = user_word(table + c->bytes_size) + c->bytes_data;
	/* A longer one is read later from the process. */
	__u32 copied = size > COPY_LONGEST ? COPY_PIECE : (__u32)size;
	if (told->table != table || told->size != copied)
		*told = (struct told_code){.table = table, .size = copied};
}

/* Append the next piece of the line table. Whether it could be read. */
static __always_inline int put_piece(struct bpf_thread *t, const struct told_code *told)
{
	__u32 left = told->size - told->sent, n = left < COPY_PIECE ? left : COPY_PIECE;
	return put_region(t, told->table + told->sent, n) == n;
}

/* Send the next record of a code object, and note what it has. Nonzero if that is lost, or cannot
 * be read now. */
static __always_inline long send_copy(struct bpf_thread *t, const struct proc_conf *p, __u32 pid,
				      __u64 code, __u64 print, struct told_code *told)
{
	const struct py_code_read *c = &p->code;
	struct hit *h = (struct hit *)t->buf;
	h->kind = HIT_CODE_MET;
	h->tid = pid;
	h->sp = code;
	h->seq = print;
	t->off = sizeof(*h);
	tell_table(c, code, told);
	if (!told->sent) {
		put_region(t, code, c->size & 0x1ff);
		put_region(t, user_word(code + c->filename), COPY_STRING);
		put_region(t, user_word(code + c->name), COPY_STRING);
	}
	int whole = put_piece(t, told);
	if (!whole && told->sent)
		return -1;
	/* What is not present though it was just made lives long: it is read later. */
	told->sent =
	    whole && told->size - told->sent > COPY_PIECE ? told->sent + COPY_PIECE : told->size;
	__u64 size = t->off;
	OPAQUE(size);
	if (size > COPY_MOST)
		return -1;
	h->size = (__u32)size;
	h->flags = is_told(told) ? 0 : HIT_MORE;
	return bpf_ringbuf_output(&copies, t->buf, size, BPF_RB_NO_WAKEUP);
}

/* Send a record of the code object whose turn it is. */
static long each_copy(__u32 i, void *arg)
{
	struct printing *k = arg;
	__u32 n = k->copy;
	(void)i;
	if (n >= k->t->nfresh)
		return 1;
	__u64 code = k->t->fresh[n & (FRESH - 1)], print = k->m->fresh[n & (FRESH - 1)];
	__u64 key = told_key(k->pid, code, print);
	struct told_code now = {}, *was = bpf_map_lookup_elem(&told_prints, &key);
	if (was)
		now = *was;
	if (is_told(was) || send_copy(k->t, k->p, k->pid, code, print, &now) ||
	    bpf_map_update_elem(&told_prints, &key, &now, BPF_ANY) || is_told(&now))
		k->copy = n + 1;
	return 0;
}

/* Send the code objects that were met now: they may be gone before user space could read them. What
 * finds no room is sent with the next sample that shows it. */
static __always_inline void send_copies(struct bpf_thread *t, struct printer *m,
					const struct proc_conf *p, __u32 pid)
{
	struct printing k = {.t = t, .m = m, .p = p, .pid = pid};
	if (t->nfresh &&
	    bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA) + 2 * COPY_MOST <= COPIES_BYTES)
		bpf_loop(COPY_STEPS, each_copy, &k, 0);
	t->nfresh = 0;
}
