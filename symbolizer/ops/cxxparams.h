/* The C++ parameters of a function, from its mangled name: what decides how each argument is
 * passed. */
#ifndef SYMBOLIZER_OPS_CXXPARAMS_H
#define SYMBOLIZER_OPS_CXXPARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

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

#endif
