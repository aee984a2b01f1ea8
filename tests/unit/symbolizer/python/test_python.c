#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sys/ptrace.h>

#include "base/system.h"
#include "symbolizer/plan/code_print.h"
#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"
#include "tests/unit/pythons.h"

enum { MAX_FRAMES = 128 };

/* A memory that counts reads and can falsify some of them. */
struct spy {
	struct mem mem;
	struct mem real;
	unsigned reads;
	uint64_t lie_at;
	uint64_t lie;
	uint32_t noise; /* state of a random generator; 0: off */
};

/* Corrupt one byte in about every sixteenth read: rarely enough that a walk over all threads to the
 * oldest one sometimes succeeds. */
static void spoil(struct spy *s, char *buf, size_t len)
{
	s->noise = s->noise * 1664525 + 1013904223;
	if (len && s->noise >> 28 == 0)
		buf[(s->noise >> 8) % len] ^= (char)(1 << (s->noise >> 20 & 7));
}

static int spy_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	struct spy *s = (struct spy *)m; /* mem is its first member */
	int rc = mem_read(&s->real, addr, buf, len);

	s->reads++;
	for (size_t i = 0; !rc && s->lie_at && i < sizeof(s->lie); i++)
		if (s->lie_at + i >= addr && s->lie_at + i < addr + len)
			((char *)buf)[s->lie_at + i - addr] = ((const char *)&s->lie)[i];
	if (!rc && s->noise)
		spoil(s, buf, len);
	return rc;
}

static struct spy spy_on(pid_t pid)
{
	return (struct spy){.mem = {.read = spy_read, .pid = pid}, .real = mem_process(pid)};
}

static const char *text(const json_t *frame, size_t i)
{
	const char *s = json_string_value(json_array_get(frame, i));

	assert_non_null(s);
	return s;
}

static int32_t number(const json_t *frame, size_t i, int32_t none)
{
	const json_t *v = json_array_get(frame, i);

	assert_non_null(v);
	return json_is_integer(v) ? (int32_t)json_integer_value(v) : none;
}

static void check_text(struct py_runtime *rt, const struct py_frame *f, const char *want)
{
	const char *have = py_frame_text(rt, f);

	assert_int_equal(strncmp(have ? have : "", want, 200), 0);
	assert_true(f->text == have);
}

static void check_frame(struct py_runtime *rt, const struct py_frame *f, const json_t *want)
{
	assert_string_equal(f->file, text(want, 0));
	assert_string_equal(f->function, text(want, 1));
	assert_int_equal(f->line, number(want, 2, 0));
	if (json_is_integer(json_array_get(want, 3))) {
		assert_int_equal(f->end_line, number(want, 3, 0));
		assert_int_equal(f->column, number(want, 4, -1));
		assert_int_equal(f->end_column, number(want, 5, -1));
	} else {
		assert_int_equal(f->column, -1);
		assert_int_equal(f->end_column, -1);
	}
	check_text(rt, f, text(want, 6));
}

/* The sleeping frame, hold() itself. */
static void check_sleeping(const struct py_runtime *rt, const struct py_frame *f,
			   const json_t *want)
{
	bool columns = rt->layout.minor >= 11;

	assert_string_equal(f->function, "hold");
	assert_int_equal(f->line, number(want, 0, 0));
	assert_int_equal(f->column, columns ? number(want, 1, 0) : -1);
	assert_int_equal(f->end_column, columns ? number(want, 2, 0) : -1);
}

static bool is_asleep(const struct py_frame *f, const json_t *sleep)
{
	return f->line == number(sleep, 0, 0) &&
	       (f->end_column < 0 || f->end_column == number(sleep, 2, 0));
}

/* The thread takes a moment to fall asleep: walk until it is at that call. */
static int walk_asleep(struct py_runtime *rt, uint64_t ident, const json_t *sleep,
		       uint64_t pairs[][2])
{
	bool truncated;
	int n = 0;

	for (int i = 0; i < 6000; i++) {
		n = py_walk_thread(rt, ident, 0, pairs, MAX_FRAMES, &truncated);
		assert_true(n > 0);
		assert_false(truncated);
		if (is_asleep(py_resolve(rt, pairs[0][0], pairs[0][1]), sleep))
			break;
		usleep(10000);
	}
	return n;
}

static void check_interned(struct py_runtime *rt, const uint64_t pairs[][2], int n)
{
	const struct py_stack *s = py_stack_intern(rt, pairs, (size_t)n, false);
	const struct py_stack *cut = py_stack_intern(rt, pairs, (size_t)n, true);

	assert_non_null(s);
	assert_int_equal(s->depth, n);
	assert_false(s->truncated);
	for (int i = 0; i < n; i++)
		assert_true(s->frames[i] == py_resolve(rt, pairs[i][0], pairs[i][1]));
	assert_true(s == py_stack_intern(rt, pairs, (size_t)n, false));
	assert_true(s != cut && cut->truncated && cut->depth == n);
}

/* Other threads begin meanwhile. */
static ssize_t thread_name(const struct py_runtime *rt, pid_t tid, char *name, size_t size)
{
	ssize_t n = python_thread_name(rt, tid, name, size);

	for (int i = 0; i < 60000 && n == -EAGAIN; i++) {
		usleep(1000);
		n = python_thread_name(rt, tid, name, size);
	}
	return n;
}

static void check_by_tid(struct py_runtime *rt, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	pid_t tid = (pid_t)json_integer_value(json_object_get(thread, "native"));
	uint64_t by_ident, by_tid;
	char name[64];
	int rc = py_find_tstate(rt, 0, tid, &by_tid);

	assert_int_equal(py_find_tstate(rt, ident, 0, &by_ident), 0);
	assert_int_equal(rc, 0);
	assert_true(by_tid == by_ident);
	const char *want = json_string_value(json_object_get(thread, "thread"));
	assert_int_equal(thread_name(rt, tid, name, sizeof(name)), strlen(want));
	assert_string_equal(name, want);
	assert_int_equal(thread_name(rt, 1, name, sizeof(name)), -ENOENT);
}

/* All threads sleep: once the last one does, nobody holds the GIL. */
static void check_gil_free(struct py_runtime *rt, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident")), tstate;
	struct py_gil gil = {.holder = 1};

	assert_int_equal(py_find_tstate(rt, ident, 0, &tstate), 0);
	for (int i = 0; i < 60000 && gil.holder; i++) {
		assert_int_equal(py_gil_read(rt, tstate, &gil), 0);
		usleep(1000);
	}
	assert_int_equal(gil.holder, 0);
	assert_true(gil.addr && gil.size);
}

static void check_thread(struct py_runtime *rt, const json_t *thread)
{
	const json_t *stack = json_object_get(thread, "stack"), *sleep;
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	uint64_t pairs[MAX_FRAMES][2];
	bool truncated;
	int n;

	sleep = json_object_get(thread, "sleep");
	n = walk_asleep(rt, ident, sleep, pairs);
	assert_int_equal(n, json_array_size(stack) + 1);
	check_sleeping(rt, py_resolve(rt, pairs[0][0], pairs[0][1]), sleep);
	for (int i = 1; i < n; i++)
		check_frame(rt, py_resolve(rt, pairs[i][0], pairs[i][1]),
			    json_array_get(stack, (size_t)i - 1));
	check_interned(rt, pairs, n);
	check_by_tid(rt, thread);
	assert_int_equal(py_walk_thread(rt, ident, 0, pairs, (size_t)n, &truncated), n);
	assert_false(truncated);
	assert_int_equal(py_walk_thread(rt, ident, 0, pairs, (size_t)n - 1, &truncated), n - 1);
	assert_true(truncated);
}

static json_t *next_object(struct python *p)
{
	char *line = NULL;
	size_t size = 0;
	json_t *v;

	assert_true(getline(&line, &size, p->out) > 0);
	v = json_loads(line, 0, NULL);
	assert_non_null(v);
	free(line);
	return v;
}

static void check_threads(struct py_runtime *rt, struct python *p, size_t count, json_t *last)
{
	uint64_t none;

	for (size_t i = 0; i < count; i++) {
		json_t *thread = next_object(p);

		check_thread(rt, thread);
		if (i + 1 == count) {
			json_object_update(last, thread);
			check_gil_free(rt, thread);
		}
		json_decref(thread);
	}
	assert_int_equal(py_find_tstate(rt, 0x1000, 0, &none), -ENOENT);
}

/* A code object is read once, and again after it was freed. */
static void check_cache(struct py_runtime *rt, struct spy *spy, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	uint64_t pairs[MAX_FRAMES][2];
	const struct py_stack *stack;
	bool truncated;
	int n = py_walk_thread(rt, ident, 0, pairs, MAX_FRAMES, &truncated);

	assert_true(n > 0);
	stack = py_stack_intern(rt, pairs, (size_t)n, false);
	spy->reads = 0;
	assert_true(stack == py_stack_intern(rt, pairs, (size_t)n, false));
	assert_int_equal(spy->reads, 0);
	py_code_freed(rt, pairs[0][0] + 8);
	assert_true(stack == py_stack_intern(rt, pairs, (size_t)n, false));
	assert_int_equal(spy->reads, 0);
	py_code_freed(rt, pairs[0][0]);
	assert_true(stack == py_stack_intern(rt, pairs, (size_t)n, false));
	assert_true(spy->reads > 0);
	/* The address holds another object now. */
	py_code_freed(rt, pairs[0][0]);
	spy->lie_at = pairs[0][0] + 8;
	spy->lie = rt->image.bytes_type;
	assert_string_equal(py_resolve(rt, pairs[0][0], pairs[0][1])->function, "?");
	assert_true(stack != py_stack_intern(rt, pairs, (size_t)n, false));
	spy->lie_at = 0;
	assert_true(stack == py_stack_intern(rt, pairs, (size_t)n, false));
}

static uint64_t word_at(struct spy *spy, uint64_t addr)
{
	uint64_t w;

	assert_int_equal(mem_read_u64(&spy->real, addr, &w), 0);
	return w;
}

/* Whatever is shown of a code object is in its print, at the same addresses. */
static void check_print(struct py_runtime *rt, struct spy *spy, uint64_t code)
{
	const struct py_objects *o = &rt->layout.obj;
	const uint64_t print = py_code_print(rt, code, PRINT_PARTS);
	const uint64_t shown[] = {
	    code + o->code_firstlineno,
	    word_at(spy, code + o->code_filename) + o->str_ascii,
	    word_at(spy, code + python_code_read(rt).name) + o->str_ascii,
	    word_at(spy, code + o->code_linetable) + o->bytes_data,
	};

	assert_int_equal(print & PRINT_PARTS, PRINT_PARTS);
	for (unsigned i = 0; i < 4; i++) {
		spy->lie_at = shown[i];
		spy->lie = word_at(spy, shown[i]) ^ 1;
		assert_true(py_code_print(rt, code, PRINT_PARTS) != print);
		/* Another one of which as much is known is not that one. */
		assert_false(py_code_see(rt, code, print));
	}
	spy->lie_at = 0;
	assert_true(py_code_see(rt, code, print));
	assert_true(py_code_see(rt, code, py_code_print(rt, code, PRINT_NAME)));
	assert_false(py_code_see(rt, code, 0));
	assert_false(py_code_see(rt, code, print ^ 1 << 8));

	/* After another one at its address it has to stay for a time. */
	const uint64_t second = 1000000000, now = clock_ns(CLOCK_MONOTONIC);
	assert_true(py_code_stays(rt, code, print, now));
	spy->lie_at = shown[0];
	spy->lie = word_at(spy, shown[0]) ^ 1;
	assert_true(py_code_see(rt, code, py_code_print(rt, code, PRINT_PARTS)));
	spy->lie_at = 0;
	assert_true(py_code_see(rt, code, print));
	assert_false(py_code_stays(rt, code, print, now + second / 2));
	assert_true(py_code_stays(rt, code, print, now + 100 * second));
}

static void check_prints(struct py_runtime *rt, struct spy *spy, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	uint64_t pairs[MAX_FRAMES][2], frames[MAX_FRAMES][4] = {0};
	bool truncated;
	int n = py_walk_thread(rt, ident, 0, pairs, MAX_FRAMES, &truncated);

	assert_true(n > 0);
	check_print(rt, spy, pairs[0][0]);
	for (int i = 0; i < n; i++) {
		memcpy(frames[i], pairs[i], sizeof(pairs[i]));
		frames[i][3] = py_code_print(rt, pairs[i][0], PRINT_PARTS);
	}
	const uint64_t(*f)[4] = (const uint64_t(*)[4])frames;
	const struct py_stack *stack = py_stack_intern_prints(rt, f, (size_t)n, false, false, 0);
	assert_true(stack == py_stack_intern(rt, pairs, (size_t)n, false));
	assert_true(stack == py_stack_intern_prints(rt, f, (size_t)n, false, false, 0));
	spy->lie_at = pairs[0][0] + 8;
	spy->lie = rt->image.bytes_type;
	assert_true(py_code_see(rt, pairs[0][0], frames[0][3])); /* freed: it stays what it was */
	assert_true(py_code_stays(rt, pairs[0][0], frames[0][3], UINT64_MAX));
	spy->lie_at = 0;
	frames[0][3] = 0;
	stack = py_stack_intern_prints(rt, f, (size_t)n, false, false, 0);
	assert_string_equal(stack->frames[0]->function, "?");
}

static void check_unknown(struct py_runtime *rt, uint64_t code)
{
	const struct py_frame *f = py_resolve(rt, code, 0);

	assert_string_equal(f->file, "?");
	assert_string_equal(f->function, "?");
	assert_int_equal(f->line, 0);
	assert_int_equal(f->column, -1);
	assert_null(py_frame_text(rt, f));
}

/* Memory that changes while it is read: no crash, no hang, no line without a function. */
static void check_noise(struct py_runtime *rt, struct spy *spy, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	uint64_t pairs[MAX_FRAMES][2];
	unsigned walked = 0;
	bool truncated;

	spy->noise = 1;
	for (int round = 0, n = getenv("LONG") ? 300 : 60; round < n; round++) {
		int frames = py_walk_thread(rt, ident, 0, pairs, MAX_FRAMES, &truncated);

		for (int i = 0; i < frames; i++) {
			const struct py_frame *f = py_resolve(rt, pairs[i][0], pairs[i][1]);

			/* A corrupted name may be empty, as compile() allows. */
			assert_true(f->file && f->function);
			assert_true(f->line >= 0 && f->column >= -1);
			py_code_freed(rt, pairs[i][0]);
			walked++;
		}
	}
	spy->noise = 0;
	assert_true(py_walk_thread(rt, ident, 0, pairs, MAX_FRAMES, &truncated) > 0);
	assert_true(walked > 0);
}

static bool is_executable(pid_t pid, uint64_t addr)
{
	char name[64], line[8192], perms[5];
	uint64_t start, end;
	bool found = false;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	f = fopen(name, "r");
	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, perms) == 3 &&
			addr >= start && addr < end && perms[2] == 'x';
	fclose(f);
	return found;
}

static void check_objects(struct py_runtime *rt)
{
	uint64_t addr, type, meta;
	char name[32];

	assert_int_equal(py_code_dealloc_addr(rt, &addr), 0);
	assert_true(is_executable(rt->pid, addr));
	assert_int_equal(py_type_name(rt, rt->image.code_type, name, sizeof(name)), 4);
	assert_string_equal(name, "code");
	assert_int_equal(py_object_type(rt, rt->image.code_type, &meta), 0);
	assert_int_equal(py_type_name(rt, meta, name, sizeof(name)), 4);
	assert_string_equal(name, "type");
	assert_true(py_object_type(rt, rt->image.runtime, &type) < 0 ||
		    type != rt->image.code_type);
	assert_int_equal(py_type_name(rt, 0, name, sizeof(name)), -EPROTO);
	assert_true(py_type_name(rt, addr & ~7ULL, name, sizeof(name)) < 0);
	assert_true(py_read_str(rt, rt->image.code_type, name, sizeof(name)) == -EPROTO);
	check_unknown(rt, 0);
	check_unknown(rt, 12345);
	check_unknown(rt, rt->image.code_type);
	check_unknown(rt, addr);
	check_unknown(rt, 0xffffffffffffff00ULL);
}

/* An instruction outside its code has a file and a function, but no line. */
static void check_outside(struct py_runtime *rt, const json_t *thread)
{
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	const struct py_frame *f;
	uint64_t pair[1][2];
	bool truncated;

	assert_int_equal(py_walk_thread(rt, ident, 0, pair, 1, &truncated), 1);
	f = py_resolve(rt, pair[0][0], rt->layout.minor < 11 ? 0x7ffffff0 : pair[0][0] - 64);
	assert_string_equal(f->function, "hold");
	if (rt->layout.minor >= 10) /* a lnotab has no end */
		assert_int_equal(f->line, 0);
	f = py_resolve(rt, pair[0][0], rt->layout.minor < 11 ? 0xff000000 : 0x8000000000000000);
	assert_int_equal(f->line, 0);
}

enum { COPY_MAX = 1024 };

/* A region as the probes copy it, which do not know its length. */
static struct py_region copy_of(const struct mem *m, uint64_t addr, uint32_t len)
{
	static uint8_t copies[8][COPY_MAX];
	static unsigned n;
	uint8_t *to = copies[n++ % 8];

	if (mem_read(m, addr, to, len)) {
		len = 4096 - (uint32_t)(addr & 4095);
		assert_int_equal(mem_read(m, addr, to, len), 0);
	}
	return (struct py_region){addr, to, len};
}

static uint64_t pointer_in(const struct mem *m, uint64_t addr)
{
	uint64_t w;

	assert_int_equal(mem_read_u64(m, addr, &w), 0);
	return w;
}

/* A freed code object of a process that has ended; the copy of something else holds the start of
 * its line table. */
static void check_ended(struct py_runtime *rt, struct python *p, const json_t *thread)
{
	const struct py_code_read at = python_code_read(rt);
	uint64_t ident = (uint64_t)json_integer_value(json_object_get(thread, "ident"));
	uint64_t pair[1][2];
	bool truncated;

	assert_int_equal(py_walk_thread(rt, ident, 0, pair, 1, &truncated), 1);
	uint64_t code = pair[0][0], lines = pointer_in(rt->mem, code + at.linetable);
	const struct py_frame was = *py_resolve(rt, code, pair[0][1]);
	struct py_region copies[] = {
	    copy_of(rt->mem, lines, 40),
	    copy_of(rt->mem, code, at.size),
	    copy_of(rt->mem, pointer_in(rt->mem, code + at.filename), 256),
	    copy_of(rt->mem, pointer_in(rt->mem, code + at.name), 256),
	    copy_of(rt->mem, lines, 64), /* in two pieces */
	    copy_of(rt->mem, lines + 64, COPY_MAX),
	};
	py_code_freed(rt, code);
	python_stop(p, SIGKILL);
	check_unknown(rt, code);
	py_code_remember(rt, code, copies, sizeof(copies) / sizeof(copies[0]));
	const struct py_frame *is = py_resolve(rt, code, pair[0][1]);
	assert_string_equal(is->file, was.file);
	assert_string_equal(is->function, was.function);
	assert_int_equal(is->line, was.line);

	/* Another code object at its address, whose predecessor's end was not reported. */
	uint8_t other[COPY_MAX];
	int32_t first;
	memcpy(other, copies[1].data, at.size);
	memcpy(&first, other + rt->layout.obj.code_firstlineno, sizeof(first));
	first++;
	memcpy(other + rt->layout.obj.code_firstlineno, &first, sizeof(first));
	copies[1].data = other;
	py_code_remember(rt, code, copies, sizeof(copies) / sizeof(copies[0]));
	assert_int_equal(py_resolve(rt, code, pair[0][1])->line, was.line + 1);
}

static void check_process(struct python *p, int minor)
{
	struct spy spy = spy_on(p->pid);
	json_t *count = next_object(p), *thread = json_object();
	struct err e = {0};
	struct py_runtime *rt;
	char prefix[16];

	assert_int_equal(python_open(p->pid, &spy.mem, &rt, &e), 0);
	snprintf(prefix, sizeof(prefix), "3.%d", minor);
	assert_memory_equal(python_version(rt), prefix, strlen(prefix));
	assert_true(python_version(rt)[strlen(prefix)] == (minor < 11 ? '\0' : '.'));
	assert_non_null(strstr(rt->image.path, "python"));
	check_threads(rt, p, (size_t)json_integer_value(json_object_get(count, "count")), thread);
	check_cache(rt, &spy, thread);
	check_prints(rt, &spy, thread);
	check_outside(rt, thread);
	check_objects(rt);
	check_noise(rt, &spy, thread);
	check_ended(rt, p, thread);
	python_close(rt);
	json_decref(count);
	json_decref(thread);
}

static void check_version(const struct pythons *found, int minor)
{
	for (size_t i = 0; i < found->count; i++) {
		const char *const argv[] = {found->path[i],
					    "tests/workloads/symbolizer/py_stacks.py", NULL};
		struct python p = python_start(argv);

		print_message("# %s\n", found->path[i]);
		check_process(&p, minor);
		python_stop(&p, SIGKILL);
	}
}

PYTHON_TESTS(check_version)

/* Open a sleeping interpreter whose memory is falsified at one place, and close it again. */
static int open_with_lie(const char *path, uint64_t (*where)(const struct py_runtime *),
			 uint64_t lie, struct err *e)
{
	const char *const argv[] = {path, "-c",
				    "print(1, flush=True); import time; time.sleep(9999)", NULL};
	struct python p = python_start(argv);
	struct spy spy = spy_on(p.pid);
	struct py_runtime *rt;
	char line[8];
	int rc;

	assert_non_null(fgets(line, sizeof(line), p.out));
	assert_int_equal(python_open(p.pid, &spy.mem, &rt, e), 0);
	spy.lie_at = where(rt);
	spy.lie = lie;
	python_close(rt);
	rc = python_open(p.pid, &spy.mem, &rt, e);
	assert_true(rc != 0 && rt == NULL);
	python_stop(&p, SIGKILL);
	return rc;
}

static uint64_t at_head(const struct py_runtime *rt)
{
	return rt->layout.walk.interp_head_addr;
}

static uint64_t at_version(const struct py_runtime *rt)
{
	return rt->layout.minor >= 13 ? rt->image.runtime + 8 : rt->image.version;
}

static uint64_t at_type_name(const struct py_runtime *rt)
{
	return rt->image.code_type + 24;
}

static void test_damage(void **state)
{
	struct err e = {0};

	(void)state;
	for (int minor = 8; minor <= 13; minor++) {
		struct pythons found = pythons_find(minor);
		const char *path = found.path[0];

		if (!found.count)
			continue;
		assert_int_equal(open_with_lie(path, at_head, 0, &e), -EAGAIN);
		assert_int_equal(open_with_lie(path, at_head, 0x12345678, &e), -EPROTO);
		assert_int_equal(open_with_lie(path, at_type_name, 0, &e), -EPROTO);
		assert_true(e.what[0] && e.hint[0]);
		if (minor < 11)
			continue;
		assert_int_equal(open_with_lie(path, at_version, 0x03630000, &e), -ENOTSUP);
		assert_non_null(strstr(e.what, "3.99"));
	}
}

/* An interpreter that stops at each system call from its start on. */
static pid_t start_stopped(const char *path)
{
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, "-c", "", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static bool is_stopped(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSTOPPED(status);
}

/* While the dynamic linker maps and relocates it, and until it has a thread, it has not started. */
static void test_start(void **state)
{
	(void)state;
	for (int minor = 8; minor <= 13; minor++) {
		struct pythons found = pythons_find(minor);

		for (size_t i = 0; i < found.count; i++) {
			pid_t pid = start_stopped(found.path[i]);
			struct mem m = mem_process(pid);
			struct py_runtime *rt;
			int rc = -ENOENT;

			for (; rc && is_stopped(pid); ptrace(PTRACE_SYSCALL, pid, NULL, NULL)) {
				rc = python_open(pid, &m, &rt, NULL);
				assert_true(!rc || rc == -ENOENT || rc == -EAGAIN);
			}
			assert_int_equal(rc, 0);
			python_close(rt);
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
	}
}

static void test_no_python(void **state)
{
	static const char *const argv[] = {"sh", "-c", "echo; exec sleep 99", NULL};
	struct python p = python_start(argv);
	struct mem m = mem_process(p.pid);
	struct py_runtime *rt;
	struct err e = {0};
	char line[8];

	(void)state;
	assert_non_null(fgets(line, sizeof(line), p.out));
	assert_int_equal(python_open(p.pid, &m, &rt, &e), -ENOENT);
	assert_null(rt);
	assert_true(e.what[0] && e.hint[0]);
	m = mem_process(p.pid);
	python_stop(&p, SIGKILL);
	assert_int_equal(python_open(m.pid, &m, &rt, &e), -ESRCH);
	assert_true(e.what[0] && e.hint[0]);
}

/* _Py_DebugOffsets of 3.13.0 in words: the fields used, and the sizes of their structures. */
static void fill_offsets(uint64_t w[73])
{
	static const struct {
		uint16_t at, value;
	} fields[] = {
	    {3, 4096}, {5, 632},  {6, 8192}, {8, 7264}, {9, 7344}, {19, 304}, {21, 8},
	    {22, 16},  {23, 72},  {24, 152}, {25, 160}, {28, 80},  {29, 8},   {30, 0},
	    {31, 56},  {33, 70},  {34, 208}, {35, 112}, {36, 120}, {37, 128}, {38, 136},
	    {39, 68},  {43, 200}, {44, 16},  {45, 8},	{46, 416}, {47, 24},  {49, 168},
	    {64, 40},  {65, 16},  {66, 32},  {67, 64},	{68, 32},  {69, 16},  {70, 40},
	};

	memset(w, 0, 73 * sizeof(*w));
	memcpy(w, "xdebugpy", 8);
	w[1] = 0x030d00f0;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		w[fields[i].at] = fields[i].value;
}

static bool windows_hold(const struct py_walk *w)
{
	return w->tstate_window_len <= PY_TSTATE_WINDOW && w->frame_window_len <= PY_FRAME_WINDOW &&
	       w->tw_interp + 8 <= w->tstate_window_len &&
	       w->tw_thread_id + 8 <= w->tstate_window_len &&
	       w->tw_frame + 8 <= w->tstate_window_len &&
	       w->tw_native_thread_id + 8 <= w->tstate_window_len &&
	       w->fw_code + 8 <= w->frame_window_len && w->fw_previous + 8 <= w->frame_window_len &&
	       w->fw_instr + 8 <= w->frame_window_len && w->fw_owner < w->frame_window_len &&
	       (w->tw_interp | w->tw_thread_id | w->tw_frame | w->tw_native_thread_id |
		w->tstate_window_len | w->frame_window_len | w->fw_code | w->fw_previous |
		w->fw_instr) %
		       8 ==
		   0;
}

static void test_debug_offsets(void **state)
{
	struct py_layout l;
	struct err e = {0};
	uint32_t version;
	uint64_t w[73];

	(void)state;
	fill_offsets(w);
	assert_int_equal(py_layout_debug(w, sizeof(w), &l, &version, &e), 0);
	assert_int_equal(version, 0x030d00f0);
	assert_int_equal(l.minor, 13);
	assert_int_equal(l.interp_head, 632);
	assert_int_equal(l.walk.tstate_window + l.walk.tw_thread_id, 152);
	assert_int_equal(l.walk.tstate_window + l.walk.tw_frame, 72);
	assert_int_equal(l.walk.frame_window + l.walk.fw_owner, 70);
	assert_int_equal(l.obj.code_adaptive, 200);
	assert_true(windows_hold(&l.walk));
	assert_int_equal(py_layout_debug(w, sizeof(w) - 1, &l, &version, &e), -ENOENT);
	w[2] = 1;
	assert_int_equal(py_layout_debug(w, sizeof(w), &l, &version, &e), -ENOTSUP);
	assert_non_null(strstr(e.what, "free-threaded"));
	w[2] = 0;
	w[1] = 0x030e00f0;
	assert_int_equal(py_layout_debug(w, sizeof(w), &l, &version, &e), -ENOTSUP);
	w[0] = 0;
	assert_int_equal(py_layout_debug(w, sizeof(w), &l, &version, &e), -ENOENT);
}

static void test_debug_offsets_wild(void **state)
{
	static const uint64_t wild[] = {
	    0, 1, 7, 68, 199, 4093, 1 << 20, 1ULL << 32, UINT64_MAX - 7, UINT64_MAX};
	size_t refused = 0;
	uint32_t version;
	uint64_t w[73];

	(void)state;
	for (size_t i = 3; i < 73; i++) {
		for (size_t k = 0; k < sizeof(wild) / sizeof(wild[0]); k++) {
			struct py_layout l;

			fill_offsets(w);
			w[i] = wild[k];
			if (py_layout_debug(w, sizeof(w), &l, &version, NULL))
				refused++;
			else
				assert_true(windows_hold(&l.walk) && l.obj.code_size <= 4096);
		}
	}
	assert_true(refused > 35 * 5);
}

/* One thread, sleeping in code compiled for that file name. */
static void check_torch_file(const char *python, const char *file, bool torch)
{
	static const char program[] =
	    "import sys, threading\n"
	    "exec(compile('import time; print(threading.get_ident(), flush=True)\\n'\n"
	    "             'time.sleep(36000)', sys.argv[1], 'exec'))\n";
	const char *const argv[] = {python, "-c", program, file, NULL};
	struct python p = python_start(argv);
	struct mem m = mem_process(p.pid);
	const struct py_frame *f;
	struct py_runtime *rt;
	struct err e = {0};
	uint64_t pairs[4][2];
	bool truncated;
	char line[32];

	assert_non_null(fgets(line, sizeof(line), p.out));
	assert_int_equal(python_open(p.pid, &m, &rt, &e), 0);
	assert_int_equal(py_set_torch_dir(rt, "/opt/build/torch//"), 0);
	assert_int_equal(py_walk_thread(rt, strtoull(line, NULL, 10), 0, pairs, 4, &truncated), 2);
	f = py_resolve(rt, pairs[0][0], pairs[0][1]);
	assert_string_equal(f->file, file);
	assert_int_equal(f->is_torch, torch);
	assert_false(py_resolve(rt, pairs[1][0], pairs[1][1])->is_torch);
	python_close(rt);
	python_stop(&p, SIGKILL);
}

static void write_file(const char *path, const char *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

#define WRITE(path, bytes) write_file(path, bytes, sizeof(bytes) - 1)

static void assert_source(struct py_sources *s, const char *file, int32_t line, const char *want)
{
	char text[16];
	ssize_t n = py_sources_line(s, file, line, text, sizeof(text));

	if (!want) {
		assert_int_equal(n, -ENOENT);
		return;
	}
	assert_int_equal(n, strlen(want));
	assert_string_equal(text, want);
}

static void check_lines(struct py_sources *s)
{
	WRITE("a.py", "one\n\t two  \r\nthree\rfour\n\n\xff\xc3\xa4\xed\xa0\x80\0\n"
		      "12345678901234\xc3\xa4\nend");
	assert_source(s, "a.py", 0, NULL);
	assert_source(s, "a.py", -1, NULL);
	assert_source(s, "a.py", 1, "one");
	assert_source(s, "a.py", 2, "two");
	assert_source(s, "a.py", 3, "three");
	assert_source(s, "a.py", 4, "four");
	assert_source(s, "a.py", 5, "");
	assert_source(s, "a.py", 6, "?\xc3\xa4????");
	assert_source(s, "a.py", 7, "12345678901234");
	assert_source(s, "a.py", 8, "end");
	assert_source(s, "a.py", 9, NULL);
	assert_source(s, "", 1, NULL);
	assert_source(s, "<string>", 1, NULL);
	assert_source(s, "none.py", 1, NULL);
	assert_source(s, "/dev/zero", 1, NULL);
}

static void check_many(struct py_sources *s)
{
	char name[32], want[32];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "m%d.py", i);
		snprintf(want, sizeof(want), "line %d", i);
		write_file(name, want, strlen(want));
	}
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "m%d.py", i % 200);
		snprintf(want, sizeof(want), "line %d", i % 200);
		assert_source(s, name, 1, want);
	}
}

static void test_sources(void **state)
{
	char old[4096], dir[] = "/tmp/ditrace-test-XXXXXX", command[64], absolute[64];
	struct py_sources *s;

	(void)state;
	assert_non_null(getcwd(old, sizeof(old)));
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	s = py_sources_new(getpid(), NULL);
	assert_non_null(s);
	check_lines(s);
	check_many(s);
	snprintf(absolute, sizeof(absolute), "%s/link.py", dir);
	assert_int_equal(symlink(strcat(strcpy(command, dir), "/m7.py"), absolute), 0);
	assert_source(s, absolute, 1, "line 7");
	assert_int_equal(chdir(old), 0);
	assert_source(s, "m8.py", 1, "line 8"); /* the directory is held open */
	py_sources_free(s);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* Whether a file belongs to torch, by the directory given and by the usual paths. */
static void test_torch_dir(void **state)
{
	static const struct {
		const char *file;
		bool torch;
	} cases[] = {
	    {"/x/site-packages/torch/nn/modules/linear.py", true},
	    {"/x/dist-packages/torch/_tensor.py", true},
	    {"/x/site-packages/torchvision/ops.py", false},
	    {"/opt/build/torch/optim/sgd.py", true},
	    {"/opt/build/torchx/a.py", false},
	    {"/home/u/torch/train.py", false},
	    {"train.py", false},
	    {"<frozen importlib._bootstrap>", true},
	};

	(void)state;
	for (int minor = 8; minor <= 13; minor++) {
		struct pythons found = pythons_find(minor);

		for (size_t i = 0; found.count && i < sizeof(cases) / sizeof(cases[0]); i++)
			check_torch_file(found.path[0], cases[i].file, cases[i].torch);
	}
}

static void test_tables(void **state)
{
	(void)state;
	for (unsigned minor = 0; minor < 32; minor++) {
		const struct py_layout *l = py_layout_table(minor);

		assert_true((l != NULL) == (minor >= 8 && minor <= 12));
		if (!l)
			continue;
		assert_int_equal(l->minor, minor);
		assert_true(l->walk.tw_thread_id + 8 <= l->walk.tstate_window_len &&
			    l->walk.tstate_window_len <= PY_TSTATE_WINDOW);
		assert_true(l->walk.fw_instr + 8 <= l->walk.frame_window_len &&
			    l->walk.frame_window_len <= PY_FRAME_WINDOW);
		assert_true(l->obj.code_linetable + 8 <= l->obj.code_size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tables),
	    cmocka_unit_test(test_debug_offsets),
	    cmocka_unit_test(test_debug_offsets_wild),
	    cmocka_unit_test(test_sources),
	    cmocka_unit_test(test_torch_dir),
	    cmocka_unit_test(test_start),
	    cmocka_unit_test(test_no_python),
	    cmocka_unit_test(test_damage),
	    cmocka_unit_test(test_3_8),
	    cmocka_unit_test(test_3_9),
	    cmocka_unit_test(test_3_10),
	    cmocka_unit_test(test_3_11),
	    cmocka_unit_test(test_3_12),
	    cmocka_unit_test(test_3_13),
	};

	return unit_run(tests, NULL, NULL);
}
