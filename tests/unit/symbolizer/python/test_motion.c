/* What is read of a process whose threads and modules come and go meanwhile. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/python/python.h"
#include "tests/unit/pythons.h"

static const char program[] = "import sys, threading\n"
			      "def modules():\n"
			      "    names = ['made%d' % i for i in range(400)]\n"
			      "    while True:\n"
			      "        for name in names: sys.modules[name] = sys\n"
			      "        for name in names: del sys.modules[name]\n"
			      "threading.Thread(target=modules, daemon=True).start()\n"
			      "print('ready', flush=True)\n"
			      "while True:\n"
			      "    end = threading.Event()\n"
			      "    some = [threading.Thread(target=end.wait) for _ in range(20)]\n"
			      "    for thread in some: thread.start()\n"
			      "    end.set()\n"
			      "    for thread in some: thread.join()\n";

/* The main thread has its name and process 1 is no thread of it, or the answer is -EAGAIN. */
static void check_names(const struct py_runtime *rt, pid_t pid)
{
	unsigned known = 0, unknown = 0;
	char name[64];

	for (int i = 0; i < 200 || !known || !unknown; i++) {
		ssize_t n = python_thread_name(rt, pid, name, sizeof(name));

		if (n != -EAGAIN) {
			assert_int_equal(n, strlen("MainThread"));
			assert_string_equal(name, "MainThread");
			known++;
		}
		n = python_thread_name(rt, 1, name, sizeof(name));
		assert_true(n == -ENOENT || n == -EAGAIN);
		unknown += n == -ENOENT;
		int64_t worker = python_loader_worker(rt);
		assert_true(worker == -ENOENT || worker == -EAGAIN);
	}
}

static void check_motion(const struct pythons *found, int minor)
{
	const char *const argv[] = {found->path[0], "-c", program, NULL};
	struct python p = python_start(argv);
	struct mem mem = mem_process(p.pid);
	struct py_runtime *rt;
	char line[16];

	(void)minor;
	assert_true(p.out && fgets(line, sizeof(line), p.out));
	assert_int_equal(python_open(p.pid, &mem, &rt, NULL), 0);
	check_names(rt, p.pid);
	python_close(rt);
	python_stop(&p, SIGKILL);
}

PYTHON_TESTS(check_motion)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_3_8),	 cmocka_unit_test(test_3_9),  cmocka_unit_test(test_3_10),
	    cmocka_unit_test(test_3_11), cmocka_unit_test(test_3_12), cmocka_unit_test(test_3_13),
	};

	return unit_run(tests, NULL, NULL);
}
