/* Fuzzes line tables and debug offsets of a target: results stay in bounds. The input serves as a
 * table of each kind, and as the start of _PyRuntime. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_position(int rc, const struct linetable_pos *p)
{
	int none = p->line == 0 && p->end_line == 0 && p->column == -1 && p->end_column == -1;

	if (p->line < 0 || p->end_line < 0 || p->column < -1 || p->end_column < -1)
		abort();
	if (rc && !none)
		abort();
	if (p->end_line && p->end_line < p->line)
		abort();
}

static void as_table(enum linetable_kind kind, const unsigned char *data, size_t size)
{
	static const int64_t at[] = {-2, 0, 2, 16, 17, 254, 4096, INT64_MAX};
	static const int32_t first[] = {INT32_MIN, 0, 1, 1000, INT32_MAX};
	struct linetable_pos p;

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		for (size_t k = 0; k < sizeof(first) / sizeof(first[0]); k++)
			check_position(linetable_lookup(kind, data, size, first[k], at[i], &p), &p);
}

static void as_offsets(const unsigned char *data, size_t size)
{
	unsigned char bytes[PY_DEBUG_OFFSETS_SIZE] = "xdebugpy";
	const struct py_walk *w;
	struct py_layout l;
	__u32 version;

	bytes[8 + 2] = 13;
	bytes[8 + 3] = 3;
	if (size > sizeof(bytes) - 24)
		size = sizeof(bytes) - 24;
	memcpy(bytes + 24, data, size);
	if (py_layout_debug(bytes, sizeof(bytes), &l, &version, NULL))
		return;
	w = &l.walk;
	if (w->tstate_window_len > PY_TSTATE_WINDOW || w->frame_window_len > PY_FRAME_WINDOW ||
	    w->tw_frame + 8 > w->tstate_window_len || w->tw_interp + 8 > w->tstate_window_len ||
	    w->tw_thread_id + 8 > w->tstate_window_len || w->fw_code + 8 > w->frame_window_len ||
	    w->fw_previous + 8 > w->frame_window_len || w->fw_instr + 8 > w->frame_window_len ||
	    w->fw_owner >= w->frame_window_len || l.obj.code_linetable + 8 > l.obj.code_size)
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	as_table(LINETABLE_LNOTAB, data, size);
	as_table(LINETABLE_PEP626, data, size);
	as_table(LINETABLE_POSITIONS, data, size);
	as_offsets(data, size);
	return 0;
}

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Without a fuzzing engine the input is a file or standard input. */
__attribute__((weak)) int main(int argc, char **argv)
{
	static unsigned char data[1 << 20];
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : stdin;
	size_t n;

	if (!f)
		return 1;
	n = fread(data, 1, sizeof(data), f);
	LLVMFuzzerTestOneInput(data, n);
	return 0;
}
#endif
