/* Fuzzes what is read of CPython in the memory of a target: layout, threads, frames, code objects,
 * strings, dicts, modules, linecache and cells. What comes of it is within bounds, and texts are
 * UTF-8. The input is where to begin, and pieces of memory.
 *
 * `fuzz_python -record` makes such inputs of the interpreters of this machine, in the current
 * folder. */
#include "symbolizer/python/python.c"

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/plan/code_print.h"
#include "tests/fuzz/input.h"
#include "tests/unit/pythons.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { MODULES = 3, FRAMES = 64, PIECES = 1024, LINE = 64 };

struct start {
	uint64_t runtime, version, code_type, unicode_type, bytes_type; /* addresses */
	uint64_t thread;						/* pthread_self() */
	uint64_t modules[MODULES];					/* innermost first */
	uint64_t dict;
	uint8_t literal_minor;
	uint8_t everywhere; /* what is in no piece has bytes of the input, too */
};

struct piece {
	uint64_t addr;
	uint16_t len;
	const unsigned char *bytes;
};

/* A memory of pieces of the input. */
struct pieces {
	struct mem mem; /* must be first */
	struct input all;
	bool everywhere;
	struct piece piece[PIECES];
	unsigned n;
};

static const struct piece *piece_at(const struct pieces *p, uint64_t addr)
{
	for (unsigned i = 0; i < p->n; i++)
		if (addr - p->piece[i].addr < p->piece[i].len)
			return &p->piece[i];
	return NULL;
}

static int pieces_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct pieces *p = (const struct pieces *)m;
	unsigned char *to = buf;
	while (len) {
		const struct piece *x = piece_at(p, addr);
		size_t n = 1;
		if (x) {
			n = x->len - (size_t)(addr - x->addr);
			n = n < len ? n : len;
			memcpy(to, x->bytes + (addr - x->addr), n);
		} else if (p->everywhere) {
			*to = p->all.data[addr % p->all.left];
		} else {
			return -EFAULT;
		}
		addr += n;
		to += n;
		len -= n;
	}
	return 0;
}

static void pieces_cut(struct pieces *p, struct input in)
{
	struct piece x;
	while (p->n < PIECES && take(&in, &x.addr, 8) == 8 && take(&in, &x.len, 2) == 2) {
		x.bytes = in.data;
		x.len = x.len < in.left ? x.len : (uint16_t)in.left;
		p->piece[p->n++] = x;
		in.data += x.len;
		in.left -= x.len;
	}
}

static void check_text(const char *s)
{
	uint32_t c;
	for (size_t left = strlen(s); left;) {
		size_t n = text_utf8(s, left, &c);
		if (!n)
			abort();
		s += n;
		left -= n;
	}
}

static void check_frame(const struct py_frame *f)
{
	check_text(f->file);
	check_text(f->function);
	if (f->line < 0 || f->column < -1 || f->end_column < -1 ||
	    (f->end_line && f->end_line < f->line))
		abort();
}

static void check_stack(const struct py_stack *s, size_t most)
{
	if (!s || s->depth > most)
		abort();
	for (unsigned i = 0; i < s->depth; i++)
		check_frame(s->frames[i]);
}

static void read_object(struct py_runtime *rt, uint64_t obj)
{
	char text[64];
	uint64_t type;
	if (py_object_type(rt, obj, &type))
		return;
	ssize_t n = py_type_name(rt, type, text, sizeof(text));
	if (n >= 0 && strlen(text) != (size_t)n)
		abort();
	struct py_dict d;
	if (!py_attributes_open(rt, obj, type, &d) && d.n > PY_DICT_MAX)
		abort();
}

static void read_str(struct py_runtime *rt, uint64_t str)
{
	char text[32];
	ssize_t n = py_read_str(rt, str, text, sizeof(text));
	if (n >= 0 && strlen(text) != (size_t)n)
		abort();
	if (n >= 0)
		check_text(text);
}

static void read_dict(struct py_runtime *rt, uint64_t addr)
{
	static uint64_t pairs[PY_DICT_MAX][2];
	struct py_dict d;
	if (py_dict_open(rt, addr, &d))
		return;
	if (d.n > PY_DICT_MAX || d.nproof > 4)
		abort();
	if (py_dict_read(rt, &d, pairs))
		return;
	for (size_t i = 0; i < d.n && i < 16; i++) {
		read_str(rt, pairs[i][0]);
		read_object(rt, pairs[i][1]);
	}
}

static void read_code(struct py_runtime *rt, uint64_t code, uint64_t instr)
{
	uint64_t start, end, dealloc;
	struct py_region region = {.addr = code, .data = (const uint8_t[16]){1}, .len = 16};
	check_frame(py_resolve(rt, code, instr));
	if (!py_code_range(rt, code, &start, &end) && end - start > 1 << 25)
		abort();
	py_code_dealloc_addr(rt, &dealloc);
	py_code_check(rt, code);
	py_code_remember(rt, code, &region, 1);
	py_code_freed(rt, code);
	check_frame(py_resolve(rt, code, instr));
	const uint64_t print = py_code_print(rt, code, PRINT_PARTS);
	const uint64_t frame[1][4] = {{code, instr, code, print}};
	py_code_learn(rt, code, print, &region, 1);
	check_stack(py_stack_intern_prints(rt, frame, 1, false, true, UINT64_MAX / 2), FRAMES);
	py_code_stays(rt, code, print, UINT64_MAX);
}

static void read_modules(struct py_runtime *rt, const uint64_t modules[MODULES])
{
	uint32_t node = PY_NO_MODULE;
	for (unsigned i = 0; i < MODULES; i++) {
		node = py_module_node(rt, i & 1 ? node : PY_NO_MODULE, modules + i, MODULES - i);
		const char *path = py_module_path(rt, node, UINT64_MAX / 2);
		if (path && strlen(path) >= PY_PATH_MAX)
			abort();
		if (path)
			check_text(path);
	}
}

static void read_cell(struct py_runtime *rt, const char *file)
{
	char *text = NULL;
	const char *name = py_cell_name(rt, py_intern_string(rt->codes, file));
	ssize_t n = py_linecache_text(rt, file, 1 << 16, &text);
	if (n >= 0 && (strlen(text) != (size_t)n || n > 1 << 16))
		abort();
	if (n >= 0)
		check_text(text);
	if (strncmp(name, file, strlen(file)) != 0)
		abort();
	free(text);
}

/* Read what an engine and the decoder read of a thread. */
static void read_all(struct py_runtime *rt, const struct start *s)
{
	uint64_t pairs[FRAMES][2], frames[FRAMES][3];
	bool truncated;
	struct py_top top;
	struct py_gil gil;
	int n = py_walk_from(rt, s->thread, 1, &top, pairs, FRAMES, &truncated);
	if (n > FRAMES)
		abort();
	n = n < 0 ? 0 : n;
	py_gil_read(rt, top.tstate, &gil);
	py_find_tstate(rt, 0, 1, &top.tstate);
	for (int i = 0; i < n; i++)
		memcpy(frames[i], (uint64_t[]){pairs[i][0], pairs[i][1], s->modules[i % MODULES]},
		       sizeof(frames[i]));
	for (int i = 0; i < 2; i++)
		check_stack(py_stack_intern_at(rt, frames, (size_t)n, truncated, UINT64_MAX / 2),
			    FRAMES);
	check_stack(py_stack_intern(rt, pairs, (size_t)n, truncated), FRAMES);
	for (int i = 0; i < n; i++)
		read_code(rt, pairs[i][0], pairs[i][1]);
	read_modules(rt, s->modules);
	read_dict(rt, s->dict);
	read_cell(rt, "/cell");
	read_cell(rt, "<eval_with_key>.0");
}

static void run(const struct mem *m, const struct start *s)
{
	struct py_runtime *rt = calloc(1, sizeof(*rt));
	if (!rt)
		abort();
	rt->mem = rt->live = m;
	rt->image = (struct py_image){.runtime = s->runtime,
				      .version = s->version,
				      .code_type = s->code_type,
				      .unicode_type = s->unicode_type,
				      .bytes_type = s->bytes_type,
				      .literal_minor = s->literal_minor};
	rt->codes = py_codes_new();
	rt->stacks = py_stacks_new();
	rt->modules = py_modules_new();
	if (!rt->codes || !rt->stacks || !rt->modules)
		abort();
	if (!find_layout(rt, NULL)) {
		check_memory(rt);
		read_all(rt, s);
	}
	python_close(rt);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct pieces p;
	struct input in = {data, size};
	struct start s;
	if (take(&in, &s, sizeof(s)) != sizeof(s))
		return 0;
	p = (struct pieces){
	    .mem = {.read = pieces_read}, .all = {data, size}, .everywhere = s.everywhere & 1};
	pieces_cut(&p, in);
	run(&p.mem, &s);
	return 0;
}

/* Nested calls as torch.nn.Module has them. Prints where to begin, and waits. */
static const char program[] =
    "import linecache, sys, threading, time\n"
    "class Named:\n"
    "    def __init__(self, **names): self.__dict__.update(names)\n"
    "def made(name, **names):\n"
    "    sys.modules[name] = type(sys)(name)\n"
    "    sys.modules[name].__dict__.update(names)\n"
    "class InteractiveShell: pass\n"
    "InteractiveShell._instance = Named(compile=Named(_filename_map={'/cell': 2}),\n"
    "    _user_ns={'In': ['', 'a', 'a']})\n"
    "made('IPython.core.interactiveshell', InteractiveShell=InteractiveShell)\n"
    "key = '<eval_with_key>.0'\n"
    "made('torch.fx.graph_module', _loader=Named(eval_cache={key: 'b'}))\n"
    "linecache.cache.update({'/cell': (1, None, ['a\\n'], '/cell'), key: (len,)})\n"
    "class Module:\n"
    "    def __init__(self, **children): self.training, self._modules = True, children\n"
    "class Net(Module): pass\n"
    "leaf = Module()\n"
    "block = Module(\u00e9=Module(), leaf=leaf)\n"
    "net = Net(norm=Module(), block=block)\n"
    "def wait():\n"
    "    print(threading.get_ident(), *map(id, (leaf, block, net, net._modules)), flush=True)\n"
    "    time.sleep(600)\n"
    "code = 'def _call_impl(self, inner): return _call_impl(*inner) if inner else wait()'\n"
    "space = {'wait': wait}\n"
    "exec(compile(code, '/lib/site-packages/torch/nn/modules/module.py', 'exec'), space)\n"
    "space['_call_impl'](net, (block, (leaf, ())))\n";

/* The lines of a process's memory that were read. */
struct record {
	struct mem mem; /* must be first */
	struct mem real;
	uint64_t *lines;
	size_t n, room;
};

static int record_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	struct record *r = (struct record *)m;
	int rc = mem_read(&r->real, addr, buf, len);
	for (uint64_t at = addr / LINE; !rc && len && at <= (addr + len - 1) / LINE; at++) {
		if (array_grow(&r->lines, &r->room, r->n + 1, sizeof(*r->lines)))
			abort();
		r->lines[r->n++] = at * LINE;
	}
	return rc;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void record_write(const struct record *r, FILE *f)
{
	unsigned char bytes[LINE];
	const uint16_t len = LINE;
	qsort(r->lines, r->n, sizeof(*r->lines), by_number);
	for (size_t i = 0; i < r->n; i++) {
		if ((i && r->lines[i] == r->lines[i - 1]) ||
		    mem_read(&r->real, r->lines[i], bytes, LINE))
			continue;
		fwrite(&r->lines[i], 8, 1, f);
		fwrite(&len, 2, 1, f);
		fwrite(bytes, LINE, 1, f);
	}
}

static void record_one(const char *python, int minor)
{
	const char *const argv[] = {python, "-X", "utf8", "-c", program, NULL};
	struct python child = python_start(argv);
	struct record r = {.mem.read = record_read, .real = mem_process(child.pid)};
	struct py_image image;
	struct start s;
	char line[256], name[32];
	uint64_t n[5];
	if (!child.out || !fgets(line, sizeof(line), child.out) ||
	    sscanf(line, "%lu %lu %lu %lu %lu", &n[0], &n[1], &n[2], &n[3], &n[4]) != 5 ||
	    py_images(child.pid, &image, 1, NULL) != 1)
		abort();
	s = (struct start){image.runtime,
			   image.version,
			   image.code_type,
			   image.unicode_type,
			   image.bytes_type,
			   n[0],
			   {n[1], n[2], n[3]},
			   n[4],
			   (uint8_t)image.literal_minor,
			   0};
	run(&r.mem, &s);
	snprintf(name, sizeof(name), "python3.%d", minor);
	FILE *f = fopen(name, "w");
	if (!f)
		abort();
	fwrite(&s, sizeof(s), 1, f);
	record_write(&r, f);
	fclose(f);
	free(r.lines);
	python_stop(&child, SIGKILL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	if (*argc != 2 || strcmp((*argv)[1], "-record") != 0)
		return 0;
	for (int minor = 8; minor <= 13; minor++) {
		struct pythons found = pythons_find(minor);
		if (found.count)
			record_one(found.path[0], minor);
	}
	exit(0);
}
