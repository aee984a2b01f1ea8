#include "tests/unit/unit.h"

#include <stdlib.h>

#include "tests/unit/sample_events.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_summary_has_devices)};
	return unit_run(tests, NULL, NULL);
}
