/* CPython's structure offsets: tables for 3.8 to 3.12, _Py_DebugOffsets of 3.13. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"

/* Member offsets below: offsetof() in the headers named, x86-64.
 * tests/unit/symbolizer/python/test_python.c checks each installed version against the
 * interpreter's own report. */

/* Include/object.h, Include/cpython/object.h (bytesobject.h, unicodeobject.h), 3.8.18 to 3.11.7.
 * 3.12 dropped wstr from PyASCIIObject (PEP 623), so the text moved. */
#define OBJECTS_COMMON                                                                             \
	.str_length = 16, .str_state = 32, .bytes_size = 16, .bytes_data = 32, .ob_type = 8,       \
	.type_name = 24, .type_dealloc = 48, .type_flags = 168
#define STR_BEFORE_312 .str_ascii = 48, .str_compact = 72
#define STR_FROM_312 .str_ascii = 40, .str_compact = 56

/* Include/cpython/pystate.h, Include/internal/pycore_pystate.h (3.8) or pycore_interp.h and
 * pycore_runtime.h, Include/frameobject.h or Include/cpython/frameobject.h. The windows span interp
 * to thread_id, and f_back to f_lasti. */
#define WALK_BEFORE_311                                                                            \
	.interp_next = 0, .interp_tstate_head = 8, .tstate_next = 8, .tstate_window = 16,          \
	.tstate_window_len = 168, .tw_interp = 0, .tw_frame = 8, .tw_thread_id = 160,              \
	.tw_native_thread_id = PY_NO_OFFSET, .cframe_frame = PY_NO_OFFSET, .frame_window = 24,     \
	.fw_previous = 0, .fw_code = 8, .fw_owner = PY_NO_OFFSET, .instr_size = 4,                 \
	.fw_local = PY_NO_OFFSET

/* struct _gil_runtime_state, Include/internal/pycore_gil.h, the same in all versions. */
#define GIL .gil_holder = 8, .gil_locked = 16, .gil_size = 208

/* Include/code.h (3.8), Include/cpython/code.h (3.9, 3.10). */
#define CODE_BEFORE_311                                                                            \
	.code_size = 128, .code_firstlineno = 40, .code_filename = 104, .code_name = 112,          \
	.code_linetable = 120, .code_qualname = PY_NO_OFFSET, .code_adaptive = PY_NO_OFFSET

/* Checked against 3.8.18. */
static const struct py_layout layout_3_8 = {
    .minor = 8,
    .linetable = LINETABLE_LNOTAB,
    .instr_kind = PY_INSTR_LASTI_BYTES,
    .interp_head = 32,
    .modules = 56,
    .gil = 1152,
    GIL,
    .walk = {WALK_BEFORE_311, .frame_window_len = 88, .fw_instr = 80, .frame_local = 360},
    .obj = {OBJECTS_COMMON, STR_BEFORE_312, CODE_BEFORE_311},
};

/* Checked against 3.9.18. */
static const struct py_layout layout_3_9 = {
    .minor = 9,
    .linetable = LINETABLE_LNOTAB,
    .instr_kind = PY_INSTR_LASTI_BYTES,
    .interp_head = 32,
    .modules = 856,
    .gil = 352,
    GIL,
    .walk = {WALK_BEFORE_311, .frame_window_len = 88, .fw_instr = 80, .frame_local = 360},
    .obj = {OBJECTS_COMMON, STR_BEFORE_312, CODE_BEFORE_311},
};

/* Checked against 3.10.13. f_lasti counts code units of two bytes: Include/cpython/frameobject.h.
 */
static const struct py_layout layout_3_10 = {
    .minor = 10,
    .linetable = LINETABLE_PEP626,
    .instr_kind = PY_INSTR_LASTI_UNITS,
    .interp_head = 32,
    .modules = 856,
    .gil = 352,
    GIL,
    .walk = {WALK_BEFORE_311, .frame_window_len = 80, .fw_instr = 72, .frame_local = 352},
    .obj = {OBJECTS_COMMON, STR_BEFORE_312, CODE_BEFORE_311},
};

/* Checked against 3.11.2 and 3.11.7. _PyInterpreterFrame: Include/internal/pycore_frame.h;
 * _PyCFrame and PyThreadState: Include/cpython/pystate.h; PyCodeObject: Include/cpython/code.h. The
 * instruction is prev_instr, the last one started or one of its cache entries, which share its
 * position. Entry frames (is_entry) are ordinary Python frames. */
static const struct py_layout layout_3_11 = {
    .minor = 11,
    .linetable = LINETABLE_POSITIONS,
    .instr_kind = PY_INSTR_POINTER,
    .interp_head = 40,
    .modules = 888,
    .gil = 360,
    GIL,
    .walk = {.interp_next = 0,
	     .interp_tstate_head = 16,
	     .tstate_next = 8,
	     .tstate_window = 16,
	     .tstate_window_len = 152,
	     .tw_interp = 0,
	     .tw_frame = 40,
	     .tw_thread_id = 136,
	     .tw_native_thread_id = 144,
	     .cframe_frame = 8,
	     .frame_window = 32,
	     .frame_window_len = 48,
	     .fw_code = 0,
	     .fw_previous = 16,
	     .fw_instr = 24,
	     .fw_owner = PY_NO_OFFSET,
	     .instr_size = 8,
	     .fw_local = 40},
    .obj = {OBJECTS_COMMON, STR_BEFORE_312, .code_size = 144, .code_firstlineno = 72,
	    .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_linetable = 136,
	    .code_adaptive = 184},
};

/* Checked against 3.12.1; the same headers. FRAME_OWNED_BY_CSTACK (3) is the frame that
 * _PyEval_EvalFrameDefault pushes for itself, whose code object is a trampoline. */
static const struct py_layout layout_3_12 = {
    .minor = 12,
    .linetable = LINETABLE_POSITIONS,
    .instr_kind = PY_INSTR_POINTER,
    .interp_head = 40,
    .modules = 944,
    .gil = 384,
    GIL,
    .walk = {.interp_next = 0,
	     .interp_tstate_head = 72,
	     .tstate_next = 8,
	     .tstate_window = 16,
	     .tstate_window_len = 136,
	     .tw_interp = 0,
	     .tw_frame = 40,
	     .tw_thread_id = 120,
	     .tw_native_thread_id = 128,
	     .cframe_frame = 0,
	     .frame_window = 0,
	     .frame_window_len = 80,
	     .fw_code = 0,
	     .fw_previous = 8,
	     .fw_instr = 56,
	     .fw_owner = 70,
	     .owner_not_python = 3,
	     .instr_size = 8,
	     .fw_local = 72},
    .obj = {OBJECTS_COMMON, STR_FROM_312, .code_size = 144, .code_firstlineno = 68,
	    .code_filename = 112, .code_name = 120, .code_qualname = 128, .code_linetable = 136,
	    .code_adaptive = 192},
};

const struct py_layout *py_layout_table(unsigned minor)
{
	static const struct py_layout *const tables[] = {&layout_3_8, &layout_3_9, &layout_3_10,
							 &layout_3_11, &layout_3_12};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (tables[i]->minor == minor)
			return tables[i];
	return NULL;
}

/* Include/internal/pycore_runtime.h of 3.13.0, the first member of _PyRuntimeState. */
struct debug_offsets {
	char cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime;
	struct {
		uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, gil;
		uint64_t gil_state, gil_enabled, gil_locked, gil_holder;
	} interpreter;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id;
		uint64_t datastack_chunk, status;
	} thread;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner;
	} frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno, argcount;
		uint64_t localsplusnames, localspluskinds, adaptive;
	} code;
	struct {
		uint64_t size, ob_type;
	} object;
	struct {
		uint64_t size, name, repr, flags;
	} type;
	uint64_t tuple[3], list[3], dict[3], floating[2], integer[3];
	struct {
		uint64_t size, length, data;
	} bytes;
	struct {
		uint64_t size, state, length, ascii_size;
	} str;
	uint64_t gc[2];
};

_Static_assert(sizeof(struct debug_offsets) == PY_DEBUG_OFFSETS_SIZE, "layout of 3.13.0");

/* Bound for structure sizes, which are a few hundred bytes to a few MiB (the runtime and an
 * interpreter with their static objects). */
enum { MAX_SIZE = 16 << 20 };

static int fits(uint64_t off, uint64_t bytes, uint64_t align, uint64_t size)
{
	return size <= MAX_SIZE && off < size && bytes <= size - off && off % align == 0;
}

static int runtime_fits(const struct debug_offsets *d)
{
	return fits(d->runtime.interpreters_head, 8, 8, d->runtime.size) &&
	       fits(d->interpreter.next, 8, 8, d->interpreter.size) &&
	       fits(d->interpreter.threads_head, 8, 8, d->interpreter.size) &&
	       fits(d->interpreter.imports_modules, 8, 8, d->interpreter.size) &&
	       fits(d->thread.next, 8, 8, d->thread.size) &&
	       fits(d->thread.interp, 8, 8, d->thread.size) &&
	       fits(d->thread.current_frame, 8, 8, d->thread.size) &&
	       fits(d->thread.thread_id, 8, 8, d->thread.size) &&
	       fits(d->thread.native_thread_id, 8, 8, d->thread.size) &&
	       fits(d->frame.previous, 8, 8, d->frame.size) &&
	       fits(d->frame.executable, 8, 8, d->frame.size) &&
	       fits(d->frame.instr_ptr, 8, 8, d->frame.size) &&
	       fits(d->frame.owner, 1, 1, d->frame.size) && d->frame.localsplus % 8 == 0 &&
	       d->frame.localsplus <= d->frame.size;
}

static int objects_fit(const struct debug_offsets *d)
{
	return fits(d->code.filename, 8, 8, d->code.size) &&
	       fits(d->code.name, 8, 8, d->code.size) &&
	       fits(d->code.qualname, 8, 8, d->code.size) &&
	       fits(d->code.linetable, 8, 8, d->code.size) &&
	       fits(d->code.firstlineno, 4, 4, d->code.size) &&
	       fits(d->code.adaptive, 1, 2, d->code.size) &&
	       fits(d->object.ob_type, 8, 8, d->object.size) &&
	       fits(d->type.name, 8, 8, d->type.size) && fits(d->type.flags, 8, 8, d->type.size) &&
	       fits(d->bytes.length, 8, 8, d->bytes.size) &&
	       fits(d->bytes.data, 1, 1, d->bytes.size) && fits(d->str.length, 8, 8, d->str.size) &&
	       fits(d->str.state, 4, 4, d->str.size) && fits(d->str.ascii_size, 8, 8, d->str.size);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Compute the windows from the first to the last field needed; -1 when one exceeds its buffer. */
static int walk_windows(const struct debug_offsets *d, struct py_walk *w)
{
	uint64_t t0 = least(least(d->thread.interp, d->thread.current_frame),
			    least(d->thread.thread_id, d->thread.native_thread_id));
	uint64_t t1 = most(most(d->thread.interp, d->thread.current_frame),
			   most(d->thread.thread_id, d->thread.native_thread_id));
	uint64_t f0 = least(least(d->frame.previous, d->frame.executable),
			    least(d->frame.instr_ptr, d->frame.owner & ~7ULL));
	uint64_t f1 = most(most(d->frame.previous, d->frame.executable),
			   most(d->frame.instr_ptr, d->frame.owner & ~7ULL));
	bool local = d->frame.localsplus >= f0 && d->frame.localsplus + 8 - f0 <= PY_FRAME_WINDOW;

	if (local)
		f1 = most(f1, d->frame.localsplus);

	if (t1 + 8 - t0 > PY_TSTATE_WINDOW || f1 + 8 - f0 > PY_FRAME_WINDOW)
		return -1;
	*w = (struct py_walk){
	    .interp_next = (uint32_t)d->interpreter.next,
	    .interp_tstate_head = (uint32_t)d->interpreter.threads_head,
	    .tstate_next = (uint32_t)d->thread.next,
	    .tstate_window = (uint32_t)t0,
	    .tstate_window_len = (uint32_t)(t1 + 8 - t0),
	    .tw_interp = (uint32_t)(d->thread.interp - t0),
	    .tw_thread_id = (uint32_t)(d->thread.thread_id - t0),
	    .tw_frame = (uint32_t)(d->thread.current_frame - t0),
	    .tw_native_thread_id = (uint32_t)(d->thread.native_thread_id - t0),
	    .cframe_frame = PY_NO_OFFSET,
	    .frame_window = (uint32_t)f0,
	    .frame_window_len = (uint32_t)(f1 + 8 - f0),
	    .fw_code = (uint32_t)(d->frame.executable - f0),
	    .fw_previous = (uint32_t)(d->frame.previous - f0),
	    .fw_instr = (uint32_t)(d->frame.instr_ptr - f0),
	    .fw_owner = (uint32_t)(d->frame.owner - f0),
	    .owner_not_python = 3, /* FRAME_OWNED_BY_CSTACK, pycore_frame.h of 3.13.0 */
	    .instr_size = 8,
	    .fw_local = local ? (uint32_t)(d->frame.localsplus - f0) : PY_NO_OFFSET,
	    .frame_local = (uint32_t)d->frame.localsplus,
	};
	return 0;
}

/* Not in the debug offsets: tp_dealloc (Include/cpython/object.h), and the text of a compact
 * non-ASCII string, sizeof(PyCompactUnicodeObject) = sizeof(PyASCIIObject) + 16
 * (Include/cpython/unicodeobject.h), both of 3.13.0. */
static void objects(const struct debug_offsets *d, struct py_objects *o)
{
	*o = (struct py_objects){
	    .code_size = (uint32_t)d->code.size,
	    .code_filename = (uint32_t)d->code.filename,
	    .code_name = (uint32_t)d->code.name,
	    .code_qualname = (uint32_t)d->code.qualname,
	    .code_firstlineno = (uint32_t)d->code.firstlineno,
	    .code_linetable = (uint32_t)d->code.linetable,
	    .code_adaptive = (uint32_t)d->code.adaptive,
	    .str_length = (uint32_t)d->str.length,
	    .str_state = (uint32_t)d->str.state,
	    .str_ascii = (uint32_t)d->str.ascii_size,
	    .str_compact = (uint32_t)d->str.ascii_size + 16,
	    .bytes_size = (uint32_t)d->bytes.length,
	    .bytes_data = (uint32_t)d->bytes.data,
	    .ob_type = (uint32_t)d->object.ob_type,
	    .type_name = (uint32_t)d->type.name,
	    .type_dealloc = 48,
	    .type_flags = (uint32_t)d->type.flags,
	};
}

/* The debug offsets give the members of gil_state, which is embedded in the interpreter; the struct
 * that the pointer `gil` points to has the same layout. Its size: Include/internal/pycore_gil.h
 * of 3.13.0. */
static void lock(const struct debug_offsets *d, struct py_layout *out)
{
	uint64_t holder = d->interpreter.gil_holder - d->interpreter.gil_state;
	uint64_t locked = d->interpreter.gil_locked - d->interpreter.gil_state;

	out->gil_size = 208;
	out->gil = PY_NO_OFFSET;
	if (!fits(d->interpreter.gil, 8, 8, d->interpreter.size) ||
	    !fits(holder, 8, 8, out->gil_size) || !fits(locked, 4, 4, out->gil_size))
		return;
	out->gil = (uint32_t)d->interpreter.gil;
	out->gil_holder = (uint32_t)holder;
	out->gil_locked = (uint32_t)locked;
}

static int check_version(const struct debug_offsets *d, struct err *e)
{
	unsigned major = d->version >> 24 & 0xff, minor = d->version >> 16 & 0xff;

	if (d->version >> 32 || major != 3) {
		err_set(e, -EPROTO, "the debug offsets of this Python have no valid version");
		return err_hint(e, "Python frames are not shown"), -EPROTO;
	}
	if (d->free_threaded) {
		err_set(e, -ENOTSUP, "this is a free-threaded build of CPython 3.%u", minor);
		return err_hint(e, "Python frames are shown for builds with a GIL only"), -ENOTSUP;
	}
	if (minor != 13) {
		err_set(e, -ENOTSUP, "CPython 3.%u is not supported", minor);
		return err_hint(e, "Python frames are shown for CPython 3.8 to 3.13"), -ENOTSUP;
	}
	return 0;
}

int py_layout_debug(const void *bytes, size_t len, struct py_layout *out, __u32 *version,
		    struct err *e)
{
	struct debug_offsets d;
	int rc;

	*out = (struct py_layout){0};
	*version = 0;
	if (len < sizeof(d))
		return err_set(e, -ENOENT, "no debug offsets at the start of _PyRuntime");
	memcpy(&d, bytes, sizeof(d));
	if (memcmp(d.cookie, "xdebugpy", sizeof(d.cookie)) != 0)
		return err_set(e, -ENOENT, "no debug offsets at the start of _PyRuntime");
	*version = (uint32_t)d.version;
	rc = check_version(&d, e);
	if (rc)
		return rc;
	if (!runtime_fits(&d) || !objects_fit(&d) || d.code.size > 4096 ||
	    walk_windows(&d, &out->walk)) {
		err_set(e, -EPROTO, "the debug offsets of this Python contradict each other");
		return err_hint(e, "Python frames are not shown"), -EPROTO;
	}
	out->minor = 13;
	out->linetable = LINETABLE_POSITIONS;
	out->instr_kind = PY_INSTR_POINTER;
	out->interp_head = (uint32_t)d.runtime.interpreters_head;
	out->modules = (uint32_t)d.interpreter.imports_modules;
	objects(&d, &out->obj);
	lock(&d, out);
	return 0;
}
