#include "tracer/engine/plan_reader.h"

#include <stddef.h>

#include "symbolizer/code/arch_x86_64.h"

/* The checks and limits match those of probes.bpf.c, function by function. */

enum { COPY_MAX = 16 * LIST_MAX };

static struct item *begin(const struct reading *r, uint8_t kind, uint8_t read, uint32_t aux)
{
	return hit_buf_item(r->out, kind, read, aux);
}

static uint32_t cut32(uint64_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
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

static uint64_t word_of(const void *bytes, uint32_t off)
{
	return *(const uint64_t *)((const uint8_t *)bytes + (off & 0xf8));
}

static uint32_t base_grad(const struct reading *r, uint64_t meta)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint64_t base =
	    live_byte(r, meta + c->view_has_base) ? live_word(r, meta + c->view_base) : 0;
	uint64_t base_meta = base ? live_word(r, base + c->meta) : 0;
	if (!base_meta)
		return TPART_BASE_NO_GRAD;
	if (live_word(r, base_meta + c->grad_fn) || live_byte(r, base_meta + c->requires_grad))
		return TPART_BASE_GRAD;
	return TPART_BASE_NO_GRAD;
}

/* TPART_BASE_* of the autograd meta at `meta`; 0 unless it is a view without a gradient of its own.
 */
static uint32_t view_grad(const struct reading *r, uint64_t meta)
{
	const struct tensor_read *c = &r->conf->tensor;
	if (!meta || remote_word(r->mem, meta) != c->view_vtable ||
	    remote_word(r->mem, meta + c->grad_fn) || remote_byte(r->mem, meta + c->requires_grad))
		return 0;
	return base_grad(r, meta);
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

/* Append what belongs to a meta with this vtable and grad_fn; returns TPART_*. */
static uint32_t beside_meta(const struct reading *r, uint64_t meta, uint64_t vtable, uint64_t node)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint32_t flags = TPART_META;
	if (r->is_exit && c->node_seq && node && copy_live(r, 8, node + c->node_seq))
		flags |= TPART_NODE;
	if (!node && c->view_vtable && vtable == c->view_vtable &&
	    !live_byte(r, meta + c->requires_grad))
		flags |= base_grad(r, meta);
	return flags;
}

static uint32_t meta_part(const struct reading *r, uint64_t meta)
{
	const struct tensor_read *c = &r->conf->tensor;
	const void *bytes = copy_live(r, c->meta_len, meta + c->meta_from);
	if (!bytes)
		return TPART_META_FAULT;
	return beside_meta(r, meta, word_of(bytes, 0), word_of(bytes, c->grad_fn));
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
	return beside_meta(r, meta, to[0], to[1]);
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

/* 1, or 2 + the sequence number of the node that this autograd meta holds
 * (symbolizer/torch/layout.h). */
static uint64_t part_valid(const struct reading *r, uint64_t p)
{
	const struct tensor_read *c = &r->conf->tensor;
	uint64_t vt = remote_word(r->mem, p), seq;
	if (!c->node_seq || !vt || (vt != c->meta_vtable[0] && vt != c->meta_vtable[1]))
		return 1;
	uint64_t node = remote_word(r->mem, p + c->grad_fn);
	if (!node || remote_read(r->mem, node + c->node_seq, &seq, sizeof(seq)))
		return 1;
	return 2 + seq;
}

static void snapshot_part(const struct reading *r, uint64_t p)
{
	static const uint8_t nothing[PART_MAX];
	uint32_t there;
	hit_buf_word(r->out, p);
	uint64_t *state = hit_buf_put(r->out, nothing, 16); /* valid, len */
	if (p >= 0x10000 && p < (1ULL << 47) && !(p & 7) && copy_object(r, PART_MAX, p, &there)) {
		state[0] = part_valid(r, p);
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
		it->aux |= view_grad(r, word_of(window, c->meta));
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

static void put_tensors(const struct reading *r, uint64_t base, uint64_t count, uint8_t read)
{
	begin(r, ITEM_LIST, read, cut32(count));
	count = count > LIST_MAX ? LIST_MAX : count;
	for (uint64_t i = 0; i < count; i++)
		put_tensor(r, live_word(r, base + 8 * i), read);
}

static void put_bytes(const struct reading *r, uint64_t addr, uint32_t size, uint8_t read)
{
	struct item *it = begin(r, ITEM_DATA, read, 0);
	if (copy_live(r, size, addr))
		it->len = (uint16_t)size;
	else
		it->kind = ITEM_FAULT;
}

static void put_array(const struct reading *r, uint64_t base, uint64_t count, uint32_t size,
		      uint8_t read)
{
	enum { ELEMENT_MAX = 64, BYTES_MAX = 2048 };
	struct item *it = begin(r, ITEM_DATA, read, cut32(count));
	if (!base || !count || !size || size > ELEMENT_MAX)
		return;
	uint64_t bytes = (count > LIST_MAX ? LIST_MAX : count) * size;
	uint32_t len = bytes > BYTES_MAX ? BYTES_MAX : (uint32_t)bytes;
	if (copy_live(r, len, base))
		it->len = (uint16_t)len;
	else
		it->kind = ITEM_FAULT;
}

static void put_string(const struct reading *r, uint64_t base, uint64_t count, uint8_t read)
{
	struct item *it = begin(r, ITEM_STRING, read, cut32(count));
	uint32_t len = count > STRING_MAX ? STRING_MAX : (uint32_t)count;
	if (!len || copy_live(r, len, base))
		it->len = (uint16_t)len;
	else
		it->kind = ITEM_FAULT;
}

static void put_string_at(const struct reading *r, uint64_t at, uint8_t read)
{
	uint64_t w[3];
	if (remote_read(r->mem, at, w, sizeof(w)))
		begin(r, ITEM_FAULT, read, 0);
	else if (w[0] & 0xff)
		put_string(r, w[1], w[2], read);
	else
		begin(r, ITEM_UNSET, read, 0);
}

int plan_reader_std_string(const struct reading *r, uint64_t at, uint64_t s[2])
{
	if (!r->conf->cow_strings)
		return live(r, at, s, 2 * sizeof(*s));
	int code = live(r, at, &s[0], sizeof(*s));
	return code ? code : live(r, s[0] - COW_LENGTH, &s[1], sizeof(*s));
}

static void put_std_string(const struct reading *r, uint64_t at, uint8_t read)
{
	uint64_t s[2] = {0};
	plan_reader_std_string(r, at, s);
	put_string(r, s[0], s[1], read);
}

/* Append raw IValues, at most `most`; returns how many. */
static uint32_t put_ivalues(const struct reading *r, uint64_t first, uint64_t end, uint8_t read,
			    uint32_t most)
{
	uint64_t n = end > first ? (end - first) / 16 : 0;
	struct item *it = begin(r, ITEM_DATA, read, cut32(n));
	uint32_t take = n > most ? most : (uint32_t)n;
	if (take && !copy_live(r, take * 16, first)) {
		it->kind = ITEM_FAULT;
		return 0;
	}
	it->len = (uint16_t)(take * 16);
	return take;
}

static void put_list(const struct reading *r, uint64_t impl, uint8_t read)
{
	uint64_t ends[2], v[2];
	if (live(r, impl + r->conf->tensor.target_size, ends, sizeof(ends)) ||
	    !r->conf->tensor.target_size) {
		begin(r, ITEM_FAULT, read, 0);
		return;
	}
	uint32_t n = put_ivalues(r, ends[0], ends[1], read, LIST_MAX);
	for (uint32_t i = 0; i < n; i++) {
		live(r, ends[0] + 16ULL * i, v, sizeof(v));
		if ((uint32_t)v[1] == IVALUE_TENSOR)
			put_tensor(r, v[0], read);
		else if (ivalue_may_point(v[0], (uint32_t)v[1]))
			begin(r, ITEM_FAULT, read, 0);
	}
}

/* What an IValue points to. A std::vector is {begin, end, end of storage}; a std::string {data,
 * length, capacity or the text itself}. */
static void put_object(const struct reading *as, uint32_t tag, uint64_t obj, uint8_t read)
{
	struct reading own = *as, *r = &own;
	unsigned kind = remote_object(r->mem, tag, obj);
	own.unsure = !kind;
	struct item *it = begin(r, ITEM_OBJECT, read, 0);
	uint8_t *start = r->out->at;
	/* If the kind is known its first word, the class, is enough; the object may end soon after.
	 */
	uint32_t len = 8;
	if (kind ? !copy_live(r, len, obj) : !copy_object(r, OBJECT_SIZE, obj, &len)) {
		it->kind = ITEM_FAULT;
		return;
	}
	it->len = (uint16_t)len;
	r->out->at = start + len;
	uint64_t at = r->conf->tensor.target_size, w[3] = {0};
	bool cow = r->conf->cow_strings;
	/* A copy-on-write string is a single word; do not read past it. */
	if (!at || live(r, obj + at, w, cow && kind == OBJECT_STRING ? sizeof(*w) : sizeof(w)))
		return;
	if (!cow && w[1] <= STRING_MAX * 16 && w[0] >= 0x10000 &&
	    (w[0] == obj + at + 16 ? w[1] < 16 : w[2] >= w[1])) {
		it->aux = OBJECT_STRING;
		own.unsure = kind != OBJECT_STRING;
		put_string(r, w[0], w[1], read);
	} else if (kind != OBJECT_STRING && w[1] >= w[0] && w[2] >= w[1] && !((w[1] - w[0]) & 15) &&
		   !(w[0] & 7)) {
		it->aux = OBJECT_LIST;
		own.unsure = kind != OBJECT_LIST;
		put_list(r, obj, read);
	} else if (cow && kind != OBJECT_LIST) {
		own.unsure = kind != OBJECT_STRING;
		if (plan_reader_std_string(r, obj + at, w) || w[1] > STRING_MAX * 16)
			return;
		it->aux = OBJECT_STRING;
		put_string(r, w[0], w[1], read);
	}
}

/* The values on top of a boxed call's stack. */
static void put_stack_values(const struct reading *r, uint64_t vec, uint8_t read)
{
	uint64_t ends[2], v[2];
	if (remote_live(r->mem, vec, ends, sizeof(ends)) || ends[1] < ends[0]) {
		begin(r, ITEM_FAULT, read, 0);
		return;
	}
	if (ends[1] - ends[0] > STACK_VALUES * 16)
		ends[0] = ends[1] - STACK_VALUES * 16;
	uint32_t n = put_ivalues(r, ends[0], ends[1], read, STACK_VALUES);
	for (uint32_t i = 0; i < n; i++) {
		remote_live(r->mem, ends[0] + 16ULL * i, v, sizeof(v));
		if ((uint32_t)v[1] == IVALUE_TENSOR)
			put_tensor(r, v[0], read);
		else if (ivalue_may_point(v[0], (uint32_t)v[1]))
			put_object(r, (uint32_t)v[1], v[0], read);
	}
}

/* at::ITensorListRef: {payload (16 bytes), tag}; tags Unboxed 0, Boxed 1, Materialized 2
 * (ATen/core/IListRef.h). */
static void put_ilist(const struct reading *r, uint64_t at, uint8_t read)
{
	uint64_t v[3];
	remote_read(r->mem, at, v, sizeof(v));
	uint32_t tag = (uint32_t)v[2];
	if (tag == 0)
		put_tensors(r, v[0], v[1], read);
	else if (tag == 1)
		put_list(r, remote_word(r->mem, v[0]), read);
	else
		begin(r, ITEM_FAULT, read, 0);
}

static uint64_t word_at(const struct reading *r, uint8_t loc)
{
	if (loc & LOC_NOW)
		return (loc & 31) < ARCH_REGS ? r->regs[loc & 31] : 0;
	return r->w[loc & (LOC_MAX - 1)];
}

/* The TensorImpl of the Python tensor at `obj`: in one of the two words after its header
 * (THPVariable.cdata, torch/csrc/autograd/python_variable.h; in 1.13 a MaybeOwned, flag first). */
static uint64_t py_tensor(const struct reading *r, uint64_t obj)
{
	uint64_t w[4], vt = r->conf->tensor.vt_impl;
	if (!vt || obj < 0x10000 || remote_read(r->mem, obj, w, sizeof(w)))
		return 0;
	if (w[2] >= 0x10000 && remote_word(r->mem, w[2]) == vt)
		return w[2];
	return w[3] >= 0x10000 && remote_word(r->mem, w[3]) == vt ? w[3] : 0;
}

/* The tensor of the Python object, or of the first item of the tuple {head, size, first item}
 * (Include/cpython/tupleobject.h). */
static void put_py_tensor(const struct reading *r, uint64_t obj, uint8_t read)
{
	uint64_t impl = py_tensor(r, obj);
	if (!impl)
		impl = py_tensor(r, remote_word(r->mem, obj + 24));
	if (impl)
		put_tensor(r, impl, read);
}

static void put_vector(const struct reading *r, uint64_t at, uint8_t read)
{
	uint64_t ends[2];
	live(r, at, ends, sizeof(ends));
	put_tensors(r, ends[0], ends[1] > ends[0] ? (ends[1] - ends[0]) / 8 : 0, read);
}

static void put_list_of_values(const struct reading *r, const struct probe_read *rd, uint64_t a,
			       uint8_t read)
{
	if (rd->deref)
		put_string_at(r, a, read);
	else if (rd->c != LOC_NONE && !(word_at(r, rd->c) & 0xff))
		begin(r, ITEM_UNSET, read, 0);
	/* c10::optional<ArrayRef> when empty: {null, 1} (c10/util/Optional.h, 1.13). */
	else if (rd->size != 1 && !a && word_at(r, rd->b))
		begin(r, ITEM_UNSET, read, 0);
	else if (rd->size == 1)
		put_string(r, a, word_at(r, rd->b), read);
	else
		put_array(r, a, word_at(r, rd->b), rd->size, read);
}

static void put_word(const struct reading *r, uint64_t w, uint8_t read)
{
	struct item *it = begin(r, ITEM_DATA, read, 0);
	hit_buf_word(r->out, w);
	it->len = 8;
}

static void put_node(const struct reading *r, uint64_t node, uint8_t read)
{
	const struct tensor_read *c = &r->conf->tensor;
	struct item *it = begin(r, ITEM_DATA, read, 0);
	hit_buf_word(r->out, node);
	it->len = c->node_seq && copy(r, 8, node + c->node_seq) ? 16 : 8;
}

static void do_read(const struct reading *r, uint8_t i)
{
	const struct probe_read *rd = &r->plan->read[i];
	uint64_t a = word_at(r, rd->a), at = a + (uint64_t)(int64_t)rd->off;
	switch (rd->kind) {
	case READ_WORD:
		put_word(r, a, i);
		break;
	case READ_MEM:
		put_bytes(r, rd->deref ? live_word(r, at) + rd->b : at, rd->size, i);
		break;
	case READ_SLOT:
		put_bytes(r, r->sp + (uint64_t)(int64_t)rd->off, 8, i);
		break;
	case READ_TENSOR:
		put_tensor(r, live_word(r, at), i);
		break;
	case READ_OPT_TENSOR:
		if (live_word(r, a + rd->size) & 0xff)
			put_tensor(r, live_word(r, at), i);
		else
			begin(r, ITEM_UNSET, i, 0);
		break;
	case READ_TENSORS:
		put_tensors(r, a, word_at(r, rd->b), i);
		break;
	case READ_VECTOR:
		put_vector(r, at, i);
		break;
	case READ_ARRAY:
		put_list_of_values(r, rd, a, i);
		break;
	case READ_STD_STRING:
		put_std_string(r, live_word(r, a) + (uint64_t)(int64_t)rd->off, i);
		break;
	case READ_LIST:
		put_list(r, remote_word(r->mem, at), i);
		break;
	case READ_ILIST:
		put_ilist(r, at, i);
		break;
	case READ_IVALUES:
		put_stack_values(r, a, i);
		break;
	case READ_PYTENSOR:
		put_py_tensor(r, a, i);
		break;
	case READ_NODE:
		put_node(r, a, i);
		break;
	}
}

void plan_reader_run(const struct reading *r)
{
	uint8_t from = r->is_exit ? r->plan->nentry : 0;
	uint8_t n = r->is_exit ? r->plan->nexit : r->plan->nentry;
	for (uint8_t i = 0; i < n && from + i < PLAN_READS; i++)
		do_read(r, (uint8_t)(from + i));
}
