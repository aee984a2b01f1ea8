#include <stddef.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/plan_reader.h"

static struct hit *start_part(struct hit_buf *b)
{
	__u8 *place = b->place && !b->dry && !b->inner ? b->place(b->arg) : NULL;
	__u8 *start = place ? place : b->own;
	b->placed = place;
	b->lean = b->sums && !b->dry && (!place || b->tight);
	b->row = NULL;
	b->hit = (struct hit *)start;
	b->at = start + sizeof(*b->hit);
	b->full = start + HIT_BUF_MAX;
	return b->hit;
}

struct hit *hit_buf_begin(struct hit_buf *b, bool *gap)
{
	b->gap = gap;
	return start_part(b);
}

static void send_part(struct hit_buf *b, __u8 more)
{
	if (b->dry)
		return;
	b->hit->size = (__u32)(b->at - (__u8 *)b->hit);
	b->hit->flags = (__u8)((b->hit->flags & ~HIT_MORE) | more | (*b->gap ? HIT_GAP : 0));
	if (b->lean && (b->placed || b->hit->kind == HIT_EXIT))
		b->hit->flags |= HIT_LEAN;
	if (b->stop && !more)
		b->hit->flags |= HIT_STOPPED;
	*b->gap = b->sink(b->arg, b->hit) != 0;
	b->held |= b->stop && !more && !*b->gap;
}

void hit_buf_go_on(struct hit_buf *b)
{
	struct hit head = *b->hit;
	send_part(b, HIT_MORE);
	head.flags |= HIT_CONT;
	*start_part(b) = head;
}

void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len)
{
	void *at = hit_buf_room(b, len);
	memcpy(at, bytes, len);
	hit_buf_grow(b, len);
	return at;
}

void hit_buf_send(struct hit_buf *b)
{
	send_part(b, 0);
}

/* Tensors are read as by tracer/engine/bpf/reads.bpf.h, function by function; all else by the
 * same code. */

enum { COPY_MAX = 16 * LIST_MAX };

static struct item *begin(const struct reading *r, uint8_t kind, uint8_t read, uint32_t aux)
{
	return hit_buf_item(r->out, kind, read, aux);
}

/* Append `len` bytes from `addr`, padded to 8. Returns where they went, or NULL with nothing
 * appended when they cannot be read. */
static void *copy(const struct reading *r, uint32_t len, uint64_t addr)
{
	void *at = len > COPY_MAX ? NULL : hit_buf_room(r->out, len);
	if (!at || remote_read(r->mem, addr, at, len))
		return NULL;
	hit_buf_grow(r->out, len);
	return at;
}

/* The same for an object that may end before `len` (at most COPY_MAX), by remote_read_most. *there:
 * the bytes that were readable. */
static void *copy_object(const struct reading *r, uint32_t len, uint64_t addr, uint32_t *there)
{
	void *at = hit_buf_room(r->out, len);
	*there = remote_read_most(r->mem, addr, at, len);
	if (!*there)
		return NULL;
	hit_buf_grow(r->out, len);
	return at;
}

/* Whether pointers can be followed unchecked: the layout is known, and the object is certainly of
 * the class it looks like. */
static bool is_certain(const struct reading *r)
{
	return !r->unsure && !r->conf->tensor.discover;
}

static void *copy_live(const struct reading *r, uint32_t len, uint64_t addr)
{
	if (!is_certain(r))
		return copy(r, len, addr);
	void *at = len > COPY_MAX ? NULL : hit_buf_room(r->out, len);
	if (!at || remote_live(r->mem, addr, at, len))
		return NULL;
	hit_buf_grow(r->out, len);
	return at;
}

static inline int live(const struct reading *r, uint64_t addr, void *to, size_t len)
{
	if (is_certain(r))
		return remote_live(r->mem, addr, to, len);
	return remote_read(r->mem, addr, to, len);
}

static uint64_t live_word(const struct reading *r, uint64_t addr)
{
	uint64_t w = 0;
	live(r, addr, &w, sizeof(w));
	return w;
}

static uint8_t live_byte(const struct reading *r, uint64_t addr)
{
	uint8_t b = 0;
	live(r, addr, &b, sizeof(b));
	return b;
}

static void put_tensor(const struct reading *r, uint64_t impl, uint8_t read);

/* What tracer/engine/plan_exec.h asks for. */

enum { EXEC_LIST_MAX = LIST_MAX };

#define EXEC_FUNCTION static
#define exec_item(r, kind, read, aux) begin(r, kind, (uint8_t)(read), aux)
#define exec_copy(r, len, addr) (copy_live(r, len, addr) ? 0 : -1)
#define exec_put_word(r, w) hit_buf_word((r)->out, w)
#define exec_read(r, to, n, addr) live(r, addr, to, n)
#define exec_read_sure(r, to, n, addr) remote_live((r)->mem, addr, to, n)
#define exec_read_unsure(r, to, n, addr) remote_read((r)->mem, addr, to, n)
#define exec_word live_word
#define exec_word_unsure(r, addr) remote_word((r)->mem, addr)
#define exec_byte live_byte
#define exec_byte_unsure(r, addr) remote_byte((r)->mem, addr)
#define exec_tensor(r, impl, read) put_tensor(r, impl, (uint8_t)(read))
#define exec_kind(r, tag, obj) remote_object((r)->mem, tag, obj)
#define exec_doubt(r, is_unsure) ((r)->unsure = (is_unsure))

typedef struct reading exec_t;

/* Of what is not there nothing is appended. */
static uint32_t exec_copy_object(const exec_t *r, uint32_t len, uint64_t addr)
{
	uint8_t *start = r->out->at;
	uint32_t there;
	if (!copy_object(r, len, addr, &there))
		return 0;
	r->out->at = start + there;
	return there;
}

static inline void exec_each(uint32_t n, long (*fn)(uint32_t, void *), void *arg)
{
	for (uint32_t i = 0; i < n; i++)
		fn(i, arg);
}

static uint64_t exec_word_at(const exec_t *r, uint8_t loc)
{
	if (loc >= LOC_FP)
		return r->fp && loc < LOC_FP + ARCH_FP_ARGS ? r->fp[2 * (loc - LOC_FP)] : 0;
	if (loc & LOC_NOW)
		return (loc & 31) < ARCH_REGS ? r->regs[loc & 31] : 0;
	return r->w[loc & (LOC_MAX - 1)];
}

#include "tracer/engine/plan_exec.h"

static uint64_t word_of(const void *bytes, uint32_t off)
{
	return *(const uint64_t *)((const uint8_t *)bytes + (off & 0xf8));
}

/* Append sizes and strides that are stored out of line; TPART_OUTLINE when there were any. */
static uint32_t put_outline(const struct reading *r, const void *window)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint64_t ndim = word_of(window, c->sizes);
	if (ndim <= c->inline_dims || ndim > 64)
		return 0;
	uint64_t line = *((const uint64_t *)window + (c->sizes & 0xf8) / 8 + 1);
	return copy_live(r, (uint32_t)ndim * 16, line) ? TPART_OUTLINE : 0;
}

static uint32_t meta_part(const struct reading *r, uint64_t meta)
{
	const struct tensor_read *c = &r->conf->tensor;
	const void *bytes = copy_live(r, c->meta_len, meta + c->meta_from);
	if (!bytes)
		return TPART_META_FAULT;
	return exec_beside_meta(r, meta, word_of(bytes, 0), word_of(bytes, c->grad_fn));
}

/* A word known to be readable. */
static inline uint64_t sure_word(const struct reading *r, uint64_t addr)
{
	uint64_t w = 0;
	remote_live(r->mem, addr, &w, sizeof(w));
	return w;
}

static uint32_t packed_meta(const struct reading *r, uint64_t meta)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint64_t *to = (uint64_t *)r->out->at;
	to[0] = sure_word(r, meta);
	to[1] = sure_word(r, meta + c->grad_fn);
	to[2] = sure_word(r, meta + (c->requires_grad & ~7U));
	hit_buf_grow(r->out, 24);
	return exec_beside_meta(r, meta, to[0], to[1]);
}

/* Append the parts that a tensor's window points to; TPART_* of those appended. */
static uint32_t tensor_parts(const struct reading *r, const void *window)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint32_t flags = 0;
	uint64_t storage = word_of(window, c->storage), meta = word_of(window, c->meta);
	if (storage && c->storage_len && c->storage_len <= PART_MAX &&
	    copy_live(r, c->storage_len, storage + c->storage_from))
		flags |= TPART_STORAGE;
	if (meta && c->meta_len && c->meta_len <= PART_MAX)
		flags |= meta_part(r, meta);
	return flags | put_outline(r, window);
}

static void snapshot_part(const struct reading *r, uint64_t p)
{
	static const uint8_t nothing[PART_MAX];
	uint32_t there;
	hit_buf_word(r->out, p);
	uint64_t *state = hit_buf_put(r->out, nothing, 16); /* valid, len */
	if (p >= 0x10000 && p < (1ULL << 47) && !(p & 7) && copy_object(r, PART_MAX, p, &there)) {
		state[0] = exec_part_valid(r, p);
		state[1] = there;
	} else {
		hit_buf_put(r->out, nothing, PART_MAX);
	}
}

static void snapshot(const struct reading *r, uint8_t read, uint64_t impl)
{
	enum { PARTS = 3, FIRST = 0x10 };
	const struct tensor_read *c = &r->conf->tensor;
	struct item *it = begin(r, ITEM_SNAPSHOT, read, 0);
	const uint8_t *start = r->out->at;
	uint32_t there;
	hit_buf_word(r->out, impl);
	const void *window = copy_object(r, WIN_MAX, impl, &there);
	if (!window) {
		it->aux = TPART_FAULT;
		it->len = 8;
		return;
	}
	hit_buf_word(r->out, there);
	for (uint32_t k = 0; k < PARTS; k++)
		snapshot_part(r, word_of(window, FIRST + 8 * k));
	if (c->sizes)
		it->aux = put_outline(r, window);
	if (c->view_vtable)
		it->aux |= exec_view_grad(r, word_of(window, c->meta));
	it->len = (uint16_t)(r->out->at - start);
}

/* Append a tensor in the packed form (TPART_PACKED). */
static void put_packed(const struct reading *r, uint64_t impl, uint8_t read)
{
	const struct tensor_read *c = &r->conf->tensor;
	struct item *it = begin(r, ITEM_TENSOR, read, TPART_PACKED);
	uint64_t *const start = (uint64_t *)r->out->at, *to = start;
	uint64_t storage = sure_word(r, impl + c->storage), meta = sure_word(r, impl + c->meta);
	uint64_t dims = impl + c->sizes + 8, strides = dims + 8ULL * c->inline_dims;
	uint64_t ndim = sure_word(r, dims - 8), held = ndim <= c->inline_dims ? ndim : 0;
	*to++ = impl;
	*to++ = sure_word(r, impl);
	*to++ = storage;
	*to++ = meta;
	*to++ = ndim;
	for (uint64_t i = 0; i < held; i++) {
		to[i] = sure_word(r, dims + 8 * i);
		to[held + i] = sure_word(r, strides + 8 * i);
	}
	to += 2 * held;
	for (uint64_t at = impl + c->tail, end = impl + c->win_len; at < end; at += 8)
		*to++ = sure_word(r, at);
	uint32_t parts = storage ? TPART_STORAGE : 0;
	if (storage)
		*to++ = sure_word(r, storage + c->storage_from);
	r->out->at = (uint8_t *)to;
	if (meta && c->meta_len)
		parts |= c->pack_meta ? packed_meta(r, meta) : meta_part(r, meta);
	if (ndim > c->inline_dims && ndim <= 64 &&
	    copy_live(r, (uint32_t)ndim * 16, sure_word(r, dims)))
		parts |= TPART_OUTLINE;
	it->aux |= parts;
	it->len = (uint16_t)(r->out->at - (uint8_t *)start);
}

static void put_tensor(const struct reading *r, uint64_t impl, uint8_t read)
{
	const struct tensor_read *c = &r->conf->tensor;
	if (!impl || impl == c->undefined) {
		struct item *u = begin(r, ITEM_TENSOR, read, TPART_UNDEFINED);
		hit_buf_word(r->out, impl);
		u->len = 8;
		return;
	}
	if (c->discover) {
		snapshot(r, read, impl);
		return;
	}
	if (REMOTE_IS_OWN && c->tail && is_certain(r)) {
		put_packed(r, impl, read);
		return;
	}
	struct item *it = begin(r, ITEM_TENSOR, read, 0);
	const uint8_t *start = r->out->at;
	hit_buf_word(r->out, impl);
	const void *window = c->win_len <= WIN_MAX ? copy_live(r, c->win_len, impl) : NULL;
	it->aux = window ? tensor_parts(r, window) : TPART_FAULT;
	it->len = (uint16_t)(r->out->at - start);
}

int plan_reader_std_string(const struct reading *r, uint64_t at, uint64_t s[2])
{
	__u64 text[2] = {0};
	int code = (int)exec_std_string(r, at, text);
	s[0] = text[0];
	s[1] = text[1];
	return code;
}

/* Whether a lean record has it, too: what tells the op, and the forward op of a node. */
static bool is_needed(const struct reading *r, unsigned read)
{
	return r->plan->identity >> read & 1 ||
	       (r->out->placed && r->plan->flags & PLAN_BACKWARD && read == NODE_READ);
}

void plan_reader_run(const struct reading *r)
{
	uint8_t from = r->is_exit ? r->plan->nentry : 0;
	uint8_t n = r->is_exit ? r->plan->nexit : r->plan->nentry;
	for (uint8_t i = 0; i < n && from + i < PLAN_READS; i++)
		if (!r->out->lean || is_needed(r, from + i))
			exec_run(r, &r->plan->read[from + i], r->sp, (uint8_t)(from + i));
}
