#include "symbolizer/decode/decoder.h"

#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/names.h"
#include "symbolizer/python/python.h"

void items_make_index(struct items *it, struct items_index *x)
{
	it->index = NULL;
	if (it->len >= UINT16_MAX)
		return;
	*x = (struct items_index){0};
	for (const struct item *i = NULL; (i = items_next(it, i));) {
		const uint16_t at = (uint16_t)((const uint8_t *)i - it->data + 1);
		uint16_t *to = i->kind == ITEM_STACK	 ? &x->stack
			       : i->read < INDEXED_READS ? &x->read[i->read]
			       : i->kind == ITEM_NATIVE	 ? &x->native
			       : i->kind == ITEM_INNER	 ? &x->inner
							 : NULL;
		if (to && !*to)
			*to = at;
	}
	it->index = x;
}

const struct item *items_stack(const struct items *it)
{
	const struct item *i = NULL;
	if (it->index)
		return items_indexed(it, it->index->stack);
	while ((i = items_next(it, i)))
		if (i->kind == ITEM_STACK)
			return i;
	return NULL;
}

unsigned items_regions(const struct hit *h, struct py_region *out, unsigned most)
{
	const struct items it = items_of(h);
	unsigned n = 0;
	for (const struct item *i = NULL; n < most && (i = items_next(&it, i));) {
		if (i->kind != ITEM_DATA || i->len <= 8)
			continue;
		memcpy(&out[n].addr, i + 1, 8);
		out[n].data = (const uint8_t *)(i + 1) + 8;
		out[n++].len = i->len - 8u;
	}
	return n;
}

bool items_native(const struct items *it, struct native_raw *out)
{
	const struct item *i = it->index ? items_indexed(it, it->index->native) : NULL;
	while (!it->index && (i = items_next(it, i)) && i->kind != ITEM_NATIVE)
		;
	if (!i)
		return false;
	const struct item *slice = items_next(it, i);
	*out = (struct native_raw){
	    .pcs = (const uint64_t *)(i + 1),
	    .n = i->len / (uint32_t)sizeof(*out->pcs),
	    .missed = i->aux & NATIVE_MISSED,
	    .cut = i->aux & NATIVE_CUT,
	    .to_python = i->aux & NATIVE_TO_PYTHON,
	};
	if (slice && slice->kind == ITEM_SLICE) {
		out->slice = (const uint8_t *)(slice + 1);
		out->len = slice->len;
	}
	return true;
}

const uint64_t (*items_frames(const struct items *it, uint32_t *n))[STACK_FRAME_SIZE / 8]
{
	const struct item *i = items_stack(it);
	*n = i ? i->len / STACK_FRAME_SIZE : 0;
	return i ? (const void *)(i + 1) : NULL;
}

static struct value *new_items(const struct decode *d, uint32_t n, struct value *list)
{
	list->kind = VALUE_LIST;
	list->items = arena_alloc(d->arena, (n ? n : 1) * sizeof(*list->items));
	return list->items;
}

static struct value array(const struct decode *d, const struct abi_value *v, const struct item *i)
{
	unsigned size = v->base == CXX_SCALAR ? 32 : 8;
	struct value list = {0};
	if (i->aux > i->len / size)
		return value_not_decoded("a list too long to be read");
	if (!new_items(d, i->aux, &list))
		return value_not_decoded("no memory");
	for (uint32_t k = 0; k < i->aux; k++) {
		const uint8_t *p = item_bytes(i) + k * size;
		list.items[k] = plain_of_type(d, v->base, p);
	}
	list.count = i->aux;
	return list;
}

static struct value bools(const struct decode *d, const struct abi_value *v, const uint8_t *p)
{
	struct value list = {0};
	if (!new_items(d, v->count, &list))
		return value_not_decoded("no memory");
	for (unsigned k = 0; k < v->count && k < 8; k++)
		list.items[list.count++] = plain_value(CXX_BOOL, p + k);
	return list;
}

static struct value string(const struct decode *d, const struct item *i)
{
	struct value s = {.kind = VALUE_STRING, .count = i->len};
	if (i->aux > i->len)
		return value_not_decoded("a string too long to be read");
	s.str = arena_strndup(d->arena, (const char *)item_bytes(i), i->len);
	return s.str ? s : value_not_decoded("no memory");
}

static struct value tensor(struct decode *d, const struct item *i)
{
	if (i->kind != ITEM_TENSOR && i->kind != ITEM_SNAPSHOT)
		return value_not_decoded("memory could not be read");
	return decode_tensor(d, i);
}

static struct value tensors(struct decode *d, const struct items *it, unsigned read,
			    const struct item *head)
{
	struct value list = {0};
	if (head->aux > LIST_MAX)
		return value_not_decoded("a list too long to be read");
	if (!new_items(d, head->aux, &list))
		return value_not_decoded("no memory");
	const struct item *i = head;
	for (uint32_t k = 0; k < head->aux; k++) {
		i = items_find(it, read, i);
		if (!i)
			return value_not_decoded("part of a list was lost");
		list.items[list.count++] = tensor(d, i);
	}
	return list;
}

/* A cursor over the items that hold what the payloads of IValues point to. */
struct ivalues {
	struct decode *d;
	const struct items *it;
	unsigned read;
	const struct item *at;
	unsigned depth; /* number of enclosing lists */
	bool lost;	/* items were skipped: the rest can no longer be matched to their values */
};

static struct value ivalue_list(struct ivalues *c, const struct item *head,
				const struct schema_arg *type);

/* c10::ivalue::ComplexHolder: a complex<double> after the intrusive_ptr_target, 16-aligned as
 * c10::complex<double> is (ATen/core/ivalue.h, c10/util/complex.h). */
static struct value complex_holder(const struct target *t, const struct item *obj)
{
	struct value v = {.kind = VALUE_COMPLEX};
	unsigned at = (t->conf.tensor.target_size + 15u) & ~15u;
	if (!at || at + sizeof(v.c) > obj->len)
		return value_not_decoded("a complex number");
	memcpy(&v.c, item_bytes(obj) + at, sizeof(v.c));
	return v;
}

static struct value ivalue_number(const struct schema_arg *type, uint64_t w, uint32_t tag)
{
	unsigned base = type ? type->base : SCHEMA_OTHER;
	const uint8_t *p = (const uint8_t *)&w;
	if (tag == IVALUE_DOUBLE)
		return base == SCHEMA_SCALAR ? plain_scalar(VALUE_FLOAT, p)
					     : plain_value(CXX_DOUBLE, p);
	if (tag == IVALUE_INT) {
		switch (base) {
		case SCHEMA_SCALAR:
			return plain_scalar(VALUE_INT, p);
		case SCHEMA_DTYPE:
			return plain_value(CXX_SCALAR_TYPE, p);
		case SCHEMA_LAYOUT:
			return plain_value(CXX_LAYOUT, p);
		case SCHEMA_MEMORY_FORMAT:
			return plain_value(CXX_MEMORY_FORMAT, p);
		default:
			return value_int(VALUE_INT, (int64_t)w);
		}
	}
	if (base == SCHEMA_BOOL)
		return plain_value(CXX_BOOL, p);
	if (base == SCHEMA_SCALAR && w <= 1)
		return plain_scalar(VALUE_BOOL, p);
	if (base == SCHEMA_DEVICE)
		return plain_value(CXX_DEVICE, p);
	if (base == SCHEMA_GENERATOR)
		return plain_value(CXX_GENERATOR, p);
	return value_not_decoded("an IValue of a kind ditrace does not know");
}

/* An IValue made from an at::Dimname holds the qualified name of its symbol (IValue(at::Dimname),
 * ATen/core/ivalue_inl.h). */
static struct value boxed_dimname(struct value s)
{
	static const char domain[] = "dimname::";
	if (s.kind != VALUE_STRING || strncmp(s.str, domain, sizeof(domain) - 1))
		return s;
	s.str += sizeof(domain) - 1;
	s.count -= sizeof(domain) - 1;
	return strcmp(s.str, "*") ? s : value_none();
}

/* What the only slot of the object holds. The engine may have added it for one that only looked so.
 */
static struct value ivalue_slot(struct ivalues *c, const struct item *obj, bool is_object)
{
	const struct item *held = items_find(c->it, c->read, c->at);
	if (!(obj->aux & OBJECT_SLOT) || !held)
		return value_not_decoded("an object of a class ditrace does not know");
	c->at = held;
	return is_object ? decode_custom_object(c->d, held) : value_none();
}

/* The contents of the object at `w` if its class is that of a list or a string, or what the object
 * holds. If it only looked like one, the items that the engine added for it are still consumed. */
static struct value ivalue_object(struct ivalues *c, const struct item *obj, uint64_t w,
				  uint32_t tag, const struct schema_arg *type)
{
	unsigned looks = obj->aux & (OBJECT_LIST | OBJECT_STRING);
	const struct item *i = looks ? items_find(c->it, c->read, obj) : NULL;
	struct value v = value_not_decoded("memory could not be read");
	if (i)
		c->at = i;
	if (i && i->kind == ITEM_STRING)
		v = string(c->d, i);
	else if (i && i->kind == ITEM_DATA)
		v = ivalue_list(c, i, type);
	const struct rtti_class *class =
	    rtti_of_vtable(c->d->target->rtti, plain_word(item_bytes(obj)));
	const char *name = class ? class->name : "";
	bool is_object = !strcmp(name, "N3c106ivalue6ObjectE");
	struct value held = ivalue_slot(c, obj, is_object);
	if (is_object)
		return held;
	if (!strcmp(name, looks == OBJECT_STRING ? "N3c106ivalue14ConstantStringE"
						 : "N3c106detail8ListImplE"))
		return type && type->base == SCHEMA_DIMNAME ? boxed_dimname(v) : v;
	if (!strcmp(name, "N3c106ivalue13ComplexHolderE"))
		return complex_holder(c->d->target, obj);
	return ivalue_number(type, w, tag);
}

static struct value ivalue(struct ivalues *c, const uint8_t *p, const struct schema_arg *type)
{
	uint64_t w = plain_word(p);
	uint32_t tag;
	memcpy(&tag, p + 8, sizeof(tag));
	if (tag == IVALUE_NONE)
		return value_none();
	if (tag != IVALUE_TENSOR && !ivalue_may_point(w, tag))
		return ivalue_number(type, w, tag);
	const struct item *i = c->lost ? NULL : items_find(c->it, c->read, c->at);
	if (!i)
		return value_not_decoded("part of the values was lost");
	c->at = i;
	if (tag == IVALUE_TENSOR)
		return tensor(c->d, i);
	return i->kind == ITEM_OBJECT && i->len >= sizeof(w) ? ivalue_object(c, i, w, tag, type)
							     : ivalue_number(type, w, tag);
}

static struct value ivalue_list(struct ivalues *c, const struct item *head,
				const struct schema_arg *type)
{
	struct value list = {0};
	uint32_t n = head->len / 16;
	bool whole = head->aux == n;
	if (c->depth == VALUE_DEPTH_MAX) {
		c->lost = true;
		return value_not_decoded("lists nested too deeply");
	}
	if (!new_items(c->d, n, &list))
		return value_not_decoded("no memory");
	c->depth++;
	for (uint32_t k = 0; k < n; k++)
		list.items[list.count++] = ivalue(c, item_bytes(head) + 16 * k, type);
	c->depth--;
	return whole ? list : value_not_decoded("a list too long to be read");
}

/* Translate device types to the current codes. */
static struct value todays_device(const struct decode *d, struct value v)
{
	if (v.kind == VALUE_DEVICE)
		v.device.type =
		    (int8_t)names_device_code(v.device.type, d->target->ops->ndevice_types);
	return v;
}

void decode_boxed(struct decode *d, const struct items *it, unsigned read,
		  const struct schema_arg *types, unsigned n, struct value *out)
{
	const struct item *head = items_find(it, read, NULL);
	uint32_t have = head && head->kind == ITEM_DATA ? head->len / 16u : 0;
	struct ivalues c = {.d = d, .it = it, .read = read, .at = head};
	/* If the caller is TorchScript, its values lie below those of the op. */
	uint32_t skip = have > n ? have - n : 0;
	for (uint32_t k = 0; k < skip; k++)
		ivalue(&c, item_bytes(head) + 16 * k, NULL);
	for (unsigned k = 0; k < n; k++)
		out[k] = k < have ? todays_device(d, ivalue(&c, item_bytes(head) + 16 * (skip + k),
							    types ? &types[k] : NULL))
				  : value_not_decoded("not on the stack");
}

void decode_nodes(struct decode *d, const struct items *it, unsigned read)
{
	const struct item *i = items_find(it, read, NULL);
	if (i && (i->kind == ITEM_TENSOR || i->kind == ITEM_SNAPSHOT))
		decode_tensor(d, i);
}

static struct value words(const struct abi_value *v, const struct items *it)
{
	const struct item *i = items_find(it, v->read, NULL);
	const struct item *f = items_find(it, v->flag_read, NULL);
	if (!i || !f || i->kind != ITEM_DATA || f->kind != ITEM_DATA || i->len < 8 || f->len < 8)
		return value_not_decoded("memory could not be read");
	uint8_t flag = item_bytes(f)[0];
	if (flag > 1)
		return value_not_decoded("not an optional");
	return flag ? plain_value(v->base, item_bytes(i)) : value_none();
}

static struct value object(const struct decode *d, const struct abi_value *v,
			   const struct items *it)
{
	const struct item *i = items_find(it, v->read, NULL);
	const struct item *at = items_find(it, v->flag_read, NULL);
	if (!i || !at || i->kind != ITEM_DATA || at->kind != ITEM_DATA || at->len < 8)
		return value_not_decoded("memory could not be read");
	return decode_object(d, plain_word(item_bytes(at)), item_bytes(i), i->len);
}

static struct value from_item(struct decode *d, const struct abi_value *v, const struct items *it,
			      const struct item *i)
{
	if (i->kind == ITEM_UNSET)
		return value_none();
	switch (v->how) {
	case ABI_TENSOR:
		return tensor(d, i);
	case ABI_TENSORS:
		/* The list arrives as IValues (at::ITensorListRef, boxed) or as tensors
		 * (ITEM_LIST). */
		if (i->kind == ITEM_LIST)
			return tensors(d, it, v->read, i);
		break;
	case ABI_STRING:
		if (i->kind == ITEM_STRING)
			return string(d, i);
		break;
	default:
		break;
	}
	if (i->kind != ITEM_DATA)
		return value_not_decoded("memory could not be read");
	struct ivalues c = {.d = d, .it = it, .read = v->read, .at = i};
	switch (v->how) {
	case ABI_WORD:
	case ABI_BYTES:
		return plain_laid_out(d, v, item_bytes(i), i->len);
	case ABI_ARRAY:
		return array(d, v, i);
	case ABI_BOOLS:
		return i->len < 8 ? value_not_decoded("too few bytes") : bools(d, v, item_bytes(i));
	case ABI_TENSORS:
	case ABI_LIST:
		return ivalue_list(&c, i, NULL);
	default:
		return value_not_decoded("memory could not be read");
	}
}

struct value decode_value(struct decode *d, const struct abi_value *v, const struct items *it)
{
	if (v->how == ABI_UNKNOWN)
		return value_not_decoded(v->why);
	if (v->how == ABI_WORDS)
		return words(v, it);
	if (v->how == ABI_OBJECT)
		return object(d, v, it);
	const struct item *i = items_find(it, v->read, NULL);
	return i ? todays_device(d, from_item(d, v, it, i))
		 : value_not_decoded("memory could not be read");
}
