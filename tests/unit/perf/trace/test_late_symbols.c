
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/system.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/maps.h"

/* A function of this program, as the recorder sees it. */
struct own {
	struct native_symbols symbols;
	struct native_frame frame;
	struct trace_build build;
	uint64_t offset; /* into the file */
};

static int find_own(void **state)
{
	static struct own own;
	struct maps maps;
	const uint8_t *id;
	size_t n;
	uint64_t pc = (uint64_t)(uintptr_t)late_symbols_name;
	struct target_files *files = target_files_new(getpid());
	assert_non_null(files);
	assert_int_equal(maps_read(getpid(), &maps, NULL), 0);
	assert_int_equal(native_symbols_find(&own.symbols, files, &maps, pc, &own.frame, &id, &n),
			 0);
	target_files_free(files);
	const struct mapping *m = maps_find(&maps, pc);
	own.offset = pc - m->start + m->offset;
	own.build = (struct trace_build){.file = own.frame.file, .id = id, .len = (uint32_t)n};
	maps_free(&maps);
	*state = &own;
	return 0;
}

static int free_own(void **state)
{
	native_symbols_free(&((struct own *)*state)->symbols);
	return 0;
}

/* The name of the frame with `function` in `file`, once resolved, into `out`. */
static void name(const struct trace_build *build, const char *file, const char *function, char *out)
{
	struct late_symbols *l = late_symbols_new(clock_ns(CLOCK_REALTIME), -1);
	struct py_frame f = {.file = file, .function = function};
	assert_non_null(l);
	if (build)
		assert_int_equal(late_symbols_build(l, build), 0);
	assert_int_equal(late_symbols_name(l, &f), 0);
	snprintf(out, 128, "%s", f.function);
	late_symbols_free(l);
}

static void a_file_with_its_build_id_gives_names(void **state)
{
	const struct own *own = *state;
	char text[32], out[128];
	if (!own->build.len)
		skip();
	snprintf(text, sizeof(text), "0x%" PRIx64, own->frame.offset);
	name(&own->build, own->build.file, text, out);
	assert_string_equal(out, "late_symbols_name");
	snprintf(text, sizeof(text), "@0x%" PRIx64, own->offset);
	name(&own->build, own->build.file, text, out);
	assert_string_equal(out, "late_symbols_name");
}

static void no_other_file_does(void **state)
{
	const struct own *own = *state;
	uint8_t id[64];
	struct trace_build other = {own->build.file, id, own->build.len};
	char text[32], out[128];
	snprintf(text, sizeof(text), "0x%" PRIx64, own->frame.offset);
	name(NULL, own->build.file, text, out);
	assert_non_null(strstr(out, "+0x"));
	memcpy(id, own->build.id, other.len);
	id[other.len - 1] ^= 1;
	name(&other, own->build.file, text, out);
	assert_non_null(strstr(out, "+0x"));
	other.len--;
	name(&other, own->build.file, text, out);
	assert_non_null(strstr(out, "+0x"));
	snprintf(text, sizeof(text), "+0x%" PRIx64, own->frame.offset);
	name(&own->build, own->build.file, text, out);
	assert_non_null(strstr(out, "+0x"));
}

static void what_stays_is_an_address_in_the_file(void **state)
{
	char out[128];
	(void)state;
	name(NULL, "/lib/libfoo.so", "0x12", out);
	assert_string_equal(out, "libfoo.so+0x12");
	name(NULL, "/lib/libfoo.so", "@0x12", out);
	assert_string_equal(out, "libfoo.so@0x12");
	name(NULL, "/lib/libfoo.so", "0x12z", out);
	assert_string_equal(out, "0x12z");
	name(NULL, "/lib/libfoo.so", "foo", out);
	assert_string_equal(out, "foo");
	name(NULL, "[anon 1 00000000]", "0x12", out);
	assert_string_equal(out, "(unknown)");
}

/* The target is this process, which was there before the trace began. */
static void a_jit_has_written_since(void **state)
{
	char path[64], file[64], out[128];
	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("1000 10 made\n", f);
	fclose(f);
	sample_anon_file(getpid(), file, sizeof(file));
	struct late_symbols *l = late_symbols_new(UINT64_MAX, -1);
	struct py_frame in = {.file = file, .function = "0x1004"},
			behind = {.file = file, .function = "0x1010"};
	assert_int_equal(late_symbols_name(l, &in), 0);
	assert_int_equal(late_symbols_name(l, &behind), 0);
	assert_string_equal(in.function, "made");
	assert_string_equal(in.file, "[JIT]");
	assert_string_equal(behind.function, "(unknown)");
	late_symbols_free(l);
	snprintf(file + strlen(file) - 2, 3, "z]"); /* from another boot */
	name(NULL, file, "0x1004", out);
	assert_string_equal(out, "(unknown)");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_with_its_build_id_gives_names),
	    cmocka_unit_test(no_other_file_does),
	    cmocka_unit_test(what_stays_is_an_address_in_the_file),
	    cmocka_unit_test(a_jit_has_written_since),
	};
	return unit_run(tests, find_own, free_own);
}
