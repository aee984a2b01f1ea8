/* The schema texts of a library, found in its read-only data, by the C++ name of their operator. */
#ifndef SYMBOLIZER_OPS_SCHEMA_INDEX_H
#define SYMBOLIZER_OPS_SCHEMA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/ops/cxxparams.h"
#include "symbolizer/ops/schema.h"

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
