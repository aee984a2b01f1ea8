/* Where CPython keeps what a stack walk and a code object's lines need: one layout for each minor
 * version.
 *
 * Shared with the eBPF program: fixed-width integers only, no pointers in struct py_walk.
 *
 * The offsets of 3.8 to 3.12 are offsetof() of the structures in the headers named at each table in
 * python_offsets.c, compiled for x86-64. From 3.13 the target itself carries them (_Py_DebugOffsets
 * at the start of _PyRuntime, Include/internal/pycore_runtime.h). */
#ifndef SYMBOLIZER_PYTHON_OFFSETS_H
#define SYMBOLIZER_PYTHON_OFFSETS_H

#include <linux/types.h>

enum {
	PY_TSTATE_WINDOW = 192, /* upper bounds of the windows below, for fixed buffers */
	PY_FRAME_WINDOW = 96,
	PY_MAX_INTERPRETERS = 16, /* lists longer than these are taken for damage */
	PY_MAX_THREADS = 4096,
};

#define PY_NO_OFFSET 0xffffffffU

/* All that walking the frames of one thread needs. Every offset is in bytes; pointers are 8 bytes
 * and 8-byte aligned, the low three bits of frame_code are to be cleared (3.14 tags them).
 *
 *   interpreter  = *interp_head_addr, then *(interpreter + interp_next)
 *   thread state = *(interpreter + interp_tstate_head), then *(thread state + tstate_next)
 *
 * A thread state is read as one window: tstate_window_len bytes at thread state + tstate_window. It
 * is the thread's own when the word tw_thread_id equals the thread's pthread_self() (x86-64: its fs
 * base) and the word tw_interp is the interpreter. tw_frame is then cframe_frame == PY_NO_OFFSET:
 * the innermost frame (3.8 to 3.10, 3.13) else: a _PyCFrame; the innermost frame is *(that +
 * cframe_frame) (3.11, 3.12) 0 at either place: the thread runs no Python code.
 *
 * A frame is read as one window: frame_window_len bytes at frame + frame_window. fw_previous is the
 * next frame outwards, 0 at the end. Where fw_owner is not PY_NO_OFFSET and the byte there is
 * owner_not_python or more, the frame is an interpreter's own marker (3.12+:
 * FRAME_OWNED_BY_CSTACK): follow fw_previous, emit nothing. 3.11 has no such frames.
 *
 * The (code, instruction) pair of a frame is the word fw_code and, at fw_instr, instr_size bytes
 * zero-extended: 8, the address of an instruction (3.11+), or 4, an int f_lasti (3.8 to 3.10).
 *
 * Its first local variable, `self` of a method, is the word fw_local (3.11+), else the one at frame
 * + frame_local. A function without any has garbage there. */
struct py_walk {
	__u64
	    interp_head_addr; /* address, in the target, of the pointer to the first interpreter */
	__u32 interp_next;
	__u32 interp_tstate_head;
	__u32 tstate_next;
	__u32 tstate_window, tstate_window_len;	 /* at most PY_TSTATE_WINDOW, multiples of 8 */
	__u32 tw_interp, tw_thread_id, tw_frame; /* within the window, multiples of 8 */
	__u32 tw_native_thread_id; /* 8 bytes, gettid() in the target's PID namespace; 3.11+, else
				      PY_NO_OFFSET */
	__u32 cframe_frame;	   /* or PY_NO_OFFSET */
	__u32 frame_window, frame_window_len; /* at most PY_FRAME_WINDOW, multiples of 8 */
	__u32 fw_code, fw_previous,
	    fw_instr;	/* within the window; multiples of 8 (fw_instr: of 4) */
	__u32 fw_owner; /* within the window, one byte; or PY_NO_OFFSET */
	__u32 owner_not_python;
	__u32 instr_size; /* 8 or 4 */
	__u32 fw_local;	  /* within the window, a multiple of 8; or PY_NO_OFFSET */
	__u32 frame_local;
};

/* A code object as it is copied when it is freed: its size, and the offsets of its pointers to two
 * str objects and a bytes object. */
struct py_code_read {
	__u32 size, filename, name, linetable;
};

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
