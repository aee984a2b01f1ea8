/* Operators registered with the dispatcher of a live process: for boxed calls, and for operators
 * that are not libtorch's own (torch.library, extensions). */
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
	struct schema_arg *args, *returns; /* types only; desc.nargs and desc.nresults of them */
	bool name_only; /* gone before its schema was read: desc has a single argument and a single
			   result, "?" */
};

struct registry;

/* `m` and `r` must outlive it; `cow`: see std_string_size. NULL when out of memory. */
struct registry *registry_new(const struct mem *m, bool cow, struct rtti *r);
void registry_free(struct registry *g);

enum {
	HANDLE_WORDS = 5,
	OPERATOR_NAME_MAX = 384,
};

/* The operator of a boxed call, identified by the first argument: w[0] is the argument, w[1] and
 * w[2] are the words it points to, w[3] and w[4] those that w[1] points to. The argument is the
 * std::_Any_data of a std::function, which holds a c10::OperatorHandle
 * (ATen/core/dispatch/Dispatcher.h) or, if that is too large, a pointer to one; or the compiler
 * passes the handle's OperatorDef itself. Name and schema are read from the OperatorDef. `name` is
 * the operator's name at the time of the call ("ns::op.overload"); NULL: unknown, then what is
 * there now is trusted. The operator may have been destroyed since, its memory partly overwritten:
 * the schema is that of the definition texts with its name, if they agree, else that in memory;
 * failing both, the operator has a name only. Complete results are cached by w[1] to w[4]; w[0]
 * differs between calls. NULL if no operator can be determined; trying again may help. */
const struct registered_op *registry_find(struct registry *g, const uint64_t w[HANDLE_WORDS],
					  const char *name);

/* Whether registry_find has returned that operator before. */
bool registry_knows(struct registry *g, const uint64_t w[HANDLE_WORDS], const char *name);

/* Whether registry_find would find an operator there now. */
bool registry_is_operator(const struct registry *g, const uint64_t w[HANDLE_WORDS]);

/* Add the schema of an operator being defined, as written in its definition, with or without a
 * namespace. Copies the `len` bytes of `text`. */
void registry_add_schema(struct registry *g, const char *text, size_t len);

/* Add libtorch's own schema of an operator. It takes precedence over definitions: TorchScript also
 * parses texts of older forms, and of operators outside the dispatcher. */
void registry_add_library_schema(struct registry *g, const char *text);

/* An op known by name only, such as a Python autograd class; created on first use. `args` and
 * `results` are NULL-terminated lists of names; NULL: none. NULL when out of memory. */
const struct op_desc *registry_named(struct registry *g, const char *name, enum op_kind kind,
				     const char *const *args, const char *const *results);

/* The function that boxed calls of operators pass through: that of the std::function in every
 * torch::jit::Operator of a c10 operator (torch/csrc/jit/runtime/register_c10_ops.cpp,
 * createOperatorFromC10). torch.ops, TorchScript and everything built on them call ops through it.
 * Stripped libraries have no symbol for it, so it is found through the live registry. */

/* Address in the process of that function. `cpu` is libtorch_cpu, loaded at `bias`; [text,
 * text_end) is its executable mapping in the process. 0 if it cannot be found (yet). */
uint64_t boxed_find(struct elf_file *cpu, uint64_t bias, uint64_t text, uint64_t text_end,
		    const struct mem *m, struct registry *g);

/* Cache of the operators of earlier boxed calls, by the bytes of their records. */

enum { BOXED_SEEN = 256, BOXED_SEEN_BYTES = 176 };

/* The part of a record that names the operator: its items up to BOXED_OVERLOAD, which come first.
 * The payload of the very first, the argument itself, is left out. */
struct boxed_seen {
	const struct registered_op *op; /* NULL: none */
	uint32_t len;
	uint8_t bytes[BOXED_SEEN_BYTES];
};

/* The operator of an earlier record that began like this one; NULL if there is none. `all`:
 * BOXED_SEEN of them, zero-initialised. */
const struct registered_op *boxed_seen_find(const struct boxed_seen *all, const struct items *it);

/* Remember `op` for records that begin like this one. It must be complete, so that registry_find
 * would always return it for them. */
void boxed_seen_add(struct boxed_seen *all, const struct items *it, const struct registered_op *op);

#endif
