#include "symbolizer/torch/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/cfg.h"

enum { CODE_MAX = 2048, VTABLE_SLOTS = 12, NODE_SLOTS = 24, METHOD_BYTES = 160 };

static void fact_set(int32_t *fact, int64_t value)
{
	if (*fact == FACT_NONE)
		*fact = (int32_t)value;
	else if (*fact != value)
		*fact = FACT_CONFLICT;
}

/* Whether `v` is a plain load of `size` bytes through `derefs` pointers. The first of several has
 * offset 0: the object is passed as at::Tensor, a pointer to the impl. */
static bool is_load(const struct sym *v, unsigned derefs, unsigned size)
{
	return v->known && !v->indexed && v->derefs == derefs && v->size == size && !v->shift &&
	       !v->add && v->mask == ~0ULL && (derefs < 2 || !v->off[0]);
}

static bool walk_accessor(const struct code_source *src, const char *name, unsigned self,
			  struct paths *p)
{
	size_t len;
	const uint8_t *code = src->code_of(src->ctx, name, &len);
	return code && !paths_walk(code, len < CODE_MAX ? len : CODE_MAX, self, p);
}

/* Set the fact to the offset of a field that the accessor returns on some path. */
static void returned(const struct paths *p, unsigned size, int32_t *fact)
{
	for (unsigned i = 0; i < p->nends; i++)
		if (p->ends[i].is_return && is_load(&p->ends[i].result, 1, size))
			fact_set(fact, p->ends[i].result.off[0]);
}

/* Set the fact to the offset of the only load of that size through that many pointers. */
static void only_load(const struct paths *p, unsigned derefs, unsigned size, int32_t *fact)
{
	for (unsigned i = 0; i < p->nloads; i++)
		if (is_load(&p->loads[i], derefs, size))
			fact_set(fact, p->loads[i].off[derefs - 1]);
}

/* The accessor returns an ArrayRef into the object: pointer to its first element, and the count. */
static void returned_array(const struct paths *p, int32_t *data, int32_t *count)
{
	for (unsigned i = 0; i < p->nends; i++) {
		const struct path_end *e = &p->ends[i];
		if (!e->is_return || !is_load(&e->result2, 1, 8) || !e->result.known ||
		    e->result.derefs)
			continue;
		fact_set(data, e->result.add);
		fact_set(count, e->result2.off[0]);
	}
}

/* The flag tested by a condition on one byte of the object, for either branch. `derefs` as in
 * is_load. */
static bool flag_of(const struct sym_cond *c, unsigned derefs, struct flag_test *out)
{
	const struct sym *v = &c->v;
	uint64_t max = c->imm;
	struct sym plain = *v;
	plain.shift = 0;
	plain.mask = ~0ULL;
	if (!is_load(&plain, derefs, 1) || v->off[derefs - 1] < 0 ||
	    v->off[derefs - 1] > UINT16_MAX)
		return false;
	*out = (struct flag_test){.off = (uint16_t)v->off[derefs - 1],
				  .shift = v->shift,
				  .mask = (uint8_t)(v->mask & 0xff >> v->shift)};
	switch (c->cc) {
	case SYM_NEG:
	case SYM_NONNEG:
		out->shift = 7;
		out->mask = 1;
		return !v->shift && v->mask == ~0ULL && !c->imm;
	case SYM_ULE:
	case SYM_UGT:
		break;
	case SYM_ULT:
	case SYM_UGE:
		if (!max--)
			return false;
		break;
	case SYM_EQ:
	case SYM_NE:
		if (max)
			return false;
		break;
	default:
		return false;
	}
	out->max = (uint8_t)max;
	return out->mask && max < out->mask;
}

static void add_flag(struct flag_tests *f, const struct flag_test *t)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!memcmp(&f->test[i], t, sizeof(*t)))
			return;
	if (f->n < FLAGS_MAX)
		f->test[f->n++] = *t;
}

/* The function's first test is whether the property is customised. Returns whether it was
 * understood. */
static bool first_flag(const struct paths *p, unsigned derefs, struct flag_tests *f)
{
	struct flag_test t;
	if (!p->nends || !p->ends[0].nconds || !flag_of(&p->ends[0].conds[0], derefs, &t))
		return false;
	add_flag(f, &t);
	return true;
}

static void drop_flag(struct flag_tests *f, int32_t off)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->test[i].off == off && f->test[i].mask == 0xff)
			f->test[i--] = f->test[--f->n];
}

/* Collect all flags tested on paths that return the plain field. A whole byte that is nonzero on
 * such a path is not a customisation flag but an optional's engaged byte. */
static void flags_to_return(const struct paths *p, unsigned size, struct flag_tests *f,
			    int32_t *engaged)
{
	for (unsigned i = 0; i < p->nends; i++) {
		const struct path_end *e = &p->ends[i];
		struct flag_test t;
		if (!e->is_return || !is_load(&e->result, 1, size))
			continue;
		for (unsigned k = 0; k < e->nconds; k++) {
			if (!flag_of(&e->conds[k], 1, &t))
				continue;
			if (e->conds[k].cc == SYM_NE && e->conds[k].v.mask == ~0ULL)
				fact_set(engaged, t.off);
			else
				add_flag(f, &t);
		}
	}
	drop_flag(f, *engaged);
}

/* TensorImpl::requires_grad(): loads autograd_meta and calls through its vtable. */
static void meta_call(const struct paths *p, struct layout_facts *out)
{
	for (unsigned i = 0; i < p->nloads; i++) {
		const struct sym *v = &p->loads[i];
		if (is_load(v, 1, 8))
			fact_set(&out->autograd_meta, v->off[0]);
		if (v->derefs == 3 && v->size == 8 && !v->off[1])
			fact_set(&out->requires_grad_slot, v->off[2]);
	}
}

/* data_ptr<float>(): returns an element of the storage's data. */
static void storage_chain(const struct paths *p, struct layout_facts *out)
{
	for (unsigned i = 0; i < p->nends; i++) {
		struct sym v = p->ends[i].result;
		bool indexed = v.indexed;
		v.indexed = false;
		if (!p->ends[i].is_return || !indexed || !is_load(&v, 3, 8) || !v.off[1])
			continue;
		fact_set(&out->storage, v.off[1]);
		fact_set(&out->data_ptr, v.off[2]);
	}
}

/* PyNode::name(): loads obj->ob_type->tp_name. ob_type follows the refcount, tp_name the
 * PyVarObject head (Include/object.h; the second pair is for free-threaded builds). */
static void pynode_chain(const struct paths *p, int32_t *obj)
{
	for (unsigned i = 0; i < p->nloads; i++) {
		const struct sym *v = &p->loads[i];
		if (v->derefs == 3 && v->size == 8 &&
		    ((v->off[1] == 8 && v->off[2] == 24) || (v->off[1] == 24 && v->off[2] == 40)))
			fact_set(obj, v->off[0]);
	}
}

static void read_impl_fields(const struct code_source *src, struct paths *p,
			     struct layout_facts *out)
{
	int32_t ignored = FACT_NONE;
	if (walk_accessor(src, "_ZNK3c1010TensorImpl10dim_customEv", 0, p)) {
		returned(p, 8, &out->sizes);
		flags_to_return(p, 8, &out->custom_shape, &ignored);
	}
	if (walk_accessor(src, "_ZNK3c1010TensorImpl12sizes_customEv", 0, p))
		returned_array(p, &out->sizes_data, &out->sizes);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl14strides_customEv", 0, p)) {
		returned_array(p, &out->strides_data, &out->sizes);
		first_flag(p, 1, &out->custom_stride);
	}
	if (walk_accessor(src, "_ZNK3c1010TensorImpl12numel_customEv", 0, p))
		returned(p, 8, &out->numel);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl21storage_offset_customEv", 0, p))
		returned(p, 8, &out->storage_offset);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl13device_customEv", 0, p)) {
		returned(p, 2, &out->device);
		flags_to_return(p, 2, &out->custom_device, &out->device_engaged);
	}
	if (walk_accessor(src, "_ZNK3c1010TensorImpl13layout_customEv", 0, p))
		first_flag(p, 1, &out->custom_layout);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl11has_storageEv", 0, p))
		only_load(p, 1, 8, &out->storage);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl13autograd_metaEv", 0, p))
		returned(p, 8, &out->autograd_meta);
	if (walk_accessor(src, "_ZNK3c1010TensorImpl13requires_gradEv", 0, p))
		meta_call(p, out);
}

/* The accessor returns one bit of the object on every path. */
static void returned_bit(const struct paths *p, int32_t *fact)
{
	for (unsigned i = 0; i < p->nends; i++) {
		const struct path_end *e = &p->ends[i];
		struct sym plain = e->result;
		plain.shift = 0;
		plain.mask = ~0ULL;
		bool is_bit = e->is_return && is_load(&plain, 2, plain.size) &&
			      e->result.mask == 1 && plain.off[1] >= 0;
		fact_set(fact, is_bit ? 8 * plain.off[1] + e->result.shift : FACT_CONFLICT);
	}
	if (p->cut)
		*fact = FACT_CONFLICT;
}

/* data_ptr<float>() may be a tail call of another of these through the PLT. */
static const char *const elements[] = {"_ZNK2at10TensorBase8data_ptrIfEEPT_v",
				       "_ZNK2at10TensorBase16mutable_data_ptrIfEEPT_v",
				       "_ZNK2at10TensorBase14const_data_ptrIfLi0EEEPKT_v"};

static void read_handle_fields(const struct code_source *src, struct paths *p,
			       struct layout_facts *out)
{
	if (walk_accessor(src, "_ZN2at6native17is_floating_pointERKNS_6TensorE", 0, p))
		only_load(p, 2, 2, &out->dtype);
	if (walk_accessor(src, "_ZN2at6native9is_signedERKNS_6TensorE", 0, p))
		only_load(p, 2, 2, &out->dtype);
	if (walk_accessor(src, "_ZN2at6native12is_inferenceERKNS_6TensorE", 0, p))
		only_load(p, 2, 8, &out->key_set);
	if (walk_accessor(src, "_ZN2at6native7is_conjERKNS_6TensorE", 0, p)) {
		only_load(p, 2, 8, &out->key_set);
		returned_bit(p, &out->conj_bit);
	}
	if (walk_accessor(src, "_ZN2at6native6is_negERKNS_6TensorE", 0, p))
		returned_bit(p, &out->neg_bit);
	for (unsigned i = 0;
	     i < sizeof(elements) / sizeof(elements[0]) && out->data_ptr == FACT_NONE; i++)
		if (walk_accessor(src, elements[i], 0, p))
			storage_chain(p, out);
	if (walk_accessor(src, "_ZN2at6native4sizeERKNS_6TensorEl", 0, p))
		out->custom_shape.complete = first_flag(p, 2, &out->custom_shape);
	if (walk_accessor(src, "_ZN2at6native6strideERKNS_6TensorEl", 0, p))
		out->custom_stride.complete = first_flag(p, 2, &out->custom_stride);
	if (walk_accessor(src, "_ZN2at6native10get_deviceERKNS_6TensorE", 0, p))
		out->custom_device.complete = first_flag(p, 2, &out->custom_device);
	/* std::string is returned through a hidden pointer, so the object is the second argument.
	 */
	if (walk_accessor(src, "_ZNK5torch8autograd6PyNode4nameB5cxx11Ev", 1, p) ||
	    walk_accessor(src, "_ZNK5torch8autograd6PyNode4nameEv", 1, p))
		pynode_chain(p, &out->pynode_obj);
}

void accessors_read(const struct code_source *src, struct layout_facts *out)
{
	*out = (struct layout_facts){
	    .storage = FACT_NONE,
	    .autograd_meta = FACT_NONE,
	    .sizes = FACT_NONE,
	    .sizes_data = FACT_NONE,
	    .strides_data = FACT_NONE,
	    .storage_offset = FACT_NONE,
	    .numel = FACT_NONE,
	    .dtype = FACT_NONE,
	    .device = FACT_NONE,
	    .device_engaged = FACT_NONE,
	    .key_set = FACT_NONE,
	    .conj_bit = FACT_NONE,
	    .neg_bit = FACT_NONE,
	    .data_ptr = FACT_NONE,
	    .pynode_obj = FACT_NONE,
	    .requires_grad_slot = FACT_NONE,
	};
	struct paths *p = malloc(sizeof(*p));
	if (!p)
		return;
	read_impl_fields(src, p, out);
	read_handle_fields(src, p, out);
	free(p);
}

/* The path that consults the base: each condition on it is a field of the object. */
static void view_path(const struct path_end *e, const struct sym *base, struct meta_facts *out)
{
	for (unsigned i = 0; i < e->nconds; i++) {
		const struct sym *v = &e->conds[i].v;
		if (e->conds[i].imm)
			continue;
		if (is_load(v, 1, 8) && e->conds[i].cc == SYM_EQ)
			fact_set(&out->grad_fn, v->off[0]);
		else if (is_load(v, 1, 1) && e->conds[i].cc == SYM_EQ)
			fact_set(&out->requires_grad, v->off[0]);
		else if (is_load(v, 1, 1) && e->conds[i].cc == SYM_NE)
			fact_set(&out->view_has_base, v->off[0]);
	}
	fact_set(&out->view_base, base->off[0]);
}

static bool method_facts(const struct paths *p, struct meta_facts *out)
{
	*out = (struct meta_facts){.grad_fn = FACT_NONE,
				   .requires_grad = FACT_NONE,
				   .view_base = FACT_NONE,
				   .view_has_base = FACT_NONE};
	for (unsigned i = 0; i < p->nends && p->ncalls == 1 && is_load(&p->calls[0], 1, 8); i++)
		if (!p->ends[i].is_return)
			view_path(&p->ends[i], &p->calls[0], out);
	out->is_view = out->view_base >= 0;
	if (out->is_view)
		return out->grad_fn >= 0 && out->requires_grad >= 0 && out->view_has_base >= 0;
	only_load(p, 1, 8, &out->grad_fn);
	only_load(p, 1, 1, &out->requires_grad);
	return out->grad_fn >= 0 && out->requires_grad >= 0 && p->nloads == 2 && !p->ncalls &&
	       p->nends;
}

/* Read the bytes of a method, fewer at the end of a mapping. */
static size_t read_method(const struct mem *m, uint64_t at, uint8_t *code)
{
	for (size_t len = METHOD_BYTES; len >= 16; len /= 2)
		if (!mem_read(m, at, code, len))
			return len;
	return 0;
}

int accessors_read_meta(const struct mem *m, uint64_t vtable, int32_t slot, struct meta_facts *out)
{
	uint8_t code[METHOD_BYTES];
	unsigned found = 0;
	struct meta_facts f;
	struct paths *p = malloc(sizeof(*p));
	if (!p)
		return -ENOENT;
	int32_t first = slot >= 0 ? slot : 0, last = slot >= 0 ? slot : 8 * (VTABLE_SLOTS - 1);
	for (int32_t at = first; at <= last; at += 8) {
		uint64_t method;
		if (mem_read_u64(m, vtable + (uint64_t)at, &method))
			break;
		size_t len = read_method(m, method, code);
		if (len && !paths_walk(code, len, 0, p) && method_facts(p, &f)) {
			*out = f;
			found++;
		}
	}
	free(p);
	return found == 1 ? 0 : -ENOENT;
}

int32_t accessors_read_pynode(const struct mem *m, uint64_t vtable)
{
	uint8_t code[METHOD_BYTES];
	int32_t obj = FACT_NONE;
	struct paths *p = malloc(sizeof(*p));
	for (uint64_t at = 0; p && at < 8 * NODE_SLOTS; at += 8) {
		uint64_t method;
		if (mem_read_u64(m, vtable + at, &method))
			break;
		size_t len = read_method(m, method, code);
		if (len && !paths_walk(code, len, 1, p))
			pynode_chain(p, &obj);
	}
	free(p);
	return obj;
}
