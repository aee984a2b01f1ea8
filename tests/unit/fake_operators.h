/* Operators of the dispatcher in the memory of faketorch.h, laid out as in ATen/core/dispatch. */
#ifndef TESTS_UNIT_FAKE_OPERATORS_H
#define TESTS_UNIT_FAKE_OPERATORS_H

#include "symbolizer/decode/target.h"
#include "tests/unit/faketorch.h"

enum { FAKE_ARGUMENT = 128, FAKE_DEF = 0x120 };

struct fake_operators {
	struct fake fake;
	bool cow;			/* see std_string_size */
	uint64_t type;			/* type_info of c10::Type */
	uint64_t int_type, tensor_type; /* objects */
};

static inline uint64_t fake_object(struct fake_operators *o, uint64_t vtable)
{
	uint64_t w[12] = {vtable};
	return fake_put(&o->fake, w, sizeof(w));
}

/* An object of a new class, with base class `base` (0: none). */
static inline uint64_t fake_object_of(struct fake_operators *o, const char *class, uint64_t base)
{
	return fake_object(o,
			   fake_vtable(&o->fake, fake_type(&o->fake, class, base), FAKE_BASE, 0));
}

static inline void fake_operators_init(struct fake_operators *o, bool cow)
{
	struct invented in = fake_layout(1);
	fake_init(&o->fake, &in, 1);
	o->cow = cow;
	o->type = fake_type(&o->fake, "N3c104TypeE", 0);
	o->int_type = fake_object_of(o, "N3c107IntTypeE", o->type);
	o->tensor_type = fake_object_of(o, "N3c1010TensorTypeE", o->type);
}

static inline void fake_write(struct fake_operators *o, uint64_t addr, const void *data, size_t len)
{
	memcpy(o->fake.bytes + (addr - FAKE_BASE), data, len);
}

/* c10::OptionalType or ListType as in libtorch 1.13: the vector of contained types, then the
 * TypePtr of the element, of which `owners` is the second word. The vector ends with a type that
 * was freed. */
static inline uint64_t fake_container(struct fake_operators *o, const char *class, uint64_t of,
				      uint64_t owners)
{
	uint64_t types[5] = {of, owners, o->tensor_type, 0};
	memcpy(&types[4], o->fake.bytes + (o->int_type - FAKE_BASE), 8);
	uint64_t at = fake_put(&o->fake, types, sizeof(types)), end = at + 32;
	uint64_t vtable = fake_vtable(&o->fake, fake_type(&o->fake, class, o->type), FAKE_BASE, 0);
	uint64_t w[14] = {vtable, 0x13, 0, 0, 0, at, end, end, 1, of, owners};
	w[2] = fake_put(&o->fake, w, sizeof(w));
	fake_write(o, w[2], w, sizeof(w));
	return w[2];
}

/* A std::string of at most 39 bytes, with its text elsewhere. */
static inline void fake_string(struct fake_operators *o, uint64_t addr, const char *text)
{
	uint64_t len = strlen(text), rep[8] = {len, 64};
	memcpy(rep + 3, text, len);
	uint64_t w[4] = {fake_put(&o->fake, rep, sizeof(rep)) + 24, len, 64};
	fake_write(o, addr, w, std_string_size(o->cow));
}

/* c10::Argument */
static inline void fake_argument(struct fake_operators *o, uint64_t addr, const char *name,
				 uint64_t type)
{
	fake_string(o, addr, name);
	fake_write(o, addr + std_string_size(o->cow), &type, 8);
}

/* The address of the vectors of arguments and results in the OperatorDef at `def`. */
static inline uint64_t fake_vectors(const struct fake_operators *o, uint64_t def)
{
	return def + 4 * std_string_size(o->cow) + 8;
}

/* An OperatorDef at `def`: name.overload(Tensor x, int `second`) -> Tensor. */
static inline void fake_define(struct fake_operators *o, uint64_t def, const char *name,
			       const char *overload, const char *second)
{
	uint8_t none[2 * FAKE_ARGUMENT] = {0};
	unsigned string = std_string_size(o->cow);
	uint64_t args = fake_put(&o->fake, none, 2 * FAKE_ARGUMENT),
		 returns = fake_put(&o->fake, none, FAKE_ARGUMENT);
	uint64_t vectors[6] = {args,	args + 2 * FAKE_ARGUMENT, args + 2 * FAKE_ARGUMENT,
			       returns, returns + FAKE_ARGUMENT,  returns + FAKE_ARGUMENT};
	for (unsigned i = 0; i < 2; i++) {
		fake_string(o, def + (2 * string + 8) * i, name);
		fake_string(o, def + (2 * string + 8) * i + string, overload);
	}
	fake_write(o, fake_vectors(o, def), vectors, sizeof(vectors));
	fake_argument(o, args, "x", o->tensor_type);
	fake_argument(o, args + FAKE_ARGUMENT, second, o->int_type);
	fake_argument(o, returns, "", o->tensor_type);
}

/* Room for an OperatorDef. */
static inline uint64_t fake_def(struct fake_operators *o)
{
	uint8_t none[FAKE_DEF] = {0};
	return fake_put(&o->fake, none, sizeof(none));
}

/* The words of an OperatorHandle, as probes read them. */
static inline void fake_handle(const struct fake_operators *o, uint64_t def, uint64_t data,
			       uint64_t w[HANDLE_WORDS])
{
	w[0] = data;
	w[1] = def;
	w[2] = def - 16;
	memcpy(&w[3], o->fake.bytes + (def - FAKE_BASE), 16);
}

#endif
