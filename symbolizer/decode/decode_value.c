#include "symbolizer/decode/decode_value.h"

#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/names.h"

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

static const uint8_t *payload(const struct item *i)
{
	return (const uint8_t *)(i + 1);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static struct value value_none(void)
{
	return (struct value){.kind = VALUE_NONE};
}

static struct value value_int(int kind, int64_t v)
{
	return (struct value){.kind = (uint8_t)kind, .i = v};
}

/* c10::SymInt: an int64_t, or a tagged pointer if the top three bits are 100 or 101, depending on
 * the version (c10/core/SymInt.h); plain values that negative are kept behind a pointer, too. */
static struct value symint(int64_t v)
{
	uint64_t top = (uint64_t)v >> 61;
	if (top == 4 || top == 5)
		return value_not_decoded("a symbolic or very large negative integer");
	return value_int(VALUE_INT, v);
}

/* Decode a value of `base` from the bytes at `p` (at least 8, or 2 for a device). */
static struct value plain(uint8_t base, const uint8_t *p)
{
	struct value v = {0};
	switch (base) {
	case CXX_INT64:
		return value_int(VALUE_INT, (int64_t)load64(p));
	case CXX_SYMINT:
		return symint((int64_t)load64(p));
	case CXX_INT8:
		return value_int(VALUE_INT, (int8_t)p[0]);
	case CXX_BOOL:
		return p[0] > 1 ? value_not_decoded("not a bool") : value_int(VALUE_BOOL, p[0]);
	case CXX_SCALAR_TYPE:
		return names_dtype((int8_t)p[0]) ? value_int(VALUE_DTYPE, (int8_t)p[0])
						 : value_not_decoded("an unknown dtype");
	case CXX_LAYOUT:
		return names_layout((int8_t)p[0]) ? value_int(VALUE_LAYOUT, (int8_t)p[0])
						  : value_not_decoded("an unknown layout");
	case CXX_MEMORY_FORMAT:
		return names_memory_format((int8_t)p[0])
			   ? value_int(VALUE_MEMORY_FORMAT, (int8_t)p[0])
			   : value_not_decoded("an unknown memory format");
	case CXX_DEVICE:
		v.kind = VALUE_DEVICE;
		v.device.type = (int8_t)p[0];
		v.device.index = (int8_t)p[1];
		return v;
	case CXX_DOUBLE:
		v.kind = VALUE_FLOAT;
		memcpy(&v.f, p, sizeof(v.f));
		return v;
	case CXX_WORK:
		return (struct value){.kind = VALUE_WORK, .work = {load64(p), NULL}};
	case CXX_GENERATOR:
		return value_int(VALUE_GENERATOR, (int64_t)load64(p));
	default:
		return value_not_decoded("a type ditrace does not know");
	}
}

/* at::Dimname: {Symbol, NameType: 0 BASIC, 1 WILDCARD} (ATen/core/Dimname.h). The wildcard's symbol
 * is dimname::*; in Python it is None. */
static struct value dimname(const struct decode *d, const uint8_t *p)
{
	uint32_t id;
	memcpy(&id, p, sizeof(id));
	const char *name = interned_name(d->target->interned, id, "dimname");
	if (!name || p[4] > 1 || (p[4] == 1) != !strcmp(name, "*"))
		return value_not_decoded("a dimension name that the process does not know");
	if (p[4])
		return value_none();
	struct value s = {.kind = VALUE_STRING, .count = (uint32_t)strlen(name)};
	s.str = arena_strndup(d->arena, name, s.count);
	return s.str ? s : value_not_decoded("no memory");
}

static struct value scalar_of(uint8_t kind, const uint8_t *v)
{
	struct value out = {.kind = VALUE_SCALAR, .scalar = kind};
	if (kind == VALUE_FLOAT)
		memcpy(&out.f, v, sizeof(out.f));
	else
		out.i = kind == VALUE_BOOL ? v[0] != 0 : (int64_t)load64(v);
	return out;
}

/* c10::Scalar: {Tag, padding to 16, union} (c10/core/Scalar.h). The tags are HAS_d, HAS_i, [HAS_u,]
 * HAS_z, HAS_b, then the symbolic ones; in versions with HAS_u, HAS_z is 3 instead of 2. */
static struct value scalar(const struct decode *d, const uint8_t *p)
{
	uint32_t tag;
	memcpy(&tag, p, sizeof(tag));
	const uint8_t *v = p + 16;
	unsigned z = d->target->ops->scalar_complex_tag;
	if (z != 2 && z != 3)
		return value_not_decoded("the layout of c10::Scalar is not known");
	if (tag == 0)
		return scalar_of(VALUE_FLOAT, v);
	if (tag == 1)
		return scalar_of(VALUE_INT, v);
	if (tag == z + 1)
		return scalar_of(VALUE_BOOL, v);
	if (tag > z)
		return value_not_decoded("a symbolic scalar");
	if (tag < z) {
		struct value u = scalar_of(VALUE_INT, v);
		u.is_unsigned = true;
		return u;
	}
	struct value c = {.kind = VALUE_COMPLEX};
	memcpy(&c.c, v, sizeof(c.c));
	return c;
}

/* plain() for all types of known size, including those that need facts of the target. */
static struct value of_type(const struct decode *d, uint8_t base, const uint8_t *p)
{
	if (base == CXX_SCALAR)
		return scalar(d, p);
	return base == CXX_DIMNAME ? dimname(d, p) : plain(base, p);
}

static unsigned plain_size(uint8_t base)
{
	switch (base) {
	case CXX_INT64:
	case CXX_SYMINT:
	case CXX_DOUBLE:
	case CXX_GENERATOR:
	case CXX_DIMNAME:
	case CXX_WORK:
		return 8;
	case CXX_DEVICE:
		return 2;
	case CXX_SCALAR:
		return 32;
	default:
		return 1;
	}
}

/* Decode a plain or optional value from its `len` bytes at `p`. */
static struct value laid_out(const struct decode *d, const struct abi_value *v, const uint8_t *p,
			     uint32_t len)
{
	unsigned size = plain_size(v->base);
	unsigned align = v->base == CXX_SCALAR ? 16 : size == 2 ? 1 : size;
	unsigned flag_at = v->std_optional ? size : 0;
	unsigned value_at = v->has_flag && !v->std_optional ? align : 0;
	uint8_t room[64] = {0};
	unsigned end = value_at + size;
	if (v->has_flag && flag_at + 1 > end)
		end = flag_at + 1;
	if (len > sizeof(room) || end > sizeof(room) || len < end)
		return value_not_decoded("too few bytes");
	memcpy(room, p, len);
	if (v->has_flag && room[flag_at] > 1)
		return value_not_decoded("not an optional");
	if (v->has_flag && !room[flag_at])
		return value_none();
	return of_type(d, v->base, room + value_at);
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
		const uint8_t *p = payload(i) + k * size;
		list.items[k] = of_type(d, v->base, p);
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
		list.items[list.count++] = plain(CXX_BOOL, p + k);
	return list;
}

static struct value string(const struct decode *d, const struct item *i)
{
	struct value s = {.kind = VALUE_STRING, .count = i->len};
	if (i->aux > i->len)
		return value_not_decoded("a string too long to be read");
	s.str = arena_strndup(d->arena, (const char *)payload(i), i->len);
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
	memcpy(&v.c, payload(obj) + at, sizeof(v.c));
	return v;
}

static struct value ivalue_number(const struct schema_arg *type, uint64_t w, uint32_t tag)
{
	unsigned base = type ? type->base : SCHEMA_OTHER;
	const uint8_t *p = (const uint8_t *)&w;
	if (tag == IVALUE_DOUBLE)
		return base == SCHEMA_SCALAR ? scalar_of(VALUE_FLOAT, p) : plain(CXX_DOUBLE, p);
	if (tag == IVALUE_INT) {
		switch (base) {
		case SCHEMA_SCALAR:
			return scalar_of(VALUE_INT, p);
		case SCHEMA_DTYPE:
			return plain(CXX_SCALAR_TYPE, p);
		case SCHEMA_LAYOUT:
			return plain(CXX_LAYOUT, p);
		case SCHEMA_MEMORY_FORMAT:
			return plain(CXX_MEMORY_FORMAT, p);
		default:
			return value_int(VALUE_INT, (int64_t)w);
		}
	}
	if (base == SCHEMA_BOOL)
		return plain(CXX_BOOL, p);
	if (base == SCHEMA_SCALAR && w <= 1)
		return scalar_of(VALUE_BOOL, p);
	if (base == SCHEMA_DEVICE)
		return plain(CXX_DEVICE, p);
	if (base == SCHEMA_GENERATOR)
		return plain(CXX_GENERATOR, p);
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
	return is_object ? decode_custom_object(c->d->target, held) : value_none();
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
	const struct rtti_class *class = rtti_of_vtable(c->d->target->rtti, load64(payload(obj)));
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
	uint64_t w = load64(p);
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
		list.items[list.count++] = ivalue(c, payload(head) + 16 * k, type);
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
		ivalue(&c, payload(head) + 16 * k, NULL);
	for (unsigned k = 0; k < n; k++)
		out[k] = k < have ? todays_device(d, ivalue(&c, payload(head) + 16 * (skip + k),
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
	uint8_t flag = payload(f)[0];
	if (flag > 1)
		return value_not_decoded("not an optional");
	return flag ? plain(v->base, payload(i)) : value_none();
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
		return laid_out(d, v, payload(i), i->len);
	case ABI_ARRAY:
		return array(d, v, i);
	case ABI_BOOLS:
		return i->len < 8 ? value_not_decoded("too few bytes") : bools(d, v, payload(i));
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
	const struct item *i = items_find(it, v->read, NULL);
	return i ? todays_device(d, from_item(d, v, it, i))
		 : value_not_decoded("memory could not be read");
}
