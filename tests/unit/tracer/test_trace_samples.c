
#include "tests/unit/unit.h"

#include <errno.h>
#include <unistd.h>

#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"

enum { SAMPLES = 5000 };

static char path[64];

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/ditrace-samples-%d.data", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static const struct op_desc mm = {.name = "aten::mm", .schema = ""};
static const struct py_frame line = {.file = "/t.py", .function = "f", .text = "a @ b", .line = 3};
static const struct py_stack python = {.depth = 1, .frames = {&line}};
static const struct py_frame code = {.file = "/lib/libm.so", .function = "exp"};
static const struct py_stack native = {.depth = 1, .truncated = true, .frames = {&code}};

/* One of each kind in turn, with times that sometimes go back, as on two CPUs. */
static struct sample sample(unsigned i)
{
	return (struct sample){.time_ns = 1000000 + 1000ULL * (i ^ 1),
			       .weight = i % 7 ? 1000000 : INT64_MAX,
			       .pid = 10,
			       .tid = 10 + (int)(i % 3),
			       .op = i & 1 ? &mm : NULL,
			       .python = i & 2 ? &python : NULL,
			       .native = i & 4 ? &native : NULL,
			       .phase = (i >> 3) % PHASES,
			       .mismatched = i & 32,
			       .in_kernel = i & 64};
}

static void write_all(void)
{
	struct trace_writer *w = NULL;
	struct err e = {0};
	const struct sampling how = {.frequency = 99, .event = "cpu-clock", .kernel = true};
	assert_int_equal(trace_writer_open(path, &w, &e), 0);
	assert_int_equal(trace_write_sampling(w, &how), 0);
	assert_int_equal(trace_write_build(w, "/lib/libm.so", "\1\0\2", 3), 0);
	for (unsigned i = 0; i < SAMPLES; i++) {
		const struct sample s = sample(i);
		assert_int_equal(trace_write_sample(w, &s), 0);
		if (i % 1000 == 0)
			assert_int_equal(trace_writer_flush(w), 0);
	}
	assert_int_equal(trace_write_samples_lost(w, 7, 8), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
}

static void same_stack(const struct py_stack *a, const struct py_stack *b)
{
	assert_int_equal(!a, !b);
	if (!a)
		return;
	assert_int_equal(a->depth, b->depth);
	assert_int_equal(a->truncated, b->truncated);
	assert_string_equal(a->frames[0]->file, b->frames[0]->file);
	assert_string_equal(a->frames[0]->function, b->frames[0]->function);
	assert_int_equal(a->frames[0]->line, b->frames[0]->line);
}

static void same(const struct sample *a, const struct sample *b)
{
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->weight, b->weight);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->tid, b->tid);
	assert_int_equal(a->phase, b->phase);
	assert_int_equal(a->mismatched, b->mismatched);
	assert_int_equal(a->in_kernel, b->in_kernel);
	assert_string_equal(a->op ? a->op->name : "", b->op ? b->op->name : "");
	same_stack(a->python, b->python);
	same_stack(a->native, b->native);
}

/* Number of samples; each is compared with the one written. */
static unsigned read_all(int *end)
{
	struct trace_reader *r = NULL;
	struct trace_item item;
	struct err e = {0};
	unsigned n = 0;
	assert_int_equal(trace_reader_open(path, &r, &e), 0);
	while ((*end = trace_read_next(r, &item, &e)) == 1) {
		if (item.type == TRACE_SAMPLE) {
			const struct sample s = sample(n++);
			same(&item.sample, &s);
		} else if (item.type == TRACE_SAMPLING) {
			assert_int_equal(item.sampling.frequency, 99);
			assert_string_equal(item.sampling.event, "cpu-clock");
			assert_true(item.sampling.kernel);
		} else if (item.type == TRACE_BUILD) {
			assert_string_equal(item.build.file, "/lib/libm.so");
			assert_int_equal(item.build.len, 3);
			assert_memory_equal(item.build.id, "\1\0\2", 3);
		} else if (item.type == TRACE_SAMPLES_LOST) {
			assert_int_equal(item.lost.count, 8);
		}
	}
	trace_reader_close(r);
	return n;
}

static void samples_come_back(void **state)
{
	(void)state;
	int end;
	write_all();
	assert_int_equal(read_all(&end), SAMPLES);
	assert_int_equal(end, 0);
}

static void any_prefix_gives_its_whole_blocks(void **state)
{
	(void)state;
	unsigned last = SAMPLES;
	int end;
	write_all();
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	long size = ftell(f);
	assert_int_equal(fclose(f), 0);
	for (long at = size - 1; at > 64; at -= 611) {
		assert_int_equal(truncate(path, at), 0);
		unsigned n = read_all(&end);
		assert_int_equal(end, -ENODATA);
		assert_true(n <= last);
		last = n;
	}
	assert_true(last < SAMPLES);
}

static void a_sample_is_an_event(void **state)
{
	(void)state;
	struct op_event ev;
	struct sample s = sample(3);
	sample_as_event(&s, &ev);
	assert_string_equal(ev.op->name, "aten::mm");
	assert_int_equal(ev.end_ns - ev.start_ns, s.weight);
	assert_ptr_equal(ev.where_stack, &python);
	static struct py_stack whole = {.depth = 0}, cut = {.depth = 0, .truncated = true};
	s = (struct sample){.mismatched = true, .native = &whole};
	sample_as_event(&s, &ev);
	assert_string_equal(ev.op->name, "(in no op)");
	s.native = &cut;
	assert_string_equal(sample_op_name(&s), "(op not known)");
	s.native = NULL;
	assert_string_equal(sample_op_name(&s), "(op not known)");
	assert_int_equal(ev.stack->depth, 1);
}

/* In the recorder, and in what it calls of the C library; not in the program's own call of that. */
static void test_own(void **state)
{
	static const struct py_frame kernel = {.file = "[kernel]", .function = "[kernel]"},
				     clock = {.file = "/lib/libc.so.6",
					      .function = "clock_gettime"},
				     own = {.file = "/x/libditrace_shim.so", .function = "ticks"},
				     op = {.file = "/x/libtorch_cpu.so", .function = "at::add"};
	static const struct py_stack in_recorder = {.depth = 4,
						    .frames = {&kernel, &clock, &own, &op}},
				     in_op = {.depth = 3, .frames = {&clock, &op, &own}};
	(void)state;
	assert_true(sample_is_own(&(struct sample){.native = &in_recorder}));
	assert_false(sample_is_own(&(struct sample){.native = &in_op}));
	assert_false(sample_is_own(&(struct sample){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(samples_come_back),
	    cmocka_unit_test(any_prefix_gives_its_whole_blocks),
	    cmocka_unit_test(a_sample_is_an_event),
	    cmocka_unit_test(test_own),
	};
	return unit_run(tests, setup, teardown);
}
