/* The schema text of an operator, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)
 * -> Tensor". Grammar: torch/csrc/jit/frontend/function_schema_parser.cpp and
 * schema_type_parser.cpp (1.13.1 and 2.13.0). */
#ifndef SYMBOLIZER_OPS_SCHEMA_H
#define SYMBOLIZER_OPS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct op_desc;

enum schema_base {
	SCHEMA_OTHER, /* tuples, Dict, Future, classes, type variables */
	SCHEMA_TENSOR,
	SCHEMA_SCALAR,
	SCHEMA_INT,
	SCHEMA_SYMINT,
	SCHEMA_FLOAT,
	SCHEMA_BOOL,
	SCHEMA_COMPLEX,
	SCHEMA_STR,
	SCHEMA_DTYPE, /* ScalarType */
	SCHEMA_LAYOUT,
	SCHEMA_DEVICE,
	SCHEMA_DEVICE_INDEX,
	SCHEMA_MEMORY_FORMAT,
	SCHEMA_GENERATOR,
	SCHEMA_DIMNAME,
	SCHEMA_STORAGE,
	SCHEMA_STREAM,
	SCHEMA_QSCHEME,
};

struct schema_arg {
	const char *name;	  /* "" for a result without a name */
	const char *type;	  /* as written: "Tensor(a!)[]?" */
	const char *default_text; /* as written, NULL without a default */
	const char *alias;	  /* inside the alias parentheses: "a!", "a -> *"; NULL without */
	uint8_t base;		  /* enum schema_base of the innermost type */
	uint8_t list_depth;	  /* 1 for T[], 2 for T[][] */
	int32_t list_len;	  /* of T[n]: n; 0 when not given */
	bool is_list;
	bool is_optional;      /* the whole may be None: T?, T[]? */
	bool elem_is_optional; /* T?[] */
	bool is_write;	       /* the alias annotation has a "!" */
	bool kwarg_only;
};

struct schema {
	const char *ns, *name, *overload; /* "aten", "add", "Tensor"; ns and overload may be "" */
	const char *full_name;		  /* "aten::add.Tensor" */
	const char *text;		  /* the whole, with the namespace */
	uint16_t nargs, nreturns;
	bool vararg; /* "..." ends the arguments */
	bool varret; /* "..." ends the results, or is all of them */
	const struct schema_arg *args, *returns;
};

enum {
	SCHEMA_MAX_TEXT = 16384, /* longest text taken, in bytes */
	SCHEMA_MAX_ARGS = 256,	 /* most arguments, and most results */
};

/* Parse `len` bytes at `text` into `out`; everything that `out` points to lies in `a`. A name
 * without a namespace gets `default_ns` ("aten" for what TORCH_LIBRARY(aten) defines; "" for none).
 * Returns 0; -EINVAL when the text is not a schema, all of it; -E2BIG over the limits above;
 * -ENOMEM. */
int schema_parse(const char *text, size_t len, const char *default_ns, struct arena *a,
		 struct schema *out);

/* Parse `text`, a type as op_arg.type has it, into the fields of `out` that a type sets (not name
 * and default). Returns as schema_parse. */
int schema_parse_type(const char *text, struct arena *a, struct schema_arg *out);

/* OP_INPLACE (writes to an argument that may be given by position), OP_OUT (writes to one given by
 * keyword only), OP_VIEW (a result aliases an argument without being written to), OP_RANDOM (has a
 * Generator, or is known to draw random numbers without one), or-ed, as in op_desc.flags. */
uint8_t schema_flags(const struct schema *s);

/* Fill name, schema, kind, flags, args and results of `out` (id stays), with strings shared with
 * `s` and arrays in `a`. Returns 0 or -ENOMEM. */
int schema_to_desc(const struct schema *s, struct arena *a, struct op_desc *out);

#endif
