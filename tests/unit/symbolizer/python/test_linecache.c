#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/python/internal.h"
#include "tests/unit/pythons.h"

/* linecache as Python, torch.fx and IPython fill it, and a shell with the attributes that IPython
 * has: user_ns is _user_ns since IPython 9, a property above it. */
static const char program[] =
    "import linecache, sys, time, types\n"
    "def module(name, **names):\n"
    "    sys.modules[name] = types.ModuleType(name)\n"
    "    sys.modules[name].__dict__.update(names)\n"
    "def cache(name, text):\n"
    "    linecache.cache[name] = (len(text), None, [l + '\\n' for l in text.splitlines()], name)\n"
    "cache('<made>', 'one\\n\\n  tw\u00f6 \U0001f600\\nthree')\n"
    "cache('<empty>', '')\n"
    "linecache.cache['<short>'] = (3, None)\n"
    "linecache.cache['<wrong>'] = (3, None, ['one', 2], '<wrong>')\n"
    "class Loader:\n"
    "    def __init__(self): self.eval_cache, self.next_id = {}, 0\n"
    "    def get_source(self, name): return self.eval_cache[name]\n"
    "loader = Loader()\n"
    "loader.eval_cache['<eval_with_key>.0'] = 'def forward(self):\\n    return self\\n'\n"
    "for i in range(2):\n"
    "    name = '<eval_with_key>.%d' % i\n"
    "    linecache.lazycache(name, {'__name__': name, '__loader__': loader})\n"
    "for i in range(3000): module('filler%d' % i)\n"
    "module('torch.fx.graph_module', _loader=loader)\n"
    "class InteractiveShell: pass\n"
    "class Compiler: pass\n"
    "class Shell(InteractiveShell):\n"
    "    def __init__(self):\n"
    "        self.compile = Compiler()\n"
    "        self.compile._filename_map = {}\n"
    "        setattr(self, sys.argv[1], {'In': ['']})\n"
    "    def run(self, name, text, history=True):\n"
    "        cells = getattr(self, sys.argv[1])['In']\n"
    "        number = len(cells)\n"
    "        if history: cells.append(text.rstrip('\\n'))\n"
    "        self.compile._filename_map[name] = number\n"
    "        cache(name, text)\n"
    "InteractiveShell._instance = shell = Shell()\n"
    "module('IPython.core.interactiveshell', InteractiveShell=InteractiveShell)\n"
    "shell.run('/tmp/ipykernel_1/11.py', 'a\\n')\n"	  /* 1 */
    "shell.run('/tmp/ipykernel_1/22.py', 'b\\nc\\n')\n"	  /* 2 */
    "shell.run('/tmp/ipykernel_1/33.py', 'z\\n')\n"	  /* 3 */
    "shell.run('/tmp/ipykernel_1/22.py', 'b\\nc\\n')\n"	  /* 4 */
    "shell.run('<ipython-input-5-abc>', 'd')\n"		  /* 5 */
    "shell.run('<ipython-input-6-abc>', 'd')\n"		  /* 6 */
    "for i in range(5): shell.run('/tmp/many.py', 'e')\n" /* 7 to 11 */
    "shell.run('/tmp/quiet.py', 'f', False)\n"
    "shell.run('/tmp/next.py', 'g')\n" /* 12 */
    "class Info:\n"
    "    __slots__ = 'id', 'seed'\n"
    "info = Info() if sys.argv[1] == 'user_ns' else Compiler()\n"
    "info.id = 300\n"
    "module('torch.utils.data._utils.worker', _worker_info=info)\n"
    "print('ready', flush=True)\n"
    "time.sleep(36000)\n";

static void assert_text(const struct py_runtime *rt, const char *file, const char *want)
{
	char *text = NULL;
	ssize_t n = py_linecache_text(rt, file, 1 << 16, &text);

	if (!want) {
		assert_true(n < 0);
		assert_null(text);
		return;
	}
	assert_non_null(text);
	assert_string_equal(text, want);
	assert_int_equal(n, strlen(want));
	free(text);
}

static void check_texts(const struct py_runtime *rt)
{
	char *text = NULL;

	assert_text(rt, "<made>", "one\n\n  tw\xc3\xb6 \xf0\x9f\x98\x80\nthree\n");
	assert_text(rt, "<empty>", "");
	assert_text(rt, "<short>", NULL);
	assert_text(rt, "<wrong>", NULL);
	assert_text(rt, "<eval_with_key>.0", "def forward(self):\n    return self\n");
	assert_text(rt, "<eval_with_key>.1", NULL);
	assert_int_equal(py_linecache_text(rt, "<none>", 64, &text), -ENOENT);
	assert_null(text);
}

static void assert_cell(struct py_runtime *rt, const char *file, const char *numbers)
{
	const char *name = py_cell_name(rt, py_intern_string(rt->codes, file));
	char want[64];

	snprintf(want, sizeof(want), numbers ? "%s/In[%s]" : "%s", file, numbers);
	assert_string_equal(name, want);
	assert_int_equal(py_cell_file(name), numbers ? strlen(file) : 0);
}

static void check_cells(struct py_runtime *rt)
{
	assert_cell(rt, "/tmp/ipykernel_1/11.py", "1");
	assert_cell(rt, "/tmp/ipykernel_1/22.py", "2,4");
	assert_cell(rt, "<ipython-input-5-abc>", "5");
	assert_cell(rt, "<ipython-input-6-abc>", "6");
	assert_cell(rt, "/tmp/many.py", "7,8,...,11");
	assert_cell(rt, "/tmp/quiet.py", NULL);
	assert_cell(rt, "/tmp/next.py", "12");
	assert_cell(rt, "/usr/lib/python3/os.py", NULL);
	assert_cell(rt, "<made>", NULL);
}

static int read_nothing(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	(void)m, (void)addr, (void)buf, (void)len;
	return -EFAULT;
}

/* While code is read from copies, its cell is found in the process. */
static void check_copies(struct py_runtime *rt)
{
	const struct mem none = {.read = read_nothing}, *mem = rt->mem;

	rt->mem = &none;
	assert_cell(rt, "/tmp/ipykernel_1/22.py", "2,4");
	rt->mem = mem;
}

static void check_lines(struct py_runtime *rt)
{
	char text[64];

	assert_int_equal(
	    py_sources_line(rt->sources, "/tmp/ipykernel_1/22.py/In[2,4]", 2, text, sizeof(text)),
	    1);
	assert_string_equal(text, "c");
	assert_int_equal(py_sources_line(rt->sources, "<made>", 3, text, sizeof(text)), 9);
	assert_int_equal(py_sources_line(rt->sources, "<made>/In[1", 3, text, sizeof(text)),
			 -ENOENT);
}

static void check_python(const char *python, const char *names)
{
	const char *const argv[] = {python, "-X", "utf8", "-c", program, names, NULL};
	struct python p = python_start(argv);
	struct mem mem = mem_process(p.pid);
	struct py_runtime *rt;
	char line[16];

	assert_true(p.out && fgets(line, sizeof(line), p.out));
	assert_int_equal(python_open(p.pid, &mem, &rt, NULL), 0);
	check_texts(rt);
	check_cells(rt);
	check_copies(rt);
	check_lines(rt);
	assert_int_equal(python_loader_worker(rt), 300);
	python_close(rt);
	python_stop(&p, SIGKILL);
}

static void check_minor(const struct pythons *found, int minor)
{
	(void)minor;
	check_python(found->path[0], "_user_ns");
	check_python(found->path[0], "user_ns");
}

PYTHON_TESTS(check_minor)

static void test_cell_files(void **state)
{
	static const struct {
		const char *name;
		size_t file;
	} cases[] = {{"<a>/In[3]", 3},
		     {"/a/In[1]/In[3,5]", 8},
		     {"a/In[7,8,...,11]", 1},
		     {"In[3]", 0},
		     {"/In[3]", 0},
		     {"a/In[]", 0},
		     {"a/In[3", 0},
		     {"a/In[3].py", 0},
		     {"a/In[x]", 0},
		     {"", 0},
		     {"a/b.py", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(py_cell_file(cases[i].name), cases[i].file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cell_files), cmocka_unit_test(test_3_8),
	    cmocka_unit_test(test_3_9),	       cmocka_unit_test(test_3_10),
	    cmocka_unit_test(test_3_11),       cmocka_unit_test(test_3_12),
	    cmocka_unit_test(test_3_13),
	};

	return unit_run(tests, NULL, NULL);
}
