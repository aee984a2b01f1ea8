/* Fuzzes the trace reader and its users, with libFuzzer: build with
 * -fsanitize=fuzzer,address,undefined.
 *
 * The first byte selects what the rest is: even, a file as it is; odd, records of its first block,
 * which are packed and checksummed so that the fuzzer reaches the record decoder. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "perf/collectives/collectives.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/report/aggregate.h"
#include "perf/report/report.h"
#include "perf/trace/trace_read.h"

static void read_between(const char *path, struct skew *s)
{
	struct trace_reader *r;
	struct trace_item item;
	struct err e = {0};
	if (trace_reader_open(path, &r, &e))
		return;
	while (trace_read_next(r, &item, &e) == 1)
		if (item.type == TRACE_EVENT && skew_see(s, &item.event))
			abort();
	trace_reader_close(r);
}

static void read_collectives(const char *path, FILE *out)
{
	struct trace_reader *r;
	struct trace_item item;
	struct err e = {0};
	if (trace_reader_open(path, &r, &e))
		return;
	struct collectives *c = collectives_new();
	while (trace_read_next(r, &item, &e) == 1)
		if (collectives_see(c, &item))
			abort();
	struct skew *s = collectives_match(c) || collectives_sum(c) ? NULL : skew_new(c);
	if (!s)
		abort();
	read_between(path, s);
	collectives_print(c, out, &(struct collectives_opts){0});
	skew_print_json(s, out);
	skew_free(s);
	collectives_free(c);
	trace_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_block(int fd, const uint8_t *raw, size_t size)
{
	static uint8_t
	    packed[sizeof(struct trace_block_header) + ZSTD_COMPRESSBOUND(TRACE_BLOCK_MAX) + 8];
	struct trace_file_header file = {
	    .magic = TRACE_MAGIC, .version = TRACE_VERSION, .size = sizeof(file)};
	struct trace_block_header h = {.magic = TRACE_BLOCK_MAGIC, .raw_size = (uint32_t)size};
	file.crc = trace_crc(0, &file, offsetof(struct trace_file_header, crc));
	size_t n = ZSTD_compress(packed + sizeof(h), sizeof(packed) - sizeof(h) - 8, raw, size, 1);
	size_t total = sizeof(h) + ((n + 7) & ~(size_t)7);
	memset(packed + sizeof(h) + n, 0, total - sizeof(h) - n);
	h.size = (uint32_t)n;
	memcpy(packed, &h, sizeof(h));
	h.crc = trace_crc(0, packed + 8, total - 8);
	memcpy(packed + 4, &h.crc, sizeof(h.crc));
	if (write(fd, &file, sizeof(file)) < 0 || write(fd, packed, total) < 0)
		abort();
}

static void put_stack(const struct py_stack *s, FILE *out)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		fprintf(out, "%s %s\n", s->frames[i]->function, s->frames[i]->file);
}

static void read_sample(const struct sample *s, struct aggregate *a, FILE *out)
{
	struct op_event ev;
	sample_as_event(s, &ev);
	put_stack(s->python, out);
	put_stack(s->native, out);
	if (aggregate_add(a, &ev))
		abort();
}

static void read_exports(const char *path, FILE *out)
{
	static int (*const exports[])(struct export_in *, FILE *, struct err *) = {export_chrome,
										   export_perfetto};
	for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
		struct export_in in = {.path = path};
		const struct trace_query_opts opts = {.kinds = TRACE_OPS,
						      .by_start = true,
						      .first = export_chrome_note,
						      .first_arg = &in};
		struct err e = {0};
		if (!trace_query(path, &opts, &in.query, &e)) {
			exports[i](&in, out, &e);
			trace_query_close(in.query);
		}
		export_notes_free(in.notes);
	}
}

/* Skipping values finds the same events and the same errors as reading them. */
static void read_both_ways(const char *path)
{
	struct trace_reader *with, *without;
	struct trace_item a, b;
	struct err e = {0};
	if (trace_reader_open(path, &with, &e) || trace_reader_open(path, &without, &e))
		return;
	trace_reader_no_values(without);
	int n, m;
	do {
		n = trace_read_next(with, &a, &e);
		m = trace_read_next(without, &b, &e);
		if (n == 1 && m == 1 && a.type == TRACE_EVENT && a.event.id != b.event.id)
			abort();
	} while (n == 1 && m == 1);
	if (n != m && n != -ENOMEM && m != -ENOMEM)
		abort();
	trace_reader_close(with);
	trace_reader_close(without);
}

static void read_it(const char *path, FILE *out)
{
	struct trace_reader *r;
	struct trace_item item;
	struct err e = {0};
	if (trace_reader_open(path, &r, &e))
		return;
	struct trace_order *o = trace_order_new(r, false);
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_WORKERS);
	struct aggregate *modules = aggregate_new(AGGREGATE_MODULE | AGGREGATE_PHASE);
	struct breakdown *steps = breakdown_new();
	struct breakdown_result found;
	struct event_printer *p = event_printer_new(out);
	struct report_opts opts = {.terminal.width = 80, .steps = &found};
	int n;
	while ((n = trace_order_next(o, &item, &e)) == 1) {
		if (item.type == TRACE_SAMPLE)
			read_sample(&item.sample, a, out);
		if (item.type == TRACE_BUILD)
			fwrite(item.build.id, 1, item.build.len, out);
		if (item.type == TRACE_SUM &&
		    (aggregate_add_sum(a, &item.sum) || aggregate_add_sum(modules, &item.sum)))
			abort();
		if (item.type == TRACE_ACTIVITY) {
			activity_json(out, &item.activity);
			activity_print(out, &item.activity, 0);
		}
		if (item.type != TRACE_EVENT)
			continue;
		json_event(out, &item.event);
		if (event_print(p, &item.event) || aggregate_add(a, &item.event) ||
		    aggregate_add(modules, &item.event) || breakdown_add(steps, &item.event))
			abort();
	}
	if (n < 0 && !e.what[0])
		abort();
	breakdown_get(steps, &found);
	report_print(out, a, &opts);
	report_print_json(out, a, &opts);
	opts.modules = true;
	report_print(out, modules, &opts);
	breakdown_free(steps);
	aggregate_free(modules);
	event_printer_free(p);
	aggregate_free(a);
	trace_order_free(o);
	trace_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *out;
	char path[64];
	if (!out)
		out = fopen("/dev/null", "w");
	if (size == 0 || !out)
		return 0;
	int fd = memfd_create("trace", MFD_CLOEXEC);
	if (fd < 0)
		abort();
	if (data[0] & 1 && size - 1 <= TRACE_BLOCK_MAX)
		write_block(fd, data + 1, size - 1);
	else if (write(fd, data + 1, size - 1) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_it(path, out);
	read_both_ways(path);
	read_collectives(path, out);
	read_exports(path, out);
	close(fd);
	return 0;
}
