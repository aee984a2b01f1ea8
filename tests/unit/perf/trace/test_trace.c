
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

static char path[64];

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/ditrace-test-%d.data", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static struct trace_writer *writer(void)
{
	struct trace_writer *w = NULL;
	struct err e = {0};
	assert_int_equal(trace_writer_open(path, &w, &e), 0);
	return w;
}

static struct trace_reader *reader(void)
{
	struct trace_reader *r = NULL;
	struct err e = {0};
	if (trace_reader_open(path, &r, &e))
		fail_msg("%s", e.what);
	return r;
}

static void same_string(const char *a, const char *b)
{
	if (a && b)
		assert_string_equal(a, b);
	else
		assert_ptr_equal(a, b);
}

static void same_tensor(const struct tensor *a, const struct tensor *b)
{
	assert_int_equal(a->meta.dtype, b->meta.dtype);
	assert_int_equal(a->meta.device_type, b->meta.device_type);
	assert_int_equal(a->meta.device_index, b->meta.device_index);
	assert_int_equal(a->meta.layout, b->meta.layout);
	assert_int_equal(a->meta.requires_grad, b->meta.requires_grad);
	assert_int_equal(a->meta.unknown, b->meta.unknown);
	assert_int_equal(a->meta.numel, b->meta.numel);
	assert_int_equal(a->meta.ndim, b->meta.ndim);
	for (int i = 0; i < a->meta.ndim; i++) {
		assert_int_equal(a->meta.shape[i], b->meta.shape[i]);
		assert_int_equal(a->meta.stride[i], b->meta.stride[i]);
	}
	assert_int_equal(a->storage_offset, b->storage_offset);
	assert_int_equal(a->data_ptr, b->data_ptr);
	assert_int_equal(a->impl, b->impl);
	assert_int_equal(a->storage, b->storage);
}

static void same_value(const struct value *a, const struct value *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->is_unsigned, b->is_unsigned);
	switch (a->kind) {
	case VALUE_NONE:
		break;
	case VALUE_TENSOR:
		same_tensor(a->tensor, b->tensor);
		break;
	case VALUE_LIST:
		assert_int_equal(a->count, b->count);
		for (uint32_t i = 0; i < a->count; i++)
			same_value(&a->items[i], &b->items[i]);
		break;
	case VALUE_STRING:
		assert_int_equal(a->count, b->count);
		assert_memory_equal(a->str, b->str, a->count + 1);
		break;
	case VALUE_NOT_DECODED:
		assert_string_equal(a->str, b->str);
		break;
	case VALUE_COMPLEX:
		assert_memory_equal(&a->c, &b->c, sizeof(a->c));
		break;
	case VALUE_GROUP:
		assert_int_equal(a->group.address, b->group.address);
		assert_int_equal(a->group.rank, b->group.rank);
		assert_int_equal(a->group.size, b->group.size);
		break;
	case VALUE_WORK:
		assert_int_equal(a->work.address, b->work.address);
		if (a->work.backend)
			assert_string_equal(a->work.backend, b->work.backend);
		else
			assert_null(b->work.backend);
		break;
	case VALUE_DEVICE:
		assert_int_equal(a->device.type, b->device.type);
		assert_int_equal(a->device.index, b->device.index);
		break;
	default:
		assert_int_equal(a->scalar, b->scalar);
		assert_int_equal(a->i, b->i); /* doubles too: compared by their bits */
	}
}

static void same_stack(const struct py_stack *a, const struct py_stack *b)
{
	if (!a || !b) {
		assert_ptr_equal(a, b);
		return;
	}
	assert_int_equal(a->depth, b->depth);
	assert_int_equal(a->truncated, b->truncated);
	same_string(a->module, b->module);
	same_string(a->parameter, b->parameter);
	assert_int_equal(a->left_out, b->left_out);
	for (int i = 0; i < a->depth; i++) {
		const struct py_frame *x = a->frames[i], *y = b->frames[i];
		same_string(x->file, y->file);
		same_string(x->function, y->function);
		same_string(x->text, y->text);
		assert_int_equal(x->line, y->line);
		assert_int_equal(x->column, y->column);
		assert_int_equal(x->end_column, y->end_column);
		assert_int_equal(x->end_line, y->end_line);
		assert_int_equal(x->is_torch, y->is_torch);
	}
}

static void same_op(const struct op_desc *a, const struct op_desc *b)
{
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->schema, b->schema);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->nargs, b->nargs);
	assert_int_equal(a->nresults, b->nresults);
	for (int i = 0; i < a->nargs; i++) {
		assert_string_equal(a->args[i].name, b->args[i].name);
		assert_string_equal(a->args[i].type, b->args[i].type);
	}
	for (int i = 0; i < a->nresults; i++)
		assert_string_equal(a->results[i].type, b->results[i].type);
}

static void same_event(const struct op_event *a, const struct op_event *b)
{
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->parent, b->parent);
	assert_int_equal(a->forward_id, b->forward_id);
	assert_int_equal(a->start_ns, b->start_ns);
	assert_int_equal(a->end_ns, b->end_ns);
	assert_int_equal(a->child_ns, b->child_ns);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->tid, b->tid);
	assert_int_equal(a->depth, b->depth);
	assert_int_equal(a->phase, b->phase);
	assert_int_equal(a->thrown, b->thrown);
	assert_int_equal(a->nargs, b->nargs);
	assert_int_equal(a->nresults, b->nresults);
	same_op(a->op, b->op);
	for (int i = 0; i < a->nargs; i++)
		same_value(&a->args[i], &b->args[i]);
	for (int i = 0; i < a->nresults; i++)
		same_value(&a->results[i], &b->results[i]);
	same_stack(a->stack, b->stack);
	same_stack(a->where_stack, b->where_stack);
	same_stack(a->backward_of, b->backward_of);
	same_stack(a->native, b->native);
}

/* The next item of that type; others are skipped. */
static struct trace_item next(struct trace_reader *r, enum trace_type type)
{
	struct trace_item item;
	struct err e = {0};
	for (;;) {
		if (trace_read_next(r, &item, &e) != 1)
			fail_msg("no item of type %d: %s", type, e.what);
		if (item.type == type)
			return item;
	}
}

static void every_value_comes_back(void **state)
{
	(void)state;
	struct op_event full = sample_full_event(), back = sample_backward(6, 5, 2000000, 2000100);
	struct op_event open = sample_event(1, 0, 0, 900000, 0),
			both = sample_event(9, 0, 0, 3000000, 3000001);
	both.where_stack = sample_other_stack();
	struct op_event lone = both;
	lone.where_stack = NULL;
	const struct op_event *all[] = {&full, &back, &open, &both, &lone};
	struct trace_writer *w = writer();
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(trace_write_event(w, all[i]), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (size_t i = 0; i < 5; i++) {
		struct trace_item item = next(r, TRACE_EVENT);
		same_event(&item.event, all[i]);
	}
	struct trace_item item;
	next(r, TRACE_END);
	assert_int_equal(trace_read_next(r, &item, NULL), 0);
	trace_reader_close(r);
}

/* Skipping the values leaves the rest of the event unchanged. */
static void values_may_be_left_out(void **state)
{
	(void)state;
	struct op_event full = sample_full_event(), none = full;
	none.nargs = none.nresults = 0;
	struct trace_writer *w = writer();
	assert_int_equal(trace_write_event(w, &full), 0);
	assert_int_equal(trace_write_event(w, &full), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	trace_reader_no_values(r);
	for (int i = 0; i < 2; i++) {
		struct trace_item item = next(r, TRACE_EVENT);
		same_event(&item.event, &none);
	}
	next(r, TRACE_END);
	trace_reader_close(r);
}

/* What stands behind the statistics, which may be missing. */
static void what_runs_in_the_backward_comes_back(void **state)
{
	const struct tensor_stats row = {.stats.count = 3, .stats.hash = 4};
	const struct event_stats stats = {&row, 1};
	struct op_event ev[3];
	(void)state;
	for (int i = 0; i < 3; i++) {
		ev[i] = sample_full_event();
		ev[i].phase = i ? PHASE_RECOMPUTE : PHASE_BACKWARD;
		ev[i].backward_of = i < 2 ? sample_other_stack() : NULL;
		ev[i].native = i ? sample_stack() : NULL;
	}
	for (int measured = 0; measured < 2; measured++) {
		struct trace_writer *w = writer();
		for (int i = 0; i < 3; i++) {
			ev[i].stats = measured ? &stats : NULL;
			assert_int_equal(trace_write_event(w, &ev[i]), 0);
		}
		assert_int_equal(trace_writer_close(w, true), 0);
		struct trace_reader *r = reader();
		if (!measured)
			trace_reader_no_values(r);
		for (int i = 0; i < 3; i++) {
			struct op_event wanted = ev[i];
			if (!measured)
				wanted.nargs = wanted.nresults = 0;
			struct trace_item item = next(r, TRACE_EVENT);
			same_event(&item.event, &wanted);
			assert_int_equal(item.event.stats != NULL, measured);
		}
		next(r, TRACE_END);
		trace_reader_close(r);
	}
}

static void facts_about_the_target_come_back(void **state)
{
	(void)state;
	struct trace_target target = {.pid = 41,
				      .start_ns = 77,
				      .comm = "python",
				      .argv = "python train.py",
				      .torch_version = "2.13.0",
				      .python_version = "3.11.7",
				      .engine = "bpf",
				      .torch_dir = "/venv/torch"};
	struct trace_stats stats = {.probe_ns = 123456,
				    .probe_is_least = true,
				    .seen_permille = 987,
				    .wall_ns = 9999999,
				    .cpu_ns = 777777,
				    .lean = 77,
				    .slowdown = -3100,
				    .slowdown_error = 800,
				    .turns = 24,
				    .turns_ops = 5000,
				    .no_blocks = 3};
	struct trace_writer *w = writer();
	assert_int_equal(trace_write_target(w, &target), 0);
	assert_int_equal(trace_write_thread(w, 41, 42, "MainThread"), 0);
	assert_int_equal(trace_write_lost(w, 555, 12), 0);
	assert_int_equal(trace_write_stats(w, &stats), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	struct trace_item item = next(r, TRACE_TARGET);
	assert_int_equal(item.target.pid, 41);
	assert_string_equal(item.target.argv, "python train.py");
	assert_string_equal(item.target.engine, "bpf");
	assert_string_equal(item.target.torch_dir, "/venv/torch");
	item = next(r, TRACE_THREAD);
	assert_int_equal(item.thread.tid, 42);
	assert_string_equal(item.thread.name, "MainThread");
	item = next(r, TRACE_LOST);
	assert_int_equal(item.lost.time_ns, 555);
	assert_int_equal(item.lost.count, 12);
	item = next(r, TRACE_STATS);
	assert_int_equal(item.stats.probe_ns, 123456);
	assert_true(item.stats.probe_is_least);
	assert_int_equal(item.stats.no_blocks, 3);
	assert_int_equal(item.stats.cpu_ns, 777777);
	assert_int_equal(item.stats.seen_permille, 987);
	assert_int_equal(item.stats.wall_ns, 9999999);
	assert_int_equal(item.stats.lean, 77);
	assert_int_equal(item.stats.slowdown, -3100);
	assert_int_equal(item.stats.slowdown_error, 800);
	assert_int_equal(item.stats.turns, 24);
	assert_int_equal(item.stats.turns_ops, 5000);
	trace_reader_close(r);
}

/* Equal objects of different owners are stored once, and a reused address is not mistaken for the
 * old object. */
static void owners_come_and_go(void **state)
{
	(void)state;
	struct op_desc first = sample_add, second = sample_add;
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	struct trace_writer *w = writer();
	ev.op = &first;
	trace_write_event(w, &ev);
	ev.id = 2;
	ev.op = &second;
	trace_write_event(w, &ev);
	trace_writer_forget(w);
	first.name = "aten::other";
	ev.id = 3;
	ev.op = &first;
	trace_write_event(w, &ev);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	struct trace_item a = next(r, TRACE_EVENT), b = next(r, TRACE_EVENT),
			  c = next(r, TRACE_EVENT);
	assert_ptr_equal(a.event.op, b.event.op);
	assert_string_equal(c.event.op->name, "aten::other");
	trace_reader_close(r);
}

/* A frame whose text becomes known after it was first written. */
static void a_text_may_come_later(void **state)
{
	(void)state;
	static const struct py_frame blank = {
	    .file = "a.py", .function = "f", .line = 3, .column = -1, .end_column = -1};
	struct py_frame frame = blank;
	_Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)] = {0};
	struct py_stack *stack = (struct py_stack *)memory;
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	stack->depth = 1;
	stack->frames[0] = &frame;
	ev.stack = ev.where_stack = stack;
	struct trace_writer *w = writer();
	trace_write_event(w, &ev);
	frame.text = "x = y + 1";
	for (ev.id = 2; ev.id < 4; ev.id++)
		trace_write_event(w, &ev);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	assert_null(next(r, TRACE_EVENT).event.stack->frames[0]->text);
	assert_string_equal(next(r, TRACE_EVENT).event.stack->frames[0]->text, "x = y + 1");
	next(r, TRACE_END);
	trace_reader_close(r);
}

/* With and without a module. As files had it before stacks had parameters, it reads the same. */
static void a_parameter_comes_back(void **state)
{
	(void)state;
	static const struct py_frame old_frame = {.file = "gradient accumulation of fc.weight",
						  .function = "(gradient accumulation)"};
	_Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)] = {0};
	struct py_stack *old = (struct py_stack *)memory;
	struct py_stack in_module = {.module = "fc", .parameter = "fc.weight"},
			in_none = {.parameter = "weight"};
	const struct py_stack *written[] = {&in_module, &in_none, old},
			      *read[] = {&in_module, &in_none, &in_module};
	old->depth = 1;
	old->module = "fc";
	old->frames[0] = &old_frame;
	struct trace_writer *w = writer();
	for (size_t i = 0; i < 3; i++) {
		struct op_event ev = sample_event(i + 1, 0, 0, 10 * i + 10, 10 * i + 20);
		ev.stack = NULL;
		ev.where_stack = written[i];
		assert_int_equal(trace_write_event(w, &ev), 0);
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (size_t i = 0; i < 3; i++)
		same_stack(next(r, TRACE_EVENT).event.where_stack, read[i]);
	trace_reader_close(r);
}

/* A process group of which it is known which ranks it has, in an event with a native stack or
 * without. */
static void a_group_comes_back(void **state)
{
	static const int32_t ranks[] = {1, 5};
	static const struct group_desc of = {"tp", ranks, 2};
	(void)state;
	struct value group = {.kind = VALUE_GROUP, .group = {0x1234, 1, 2, &of}};
	struct trace_writer *w = writer();
	for (uint64_t i = 0; i < 4; i++) {
		struct op_event ev = sample_event(i + 1, 0, 0, 10 * i + 10, 10 * i + 20);
		ev.args = &group;
		ev.nargs = 1;
		ev.native = i % 2 ? ev.stack : NULL;
		group.group.of = i < 3 ? &of : NULL;
		assert_int_equal(trace_write_event(w, &ev), 0);
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (uint64_t i = 0; i < 4; i++) {
		const struct op_event ev = next(r, TRACE_EVENT).event;
		const struct group_desc *read = ev.args[0].group.of;
		assert_int_equal(!read, i == 3);
		assert_int_equal(!ev.native, i % 2 == 0);
		if (!read)
			continue;
		assert_string_equal(read->name, "tp");
		assert_int_equal(read->n, 2);
		assert_memory_equal(read->ranks, ranks, sizeof(ranks));
	}
	trace_reader_close(r);
}

static void write_events(uint64_t n, bool clean)
{
	struct trace_writer *w = writer();
	for (uint64_t i = 1; i <= n; i++) {
		struct op_event ev =
		    i % 7 ? sample_event(i, 0, 0, i * 1000, i * 1000 + 900) : sample_full_event();
		ev.id = i;
		assert_int_equal(trace_write_event(w, &ev), 0);
		if (i % 100 == 0)
			trace_writer_tick(w, i * 10000000); /* 1 s each: a block each */
	}
	assert_int_equal(trace_writer_close(w, clean), 0);
}

/* Number of events read, and in *end how reading ended. Each event must equal the one written. */
static uint64_t read_events(int *end, struct err *e)
{
	struct trace_reader *r;
	struct trace_item item;
	uint64_t n = 0;
	*end = trace_reader_open(path, &r, e);
	if (*end)
		return 0;
	while ((*end = trace_read_next(r, &item, e)) == 1)
		if (item.type == TRACE_EVENT)
			assert_int_equal(item.event.id, ++n);
	trace_reader_close(r);
	return n;
}

static off_t file_size(void)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void any_prefix_gives_its_whole_blocks(void **state)
{
	(void)state;
	struct err e = {0};
	int end;
	write_events(1000, true);
	off_t size = file_size();
	uint64_t before = read_events(&end, &e);
	assert_int_equal(before, 1000);
	assert_int_equal(end, 0);
	for (off_t cut = size - 1; cut >= 0; cut -= cut > 400 ? 37 : 1) {
		assert_int_equal(truncate(path, cut), 0);
		memset(&e, 0, sizeof(e));
		uint64_t n = read_events(&end, &e);
		assert_true(n <= before);
		assert_true(end == -ENODATA || (cut < 64 && end == -EBADMSG));
		assert_true(e.what[0] && e.hint[0]);
		if (cut < 64)
			assert_int_equal(n, 0);
		before = n;
	}
}

static void a_cut_keeps_most(void **state)
{
	(void)state;
	struct err e = {0};
	int end;
	write_events(1000, true);
	assert_int_equal(truncate(path, file_size() * 3 / 4), 0);
	uint64_t n = read_events(&end, &e);
	assert_true(n >= 600 && n < 1000);
	assert_non_null(strstr(e.what, "events"));
}

static void no_end_record_is_told(void **state)
{
	(void)state;
	struct err e = {0};
	int end;
	write_events(250, false);
	assert_int_equal(read_events(&end, &e), 250);
	assert_int_equal(end, -ENODATA);
	assert_non_null(strstr(e.what, "no end record"));
}

static void any_changed_byte_is_noticed(void **state)
{
	(void)state;
	struct err e = {0};
	int end;
	write_events(300, true);
	off_t size = file_size();
	int fd = open(path, O_RDWR);
	for (off_t at = 0; at < size; at++) {
		uint8_t byte, flipped;
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		flipped = byte ^ (uint8_t)(1 << at % 8);
		assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
		memset(&e, 0, sizeof(e));
		read_events(&end, &e);
		if (end >= 0 || !e.what[0] || !e.hint[0])
			fail_msg("byte %lld", (long long)at);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
}

static void bytes_after_the_end_are_noticed(void **state)
{
	(void)state;
	struct err e = {0};
	int end;
	write_events(10, true);
	FILE *f = fopen(path, "a");
	fputs("more", f);
	fclose(f);
	read_events(&end, &e);
	assert_int_equal(end, -EBADMSG);
}

static void what_is_no_trace_is_told(void **state)
{
	(void)state;
	struct trace_reader *r;
	struct err e = {0};
	FILE *f = fopen(path, "w");
	fputs("import torch\n", f);
	fclose(f);
	assert_int_equal(trace_reader_open(path, &r, &e), -EBADMSG);
	assert_non_null(strstr(e.what, "not a trace"));
	assert_int_equal(trace_reader_open("/nonexistent/ditrace.data", &r, &e), -ENOENT);
	assert_true(e.hint[0]);
	assert_int_equal(trace_reader_open("/tmp", &r, &e), -EINVAL);
}

static void a_newer_version_is_told(void **state)
{
	(void)state;
	struct trace_reader *r;
	struct trace_file_header h;
	struct err e = {0};
	write_events(1, true);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	h.version++;
	h.crc = trace_crc(0, &h, offsetof(struct trace_file_header, crc));
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
	assert_int_equal(trace_reader_open(path, &r, &e), -ENOTSUP);
}

/* A reader of a file being written sees what was flushed, waits, and continues. */
static void a_reader_follows(void **state)
{
	(void)state;
	struct trace_item item;
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	struct trace_writer *w = writer();
	struct trace_reader *r = reader();
	assert_int_equal(trace_read_next(r, &item, NULL), -EAGAIN);
	trace_write_event(w, &ev);
	assert_int_equal(trace_writer_tick(w, 1000), 0);
	assert_int_equal(trace_read_next(r, &item, NULL), -EAGAIN);
	assert_int_equal(trace_writer_tick(w, 1000 + 250000000), 0);
	assert_int_equal(next(r, TRACE_EVENT).event.id, 1);
	assert_int_equal(trace_read_next(r, &item, NULL), -EAGAIN);
	ev.id = 2;
	trace_write_event(w, &ev);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_int_equal(next(r, TRACE_EVENT).event.id, 2);
	next(r, TRACE_END);
	assert_int_equal(trace_read_next(r, &item, NULL), 0);
	trace_reader_close(r);
}

static void two_writers_are_refused(void **state)
{
	(void)state;
	struct trace_writer *w = writer(), *other;
	struct err e = {0};
	assert_int_equal(trace_writer_open(path, &other, &e), -EBUSY);
	assert_true(e.hint[0]);
	trace_writer_close(w, true);
}

static void an_unwritable_path_is_told(void **state)
{
	(void)state;
	struct trace_writer *w;
	struct err e = {0};
	assert_int_equal(trace_writer_open("/nonexistent/x.data", &w, &e), -ENOENT);
	assert_true(e.hint[0]);
	assert_int_equal(trace_writer_open("/dev/full", &w, &e), -ENOSPC);
	assert_true(e.hint[0]);
}

/* The disk becomes full: reported once, and the file is valid up to there. */
static void a_full_disk_leaves_a_good_file(void **state)
{
	(void)state;
	struct rlimit old, small = {.rlim_cur = 3000};
	struct err e = {0};
	int failures = 0, end;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	struct trace_writer *w = writer();
	setrlimit(RLIMIT_FSIZE, &small);
	for (uint64_t i = 1; i <= 3000; i++) {
		struct op_event ev = sample_event(i, 0, 0, i * 1000, i * 1000 + i % 77);
		failures += trace_write_event(w, &ev) == -EFBIG;
		failures += trace_writer_tick(w, i * 100000000) == -EFBIG;
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(failures, 1);
	assert_true(read_events(&end, &e) > 0);
	assert_int_equal(end, -ENODATA);
	assert_non_null(strstr(e.what, "no end record"));
}

static void a_huge_event_is_cut_down(void **state)
{
	(void)state;
	enum { N = 200000 };
	struct value *items = calloc(N, sizeof(*items));
	for (int i = 0; i < N; i++)
		items[i] = (struct value){.kind = VALUE_FLOAT, .f = i};
	struct value list = {.kind = VALUE_LIST, .count = N, .items = items};
	struct op_event ev = sample_event(1, 0, 0, 10, 20), small = sample_event(2, 0, 0, 30, 40);
	ev.args = &list;
	ev.nargs = 1;
	struct trace_writer *w = writer();
	assert_int_equal(trace_write_event(w, &ev), 0);
	assert_int_equal(trace_write_event(w, &small), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	struct trace_item item = next(r, TRACE_EVENT);
	assert_int_equal(item.event.nargs, 1);
	assert_int_equal(item.event.args[0].kind, VALUE_NOT_DECODED);
	item = next(r, TRACE_EVENT);
	same_event(&item.event, &small);
	trace_reader_close(r);
	free(items);
}

static size_t memory_in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void many_shapes_do_not_fill_the_memory(void **state)
{
	(void)state;
	enum { N = 300000 };
	struct tensor t = sample_tensor;
	struct value v = {.kind = VALUE_TENSOR, .tensor = &t};
	int64_t shape[3] = {0, 1, 1};
	size_t before = memory_in_use();
	struct trace_writer *w = writer();
	t.meta.shape = shape;
	for (int i = 1; i <= N; i++) {
		struct op_event ev = sample_event((uint64_t)i, 0, 0, 10, 20);
		shape[0] = i;
		ev.args = &v;
		ev.nargs = 1;
		ev.nresults = 0;
		assert_int_equal(trace_write_event(w, &ev), 0);
	}
	assert_true(memory_in_use() - before < 48 << 20);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (int i = 1; i <= N; i++) {
		struct trace_item item = next(r, TRACE_EVENT);
		if (item.event.args[0].tensor->meta.shape[0] != i)
			fail_msg("event %d", i);
	}
	trace_reader_close(r);
}

static void events_come_in_the_order_of_their_start(void **state)
{
	(void)state;
	struct op_event child = sample_event(2, 1, 1, 20, 30),
			parent = sample_event(1, 0, 0, 10, 40);
	struct op_event later = sample_event(7, 0, 0, 50, 60),
			other = sample_event(5, 0, 0, 45, 70);
	struct trace_writer *w = writer();
	trace_write_event(w, &child);
	trace_write_event(w, &parent);
	trace_write_event(w, &later); /* 3, 4 and 6 were lost */
	trace_write_event(w, &other);
	trace_writer_close(w, false);
	struct trace_reader *r = reader();
	struct trace_order *o = trace_order_new(r, false);
	const struct op_event *want[] = {&parent, &child, &other, &later};
	struct err e = {0};
	struct trace_item item;
	for (size_t i = 0; i < 4;) {
		assert_int_equal(trace_order_next(o, &item, &e), 1);
		if (item.type == TRACE_EVENT)
			same_event(&item.event, want[i++]);
	}
	assert_int_equal(trace_order_next(o, &item, &e), -ENODATA);
	assert_non_null(strstr(e.what, "no end record"));
	assert_int_equal(trace_order_next(o, &item, &e), -ENODATA);
	trace_order_free(o);
	trace_reader_close(r);
}

/* An op with more inner ops than are held comes late, and every event comes once. */
static void the_order_is_bounded(void **state)
{
	(void)state;
	enum { N = 70000 };
	struct trace_writer *w = writer();
	for (uint64_t i = 2; i <= N; i++) {
		struct op_event ev = sample_event(i, 1, 1, i, i + 1);
		trace_write_event(w, &ev);
	}
	struct op_event parent = sample_event(1, 0, 0, 1, N + 1);
	trace_write_event(w, &parent);
	trace_writer_close(w, true);
	struct trace_reader *r = reader();
	struct trace_order *o = trace_order_new(r, false);
	struct trace_item item;
	uint64_t events = 0, backward = 0, last = 0;
	while (trace_order_next(o, &item, NULL) == 1) {
		if (item.type != TRACE_EVENT)
			continue;
		backward += item.event.id < last;
		last = item.event.id;
		events++;
	}
	assert_int_equal(events, N);
	assert_int_equal(backward, 1);
	trace_order_free(o);
	trace_reader_close(r);
}

static void the_checksum_is_crc32(void **state)
{
	(void)state;
	/* Check value of the CRC catalogue for CRC-32/ISO-HDLC. */
	assert_int_equal(trace_crc(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(trace_crc(trace_crc(0, "1234", 4), "56789", 5), 0xcbf43926);
}

static void same_activity(const struct activity *a, const struct activity *b)
{
	assert_int_equal(a->launch, b->launch);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->device_type, b->device_type);
	assert_int_equal(a->device_index, b->device_index);
	assert_int_equal(a->in_graph, b->in_graph);
	assert_int_equal(a->stream, b->stream);
	assert_int_equal(a->launched_ns, b->launched_ns);
	assert_int_equal(a->bytes, b->bytes);
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->of.id, b->of.id);
	assert_int_equal(a->of.pid, b->of.pid);
	assert_int_equal(a->of.tid, b->of.tid);
	assert_int_equal(a->of.start_ns, b->of.start_ns);
	assert_int_equal(a->of.end_ns, b->of.end_ns);
	assert_int_equal(a->of.phase, b->of.phase);
	assert_int_equal(!a->of.op, !b->of.op);
	if (a->of.op)
		same_op(a->of.op, b->of.op);
	assert_int_equal(!a->of.where_stack, !b->of.where_stack);
	if (a->of.where_stack)
		same_stack(a->of.where_stack, b->of.where_stack);
}

/* Also where a new block begins between two of them, and where nothing is known of the launch. */
static void activities_come_back(void **state)
{
	enum { N = 20000 };
	struct trace_writer *w = writer();
	struct err e = {0};
	struct trace_item item;
	struct activity a = {.of = sample_event(7, 0, 0, 5000, 5900),
			     .kind = ACTIVITY_KERNEL,
			     .device_type = 1,
			     .device_index = 3,
			     .stream = 7,
			     .launched_ns = 4000,
			     .name = "gemm<float, 32>(float*)"},
			b = {.of = {.pid = a.of.pid, .start_ns = 100, .end_ns = 300},
			     .launch = LAUNCH_NO_THREAD,
			     .kind = ACTIVITY_COPY,
			     .device_type = 20,
			     .device_index = -1,
			     .in_graph = true,
			     .stream = UINT32_MAX,
			     .bytes = UINT64_MAX,
			     .name = "Memcpy HtoD (Pageable -> Device)"};
	(void)state;
	a.of.phase = PHASE_RECOMPUTE;
	for (int i = 0; i < N; i++)
		assert_int_equal(trace_write_activity(w, i % 2 ? &b : &a), 0);
	assert_int_equal(trace_write_activities_lost(w, a.of.pid, 9, 12), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (int i = 0; i < N; i++) {
		do {
			assert_int_equal(trace_read_next(r, &item, &e), 1);
		} while (item.type == TRACE_THREAD);
		assert_int_equal(item.type, TRACE_ACTIVITY);
		same_activity(&item.activity, i % 2 ? &b : &a);
	}
	assert_int_equal(trace_read_next(r, &item, &e), 1);
	assert_int_equal(item.type, TRACE_ACTIVITIES_LOST);
	assert_int_equal(item.lost.count, 12);
	assert_int_equal(trace_read_next(r, &item, &e), 1);
	assert_int_equal(item.type, TRACE_END);
	trace_reader_close(r);
}

/* Calls that were summed up; for a reader that does not know them they are lost, and no more than
 * they. */
static void sums_come_back(void **state)
{
	struct trace_writer *w = writer();
	struct err e = {0};
	struct trace_item item;
	(void)state;
	struct op_sum s = {.of = sample_event(0, 0, 0, 100, 900),
			   .calls = 1000,
			   .thrown = 3,
			   .total_ns = 700,
			   .child_ns = 200,
			   .min_ns = 1,
			   .max_ns = 50,
			   .nested = true};
	struct op_sum bare = s;
	s.of.phase = PHASE_RECOMPUTE;
	s.of.where_stack = NULL;
	bare.of.stack = bare.of.where_stack = &py_stack_left_out;
	assert_int_equal(trace_write_lost(w, 50, 7), 0);
	assert_int_equal(trace_write_sum(w, &s), 0);
	assert_int_equal(trace_write_sum(w, &bare), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	assert_int_equal(trace_read_next(r, &item, &e), 1);
	assert_int_equal(item.type, TRACE_LOST);
	assert_int_equal(item.lost.count, 7);
	do {
		assert_int_equal(trace_read_next(r, &item, &e), 1);
	} while (item.type == TRACE_THREAD);
	assert_int_equal(item.type, TRACE_SUM);
	same_op(item.sum.of.op, s.of.op);
	same_stack(item.sum.of.stack, s.of.stack);
	assert_null(item.sum.of.where_stack);
	assert_int_equal(item.sum.of.phase, PHASE_RECOMPUTE);
	assert_int_equal(item.sum.of.pid, s.of.pid);
	assert_int_equal(item.sum.of.tid, s.of.tid);
	assert_int_equal(item.sum.of.start_ns, 100);
	assert_int_equal(item.sum.of.end_ns, 900);
	assert_int_equal(item.sum.calls, 1000);
	assert_int_equal(item.sum.thrown, 3);
	assert_int_equal(item.sum.total_ns, 700);
	assert_int_equal(item.sum.child_ns, 200);
	assert_int_equal(item.sum.min_ns, 1);
	assert_int_equal(item.sum.max_ns, 50);
	assert_true(item.sum.nested && !item.sum.again);
	item = next(r, TRACE_SUM);
	same_stack(item.sum.of.stack, &py_stack_left_out);
	assert_ptr_equal(item.sum.of.where_stack, item.sum.of.stack);
	assert_int_equal(trace_read_next(r, &item, &e), 1);
	assert_int_equal(item.type, TRACE_END);
	assert_int_equal(trace_read_next(r, &item, &e), 0);
	trace_reader_close(r);
}

static void usage_comes_back(void **state)
{
	static const struct trace_usage u[] = {
	    {.pid = 7, .ns = 5, .run_ns = 1, .wait_ns = 2, .minor_faults = 3, .major_faults = 4},
	    {.pid = 7, .ns = 6, .is_throttled_known = true},
	    {.pid = 7,
	     .ns = 7,
	     .is_throttled_known = true,
	     .throttled_is_least = true,
	     .throttled_ns = 1ULL << 40},
	};
	struct trace_writer *w = writer();
	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(trace_write_usage(w, &u[i]), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	struct trace_reader *r = reader();
	for (size_t i = 0; i < 3; i++) {
		const struct trace_usage got = next(r, TRACE_USAGE).usage;
		assert_int_equal(got.pid, u[i].pid);
		assert_int_equal(got.ns, u[i].ns);
		assert_int_equal(got.wait_ns, u[i].wait_ns);
		assert_int_equal(got.major_faults, u[i].major_faults);
		assert_int_equal(got.throttled_ns, u[i].throttled_ns);
		assert_int_equal(got.is_throttled_known, u[i].is_throttled_known);
		assert_int_equal(got.throttled_is_least, u[i].throttled_is_least);
	}
	trace_reader_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_value_comes_back),
	    cmocka_unit_test(values_may_be_left_out),
	    cmocka_unit_test(what_runs_in_the_backward_comes_back),
	    cmocka_unit_test(facts_about_the_target_come_back),
	    cmocka_unit_test(sums_come_back),
	    cmocka_unit_test(activities_come_back),
	    cmocka_unit_test(owners_come_and_go),
	    cmocka_unit_test(a_text_may_come_later),
	    cmocka_unit_test(a_parameter_comes_back),
	    cmocka_unit_test(usage_comes_back),
	    cmocka_unit_test(a_group_comes_back),
	    cmocka_unit_test(any_prefix_gives_its_whole_blocks),
	    cmocka_unit_test(a_cut_keeps_most),
	    cmocka_unit_test(no_end_record_is_told),
	    cmocka_unit_test(any_changed_byte_is_noticed),
	    cmocka_unit_test(bytes_after_the_end_are_noticed),
	    cmocka_unit_test(what_is_no_trace_is_told),
	    cmocka_unit_test(a_newer_version_is_told),
	    cmocka_unit_test(a_reader_follows),
	    cmocka_unit_test(two_writers_are_refused),
	    cmocka_unit_test(an_unwritable_path_is_told),
	    cmocka_unit_test(a_full_disk_leaves_a_good_file),
	    cmocka_unit_test(a_huge_event_is_cut_down),
	    cmocka_unit_test(many_shapes_do_not_fill_the_memory),
	    cmocka_unit_test(events_come_in_the_order_of_their_start),
	    cmocka_unit_test(the_order_is_bounded),
	    cmocka_unit_test(the_checksum_is_crc32),
	};
	return unit_run(tests, setup, teardown);
}
