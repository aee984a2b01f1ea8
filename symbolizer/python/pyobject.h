/* Reading Python objects of the target: types, strings, bytes. Everything is checked; nothing of
 * the target is executed or changed. */
#ifndef SYMBOLIZER_PYTHON_PYOBJECT_H
#define SYMBOLIZER_PYTHON_PYOBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct py_runtime;

/* The word at `obj` that is the address of its type, if it is an object that is alive as far as its
 * reference count tells (ob_refcnt, Include/object.h); nothing else is read. 0 or -errno (-EPROTO:
 * it is none). */
int py_live_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* The type of the object at `obj`, as a target address, once that is known to be a type object.
 * 0 or -errno (-EPROTO: not an object). */
int py_object_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type);

/* tp_name of the type object at `type` into out, NUL-terminated, cut when longer than size - 1:
 * UTF-8, "module.Name" for static types, "Name" for classes made in Python. Returns its length, or
 * -errno
 * (-EPROTO: not a type object). */
ssize_t py_type_name(const struct py_runtime *rt, uint64_t type, char *out, size_t size);

/* The str object at `addr` as NUL-terminated UTF-8 into out, cut at a whole character when longer
 * than size - 1. Surrogates and NUL become U+FFFD. Returns its length, or -errno (-EPROTO: not an
 * exact, compact str). Layout: Include/cpython/unicodeobject.h. */
ssize_t py_read_str(const struct py_runtime *rt, uint64_t addr, char *out, size_t size);

/* The bytes object at `addr`: at most `max` bytes into a new buffer *out (free(3)). Returns its
 * length, or -errno (-EPROTO: not an exact bytes object, -E2BIG: longer than max). */
ssize_t py_read_bytes(const struct py_runtime *rt, uint64_t addr, size_t max, uint8_t **out);

#endif
