#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/cgroup.h"
#include "tests/unit/sample_events.h"
#include "tracer/observe/internal.h"
#include "tracer/observe/observer.h"

/* The summary has what devices did, and is sorted by it. */
static void the_summary_has_devices(void **state)
{
	struct observer *o = observer_of_sums(true, false);
	struct op_event ev = sample_event(1, 0, 0, 1000, 1100);
	struct activity a = {.of = ev, .device_type = 1, .name = "gemm"};
	const struct report_opts opts = {.limit = 0};
	char *text;
	size_t len;
	(void)state;
	assert_non_null(o);
	a.of.start_ns = 1200;
	a.of.end_ns = 1500;
	o->on_event(o, NULL, &ev);
	o->on_activity(o, &a);
	a.of.start_ns = 1700;
	a.of.end_ns = 1800;
	o->on_activity(o, &a);
	o->on_activities_lost(o, ev.pid, 2000, 1);
	FILE *f = open_memstream(&text, &len);
	o->summary(o, f, &opts);
	fclose(f);
	assert_non_null(strstr(text, "cuda:0 was busy at least 67 % of 600 ns"));
	assert_non_null(strstr(text, "1 activity of a device was lost: "));
	assert_non_null(strstr(text, "Device % v"));
	assert_non_null(strstr(text, "100.0%  400 ns"));
	free(text);
	o->close(o);
}

static void where_a_group_is_seen(void **state)
{
	static const char list[] = "4:memory:/m\n3:cpuset:/s\n1:cpuacct,cpu:/a/b\n0::/c\n";
	static const char unified[] = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
	static const char inside[] = "41 31 0:38 /a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
	char group[PATH_MAX];
	struct cgroup_place at;
	(void)state;
	assert_true(cgroup_in_list(list, "cpu", group));
	assert_string_equal(group, "/a/b");
	assert_false(cgroup_in_list(list, "freezer", group));
	assert_true(cgroup_in_list(list, "", group));
	assert_string_equal(group, "/c");
	assert_true(cgroup_on_mount(unified, "", "/c", &at) && at.is_whole);
	assert_string_equal(at.folder, "/sys/fs/cgroup/c");
	assert_string_equal(at.folder + at.top, "/c");
	assert_false(cgroup_on_mount(unified, "cpu", "/c", &at));
	assert_false(cgroup_on_mount(unified, "", "/../c", &at));
	assert_true(cgroup_on_mount(inside, "cpu", "/a/b", &at) && !at.is_whole);
	assert_string_equal(at.folder, "/sys/fs/cgroup/cpu/b");
	assert_true(cgroup_on_mount(inside, "cpu", "/a", &at));
	assert_string_equal(at.folder, "/sys/fs/cgroup/cpu");
	assert_false(cgroup_on_mount(inside, "cpu", "/ab", &at));
	assert_false(cgroup_on_mount(inside, "cpuset", "/a/b", &at));
}

static void time_without_quota(void **state)
{
	uint64_t ns = 0;
	(void)state;
	assert_true(throttle_in_text("nr_periods 3\nthrottled_time 27\n", &ns) && ns == 27);
	assert_true(throttle_in_text("throttled_usec 27\n", &ns) && ns == 27000);
	assert_false(throttle_in_text("usage_usec 1\nuser_usec 1\n", &ns));
	assert_false(throttle_in_text("", &ns));
}

static bool put_text(const char *folder, const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	bool is_good = f && fputs(text, f) >= 0;
	return f && !fclose(f) && is_good;
}

static void use_a_processor(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

/* Its own group has no quota: that above has. */
static void a_group_above_has_a_quota(void **state)
{
	char above[64], group[80], pid_text[16];
	struct throttle t = {0};
	struct trace_usage u = {0};
	(void)state;
	snprintf(above, sizeof(above), "/sys/fs/cgroup/cpu/ditrace-test-%d", (int)getpid());
	snprintf(group, sizeof(group), "%s/in", above);
	const bool is_made = !mkdir(above, 0755) && !mkdir(group, 0755) &&
			     put_text(above, "cpu.cfs_quota_us", "5000");
	pid_t pid = fork();
	if (!pid)
		use_a_processor();
	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	throttle_find(&t, pid);
	bool is_in = is_made && put_text(group, "cgroup.procs", pid_text);
	throttle_find(&t, pid); /* as it moved */
	for (int i = 0; is_in && !u.throttled_ns && i < 3000; i++, usleep(10000))
		throttle_read(&t, &u);
	throttle_free(&t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	rmdir(group);
	rmdir(above);
	if (!is_in)
		skip();
	assert_true(u.is_throttled_known && u.throttled_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_summary_has_devices),
	    cmocka_unit_test(where_a_group_is_seen),
	    cmocka_unit_test(time_without_quota),
	    cmocka_unit_test(a_group_above_has_a_quota),
	};
	return unit_run(tests, NULL, NULL);
}
