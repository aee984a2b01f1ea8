/* Operators as the dispatcher of a live process has registered them: for boxed calls, and for
 * operators that are not the library's own (torch.library, extensions). */
#ifndef SYMBOLIZER_DECODE_REGISTRY_H
#define SYMBOLIZER_DECODE_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/decode/decode_value.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/torch/layout.h"

struct registered_op {
	struct op_desc desc;		   /* first: a pointer to it is a pointer to this */
	struct schema_arg *args, *returns; /* types only, as many as desc.nargs, desc.nresults */
	bool name_only; /* gone before its schema was read: desc has one argument and one result,
			   "?", in place of all */
};

struct registry;

/* `m` and `r` must outlive it; `cow`: see std_string_size. NULL without memory. */
struct registry *registry_new(const struct mem *m, bool cow, struct rtti *r);
void registry_free(struct registry *g);

enum {
	HANDLE_WORDS = 5,
	OPERATOR_NAME_MAX = 384,
};

/* The operator of a boxed call, by its first argument: w[0] is that, w[1], w[2] the words it points
 * to, w[3], w[4] those that w[1] points to. It is the std::_Any_data of a std::function that holds
 * a c10::OperatorHandle (ATen/core/dispatch/Dispatcher.h) or, where it is too large for that,
 * points to one, or the compiler passes the handle's OperatorDef itself; whose name and schema are
 * read. `name` is what it was called when the call was made ("ns::op.overload"); NULL: not known,
 * then what lies there now is believed. An operator may be gone when it is looked for, its memory
 * half overwritten: the schema is that of the texts with its name, if they agree, else what lies
 * there, and else it has a name alone. What was found whole is cached, w[0] aside, which is another
 * for each call. NULL when no operator can be made out; asking again may help. */
const struct registered_op *registry_find(struct registry *g, const uint64_t w[HANDLE_WORDS],
					  const char *name);

/* Whether registry_find has answered for that operator before. */
bool registry_knows(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name);

/* Whether registry_find would find one there now. */
bool registry_is_operator(const struct registry *g, const uint64_t w[HANDLE_WORDS]);

/* The schema of an operator that was defined, as its definition has it: with or without a
 * namespace. `text` of `len` bytes is copied. */
void registry_add_schema(struct registry *g, const char *text, size_t len);

/* The schema that libtorch has for an operator of its own. No definition comes before it:
 * TorchScript parses texts of older forms, too, and of operators that are not the dispatcher's. */
void registry_add_library_schema(struct registry *g, const char *text);

/* An op that has nothing but a name, made on first use: a Python class of autograd, say. `args` and
 * `results` are names, NULL-terminated. NULL without memory. */
const struct op_desc *registry_named(struct registry *g, const char *name, enum op_kind kind,
				     const char *const *args, const char *const *results);

/* Where boxed calls of operators pass: the std::function that every torch::jit::Operator of a c10
 * operator holds (torch/csrc/jit/runtime/register_c10_ops.cpp, createOperatorFromC10). torch.ops,
 * TorchScript and all that is built on them call ops through it. It has no symbol in stripped
 * libraries, so it is taken from the live registry. */

/* Address in the process of that function. `cpu` is libtorch_cpu, loaded at `bias`; [text,
 * text_end) its executable mapping in the process. 0 when it is not (yet) to be found. */
uint64_t boxed_find(struct elf_file *cpu, uint64_t bias, uint64_t text, uint64_t text_end,
		    const struct mem *m, struct registry *g);

/* Which operator the boxed calls before were of, by the bytes of their records. */

enum { BOXED_SEEN = 256, BOXED_SEEN_BYTES = 176 };

/* All that names the operator in a record: its items up to BOXED_OVERLOAD, which come first; what
 * is in the very first, the argument itself, is left out. */
struct boxed_seen {
	const struct registered_op *op; /* NULL: none */
	uint32_t len;
	uint8_t bytes[BOXED_SEEN_BYTES];
};

/* The operator of a record that begins as one before did; NULL: none did. `all`: BOXED_SEEN of
 * them, zeroed at first. */
const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it);

/* From now on records that begin as this one are of `op`, which must be whole: what registry_find
 * will always answer for it. */
void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op);

#endif
