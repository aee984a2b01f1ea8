/* Operator schemas, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", and
 * the C++ parameters that carry them. Grammar: torch/csrc/jit/frontend/function_schema_parser.cpp
 * and schema_type_parser.cpp (1.13.1 and 2.13.0). */
#ifndef SYMBOLIZER_OPS_SCHEMA_H
#define SYMBOLIZER_OPS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

/* The C++ parameters of a function, from its mangled name; they determine how each argument is
 * passed. */

/* The innermost type. Names as in ATen's and c10's headers (PyTorch 1.13.1 and 2.13.0). */
enum cxx_base {
	CXX_OTHER, /* unknown: only cxx_param.text */
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
	CXX_QSCHEME, /* as a result only */
	CXX_WORK,    /* c10d::Work: the address of one */
};

/* The sequence type around the innermost type. */
enum cxx_list {
	CXX_NOT_LIST,
	CXX_ARRAY_REF, /* c10::ArrayRef<T>; also that of c10::OptionalArrayRef<T> */
	CXX_STD_ARRAY, /* std::array<T, array_len> */
	CXX_C10_LIST,  /* c10::List<T> */
	CXX_ILIST_REF, /* c10::IListRef<T> */
};

struct cxx_param {
	uint8_t base;		  /* enum cxx_base */
	uint8_t list;		  /* enum cxx_list */
	uint8_t array_len;	  /* CXX_STD_ARRAY: number of elements */
	bool optional;		  /* the whole parameter: optional<T>, optional<ArrayRef<T>> ... */
	bool elem_optional;	  /* its elements: List<optional<T>> */
	bool std_optional;	  /* std::optional, not c10::optional */
	bool std_view;		  /* CXX_STRING_VIEW: std::, not c10:: */
	bool opt_array_ref_class; /* c10::OptionalArrayRef<T>: optional and list are set too */
	bool by_ref;		  /* const& or & */
	bool is_const;		  /* const& */
	const char *text;	  /* the type as demangled, in the arena */
};

struct cxx_function {
	const char *scope; /* "at::_ops::dropout"; "" for a function without a scope */
	const char *owner; /* last component of scope: "dropout" */
	const char *name;  /* "call" */
	uint16_t nparams;
	const struct cxx_param *params;
};

enum { CXX_MAX_PARAMS = 256 };

/* Parse the mangled name `symbol` (Itanium C++ ABI, section 5.1) into `out`; everything it points
 * to is allocated in `a`. Returns 0; -EINVAL when `symbol` is not the name of a C++ function or has
 * more than CXX_MAX_PARAMS parameters; -ENOMEM. An unknown type is not an error: CXX_OTHER. */
int cxx_function_parse(const char *symbol, struct arena *a, struct cxx_function *out);

/* Parse one demangled type of `len` bytes, "c10::optional<at::Tensor> const&", into `out`, all but
 * `text`. */
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
	const char *default_text; /* as written; NULL: no default */
	const char *alias;  /* alias annotation without parentheses: "a!", "a -> *"; NULL: none */
	uint8_t base;	    /* enum schema_base of the innermost type */
	uint8_t list_depth; /* 1 for T[], 2 for T[][] */
	int32_t list_len;   /* n of T[n]; 0: not given */
	bool is_list;
	bool is_optional;      /* the whole argument: T?, T[]? */
	bool elem_is_optional; /* T?[] */
	bool is_write;	       /* the alias annotation has a "!" */
	bool kwarg_only;
};

struct schema {
	const char *ns, *name, *overload; /* "aten", "add", "Tensor"; ns and overload may be "" */
	const char *full_name;		  /* "aten::add.Tensor" */
	const char *text;		  /* the whole schema, with the namespace */
	uint16_t nargs, nreturns;
	bool vararg; /* the arguments end with "..." */
	bool varret; /* the results end with "...", or are only that */
	const struct schema_arg *args, *returns;
};

enum {
	SCHEMA_MAX_TEXT = 16384, /* maximum length of a text, bytes */
	SCHEMA_MAX_ARGS = 256,	 /* maximum number of arguments, and of results */
};

/* Parse the `len` bytes at `text` into `out`; everything it points to is allocated in `a`. A name
 * without namespace gets `default_ns` ("aten" for what TORCH_LIBRARY(aten) defines; "" for none).
 * Returns 0; -EINVAL when the whole text is not a schema; -E2BIG beyond the limits above; -ENOMEM.
 */
int schema_parse(const char *text, size_t len, const char *default_ns, struct arena *a,
		 struct schema *out);

/* Parse `text`, a type as in op_arg.type, into the type fields of `out`. Returns as schema_parse.
 */
int schema_parse_type(const char *text, struct arena *a, struct schema_arg *out);

/* The flags of op_desc.flags: OP_INPLACE (writes to an argument that may be positional), OP_OUT
 * (writes to a keyword-only one), OP_VIEW (a result aliases an argument without writing it),
 * OP_RANDOM (has a Generator, or is known to draw random numbers without one). */
uint8_t schema_flags(const struct schema *s);

/* Fill name, schema, parsed, kind, flags, args and results of `out`, but not id; what is new is
 * allocated in `a`, strings and arrays of `s` are shared with it. Returns 0 or -ENOMEM. */
int schema_to_desc(const struct schema *s, struct arena *a, struct op_desc *out);

/* Index of the schema texts in a library's read-only data, by the C++ name of their operator. */

/* Called for each text found, `len` bytes followed by a NUL; a non-zero return ends the scan. */
typedef int schema_scan_fn(const char *text, size_t len, void *arg);

/* Find the NUL-terminated strings that look like a schema, NAME[::NAME][.OVERLOAD](...) -> ..., in
 * the `len` bytes of the .rodata section at `rodata`, among any other data. Each is reported once,
 * by ascending address; schema_parse decides whether it is one. Returns the last return value of
 * the callback, or 0. */
int schema_scan(const char *rodata, size_t len, schema_scan_fn *fn, void *arg);

/* Zero-initialise; free with schema_index_free. */
struct schema_index {
	struct schema_text *texts; /* all texts found */
	size_t ntexts, room;
	struct map by_name; /* by hash of the operator name, to the index in `texts` */
};

/* Add the texts in the `len` bytes at `rodata`, which are borrowed until schema_index_free. Call it
 * for each read-only section of the library. Returns 0 or -ENOMEM. */
int schema_index_add(struct schema_index *x, const char *rodata, size_t len);

void schema_index_free(struct schema_index *x);

/* Find the schema of the operator whose C++ struct is at::_ops::OWNER: its name with "_" in place
 * of the overload's "." (torchgen/model.py, OperatorName.unambiguous_name). `fn` is the parsed
 * symbol of that struct's `call`; its parameters must agree with the schema argument by argument.
 * This rejects other texts with the same name (patterns of graph passes, operators of other
 * namespaces), and finds schemas that the linker has merged into the tail of a longer text ("erf("
 * in "special_erf("). The namespace is "aten".
 *
 * Returns 0; -ENOENT when no text fits; -ENOTUNIQ when several fit that differ in an argument's
 * name or type or in the results; -ENOMEM. Where one has alias sets, the other none, and
 * nothing is written, the schema has them, and "" as text. On failure the schema is unknown and
 * values must not be decoded by it. */
int schema_index_find(const struct schema_index *x, const struct cxx_function *fn, struct arena *a,
		      struct schema *out);

#endif
