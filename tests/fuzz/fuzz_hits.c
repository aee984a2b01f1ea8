/* Fuzzes the records of an engine: the decoder stays within them and its own memory, and the events
 * are well formed: children end before their parents, ids grow, values are of known kinds. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decoder.h"
#include "tests/fuzz/input.h"
#include "tests/unit/sample_hits.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { NROLES = 6, NHOWS = ABI_LIST + 1, NOPS = NHOWS + NROLES, NBASES = CXX_QSCHEME + 1 };

/* For each op an argument of the entry, one decoded at the exit, and a result. */
static struct abi_value values[NOPS][3];
static struct op_probe ops[NOPS];
static struct op_arg names[3] = {{"a", ""}, {"b", ""}, {"c", ""}};
static const uint8_t roles[NROLES] = {ROLE_BOXED,    ROLE_NODE,	  ROLE_PY_NODE,
				      ROLE_FUNCTION, ROLE_ENGINE, ROLE_CALL};

static void make_ops(unsigned char choice)
{
	for (unsigned i = 0; i < NOPS; i++) {
		struct op_probe *o = &ops[i];
		for (unsigned k = 0; k < 3; k++)
			values[i][k] = (struct abi_value){
			    .how = (uint8_t)(i % NHOWS),
			    .base = (uint8_t)((choice + i + k) % NBASES),
			    .read = (uint8_t)(k + 1),
			    .flag_read = 4,
			    .has_flag = (choice >> k & 1) != 0,
			    .std_optional = (choice >> (k + 3) & 1) != 0,
			    .count = choice,
			    .why = "not known",
			};
		*o = (struct op_probe){.role = i < NHOWS ? ROLE_CALL : roles[i - NHOWS],
				       .values_known = i != NOPS - 1};
		o->why = "not known";
		o->desc = (struct op_desc){
		    .name = "op", .schema = "", .nargs = 2, .nresults = 1, .args = names};
		o->desc.results = &names[2];
		o->abi = (struct op_abi){
		    .nargs = 2, .nresults = 1, .args = values[i], .results = &values[i][2]};
		if (o->role == ROLE_NODE || o->role == ROLE_PY_NODE)
			o->desc.kind = OP_BACKWARD;
	}
}

static void check_value(const struct value *v, unsigned level)
{
	if (v->kind > VALUE_NOT_DECODED || level > VALUE_DEPTH_MAX)
		abort();
	if (v->kind == VALUE_NOT_DECODED && (!v->str || !*v->str))
		abort();
	if (v->kind == VALUE_STRING && v->str[v->count])
		abort();
	if (v->kind == VALUE_TENSOR && v->tensor->meta.ndim > TENSOR_MAX_DIM)
		abort();
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		check_value(&v->items[i], level + 1);
}

static void on_grads(const struct decoder_grads *g, void *arg)
{
	(void)arg;
	check_value(&g->returned, 0);
	check_value(&g->flowing, 0);
}

static void on_event(const struct op_event *ev, void *arg)
{
	uint64_t *events = arg;
	if (!ev->op || !ev->id || ev->parent >= ev->id || ev->forward_id >= ev->id ||
	    ev->depth >= OPEN_MAX)
		abort();
	if (!ev->parent != !ev->depth || (ev->thrown && ev->nresults))
		abort();
	for (unsigned i = 0; i < ev->nargs; i++)
		check_value(&ev->args[i], 0);
	for (unsigned i = 0; i < ev->nresults; i++)
		check_value(&ev->results[i], 0);
	++*events;
}

/* Objects that IValues may point to, created for each input. */
static uint64_t boxes[4];

static void make_boxes(struct sample_target *s)
{
	static const char *const classes[] = {
	    "N3c106detail8ListImplE", "N3c106ivalue14ConstantStringE",
	    "N3c106ivalue13ComplexHolderE", "N3c106ivalue6ObjectE"};
	for (unsigned i = 0; i < 4; i++)
		boxes[i] = fake_vtable(&s->fake, fake_type(&s->fake, classes[i], 0), 0, 0);
}

/* Put some valid tensors and vtables among the random data. */
static void plant(struct sample_target *s, struct record *r, unsigned char how, unsigned read)
{
	struct fake_tensor t = fake_ordinary(&s->fake);
	struct tensor_snapshot snap;
	uint64_t object[OBJECT_SIZE / 8] = {how >> 5 ? boxes[(how >> 5) % 4] : s->fake.node,
					    s->fake.storage};
	fake_snapshot(&s->fake, &t, &snap);
	uint8_t packed[2 * WIN_MAX];
	switch (how % 4) {
	case 0:
		record_item(r, ITEM_SNAPSHOT, read, how, &snap, sizeof(snap));
		break;
	case 1:
		if (how & 4 && s->target.reads[0].tail)
			record_item(r, ITEM_TENSOR, read, TPART_PACKED | TPART_STORAGE, packed,
				    sample_pack(&s->target.reads[0], &snap, packed));
		else
			record_item(r, ITEM_TENSOR, read, how, &snap, 8 + how);
		break;
	case 2:
		record_item(r, ITEM_OBJECT, read, how >> 2 & 7, object, sizeof(object));
		break;
	default:
		record_item(r, ITEM_LIST, read, how >> 3, NULL, 0);
	}
}

static void add_items(struct sample_target *s, struct record *r, struct input *in)
{
	uint8_t n = 0, b[6], body[255];
	take(in, &n, 1);
	for (unsigned i = 0; i < (n & 7u) && take(in, b, sizeof(b)) == sizeof(b); i++) {
		if (b[0] & 0x80) {
			plant(s, r, b[1], b[2] & 7);
			continue;
		}
		size_t len = take(in, body, b[1]);
		record_item(r, b[0] % (ITEM_OBJECT + 2), b[2] & 7,
			    b[3] & 1 ? (uint32_t)b[4] << (b[5] & 31) : b[4], body, len);
	}
}

/* Feed the record from a buffer of its exact size, sometimes truncated or with a corrupted item. */
static void give(struct decoder *d, struct record *r, struct input *in)
{
	uint8_t b[3] = {0};
	take(in, b, sizeof(b));
	size_t items = r->hit.size - sizeof(r->hit);
	if (b[0] & 1 && items)
		r->items[(b[1] | (size_t)b[2] << 8) % items] ^= b[0];
	if (b[0] == 0x80)
		r->hit.size = r->hit.size > b[1] ? r->hit.size - b[1] : 0;
	struct hit *h = malloc(r->hit.size > sizeof(*h) ? r->hit.size : sizeof(*h));
	if (!h)
		return;
	memcpy(h, r, r->hit.size > sizeof(*h) ? r->hit.size : sizeof(*h));
	if (b[0] & 2)
		decoder_feed_now(d, h);
	else
		decoder_feed(d, h);
	free(h);
}

/* The process ends, and another gets its number. */
static void remove_target(struct sample_target *s, struct decoder *d)
{
	decoder_end_target(d, 0);
	decoder_remove_target(d, 0);
	if (decoder_add_target(d, 0, &s->target))
		abort();
}

static void run(struct sample_target *s, struct decoder *d, struct input *in)
{
	static struct record r;
	uint8_t b[8];
	uint64_t ts = 0, now = 0;
	while (take(in, b, sizeof(b)) == sizeof(b)) {
		if (b[0] == 0xff)
			decoder_tick(d, now += (uint64_t)b[1] << 25);
		if (b[0] == 0xfe)
			remove_target(s, d);
		record_begin(&r,
			     (struct hit){.kind = b[0] & 3,
					  .flags = b[1],
					  .depth = b[2] & 0x80 ? (uint16_t)(b[2] << 8) : b[2] & 7,
					  .op = b[3] % (NOPS + 1),
					  .proc = b[4] & 0x80 ? (uint16_t)(b[4] << 8) : b[4] & 1,
					  .tid = b[5] & 1,
					  .ts = ts += b[6],
					  .seq = b[7] & 15});
		add_items(s, &r, in);
		give(d, &r, in);
	}
}

/* The layout of the invented build is the same each time: learn it once. */
static void know_layout(struct sample_target *s)
{
	static struct tensor_layout layout;
	if (!layout.solved && sample_target_learn(s))
		abort();
	if (!layout.solved)
		layout = s->target.layout;
	s->target.layout = layout;
	s->target.layout_complete = s->target.layout_known = true;
	s->target.layout.unknown &= ~(uint32_t)LAYOUT_NODE;
	for (unsigned i = 0; i < READS_KEPT; i++)
		s->target.reads[i] = sample_packed_read(&layout);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct sample_target s;
	struct input in = {data, size};
	uint8_t b[2] = {0};
	uint64_t events = 0;

	take(&in, b, sizeof(b));
	make_ops(b[0]);
	sample_target_init(&s, ops, NOPS);
	make_boxes(&s);
	s.ops.scalar_complex_tag = b[1] & 3;
	if (b[1] & 4)
		know_layout(&s);
	s.target.conf.tensor = (struct tensor_read){.win_len = b[1] & 8 ? WIN_MAX : 64,
						    .storage_len = 8,
						    .meta_len = 16,
						    .target_size = b[1] & 16 ? 16 : 0};
	s.target.snapshots = malloc(SNAPSHOTS_MAX * sizeof(*s.target.snapshots));
	struct decoder *d = decoder_new(on_event, &events);
	if (s.target.snapshots && d && !decoder_add_target(d, 0, &s.target)) {
		decoder_on_grads(d, on_grads);
		run(&s, d, &in);
		decoder_finish(d);
	}
	decoder_free(d);
	sample_target_free(&s);
	return 0;
}
