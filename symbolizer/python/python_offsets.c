#include "symbolizer/python/python_offsets.h"

#include "symbolizer/python/linetable.h"

/* Member offsets below: offsetof() in the headers named, x86-64.
 * tests/unit/symbolizer/python/test_python.c checks each version that is installed against what the
 * interpreter says of itself. */

/* Include/object.h, Include/cpython/object.h (bytesobject.h, unicodeobject.h), 3.8.18 to 3.11.7.
 * 3.12 dropped wstr from PyASCIIObject (PEP 623), so the text moved. */
#define OBJECTS_COMMON                                                                             \
	.str_length = 16, .str_state = 32, .bytes_size = 16, .bytes_data = 32, .ob_type = 8,       \
	.type_name = 24, .type_dealloc = 48, .type_flags = 168
#define STR_BEFORE_312 .str_ascii = 48, .str_compact = 72
#define STR_FROM_312 .str_ascii = 40, .str_compact = 56

/* Include/cpython/pystate.h, Include/internal/pycore_pystate.h (3.8) or pycore_interp.h and
 * pycore_runtime.h, Include/frameobject.h or Include/cpython/frameobject.h: the window spans
 * interp to thread_id, and f_back to f_lasti. */
#define WALK_BEFORE_311                                                                            \
	.interp_next = 0, .interp_tstate_head = 8, .tstate_next = 8, .tstate_window = 16,          \
	.tstate_window_len = 168, .tw_interp = 0, .tw_frame = 8, .tw_thread_id = 160,              \
	.tw_native_thread_id = PY_NO_OFFSET, .cframe_frame = PY_NO_OFFSET, .frame_window = 24,     \
	.fw_previous = 0, .fw_code = 8, .fw_owner = PY_NO_OFFSET, .instr_size = 4,                 \
	.fw_local = PY_NO_OFFSET

/* struct _gil_runtime_state, Include/internal/pycore_gil.h, the same in all. */
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
    .gil = 352,
    GIL,
    .walk = {WALK_BEFORE_311, .frame_window_len = 80, .fw_instr = 72, .frame_local = 352},
    .obj = {OBJECTS_COMMON, STR_BEFORE_312, CODE_BEFORE_311},
};

/* Checked against 3.11.2 and 3.11.7. _PyInterpreterFrame: Include/internal/pycore_frame.h;
 * _PyCFrame and PyThreadState: Include/cpython/pystate.h; PyCodeObject: Include/cpython/code.h. The
 * instruction is prev_instr, the last one begun or one of its cache entries, which share its
 * position. Entry frames (is_entry) are frames of Python functions like the others. */
static const struct py_layout layout_3_11 = {
    .minor = 11,
    .linetable = LINETABLE_POSITIONS,
    .instr_kind = PY_INSTR_POINTER,
    .interp_head = 40,
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
 * _PyEval_EvalFrameDefault pushes for itself, with a trampoline for a code object. */
static const struct py_layout layout_3_12 = {
    .minor = 12,
    .linetable = LINETABLE_POSITIONS,
    .instr_kind = PY_INSTR_POINTER,
    .interp_head = 40,
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
