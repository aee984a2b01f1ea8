#define _GNU_SOURCE
#include "symbolizer/decode/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/python/python.h"

static int find_biases(struct target *t, const struct maps *maps)
{
	struct libraries l;
	libraries_find(maps, &l);
	for (unsigned i = 0; i < OPS_FILES; i++) {
		const struct mapping *m = t->ops->elf[i] ? ops_mapping(&l, i) : NULL;
		if (m && elf_bias(t->ops->elf[i], m, &t->bias[i]))
			return -EPROTO;
	}
	t->text = l.torch ? l.torch->start : 0;
	t->text_end = l.torch ? l.torch->end : 0;
	return 0;
}

int target_find_python(struct target *t, struct err *e)
{
	if (t->py)
		return 0;
	int r = python_open(t->pid, &t->mem, &t->py, e);
	if (r)
		return r;
	if (t->package.dir[0])
		py_set_torch_dir(t->py, t->package.dir);
	py_want_parameters(t->py);
	t->conf.py = *python_walk(t->py);
	t->conf.code = python_code_read(t->py);
	t->conf.py_on = 1;
	return 0;
}

/* The first word of an object of the class with that vtable: the address after the vtable's first
 * two words (Itanium C++ ABI, 2.5.2). */
static uint64_t vtable_word(uint64_t vtable, uint64_t bias)
{
	return vtable + bias + 16;
}

/* Before the layout is known, read whole snapshots. */
static void set_discovery(struct target *t)
{
	struct tensor_read *c = &t->conf.tensor;
	*c = (struct tensor_read){.discover = 1};
	if (t->ops->undefined)
		c->undefined = t->ops->undefined + t->bias[OPS_C10];
	if (t->ops->vt_impl)
		c->vt_impl = vtable_word(t->ops->vt_impl, t->bias[OPS_C10]);
	/* Let the engine read sizes that are not inline, too: the snapshot lacks them. */
	if (t->ops->facts.sizes > 0 && t->ops->facts.sizes + 16 <= WIN_MAX) {
		c->sizes = (uint16_t)t->ops->facts.sizes;
		c->inline_dims = (uint16_t)layout_inline_dims(&t->ops->facts);
	}
	/* The data pointer of a StorageImpl directly follows its base class. */
	if (t->ops->facts.data_ptr > 0)
		c->target_size = (uint16_t)t->ops->facts.data_ptr;
}

static uint16_t span_end(uint16_t end, uint16_t off, uint16_t size)
{
	return off != LAYOUT_NONE && off + size > end ? (uint16_t)(off + size) : end;
}

static uint16_t lower(uint16_t least, const struct flag_tests *f)
{
	for (unsigned i = 0; i < f->n; i++)
		least = f->test[i].off < least ? (uint16_t)f->test[i].off : least;
	return least;
}

/* Offset of the part of the window that holds everything except the sizes and the pointers; 0 if
 * there is no such part. LAYOUT_NONE is above all offsets. */
static uint16_t tail_of(const struct tensor_layout *l)
{
	const uint16_t places[] = {l->storage_offset, l->numel,	  l->dtype,	 l->device,
				   l->device_engaged, l->key_set, l->ordinary_at};
	uint16_t least = LAYOUT_NONE;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		least = places[i] < least ? places[i] : least;
	least = lower(lower(least, &l->custom_shape), &l->custom_stride);
	least = lower(lower(least, &l->custom_device), &l->custom_layout);
	least &= (uint16_t)~7u;
	bool aligned = !((l->sizes | l->storage | l->autograd_meta) & 7);
	return aligned && least >= l->sizes + 8 + 16 * l->inline_dims && least < l->win_len ? least
											    : 0;
}

static void set_steady(struct target *t)
{
	const struct tensor_layout *l = &t->layout;
	struct tensor_read *c = &t->conf.tensor;
	c->discover = 0;
	c->win_len = l->win_len > WIN_MAX ? WIN_MAX : (uint16_t)((l->win_len + 7) & ~7);
	c->sizes = l->sizes;
	c->inline_dims = l->inline_dims;
	if (!(l->unknown & (LAYOUT_STORAGE | LAYOUT_DATA_PTR))) {
		c->storage = l->storage;
		c->storage_from = l->storage_data_ptr;
		c->storage_len = 8;
		c->target_size = l->storage_data_ptr;
	}
	c->meta_len = 0;
	c->pack_meta = 0;
	c->tail = l->unknown & LAYOUT_AUTOGRAD || !c->storage_len ? 0 : tail_of(l);
	c->node_seq = l->unknown & LAYOUT_NODE ? 0 : l->node_sequence_nr;
	if (l->unknown & LAYOUT_AUTOGRAD)
		return;
	/* Always read the first word of the metadata: it identifies the class, from which an
	 * unknown layout is learned. */
	uint16_t end = 8;
	if (!(l->unknown & LAYOUT_META))
		end = span_end(span_end(end, l->meta_grad_fn, 8), l->meta_requires_grad, 1);
	c->meta = l->autograd_meta;
	c->meta_len = end > PART_MAX ? PART_MAX : (uint16_t)((end + 7) & ~7);
	c->grad_fn = l->unknown & LAYOUT_META ? 0xffff : l->meta_grad_fn;
	c->requires_grad = l->unknown & LAYOUT_META ? 0xffff : l->meta_requires_grad;
	c->view_vtable = l->unknown & LAYOUT_VIEW ? 0 : l->view_vtable;
	c->view_base = l->view_base;
	c->view_has_base = l->view_has_base;
	c->pack_meta = !(l->unknown & LAYOUT_META) && l->meta_grad_fn % 8 == 0 &&
		       l->view_has_base >= c->meta_len;
}

static int find_interned(struct target *t)
{
	uint64_t places[INTERNED_PLACES];
	for (unsigned i = 0; i < INTERNED_PLACES; i++)
		places[i] = t->ops->interned[i] ? t->ops->interned[i] + t->bias[OPS_CPU] : 0;
	t->interned = interned_new(&t->mem, t->ops->cow_strings, places);
	return t->interned ? 0 : -ENOMEM;
}

int target_open(pid_t pid, const struct op_table *ops, const struct maps *maps, struct target **out,
		struct err *py_note, struct err *e)
{
	struct target *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, -ENOMEM, "no memory");
	t->pid = pid;
	t->ops = ops;
	process_rank_read(pid, &t->rank);
	t->mem = mem_process(pid);
	t->rtti = rtti_new(&t->mem);
	t->registry = t->rtti ? registry_new(&t->mem, ops->cow_strings, t->rtti) : NULL;
	t->snapshots = malloc(SNAPSHOTS_MAX * sizeof(*t->snapshots));
	int r = t->registry && t->snapshots ? find_biases(t, maps) : -ENOMEM;
	r = r ? r : find_interned(t);
	if (r) {
		target_close(t);
		return err_set(e, r, "cannot follow process %d: %s", pid,
			       r == -ENOMEM ? "no memory"
					    : "its libraries are not mapped as their files say");
	}
	torch_package_find(pid, maps, &t->package);
	t->conf.cow_strings = ops->cow_strings;
	set_discovery(t);
	t->reads[0] = t->conf.tensor;
	if (target_find_python(t, py_note) && target_callers(t))
		native_callers_open(t->callers);
	*out = t;
	return 0;
}

void target_inherit(struct target *t, const struct target *parent)
{
	if (parent->ops != t->ops || !parent->layout_known ||
	    memcmp(parent->bias, t->bias, sizeof(t->bias)))
		return;
	t->layout = parent->layout;
	t->layout_known = true;
	target_refresh(t);
}

void target_close(struct target *t)
{
	if (!t)
		return;
	python_close(t->py);
	native_callers_free(t->callers);
	interned_free(t->interned);
	registry_free(t->registry);
	seen_tensors_forget(t);
	rtti_free(t->rtti);
	node_map_free(&t->nodes);
	groups_free(t->groups);
	free(t->snapshots);
	free(t);
}

static bool solve(struct target *t)
{
	struct err why = {0};
	t->layout_complete = !layout_solve(t->snapshots, t->nsnapshots, &t->ops->facts, t->rtti,
					   &t->mem, &t->layout, &why);
	return t->layout_complete;
}

static void next_generation(struct target *t)
{
	t->conf.generation++;
	t->reads[t->conf.generation % READS_KEPT] = t->conf.tensor;
}

bool target_refresh(struct target *t)
{
	if (!t->layout_known || !memcmp(&t->layout, &t->engine_layout, sizeof(t->layout)))
		return false;
	t->engine_layout = t->layout;
	if (t->layout.solved)
		set_steady(t);
	next_generation(t);
	return true;
}

/* Fill in from static evidence what the snapshots did not show, for example because no tensor
 * required grad. */
static void complete_layout(struct target *t)
{
	if (t->layout.unknown & LAYOUT_NODE && t->ops->node_seq) {
		t->layout.node_sequence_nr = t->ops->node_seq;
		t->layout.unknown &= ~(uint32_t)LAYOUT_NODE;
	}
	for (unsigned i = 0; i < 2; i++)
		if (t->ops->vt_meta[i])
			layout_learn_meta(&t->layout,
					  vtable_word(t->ops->vt_meta[i], t->bias[OPS_CPU]),
					  t->rtti, &t->mem);
}

void target_settle(struct target *t)
{
	if (t->layout_known)
		return;
	if (!t->layout.solved)
		solve(t);
	t->layout_known = true;
	free(t->snapshots);
	t->snapshots = NULL;
	complete_layout(t);
	target_refresh(t);
}

/* Only complete snapshots are evidence: bytes that were not read prove nothing. */
static bool is_whole(const struct tensor_snapshot *s)
{
	for (unsigned k = 0; k < SNAPSHOT_PARTS; k++)
		if (s->at[k].valid && s->at[k].len < PART_MAX)
			return false;
	return s->impl_len == WIN_MAX;
}

bool target_learn(struct target *t, const struct items *it)
{
	const struct item *i = NULL;
	bool more = false;
	if (t->layout_known)
		return false;
	while ((i = items_next(it, i)) && t->nsnapshots < SNAPSHOTS_MAX) {
		if (i->kind != ITEM_SNAPSHOT || i->len < sizeof(struct tensor_snapshot))
			continue;
		struct tensor_snapshot *s = &t->snapshots[t->nsnapshots];
		memcpy(s, i + 1, sizeof(*s));
		if (!is_whole(s))
			continue;
		t->nsnapshots++;
		more = true;
	}
	/* Each attempt costs more with more snapshots: try at each doubling. */
	if (!more || (t->nsnapshots & (t->nsnapshots - 1) && t->nsnapshots != SNAPSHOTS_MAX &&
		      t->nsnapshots > 16))
		return false;
	/* One tensor may suffice to solve the layout; more show which flag bits are ordinary
	 * here. */
	if ((!solve(t) || t->nsnapshots < SNAPSHOTS_ENOUGH) && t->nsnapshots < SNAPSHOTS_MAX)
		return false;
	target_settle(t);
	return true;
}

bool target_node_seq(struct target *t, uint64_t node, uint64_t *seq)
{
	uint16_t at = t->ops->node_seq;
	if (!(t->layout.unknown & LAYOUT_NODE) ||
	    !layout_learn_node(&t->layout, node, t->rtti, &t->mem))
		at = t->layout.node_sequence_nr;
	return at && !mem_read_u64(&t->mem, node + at, seq);
}

/* Cache the classes needed to interpret snapshots: the program may be gone when they are
 * decoded. */
static void know_classes(struct target *t)
{
	if (t->ops->vt_impl)
		rtti_of_vtable(t->rtti, vtable_word(t->ops->vt_impl, t->bias[OPS_C10]));
	for (unsigned i = 0; i < OPS_FILES; i++)
		if (t->ops->vt_storage[i])
			rtti_of_vtable(t->rtti, vtable_word(t->ops->vt_storage[i], t->bias[i]));
}

static const struct meta_facts *meta_facts(struct target *t, unsigned i)
{
	return layout_meta_facts(t->rtti, &t->mem,
				 vtable_word(t->ops->vt_meta[i], t->bias[OPS_CPU]),
				 t->ops->facts.requires_grad_slot);
}

/* Let the engine read the bases of views, too. `grad_fn` is its offset in the other metadata class,
 * which must be the same. */
static void prepare_views(struct target *t, int32_t grad_fn)
{
	struct tensor_read *c = &t->conf.tensor;
	int32_t meta = t->ops->facts.autograd_meta;
	const struct meta_facts *f = meta_facts(t, 1);
	if (meta < 0 || meta + 8 > WIN_MAX || !f || !f->is_view || f->grad_fn != grad_fn ||
	    f->requires_grad > UINT16_MAX || f->view_base > UINT16_MAX ||
	    f->view_has_base > UINT16_MAX)
		return;
	c->meta = (uint16_t)meta;
	c->requires_grad = (uint16_t)f->requires_grad;
	c->view_base = (uint16_t)f->view_base;
	c->view_has_base = (uint16_t)f->view_has_base;
	c->view_vtable = c->meta_vtable[1];
}

bool target_prepare(struct target *t)
{
	struct tensor_read *c = &t->conf.tensor;
	if (t->layout_known)
		return false;
	know_classes(t);
	if (c->node_seq || !t->ops->node_seq || !t->ops->vt_meta[0] || !t->ops->vt_meta[1])
		return false;
	const struct meta_facts *f = meta_facts(t, 0);
	if (!f || f->grad_fn <= 0 || f->grad_fn + 8 > PART_MAX)
		return false;
	for (unsigned i = 0; i < 2; i++)
		c->meta_vtable[i] = vtable_word(t->ops->vt_meta[i], t->bias[OPS_CPU]);
	c->grad_fn = (uint16_t)f->grad_fn;
	c->node_seq = t->ops->node_seq;
	prepare_views(t, f->grad_fn);
	next_generation(t);
	return true;
}

struct native_callers *target_callers(struct target *t)
{
	const uint64_t at = t->ops->engine_main ? t->ops->engine_main + t->bias[OPS_CPU] : 0;
	if (!t->callers)
		t->callers = native_callers_new(t->pid, at, at ? at + t->ops->engine_main_size : 0);
	return t->callers;
}

uint16_t target_pynode_obj(struct target *t)
{
	int32_t off = t->ops->facts.pynode_obj;
	if (off <= 0 && t->ops->pynode_vtable)
		off = accessors_read_pynode(
		    &t->mem, vtable_word(t->ops->pynode_vtable, t->bias[OPS_PYTHON]));
	return off > 0 && off < INT16_MAX ? (uint16_t)off : 0;
}

uint64_t target_find_boxed(struct target *t)
{
	return boxed_find(t->ops->elf[OPS_CPU], t->bias[OPS_CPU], t->text, t->text_end, &t->mem,
			  t->registry);
}
