/* Module paths, compared with what the installed interpreters report about their own objects. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <time.h>

#include "base/system.h"
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
	uint32_t node = py_module_node(t->rt, PY_NO_MODULE, t->modules[i], t->nmodules[i]);
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

static void check_minor(const struct pythons *found, int minor)
{
	(void)minor;
	for (size_t i = 0; i < found->count; i++)
		check(found->path[i]);
}

/* A memory of CPython 3.8 in which a module has 4000 others, and each of these has 4096 attributes
 * of the same name: word number `at` / 8 of the object whose number is in the upper half of the
 * address. */
enum {
	TYPE = 1,
	ROOT,
	ROOT_DICT,
	ROOT_KEYS,
	TREE_DICT,
	TREE_KEYS,
	DICT,
	KEYS,
	STR,
	NAME,
	CLASS,
	MODULE
};
enum { CHILDREN = 4000, ATTRIBUTES = 4096, FIRST_ENTRY = 40 + 2 * ATTRIBUTES };

static uint64_t class_name;

static uint64_t address(uint64_t object)
{
	return object << 32;
}

/* ob_refcnt, ob_type, then `word` is in place `at`. */
static uint64_t object_word(uint64_t at, uint64_t place, uint64_t word)
{
	return at == 0 ? 1 : at == 8 ? address(TYPE) : at == place ? word : 0;
}

/* A hash table with that many entries, of the key `key` and values `value` or, from it on, a new
 * one each. */
static uint64_t keys_word(uint64_t at, uint64_t n, uint64_t key, uint64_t value, bool each)
{
	if (at == 8)
		return ATTRIBUTES;
	if (at == 32)
		return n;
	uint64_t entry = (at - FIRST_ENTRY) / 24;
	if (at < FIRST_ENTRY || entry >= n)
		return 0;
	return (at - FIRST_ENTRY) % 24 == 8    ? address(key)
	       : (at - FIRST_ENTRY) % 24 == 16 ? address(value + (each ? entry : 0))
					       : 1;
}

static uint64_t wide_word(uint64_t object, uint64_t at)
{
	const char *name = object == NAME ? "_modules" : "x";
	switch (object) {
	case TYPE: /* a type and a dict: Py_TPFLAGS_TYPE_SUBCLASS, Py_TPFLAGS_DICT_SUBCLASS */
		return at == 24	   ? address(CLASS)
		       : at == 288 ? 16
				   : object_word(at, 168, 1ULL << 31 | 1ULL << 29);
	case CLASS:
		return at ? 0 : class_name;
	case ROOT:
		return object_word(at, 16, address(ROOT_DICT));
	case ROOT_DICT:
		return object_word(at, 32, address(ROOT_KEYS));
	case ROOT_KEYS:
		return keys_word(at, 1, NAME, TREE_DICT, false);
	case TREE_DICT:
		return object_word(at, 32, address(TREE_KEYS));
	case TREE_KEYS:
		return keys_word(at, CHILDREN, STR, MODULE, true);
	case DICT:
		return object_word(at, 32, address(KEYS));
	case KEYS:
		return keys_word(at, ATTRIBUTES, STR, TYPE, false);
	case STR:
	case NAME:
		if (at == 48)
			return name[1] ? 0x73656c75646f6d5f : 'x';
		return at == 16 ? strlen(name) : object_word(at, 32, 1 << 2 | 0x20 | 0x40);
	default:
		return object_word(at, 16, address(DICT));
	}
}

static uint64_t wide_reads;

static int read_wide(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	(void)m;
	wide_reads++;
	for (size_t i = 0; i < len; i++, addr++) {
		uint64_t word = wide_word(addr >> 32, addr & 0xfffffff8);
		((uint8_t *)buf)[i] = (uint8_t)(word >> 8 * (addr & 7));
	}
	return 0;
}

/* A search in a tree that is none ends. */
static void test_wide(void **state)
{
	const struct mem mem = {.read = read_wide};
	struct py_runtime rt = {.mem = &mem, .layout = *py_layout_table(8)};
	struct py_tree t = {0};
	struct py_witness w = {0};
	char name[PY_PATH_MAX];
	(void)state;
	rt.image.unicode_type = address(TYPE);
	assert_int_equal(py_tree_find(&rt, &t, address(ROOT), 8, &w, name, sizeof(name)), -E2BIG);
	assert_true(t.n > CHILDREN);
	assert_in_range(wide_reads, 1 << 16, 1 << 20);
	py_tree_free(&t);
	py_witness_free(&w);
}

/* Of what is no UTF-8 there is no name. */
static void test_class_name(void **state)
{
	const struct mem mem = {.read = read_wide};
	const struct py_runtime rt = {.mem = &mem, .layout = *py_layout_table(8)};
	char name[8];
	(void)state;
	memcpy(&class_name, "A\xc3\xa9\xc3\xa9", 6);
	assert_int_equal(py_type_name(&rt, address(TYPE), name, sizeof(name)), 5);
	assert_int_equal(py_type_name(&rt, address(TYPE), name, 5), 3);
	assert_string_equal(name, "A\xc3\xa9");
	memcpy(&class_name, "A\xc3(", 4);
	assert_int_equal(py_type_name(&rt, address(TYPE), name, sizeof(name)), -EPROTO);
}

PYTHON_TESTS(check_minor)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_3_8),	 cmocka_unit_test(test_3_9),
	    cmocka_unit_test(test_3_10), cmocka_unit_test(test_3_11),
	    cmocka_unit_test(test_3_12), cmocka_unit_test(test_3_13),
	    cmocka_unit_test(test_wide), cmocka_unit_test(test_class_name),
	};

	return unit_run(tests, NULL, NULL);
}
