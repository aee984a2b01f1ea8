#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/spawn.h"
#include "tracer/sample/sampler.h"
#include "tracer/trace_loop.h"

enum { TICK_MS = 100 };

struct record {
	const char *output;
	uint64_t hz, for_ns, count; /* 0: no end */
	struct trace_loop watch;    /* watches the process, as in run and attach */
	struct record_samples to;
	struct sampler *sampler;
};

static void describe(struct record *r)
{
	char argv[4096];
	struct process p = {0};
	process_read(r->watch.pid, &p, NULL);
	const struct trace_target t = {
	    .pid = r->watch.pid,
	    .start_ns = (int64_t)clock_ns(CLOCK_MONOTONIC),
	    .comm = p.comm,
	    .argv = process_cmdline(r->watch.pid, argv, sizeof(argv)),
	    .engine = "samples",
	};
	trace_write_target(r->to.writer, &t);
	trace_write_sampling(r->to.writer, sampler_how(r->sampler));
}

static int open_all(struct record *r, struct err *e)
{
	const struct sampler_sink sink = record_samples_sink(&r->to);
	trace_loop_note_files();
	int code = sampler_open(r->hz, &sink, &r->sampler, e);
	if (!code)
		record_samples_tell_rate(r->sampler, r->hz);
	return code ? code : trace_writer_open(r->output, &r->to.writer, e);
}

static int record_start(struct record *r, char *const argv[], const struct spawn_caller *caller,
			int *status, struct err *e)
{
	struct spawn spawn;
	int code = spawn_prepare(argv, caller, 0, &spawn, e);
	if (code)
		return code;
	code = sampler_add_child(r->sampler, spawn.pid, e);
	if (code) {
		spawn_cancel(&spawn);
		return code;
	}
	r->watch.pid = spawn.pid;
	r->watch.is_child = true;
	trace_loop_signals(&r->watch);
	code = spawn_release(&spawn, argv, e);
	if (code)
		*status = spawn_failure_status(code);
	return code;
}

static int record_attach(struct record *r, struct err *e)
{
	int code = process_check(r->watch.pid, e);
	trace_loop_signals(&r->watch);
	return code ? code : sampler_add_process(r->sampler, r->watch.pid, e);
}

static int failed_output(const struct record *r, int code, struct err *e)
{
	err_set(e, code, "cannot write %s: %s", r->output, strerror(-code));
	return err_hint(e, "free some space, or name another file: -o FILE");
}

/* The program's own output is left alone: only one that was running already has a status line. */
static void tell_begun(struct record *r)
{
	fputs("ditrace: taking samples", stderr);
	if (!r->watch.is_child)
		fprintf(stderr, " of %d", r->watch.pid);
	fprintf(stderr, ", %" PRIu64 " Hz%s\n", sampler_how(r->sampler)->frequency,
		r->watch.is_child ? "" : ", Ctrl-C ends");
	fflush(stderr);
	if (!r->watch.is_child)
		status_line_open(&r->watch.progress);
}

static void show_status(struct record *r)
{
	const struct sampler_counts c = sampler_counts(r->sampler);
	status_line_show(&r->watch.progress, "sample", c.samples, trace_writer_bytes(r->to.writer),
			 c.lost);
}

static int loop(struct record *r, struct err *e)
{
	struct pollfd fd = {.fd = sampler_fd(r->sampler), .events = POLLIN};
	uint64_t until = r->for_ns ? clock_ns(CLOCK_MONOTONIC) + r->for_ns : UINT64_MAX, looked = 0;
	int code = 0;
	thread_hurry(false); /* Python frames can be read only after the sample is taken */
	while (!trace_loop_stopped() && !r->watch.gone && !code) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= until || (r->count && sampler_counts(r->sampler).samples >= r->count))
			break;
		poll(&fd, 1, TICK_MS);
		code = sampler_read(r->sampler);
		if (!r->to.code && !code)
			trace_writer_tick(r->to.writer, now);
		if (status_line_due(&r->watch.progress))
			show_status(r);
		if (now - looked > TICK_MS * 1000000ULL) {
			looked = now;
			trace_loop_look(&r->watch);
		}
	}
	status_line_clear(&r->watch.progress);
	if (!code)
		code = sampler_read(r->sampler); /* the last samples */
	return code ? err_set(e, code, "cannot take samples: %s", strerror(-code)) : 0;
}

static int finish(struct record *r, struct err *e)
{
	char size[32];
	bool usual = !strcmp(r->output, "ditrace.data");
	int code = trace_writer_flush(r->to.writer);
	uint64_t bytes = trace_writer_bytes(r->to.writer);
	bool old = trace_writer_kept_old(r->to.writer);
	code = code ? code : r->to.code;
	int closed = trace_writer_close(r->to.writer, true);
	r->to.writer = NULL;
	code = code ? code : closed;
	record_samples_summary(r->sampler);
	if (code)
		return failed_output(r, code, e);
	fprintf(stderr, "written to %s (%s%s); see: ditrace report%s%s\n", r->output,
		text_bytes(size, sizeof(size), bytes), old ? "; the old one: .old" : "",
		usual ? "" : " ", usual ? "" : r->output);
	return 0;
}

static int record(struct record *r, char *const argv[], const struct spawn_caller *caller)
{
	struct err e = {0};
	int status = EXIT_FAILED, code = open_all(r, &e);
	if (!code)
		code = r->watch.pid ? record_attach(r, &e)
				    : record_start(r, argv, caller, &status, &e);
	bool started = !code;
	if (started) {
		describe(r);
		tell_begun(r);
		code = loop(r, &e);
	}
	trace_loop_tell_end(&r->watch);
	if (started && !code)
		code = finish(r, &e);
	if (code)
		err_print(&e);
	sampler_close(r->sampler);
	trace_writer_close(r->to.writer, false);
	if (!started || !r->watch.is_child)
		return code ? status : EXIT_GOOD;
	trace_loop_wait(&r->watch);
	trace_loop_tell_end(&r->watch);
	status = spawn_exit_status(r->watch.status);
	return code && !status ? EXIT_FAILED : status;
}

int cmd_record(int argc, char **argv)
{
	const char *pid = NULL;
	struct record r = {.output = "ditrace.data", .hz = SAMPLER_HZ};
	const struct option_def options[] = {
	    {'F', "freq", OPTION_POSITIVE, &r.hz, "HZ",
	     "samples in a second of each thread's time on a processor (default 99)", NULL},
	    {'p', "pid", OPTION_STRING, &pid, "PID", "of this process, until it ends or Ctrl-C",
	     NULL},
	    {0, "for", OPTION_DURATION, &r.for_ns, "TIME", "end after TIME (10s, 500ms)", NULL},
	    {0, "count", OPTION_POSITIVE, &r.count, "N", "end after N samples", NULL},
	    {'o', "output", OPTION_STRING, &r.output, "FILE",
	     "record to FILE instead of ditrace.data", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "record",
	    .operands = "[--] PROGRAM [ARGUMENT...] | --pid PID",
	    .about = "Take samples of what every thread of a program does: Python and native "
		     "stack, and op.",
	    .options = options,
	    .notes = "Nothing is stopped or changed for it. With every op besides: ditrace run "
		     "--sample.",
	    .stop_at_operand = true,
	    .max_operands = -1,
	};
	struct err e = {0};
	struct spawn_caller caller;
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	int code = pid ? process_parse_pid(pid, &r.watch.pid, &e) : 0;
	if (!code && !pid == (first == argc)) {
		code = err_set(&e, -EINVAL,
			       pid ? "there is a program beside --pid"
				   : "there is nothing to take samples of");
		err_hint(&e, "ditrace record -- python3 train.py, or ditrace record --pid PID");
	}
	if (code) {
		err_print(&e);
		return EXIT_USAGE;
	}
	spawn_caller_save(&caller);
	signal(SIGCHLD, SIG_DFL); /* if the caller ignores SIGCHLD, the exit status would be lost */
	return record(&r, &argv[first], &caller);
}
