/* The schema text of an operator, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)
 * -> Tensor". Grammar: torch/csrc/jit/frontend/function_schema_parser.cpp and
 * schema_type_parser.cpp (1.13.1 and 2.13.0). */
#ifndef SYMBOLIZER_OPS_SCHEMA_H
#define SYMBOLIZER_OPS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* The C++ parameters of a function, from its mangled name: what decides how each argument is
 * passed. */

/* The innermost type. Names as in ATen's and c10's headers (PyTorch 1.13.1 and 2.13.0). */
enum cxx_base {
	CXX_OTHER, /* not known: cxx_param.text is all there is */
	CXX_TENSOR,
	CXX_SCALAR, /* c10::Scalar */
	CXX_INT64,  /* long */
	CXX_INT8,   /* signed char: c10::DeviceIndex */
	CXX_SYMINT, /* c10::SymInt */
	CXX_DOUBLE,
	CXX_BOOL,
	CXX_STRING_VIEW, /* std::basic_string_view<char> or c10::basic_string_view<char> */
	CXX_SCALAR_TYPE,
	CXX_LAYOUT,
	CXX_DEVICE,
	CXX_MEMORY_FORMAT,
	CXX_GENERATOR,
	CXX_DIMNAME,
	CXX_STORAGE,
	CXX_STREAM,
	CXX_QSCHEME, /* a result only */
};

/* How the innermost type is wrapped into a sequence. */
enum cxx_list {
	CXX_NOT_LIST,
	CXX_ARRAY_REF, /* c10::ArrayRef<T>; the T of c10::OptionalArrayRef<T> too */
	CXX_STD_ARRAY, /* std::array<T, array_len> */
	CXX_C10_LIST,  /* c10::List<T> */
	CXX_ILIST_REF, /* c10::IListRef<T> */
};

struct cxx_param {
	uint8_t base;	    /* enum cxx_base */
	uint8_t list;	    /* enum cxx_list */
	uint8_t array_len;  /* CXX_STD_ARRAY: number of elements */
	bool optional;	    /* the whole is an optional: optional<T>, optional<ArrayRef<T>> ... */
	bool elem_optional; /* the elements are optionals: List<optional<T>> */
	bool std_optional;  /* the optional is std::, not c10:: */
	bool std_view;	    /* CXX_STRING_VIEW: std::basic_string_view, not c10's */
	bool opt_array_ref_class; /* c10::OptionalArrayRef<T>: optional and list are set too */
	bool by_ref;		  /* const& or & */
	bool is_const;		  /* const& */
	const char *text;	  /* the type as demangled, in the arena */
};

struct cxx_function {
	const char *scope; /* "at::_ops::dropout", "" for a function outside every class */
	const char *owner; /* the last part of scope: "dropout" */
	const char *name;  /* "call" */
	uint16_t nparams;
	const struct cxx_param *params;
};

enum { CXX_MAX_PARAMS = 256 };

/* Read the mangled name `symbol` (Itanium C++ ABI, section 5.1) into `out`; everything that `out`
 * points to lies in `a`. Returns 0; -EINVAL when `symbol` is not the name of a C++ function or has
 * more than CXX_MAX_PARAMS parameters; -ENOMEM. A type that is not known is no failure: CXX_OTHER.
 */
int cxx_function_parse(const char *symbol, struct arena *a, struct cxx_function *out);

/* Read one demangled type of `len` bytes, "c10::optional<at::Tensor> const&", into `out`; `text` is
 * left alone. */
void cxx_type_parse(const char *type, size_t len, struct cxx_param *out);

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

/* The schema texts of a library, found in its read-only data, by the C++ name of their operator. */

/* Called with each text found, `len` bytes followed by a NUL; a value other than 0 ends the scan.
 */
typedef int schema_scan_fn(const char *text, size_t len, void *arg);

/* Find the NUL-terminated strings that look like a schema, NAME[::NAME][.OVERLOAD](...) -> ..., in
 * `len` bytes at `rodata`: the image of a .rodata section, with whatever else stands in it. Each is
 * reported once, in the order of their places; whether it is a schema says schema_parse. Returns
 * what the callback did, or 0. */
int schema_scan(const char *rodata, size_t len, schema_scan_fn *fn, void *arg);

/* Zero-initialise. */
struct schema_index {
	struct schema_text *texts; /* those found */
	size_t ntexts, room;
	uint32_t *table; /* open addressing by operator name; index into texts + 1, 0 is free */
	size_t table_size;
};

/* Add the texts in `rodata`, which must stay until schema_index_free. A library with several
 * read-only sections is added section by section. Returns 0 or -ENOMEM. */
int schema_index_add(struct schema_index *x, const char *rodata, size_t len);

void schema_index_free(struct schema_index *x);

/* The schema of the operator whose C++ struct is at::_ops::OWNER: its name with the overload's "."
 * replaced by "_" (torchgen/model.py, OperatorName.unambiguous_name). `fn` is the parsed symbol of
 * that struct's `call`, and what it takes must agree with the schema argument by argument; that
 * tells a schema from another text of the same name (patterns of graph passes, operators of other
 * namespaces), and finds the one of which the linker kept only the end of a longer text ("erf(" in
 * "special_erf("). The namespace is "aten".
 *
 * Returns 0; -ENOENT when no text fits; -ENOTUNIQ when several do that differ in an argument's name
 * or type or in the results; -ENOMEM. On failure the operator's schema is unknown and nothing may
 * be decoded by it. */
int schema_index_find(const struct schema_index *x, const struct cxx_function *fn, struct arena *a,
		      struct schema *out);

/* Does the C++ parameter `p` carry the schema argument `arg`? The rules of torchgen/api/cpp.py,
 * valuetype_type and argumenttype_type, and torchgen/api/dispatcher.py. CXX_OTHER agrees with
 * the schema types that have no enum cxx_base. */
bool schema_arg_agrees(const struct schema_arg *arg, const struct cxx_param *p);

#endif
