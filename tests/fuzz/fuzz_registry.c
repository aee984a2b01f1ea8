/* Fuzzes the dispatcher's operators in the memory of a target: what is read of them is whole, and
 * the search for the function of boxed calls ends. The input is steps: bytes of the memory change,
 * texts are defined, operators are looked up. */
#include "symbolizer/decode/boxed.c"

#include <stdlib.h>

#include "tests/fuzz/input.h"
#include "tests/unit/fake_operators.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { DEFS = 4, CODE = 0x1000, STEPS = 256 };

static struct fake_operators all;
static uint64_t defs[DEFS], boxes;

/* torch::jit::OperatorRegistry, with operators in a vector and in the nodes of a map. */
static void register_all(void)
{
	uint64_t list[2 * DEFS] = {0}, node[4] = {0}, head[REGISTRY_WORDS] = {0};
	for (unsigned i = 0; i < DEFS; i++) {
		uint64_t o[OPERATOR_WORDS] = {[5] = defs[i], defs[i] - 16, CODE + 16, CODE + 32};
		list[2 * i] = fake_put(&all.fake, o, sizeof(o));
	}
	node[2] = fake_put(&all.fake, list, sizeof(list));
	node[3] = node[2] + sizeof(list);
	head[7] = fake_put(&all.fake, node, sizeof(node));
	boxes = fake_put(&all.fake, head, sizeof(head));
}

static void init(bool cow)
{
	fake_operators_init(&all, cow);
	for (unsigned i = 0; i < DEFS; i++)
		defs[i] = fake_def(&all);
	fake_define(&all, defs[0], "test::one", "", "n");
	all.int_type = fake_container(&all, "N3c1012OptionalTypeE", all.int_type, 0);
	fake_define(&all, defs[1], "test::one", "out", "n");
	all.tensor_type = fake_container(&all, "N3c108ListTypeE", all.tensor_type, 0);
	fake_define(&all, defs[2], "test::two", "out", "dtype");
	all.int_type = fake_container(&all, "N3c108ListTypeE", all.int_type, 0);
	fake_define(&all, defs[3], "aten::three", "", "self");
	register_all();
}

static void check_values(const struct op_arg *a, const struct schema_arg *s, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!a[i].name || !a[i].type || (s && (!s[i].name || !s[i].type)))
			abort();
}

static void look_up(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name)
{
	const struct registered_op *op = registry_find(g, w, name);
	registry_is_operator(g, w);
	if (!op)
		return;
	if (!registry_knows(g, w, name) || (name && strcmp(op->desc.name, name)))
		abort();
	check_values(op->desc.args, op->name_only ? NULL : op->args, op->desc.nargs);
	check_values(op->desc.results, op->name_only ? NULL : op->returns, op->desc.nresults);
}

/* The words at a handle as probes read them, by one of three ways that a compiler has. */
static void look_up_at(struct registry *g, uint64_t def, uint8_t way, const char *name)
{
	uint64_t w[HANDLE_WORDS] = {FAKE_BASE, def, def - 16};
	if (fake_read(&all.fake.mem, def, &w[3], 16))
		return;
	if (way % 3 == 1)
		memcpy(w, (uint64_t[]){def, w[3], w[4]}, 24);
	if (way % 3 == 2)
		memcpy(w, (uint64_t[]){FAKE_BASE, FAKE_BASE, 0, def, def - 16}, 40);
	look_up(g, w, name);
}

/* Find the function of boxed calls; at first all operators agree on it. */
static void search(struct registry *g, bool spoiled)
{
	struct boxed b = {.mem = &all.fake.mem, .registry = g, .text = CODE, .text_end = 2 * CODE};
	look_at_registry(&b, boxes);
	if (!spoiled && (b.votes < AGREE || b.found != CODE + 32))
		abort();
}

static void spoil(uint16_t at, uint8_t by)
{
	all.fake.bytes[at % all.fake.used] ^= by;
}

/* Make a word of the memory point into it. */
static void aim(uint16_t at, uint16_t to)
{
	uint64_t address = FAKE_BASE + to % all.fake.used;
	fake_write(&all, FAKE_BASE + (at % all.fake.used & ~7u), &address, 8);
}

static bool step(struct registry *g, struct input *in)
{
	static const char *const names[] = {
	    NULL, "test::one", "test::one.out", "test::two.out", "aten::three", "test::gone"};
	uint8_t b[6];
	if (take(in, b, sizeof(b)) != sizeof(b))
		return false;
	uint16_t at = (uint16_t)(b[1] | b[2] << 8), to = (uint16_t)(b[3] | b[4] << 8);
	switch (b[0] % 6) {
	case 0:
		spoil(at, b[3]);
		break;
	case 1:
		aim(at, to);
		break;
	case 2:
		look_up_at(g, defs[b[1] % DEFS], b[2], names[b[3] % 6]);
		break;
	case 3:
		look_up_at(g, FAKE_BASE + at, b[5], names[b[4] % 6]);
		break;
	case 4:
		search(g, true);
		break;
	default:
		registry_add_schema(g, (const char *)in->data, b[1] < in->left ? b[1] : in->left);
		take(in, (char[256]){0}, b[1]);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = 0;
	take(&in, &how, 1);
	init(how & 1);
	struct rtti *r = rtti_new(&all.fake.mem);
	struct registry *g = r ? registry_new(&all.fake.mem, how & 1, r) : NULL;
	if (!g)
		abort();
	registry_add_library_schema(g,
				    "aten::three(Tensor self, ScalarType? dtype=None) -> Tensor[]");
	search(g, false);
	for (unsigned i = 0; i < STEPS && step(g, &in); i++)
		;
	registry_free(g);
	rtti_free(r);
	return 0;
}
