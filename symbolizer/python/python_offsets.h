/* Where CPython keeps what a stack walk and a code object's lines need: one layout for each minor
 * version.
 *
 * The offsets of 3.8 to 3.12 are offsetof() of the structures in the headers named at each table in
 * python_offsets.c, compiled for x86-64. From 3.13 the target itself carries them (_Py_DebugOffsets
 * at the start of _PyRuntime, Include/internal/pycore_runtime.h). */
#ifndef SYMBOLIZER_PYTHON_PYTHON_OFFSETS_H
#define SYMBOLIZER_PYTHON_PYTHON_OFFSETS_H

#include "symbolizer/plan/plan.h"

/* How the second word of a pair gives the instruction's byte offset in the code. */
enum py_instr_kind {
	PY_INSTR_LASTI_BYTES, /* 3.8, 3.9: f_lasti itself */
	PY_INSTR_LASTI_UNITS, /* 3.10: f_lasti * 2 */
	PY_INSTR_POINTER,     /* 3.11+: word - (code + code_adaptive) */
};

/* Offsets of the objects that user space reads. */
struct py_objects {
	__u32 code_size; /* bytes from the start that hold all code_* fields */
	__u32 code_filename, code_name, code_qualname; /* qualname: 3.11+, else PY_NO_OFFSET */
	__u32 code_firstlineno, code_linetable;
	__u32 code_adaptive; /* first instruction; 3.11+, else PY_NO_OFFSET */
	__u32 str_length, str_state;
	__u32 str_ascii, str_compact; /* text of a compact ASCII, of another compact string */
	__u32 bytes_size, bytes_data;
	__u32 ob_type, type_name, type_dealloc, type_flags;
};

struct py_layout {
	__u32 minor;	   /* of 3.minor */
	__u32 linetable;   /* enum linetable_kind */
	__u32 instr_kind;  /* enum py_instr_kind */
	__u32 interp_head; /* offset within _PyRuntime */
	/* The lock: offset within _PyRuntime, or from 3.12 on of a pointer in an interpreter. */
	__u32 gil;
	__u32 gil_locked, gil_holder, gil_size; /* int, pointer; bytes of the whole */
	struct py_walk walk;			/* without interp_head_addr */
	struct py_objects obj;
};

/* sizeof(_Py_DebugOffsets) of 3.13.0: the first bytes of _PyRuntime. */
enum { PY_DEBUG_OFFSETS_SIZE = 584 };

#ifndef __bpf__
#include <stddef.h>

struct err;

/* The layout of CPython 3.`minor` for the versions that have a table (3.8 to 3.12), else NULL.
 * Static storage. */
const struct py_layout *py_layout_table(unsigned minor);

/* Fill `out` from the `len` bytes at the start of the target's _PyRuntime (3.13). The bytes are not
 * trusted: every structure size and every field's span is checked.
 * Returns 0; -ENOENT when there is no debug cookie (older than 3.13); -ENOTSUP for a free-threaded
 * build or a version not known here; -EPROTO for offsets that cannot be. *version is set to
 * PY_VERSION_HEX whenever the cookie is there. Source: Include/internal/pycore_runtime.h of 3.13.0.
 */
int py_layout_debug(const void *bytes, size_t len, struct py_layout *out, __u32 *version,
		    struct err *e);
#endif

#endif
