/* Module paths, compared with what the installed interpreters report about their own objects. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "symbolizer/python/internal.h"
#include "tests/unit/pythons.h"

/* Prints lines "PATH ID ID ..." of nestings of modules, innermost first; then "frame ADDRESS ID" of
 * a running frame and its self; then waits. SIGUSR1 changes a name, and prints "changed". */
static const char program[] =
    "import ctypes, signal, sys, time\n"
    "from collections import OrderedDict\n"
    "class Module:\n"
    "    def __init__(self, kind=dict, **children):\n"
    "        self.training, self.hooks, self._modules = True, None, kind(children)\n"
    "    def forward(self):\n"
    "        f = sys._getframe()\n"
    "        at = id(f)\n"
    "        if sys.version_info >= (3, 11): at = ctypes.c_uint64.from_address(at + 24).value\n"
    "        print('frame', at, id(self), flush=True)\n"
    "        while True: time.sleep(1)\n"
    "class Net(Module): pass\n"
    "class Odd(Module): __slots__ = ('a',)\n"
    "leaf, hidden, shared = Module(), Module(), Module()\n"
    "attn = Module(OrderedDict, qkv=leaf, none=None)\n"
    "attn.__dict__['more'] = 1\n"
    "block = Odd(attn=attn, tied=shared)\n"
    "many = Module(**{'m%d' % i: Module() for i in range(300)})\n"
    "del many._modules['m7']\n"
    "net = Net(blocks=Module(**{'0': Module(), '1': block}), embed=shared, many=many)\n"
    "net._modules['\\u00e9'] = uni = Module()\n"
    "for i in range(40): setattr(net, 'x%d' % i, i)\n"
    "def say(path, *modules): print(path, *[id(m) for m in modules])\n"
    "def change(*_):\n"
    "    block._modules['attn2'] = block._modules.pop('attn')\n"
    "    print('changed', flush=True)\n"
    "signal.signal(signal.SIGUSR1, change)\n"
    "say('(Net)', net)\n"
    "say('(Net)', net, net)\n"
    "say('blocks.1', block, net)\n"
    "say('blocks.1.attn.qkv', leaf, attn, block, net)\n"
    "say('blocks.1.attn.qkv', leaf, leaf, net)\n"
    "say('embed', shared, net)\n"
    "say('blocks.1.tied', shared, block, net)\n"
    "say('(Module)', hidden, block, net)\n"
    "say('blocks.1', block, attn, block, net)\n"
    "say('many.m299', many._modules['m299'], many, net)\n"
    "say('\\u00e9', uni, net)\n"
    "say('(Odd)', block)\n"
    "say('attn', attn, block)\n"
    "say('-', None)\n"
    "say('-', say)\n"
    "say('-', leaf, 'x')\n"
    "net.forward()\n";

enum { LINES_MAX = 32, NESTED_MAX = 8 };

#define SECOND 1000000000ULL

struct truth {
	struct python child;
	struct mem mem;
	struct py_runtime *rt;
	char path[LINES_MAX][64];
	uint64_t modules[LINES_MAX][NESTED_MAX];
	size_t nmodules[LINES_MAX], n;
	uint64_t frame, self;
};

static void read_truth(struct truth *t)
{
	char line[512];

	while (fgets(line, sizeof(line), t->child.out)) {
		size_t i = t->n, len;
		char *rest = line + strcspn(line, " ");

		if (sscanf(line, "frame %" SCNu64 " %" SCNu64, &t->frame, &t->self) == 2)
			return;
		assert_true(i < LINES_MAX);
		len = (size_t)(rest - line);
		memcpy(t->path[i], line, len);
		while (*rest == ' ')
			t->modules[i][t->nmodules[i]++] = strtoull(rest, &rest, 10);
		t->n++;
	}
}

static void start(struct truth *t, const char *python)
{
	const char *const argv[] = {python, "-X", "utf8", "-c", program, NULL};
	struct err e = {0};

	*t = (struct truth){.child = python_start(argv)};
	assert_non_null(t->child.out);
	read_truth(t);
	assert_true(t->frame);
	t->mem = mem_process(t->child.pid);
	if (python_open(t->child.pid, &t->mem, &t->rt, &e))
		fail_msg("%s: %s", python, e.what);
}

static const char *path_at(struct truth *t, size_t i, uint64_t ns)
{
	uint32_t node = py_module_node(t->rt, t->modules[i], t->nmodules[i]);
	const char *path = py_module_path(t->rt, node, ns);

	return path ? path : "-";
}

static void check_paths(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++) {
		assert_string_equal(path_at(t, i, clock_ns(CLOCK_MONOTONIC) + SECOND), t->path[i]);
		assert_string_equal(path_at(t, i, 1), "-"); /* from long before it was looked up */
	}
}

static void check_local(const struct truth *t)
{
	const struct py_walk *w = python_walk(t->rt);
	uint64_t at = w->fw_local == PY_NO_OFFSET ? w->frame_local : w->frame_window + w->fw_local;
	uint64_t local;

	assert_int_equal(mem_read_u64(&t->mem, t->frame + at, &local), 0);
	assert_int_equal(local, t->self);
	assert_true(w->fw_local == PY_NO_OFFSET || w->fw_local + 8 <= w->frame_window_len);
}

/* A path is cached for 2 ms; then the new name is found. */
static void check_change(struct truth *t)
{
	char line[64];
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	assert_int_equal(kill(t->child.pid, SIGUSR1), 0);
	assert_non_null(fgets(line, sizeof(line), t->child.out));
	assert_string_equal(line, "changed\n");
	assert_string_equal(path_at(t, 3, now + 3 * SECOND), "blocks.1.attn2.qkv");
	assert_string_equal(path_at(t, 5, now + 3 * SECOND), "embed");
}

static void check_gone(struct truth *t)
{
	kill(t->child.pid, SIGKILL);
	waitpid(t->child.pid, NULL, 0);
	assert_string_equal(path_at(t, 5, clock_ns(CLOCK_MONOTONIC) + 5 * SECOND), "-");
	t->child.pid = 0;
}

static void check(const char *python)
{
	struct truth t;

	start(&t, python);
	check_local(&t);
	check_paths(&t);
	check_change(&t);
	check_gone(&t);
	python_close(t.rt);
	python_stop(&t.child, 0);
}

static void check_minor(int minor)
{
	struct pythons found = pythons_find(minor);

	if (!found.count)
		skip();
	for (size_t i = 0; i < found.count; i++)
		check(found.path[i]);
}

#define MINOR(n)                                                                                   \
	static void test_3_##n(void **state)                                                       \
	{                                                                                          \
		(void)state;                                                                       \
		check_minor(n);                                                                    \
	}
MINOR(8)
MINOR(9)
MINOR(10)
MINOR(11)
MINOR(12)
MINOR(13)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_3_8),	 cmocka_unit_test(test_3_9),  cmocka_unit_test(test_3_10),
	    cmocka_unit_test(test_3_11), cmocka_unit_test(test_3_12), cmocka_unit_test(test_3_13),
	};

	return unit_run(tests, NULL, NULL);
}
