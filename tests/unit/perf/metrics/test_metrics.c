#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "perf/metrics/internal.h"
#include "tests/unit/sample_events.h"

enum { PID = 41 };

static const struct process_rank rank0 = {
    .rank = 0, .world_size = 2, .local_rank = 0, .node = -1, .restarts = -1, .host = "a\"b"};

static const struct py_frame train = {.id = 10, .file = "train.py", .function = "f", .line = 7},
			     update = {.id = 11, .file = "train.py", .function = "f", .line = 9},
			     adam = {.id = 12,
				     .file = "/lib/torch/optim/adam.py",
				     .function = "step",
				     .line = 1,
				     .is_torch = true},
			     loop = {.id = 13,
				     .file = "/lib/torch/utils/data/_utils/worker.py",
				     .function = "_worker_loop",
				     .line = 1,
				     .is_torch = true};

enum stack { FORWARD, OPTIMIZER, WORKER, NSTACKS };

static const struct py_stack *stack(enum stack of)
{
	static const struct py_frame *const frames[NSTACKS][2] = {
	    [FORWARD] = {&train}, [OPTIMIZER] = {&adam, &update}, [WORKER] = {&loop}};
	static _Alignas(16) char memory[NSTACKS][sizeof(struct py_stack) + 2 * sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory[of];
	s->id = of;
	for (s->depth = 0; s->depth < 2 && frames[of][s->depth]; s->depth++)
		s->frames[s->depth] = frames[of][s->depth];
	return s;
}

/* Write all there is to a string that lives until the next call. */
static const char *text_of(struct metrics *m)
{
	static char *text;
	size_t size;
	free(text);
	FILE *f = open_memstream(&text, &size);
	assert_int_equal(metrics_print(m, f, 1000000000000000000, NULL), 0);
	fclose(f);
	return text;
}

static void has(const char *text, const char *line)
{
	char whole[512];
	snprintf(whole, sizeof(whole), "\n%s\n", line);
	if (strstr(text, whole))
		return;
	fputs(text, stderr);
	fail_msg("no line %s", line);
}

static void has_not(const char *text, const char *part)
{
	if (!strstr(text, part))
		return;
	fputs(text, stderr);
	fail_msg("there is %s", part);
}

static void begin(struct metrics *m, int32_t pid, const struct process_rank *rank, bool worker)
{
	const struct trace_process p = {.pid = pid, .worker = worker, .rank = *rank};
	assert_int_equal(metrics_process(m, &p), 0);
}

static struct metrics *one_process(void)
{
	struct metrics *m = metrics_new(false);
	begin(m, PID, &rank0, false);
	return m;
}

static struct op_event call(const struct op_desc *op, enum stack of, uint64_t start, uint64_t end)
{
	struct op_event ev = sample_event(1, 0, 0, start, end);
	ev.tid = PID;
	ev.rank1 = 1;
	ev.op = op;
	ev.stack = ev.where_stack = stack(of);
	return ev;
}

static void add(struct metrics *m, enum stack of, uint64_t start, uint64_t end)
{
	const struct op_event ev = call(&sample_add, of, start, end);
	assert_int_equal(metrics_event(m, &ev), 0);
}

static void add_sum(struct metrics *m, const struct op_desc *op, uint64_t start, uint64_t end)
{
	const struct op_sum s = {
	    .of = {.op = op, .pid = PID, .tid = PID, .rank1 = 1, .start_ns = start, .end_ns = end},
	    .calls = 7,
	    .total_ns = 70,
	    .min_ns = 10,
	    .max_ns = 10};
	assert_int_equal(metrics_sum(m, &s), 0);
}

/* A step of so many ms, half of it forward, half of it the optimizer's. */
static uint64_t step(struct metrics *m, uint64_t at, uint64_t ms)
{
	uint64_t end = at + ms * 1000000;
	add(m, FORWARD, at, at + ms * 500000);
	add(m, OPTIMIZER, at + ms * 500000, end);
	return end;
}

/* Steps of which the first has no start, and an op behind the last. */
static struct metrics *steps(const uint64_t *ms, size_t n)
{
	struct metrics *m = one_process();
	uint64_t at = step(m, 1000000000, 3);
	for (size_t i = 0; i < n; i++)
		at = step(m, at, ms[i]);
	add(m, FORWARD, at, at + 1);
	return m;
}

static void check_label(const char *text, const char *wanted)
{
	char *out;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	metrics_print_label(f, text);
	fclose(f);
	assert_string_equal(out, wanted);
	free(out);
}

static void labels_are_escaped(void **state)
{
	(void)state;
	check_label("aten::add.Tensor", "\"aten::add.Tensor\"");
	check_label("a\\b\"c\nd", "\"a\\\\b\\\"c\\nd\"");
	check_label("gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"");
	check_label("\xff(\xe2\x82", "\"\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\"");
	check_label("", "\"\"");
}

/* Each family is told of once, before its samples, and all ends with EOF. */
static void text_is_in_order(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2}, 2);
	const char *text = text_of(m), *last = strstr(text, "# EOF\n");
	char type[128] = "", name[96];
	unsigned families = 0;
	assert_non_null(last);
	assert_string_equal(last, "# EOF\n");
	for (const char *line = text; line != last; line = strchr(line, '\n') + 1) {
		if (sscanf(line, "# TYPE %95s", name) == 1) {
			snprintf(type, sizeof(type), "# TYPE %s ", name);
			assert_ptr_equal(strstr(text, type), line);
			assert_null(strstr(line + 1, type));
			snprintf(type, sizeof(type), "%s", name);
			families++;
		} else if (sscanf(line, "# UNIT %95s", name) == 1 ||
			   sscanf(line, "# HELP %95s", name) == 1) {
			assert_string_equal(name, type);
		} else {
			assert_memory_equal(line, type, strlen(type));
		}
	}
	assert_true(families > 15);
	has(text, "ditrace_process_info{role=\"train\",pid=\"41\",rank=\"0\",world_size=\"2\","
		  "local_rank=\"0\",host=\"a\\\"b\"} 1");
	metrics_free(m);
}

static void histogram_is_cumulative(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2, 30, 400000}, 4);
	metrics_tick(m, UINT64_MAX);
	const char *text = text_of(m);
#define BUCKET "ditrace_step_seconds_bucket{role=\"train\",pid=\"41\",rank=\"0\",le="
	has(text, BUCKET "\"0.001\"} 0");
	has(text, BUCKET "\"0.0025\"} 2");
	has(text, BUCKET "\"0.025\"} 2");
	has(text, BUCKET "\"0.05\"} 3");
	has(text, BUCKET "\"300.0\"} 3");
	has(text, BUCKET "\"+Inf\"} 4");
	has(text, "ditrace_step_seconds_count{role=\"train\",pid=\"41\",rank=\"0\"} 4");
	has(text, "ditrace_step_seconds_sum{role=\"train\",pid=\"41\",rank=\"0\"} 400.034000000");
	has(text, "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 4");
	has(text, "ditrace_step_part_seconds_total{role=\"train\",pid=\"41\",rank=\"0\","
		  "part=\"optimizer\"} 200.017000000");
	has(text, "ditrace_step_time_seconds{role=\"train\",pid=\"41\",rank=\"0\"} "
		  "1000000401.037000000");
	metrics_free(m);
}

/* A step counts two seconds after its end. */
static void steps_are_held(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2}, 2);
	metrics_tick(m, 3005500000);
	has(text_of(m), "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 1");
	metrics_tick(m, 3007000000);
	has(text_of(m), "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 2");
	metrics_free(m);
}

#define LEFT_OUT                                                                                   \
	"ditrace_steps_left_out_total{role=\"train\",pid=\"41\",rank=\"0\",why=\"ops_missing\"} "

/* What was summed up belongs to some of three steps, before it and behind it, and the next one may
 * begin too early. */
static void steps_of_sums_are_left_out(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2, 2, 2, 2, 2}, 6);
	uint64_t first = 1003000000;
	add_sum(m, &sample_add, first + 4500000, first + 5500000); /* in the third */
	metrics_tick(m, UINT64_MAX);
	const char *text = text_of(m);
	has(text, "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 3");
	has(text, LEFT_OUT "3");
	has(text, "ditrace_summed_ops_total{role=\"train\",pid=\"41\",rank=\"0\"} 7");
	has(text, "ditrace_ops_total{role=\"train\",pid=\"41\",rank=\"0\",phase=\"forward\"} 22");
	uint64_t at = first + 12000001;
	add_sum(m, &sample_add, at, at + 30000000);
	at = step(m, at, 4);
	at = step(m, at, 4);
	add(m, FORWARD, at, at + 1);
	metrics_tick(m, UINT64_MAX);
	text = text_of(m);
	has(text, "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 3");
	has(text, LEFT_OUT "5");
	metrics_free(m);
}

static void lost_events_leave_steps_out(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2}, 2);
	metrics_lost(m, 1020000000, 12);
	metrics_tick(m, UINT64_MAX);
	const char *text = text_of(m);
	has(text, "ditrace_steps_total{role=\"train\",pid=\"41\",rank=\"0\"} 0");
	has(text, "ditrace_lost_events_total 12");
	metrics_free(m);
}

/* Of a part of the ops nothing is known of steps. */
static void chosen_ops_have_no_steps(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2, 2}, 2);
	metrics_chosen(m);
	has_not(text_of(m), "ditrace_step");
	has_not(text_of(m), "kind=\"data\"");
	metrics_free(m);
}

static enum metrics_end none_runs(int32_t pid, const char *host)
{
	(void)pid, (void)host;
	return METRICS_HAS_ENDED;
}

static enum metrics_end who_knows(int32_t pid, const char *host)
{
	(void)pid, (void)host;
	return METRICS_NOT_KNOWN;
}

static void processes_end(void **state)
{
	(void)state;
	struct metrics *m = steps((uint64_t[]){2}, 1);
	has(text_of(m), "ditrace_up{role=\"train\",pid=\"41\",rank=\"0\"} 1");
	metrics_look_for_ends(m, 1500000000, who_knows);
	has_not(text_of(m), "ditrace_up{");
	metrics_look_for_ends(m, 2000000000, none_runs);
	has(text_of(m), "ditrace_up{role=\"train\",pid=\"41\",rank=\"0\"} 0");
	has(text_of(m),
	    "ditrace_end_time_seconds{role=\"train\",pid=\"41\",rank=\"0\"} 1000000002.000000000");
	add(m, FORWARD, 1100000000, 1100000001); /* read late */
	has(text_of(m),
	    "ditrace_ops_total{role=\"train\",pid=\"41\",rank=\"0\",phase=\"forward\"} 6");
	begin(m, PID, &rank0, false);
	add(m, FORWARD, 2100000000, 2100000001); /* of another with that PID */
	const char *text = text_of(m);
	has(text, "ditrace_up{role=\"train\",pid=\"41\",rank=\"0\"} 1");
	has(text, "ditrace_ops_total{role=\"train\",pid=\"41\",rank=\"0\",phase=\"forward\"} 1");
	has_not(text, " 6\n");
	metrics_look_for_ends(m, 3000000000, none_runs);
	metrics_look_for_ends(m, 3000000000 + METRICS_ENDED_KEPT_NS, none_runs);
	has(text_of(m), "ditrace_up{role=\"train\",pid=\"41\",rank=\"0\"} 0");
	metrics_look_for_ends(m, 3000000001 + METRICS_ENDED_KEPT_NS, none_runs);
	has_not(text_of(m), "pid=");
	metrics_free(m);
}

/* Those that load data are told of together, known or not from the start. */
static void workers_are_together(void **state)
{
	(void)state;
	const struct process_rank none = {.rank = -1, .world_size = -1, .local_rank = -1};
	struct metrics *m = one_process();
	add(m, FORWARD, 10, 20);
	begin(m, 50, &rank0, true);
	begin(m, 60, &none, false); /* without a rank and ops: a launcher */
	has_not(text_of(m), "pid=\"50\"");
	has_not(text_of(m), "pid=\"60\"");
	for (int32_t pid = 50; pid < 54; pid++) {
		struct op_event ev = call(&sample_add, WORKER, 10, 20);
		if (pid > 50)
			begin(m, pid, pid == 51 ? &rank0 : &none, false);
		ev.pid = ev.tid = pid;
		ev.rank1 = pid > 51 ? 0 : 1;
		assert_int_equal(metrics_event(m, &ev), 0);
	}
	const char *text = text_of(m);
	has(text, "ditrace_ops_total{role=\"train\",pid=\"41\",rank=\"0\",phase=\"forward\"} 1");
	has(text, "ditrace_ops_total{role=\"load\",rank=\"0\",phase=\"forward\"} 2");
	has(text, "ditrace_ops_total{role=\"load\",phase=\"forward\"} 2");
	has_not(text, "pid=\"5");
	metrics_free(m);
}

static unsigned count_of(const char *text, const char *part)
{
	unsigned n = 0;
	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

static void few_ops_are_named(void **state)
{
	enum { OPS = 300 };
	(void)state;
	static struct op_desc ops[OPS];
	static char names[OPS][24];
	struct metrics *m = one_process();
	for (int turn = 0; turn < OPS / METRICS_OPS_TOP; turn++) {
		for (int i = 0; i < METRICS_OPS_TOP; i++) {
			int n = turn * METRICS_OPS_TOP + i;
			snprintf(names[n], sizeof(names[n]), "mine::op%d", n);
			ops[n] =
			    (struct op_desc){.id = (uint32_t)n, .name = names[n], .schema = ""};
			uint64_t ns = 1000 * ((uint64_t)n + 1);
			const struct op_event ev = call(&ops[n], FORWARD, 10, 10 + ns);
			assert_int_equal(metrics_event(m, &ev), 0);
		}
		unsigned wanted = (unsigned)(turn + 1) * METRICS_OPS_TOP;
		assert_int_equal(count_of(text_of(m), "\nditrace_op_seconds_total{"),
				 wanted < METRICS_OPS_MAX ? wanted : METRICS_OPS_MAX);
	}
	has(text_of(m), "ditrace_op_seconds_total{role=\"train\",pid=\"41\",rank=\"0\","
			"phase=\"forward\",op=\"mine::op0\"} 0.000001000");
	metrics_free(m);
}

static void collectives_are_counted(void **state)
{
	(void)state;
	static const struct op_desc reduce = {.name = "c10d::allreduce_", .schema = ""},
				    barrier = {.name = "c10d::barrier", .schema = ""},
				    wait = {.name = "c10d::Work::wait", .schema = ""};
	struct metrics *m = one_process();
	struct op_event ev = call(&reduce, FORWARD, 10, 20);
	metrics_event(m, &ev); /* of a tensor of 24 floats */
	ev.nargs = 0;
	metrics_event(m, &ev);
	ev = call(&barrier, FORWARD, 30, 40);
	metrics_event(m, &ev);
	has_not(text_of(m), "kind=\"collective\"");
	ev = call(&wait, FORWARD, 50, 150);
	metrics_event(m, &ev);
	add_sum(m, &reduce, 200, 300);
	const char *text = text_of(m);
#define OF "{role=\"train\",pid=\"41\",rank=\"0\",collective="
	has(text, "ditrace_collectives_total" OF "\"allreduce\"} 9");
	has(text, "ditrace_collective_bytes_total" OF "\"allreduce\"} 96");
	has(text, "ditrace_collectives_without_size_total" OF "\"allreduce\"} 8");
	has(text, "ditrace_collectives_total" OF "\"barrier\"} 1");
	has(text, "ditrace_collectives_without_size_total" OF "\"barrier\"} 0");
	has(text, "ditrace_wait_seconds_total{role=\"train\",pid=\"41\",rank=\"0\","
		  "kind=\"collective\"} 0.000000100");
	metrics_free(m);
}

static void devices_are_busy(void **state)
{
	(void)state;
	struct metrics *m = one_process();
	const struct op_event ev = call(&sample_add, FORWARD, 10, 20);
	const struct activity all[] = {sample_activity(&ev, 12, 100, 200),
				       sample_copy(PID, 150, 300)};
	metrics_event(m, &ev);
	for (int i = 0; i < 2; i++)
		assert_int_equal(metrics_activity(m, &all[i]), 0);
	metrics_activities_lost(m, 3);
	const char *text = text_of(m);
	has(text, "ditrace_device_busy_seconds_total{role=\"train\",pid=\"41\",rank=\"0\","
		  "device=\"cuda:0\"} 0.000000200");
	has(text, "ditrace_lost_activities_total 3");
	metrics_free(m);
}

/* It had srun's rank until it had started ranks. */
static void a_launcher_is_shown_no_longer(void **state)
{
	const struct process_rank none = {.rank = -1, .world_size = 2};
	struct metrics *m = one_process();
	(void)state;
	assert_non_null(strstr(text_of(m), "ditrace_process_info{role=\"train\",pid=\"41\""));
	begin(m, PID, &none, false);
	has_not(text_of(m), "pid=\"41\"");
	metrics_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(labels_are_escaped),
	    cmocka_unit_test(text_is_in_order),
	    cmocka_unit_test(histogram_is_cumulative),
	    cmocka_unit_test(steps_are_held),
	    cmocka_unit_test(steps_of_sums_are_left_out),
	    cmocka_unit_test(lost_events_leave_steps_out),
	    cmocka_unit_test(chosen_ops_have_no_steps),
	    cmocka_unit_test(processes_end),
	    cmocka_unit_test(workers_are_together),
	    cmocka_unit_test(few_ops_are_named),
	    cmocka_unit_test(collectives_are_counted),
	    cmocka_unit_test(devices_are_busy),
	    cmocka_unit_test(a_launcher_is_shown_no_longer),
	};
	return unit_run(tests, NULL, NULL);
}
