/* Tensors of live Python processes: as decoded by ditrace and as reported by Python. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <jansson.h>

#include "symbolizer/event/names.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/torch/layout.h"
#include "tests/unit/pythons.h"

enum { TENSORS_MAX = 600, LIBS = 3, META_BYTES = 0x180 };

/* Prints the files of libtorch, one JSON object for each tensor, then "end"; then waits. */
static const char program[] =
    "import torch, json, sys, time, warnings\n"
    "warnings.simplefilter('ignore')\n"
    "keep = []\n"
    "def ask(f):\n"
    "    try: return f()\n"
    "    except Exception: return None\n"
    "def tell(t, kind='plain'):\n"
    "    keep.append(t)\n"
    "    print(json.dumps(dict(kind=kind, impl=t._cdata, shape=ask(lambda: [int(v) for v in "
    "t.shape]),\n"
    "        stride=ask(lambda: [int(v) for v in t.stride()]), dtype=str(t.dtype)[6:],\n"
    "        offset=ask(lambda: int(t.storage_offset())), ptr=ask(t.data_ptr), "
    "rg=t.requires_grad,\n"
    "        numel=ask(lambda: int(t.numel())), device=str(t.device), layout=str(t.layout)[6:],\n"
    "        grad_fn=t.grad_fn is not None)), flush=True)\n"
    "libs = {}\n"
    "for l in open('/proc/self/maps'):\n"
    "    p = l.split()[-1]; b = p.rsplit('/', 1)[-1]\n"
    "    for n in ('libc10.so', 'libtorch_cpu.so', 'libtorch_python.so'):\n"
    "        if b.startswith(n): libs[n] = p\n"
    "print(json.dumps([libs.get(n) for n in ('libc10.so', 'libtorch_cpu.so',\n"
    "      'libtorch_python.so')]), flush=True)\n"
    "torch.manual_seed(0)\n"
    "# a small training, as ordinary as can be\n"
    "net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))\n"
    "opt = torch.optim.Adam(net.parameters())\n"
    "data = torch.randn(64, 16); label = torch.randint(0, 10, (64,))\n"
    "for step in range(6):\n"
    "    for x, y in zip(data.split(16), label.split(16)):\n"
    "        tell(x, 'train'); tell(y, 'train')\n"
    "        for layer in net:\n"
    "            for p in layer.parameters(): tell(p, 'train')\n"
    "            x = layer(x); tell(x, 'train')\n"
    "        loss = torch.nn.functional.cross_entropy(x, y); tell(loss, 'train')\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "# everything else\n"
    "for d in sorted(set(v for v in vars(torch).values() if isinstance(v, torch.dtype)), "
    "key=str):\n"
    "    for shape in ((), (0,), (3,), (4, 5)):\n"
    "        t = ask(lambda: torch.zeros(shape, dtype=d))\n"
    "        if t is None: t = ask(lambda: torch.empty(shape, dtype=d))\n"
    "        if t is not None: tell(t)\n"
    "for n in range(9):\n"
    "    tell(torch.randn([2, 3, 1, 2, 4, 1, 2, 3][:n]))\n"
    "    tell(torch.randn([2, 3, 1, 2, 4, 1, 2, 3][:n]).permute(list(reversed(range(n)))))\n"
    "    tell(torch.randn([1] * n)); tell(torch.randn([0] * n))\n"
    "a = torch.arange(1000.)\n"
    "for t in (a[8:], a[10:900:7], a[500], a[5:5], a.view(10, 100).t(), a.view(10, 100)[3:, 5:],\n"
    "          a[:1].expand(7, 1), a.as_strided((3, 3), (1, 1), 11), a.new_empty(0)[0:], "
    "a.detach()):\n"
    "    tell(t)\n"
    "w = torch.randn(5, 6, requires_grad=True); b = torch.zeros(5, 6)\n"
    "for t in (w, w * 2, w[1], w.t(), (w * 2).detach(), b[1], b.view(-1), w.data): tell(t)\n"
    "with torch.no_grad(): tell(w.view(-1)); tell(w + 1)\n"
    "late = torch.zeros(4, 4); part = late[1:3]; late.mul_(torch.ones(4, 4, requires_grad=True))\n"
    "tell(part); tell(late)\n"
    "r = torch.ones(3); r.requires_grad_(); tell(r); r = r * 1; r.retain_grad(); tell(r)\n"
    "with torch.inference_mode(): tell(torch.ones(3, 4)); tell(torch.ones(3, 4)[1:])\n"
    "tell(torch.empty(3, 4, device='meta'), 'meta'); tell(torch.empty(9, device='meta')[4:], "
    "'meta')\n"
    "c = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last); tell(c)\n"
    "tell(torch.randn(3, dtype=torch.complex64).conj()); tell(torch.tensor(3)); "
    "tell(torch.tensor(2.5))\n"
    "tell(torch.nn.Parameter(torch.randn(7))); \n"
    "n = ask(lambda: torch.randn(2, 3, names=('A', 'B')))\n"
    "if n is not None: tell(n)\n"
    "g = torch.ones(6); g.grad = torch.ones(6); tell(g); tell(g.grad)\n"
    "big = torch.ones(10); (big.untyped_storage() if hasattr(big, 'untyped_storage') else\n"
    "      big.storage()).resize_(0); tell(big, 'freed')\n"
    "q = ask(lambda: torch.quantize_per_tensor(torch.randn(4, 4), 0.1, 0, torch.quint8))\n"
    "if q is not None: tell(q)\n"
    "odd = [lambda: torch.eye(4).to_sparse(), lambda: torch.eye(4).to_sparse_csr(),\n"
    "       lambda: torch.randn(4, 4).to_mkldnn(),\n"
    "       lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])]\n"
    "def fake():\n"
    "    from torch._subclasses.fake_tensor import FakeTensorMode\n"
    "    from torch.fx.experimental.symbolic_shapes import ShapeEnv\n"
    "    return FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5, 6))\n"
    "odd.append(fake)\n"
    "def wrapped(policy):\n"
    "    class T(torch.Tensor):\n"
    "        @staticmethod\n"
    "        def __new__(cls, **kw):\n"
    "            return torch.Tensor._make_wrapper_subclass(cls, (7, 9), **kw)\n"
    "        @classmethod\n"
    "        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
    "            n = str(func)\n"
    "            if 'stride' in n: return (1, 2, 3)\n"
    "            if 'size' in n: return (2, 3, 4)\n"
    "            if 'numel' in n: return 24\n"
    "            if 'dim' in n: return 3\n"
    "            raise NotImplementedError(n)\n"
    "        __torch_function__ = torch._C._disabled_torch_function_impl\n"
    "    return T(dispatch_sizes_strides_policy=policy) if policy else T()\n"
    "odd += [lambda: wrapped('sizes'), lambda: wrapped('strides'), lambda: wrapped(None)]\n"
    "for f in odd:\n"
    "    t = ask(f)\n"
    "    if t is not None: tell(t, 'odd')\n"
    "print('end', flush=True)\n"
    "time.sleep(36000)\n";

struct live {
	struct python py;
	struct mem mem;
	struct rtti *rtti;
	struct elf_file *lib[LIBS];
	json_t *tensor[TENSORS_MAX];
	struct tensor_snapshot snap[TENSORS_MAX];
	size_t n;
};

static const uint8_t *code_of(void *ctx, const char *mangled, size_t *len)
{
	struct live *l = ctx;
	for (unsigned i = 0; i < LIBS; i++) {
		uint64_t size = 0, at = l->lib[i] ? elf_find(l->lib[i], mangled, &size) : 0;
		const uint8_t *p = at ? elf_bytes(l->lib[i], at, size) : NULL;
		if (!p)
			continue;
		*len = size;
		return p;
	}
	return NULL;
}

static struct layout_facts facts_of(struct live *l)
{
	struct layout_facts f;
	struct code_source src = {code_of, l};
	accessors_read(&src, &f);
	return f;
}

static void take(struct live *l, struct tensor_snapshot *s, uint64_t impl)
{
	*s = (struct tensor_snapshot){.impl_addr = impl, .impl_len = WIN_MAX};
	assert_int_equal(mem_read(&l->mem, impl, s->impl, WIN_MAX), 0);
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++) {
		memcpy(&s->at[i].addr, s->impl + SNAPSHOT_FIRST + 8 * i, 8);
		s->at[i].len = PART_MAX;
		s->at[i].valid =
		    s->at[i].addr && !mem_read(&l->mem, s->at[i].addr, s->at[i].bytes, PART_MAX);
	}
}

static bool live_start(struct live *l, const char *python)
{
	const char *const argv[] = {python, "-c", program, NULL};
	char *line = NULL;
	size_t size = 0;

	*l = (struct live){0};
	l->py = python_start(argv);
	if (!l->py.out || getline(&line, &size, l->py.out) <= 0) {
		python_stop(&l->py, SIGKILL);
		free(line);
		return false;
	}
	json_t *libs = json_loads(line, 0, NULL);
	for (unsigned i = 0; i < LIBS; i++) {
		const char *path = json_string_value(json_array_get(libs, i));
		if (path)
			assert_int_equal(elf_file_open(path, &l->lib[i], NULL), 0);
	}
	json_decref(libs);
	l->mem = mem_process(l->py.pid);
	l->rtti = rtti_new(&l->mem);
	while (getline(&line, &size, l->py.out) > 0 && strcmp(line, "end\n")) {
		assert_true(l->n < TENSORS_MAX);
		l->tensor[l->n] = json_loads(line, 0, NULL);
		assert_non_null(l->tensor[l->n++]);
	}
	assert_string_equal(line, "end\n");
	for (size_t i = 0; i < l->n; i++)
		take(l, &l->snap[i],
		     (uint64_t)json_integer_value(json_object_get(l->tensor[i], "impl")));
	free(line);
	return true;
}

static void live_stop(struct live *l)
{
	python_stop(&l->py, SIGKILL);
	rtti_free(l->rtti);
	for (unsigned i = 0; i < LIBS; i++)
		elf_file_close(l->lib[i]);
	for (size_t i = 0; i < l->n; i++)
		json_decref(l->tensor[i]);
}

static const char *text_of(const json_t *t, const char *key)
{
	return json_string_value(json_object_get(t, key));
}

static bool is_kind(const json_t *t, const char *kind)
{
	return !strcmp(text_of(t, "kind"), kind);
}

static uint64_t word(const uint8_t *p, unsigned off)
{
	uint64_t w;
	memcpy(&w, p + off, 8);
	return w;
}

/* What probes read: the base of a view without a grad of its own. */
static uint8_t base_of(struct live *l, const struct tensor_layout *y, const uint8_t *meta)
{
	uint64_t base, base_meta, grad_fn;
	uint8_t flag;
	if (y->view_base == LAYOUT_NONE || word(meta, 0) != y->view_vtable ||
	    !meta[y->view_has_base])
		return BASE_NOT_READ;
	base = word(meta, y->view_base);
	if (mem_read_u64(&l->mem, base + y->autograd_meta, &base_meta))
		return BASE_NOT_READ;
	if (!base_meta)
		return BASE_NO_GRAD;
	if (mem_read_u64(&l->mem, base_meta + y->meta_grad_fn, &grad_fn) ||
	    mem_read(&l->mem, base_meta + y->meta_requires_grad, &flag, 1))
		return BASE_NOT_READ;
	return grad_fn || flag ? BASE_REQUIRES_GRAD : BASE_NO_GRAD;
}

static int decode(struct live *l, const struct tensor_layout *y, size_t i, struct arena *a,
		  struct tensor *t, struct tensor_extra *x)
{
	static uint8_t meta[META_BYTES], outline[1024];
	struct tensor_raw raw = tensor_raw_of_snapshot(y, &l->snap[i]);
	if (raw.meta) {
		uint64_t at = word(raw.impl, y->autograd_meta);
		raw.meta = meta;
		raw.meta_len = sizeof(meta);
		assert_int_equal(mem_read(&l->mem, at, meta, sizeof(meta)), 0);
		raw.base = base_of(l, y, meta);
	}
	uint64_t ndim = word(raw.impl, y->sizes);
	if (ndim > 5 && ndim <= 64) {
		raw.outline = outline;
		raw.outline_len = (uint32_t)(16 * ndim);
		assert_int_equal(
		    mem_read(&l->mem, word(raw.impl, y->sizes + 8u), outline, 16 * ndim), 0);
	}
	return tensor_decode(y, &raw, l->rtti, a, t, x);
}

static void check_dims(const json_t *list, const int64_t *got, unsigned n, const char *what)
{
	if (json_array_size(list) != n)
		fail_msg("%s: %zu dimensions, decoded %u", what, json_array_size(list), n);
	for (unsigned d = 0; d < n; d++)
		if (json_integer_value(json_array_get(list, d)) != got[d])
			fail_msg("%s[%u] is %lld, decoded %lld", what, d,
				 (long long)json_integer_value(json_array_get(list, d)),
				 (long long)got[d]);
}

/* Nothing decoded differs from Python's report; fields in `may_lack` may be unknown. */
static void check(const json_t *want, const struct tensor *t, unsigned may_lack)
{
	const struct tensor_meta *m = &t->meta;
	char dev[32];
	char *all = json_dumps(want, 0);
	if (m->unknown & ~may_lack)
		fail_msg("unknown %#x of %s", m->unknown, all);
	if (!(m->unknown & TENSOR_NO_SHAPE)) {
		check_dims(json_object_get(want, "shape"), m->shape, m->ndim, all);
		assert_int_equal(m->numel, json_integer_value(json_object_get(want, "numel")));
	}
	if (!(m->unknown & TENSOR_NO_STRIDE))
		check_dims(json_object_get(want, "stride"), m->stride, m->ndim, all);
	if (!(m->unknown & TENSOR_NO_DTYPE))
		assert_string_equal(names_dtype(m->dtype), text_of(want, "dtype"));
	if (!(m->unknown & TENSOR_NO_DEVICE))
		assert_string_equal(names_device(dev, sizeof(dev), m->device_type, m->device_index),
				    text_of(want, "device"));
	if (!(m->unknown & TENSOR_NO_LAYOUT))
		assert_string_equal(names_layout(m->layout), text_of(want, "layout"));
	if (!(m->unknown & TENSOR_NO_REQUIRES_GRAD) &&
	    m->requires_grad != json_is_true(json_object_get(want, "rg")))
		fail_msg("requires_grad is not %d: %s", m->requires_grad, all);
	if (!(m->unknown & TENSOR_NO_OFFSET))
		assert_int_equal(t->storage_offset,
				 json_integer_value(json_object_get(want, "offset")));
	if (!(m->unknown & TENSOR_NO_DATA_PTR) &&
	    (int64_t)t->data_ptr != json_integer_value(json_object_get(want, "ptr")))
		fail_msg("data_ptr is not %#llx: %s", (unsigned long long)t->data_ptr, all);
	free(all);
}

/* Decode all tensors with `y`. Ordinary ones must be complete except for `may_lack`. Returns the
 * number of complete ones. */
static size_t check_all(struct live *l, const struct tensor_layout *y, unsigned may_lack)
{
	struct arena a = {0};
	size_t whole_ones = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct tensor t;
		struct tensor_extra x;
		bool odd = is_kind(l->tensor[i], "odd");
		assert_int_equal(decode(l, y, i, &a, &t, &x), TENSOR_OK);
		check(l->tensor[i], &t, odd ? 0xff : may_lack);
		whole_ones += !t.meta.unknown;
		arena_reset(&a);
	}
	arena_free(&a);
	return whole_ones;
}

static void print_layout(const char *who, const struct tensor_layout *y, int rc)
{
	print_message("# %s: rc %d unknown %#x, storage %#x autograd %#x sizes %#x offset %#x "
		      "numel %#x dtype "
		      "%#x device %#x engaged %#x keys %#x | data %#x bytes %#x | fn %#x rg %#x "
		      "base %#x has %#x "
		      "| seq %#x | win %#x\n",
		      who, rc, y->unknown, y->storage, y->autograd_meta, y->sizes,
		      y->storage_offset, y->numel, y->dtype, y->device, y->device_engaged,
		      y->key_set, y->storage_data_ptr, y->storage_nbytes, y->meta_grad_fn,
		      y->meta_requires_grad, y->view_base, y->view_has_base, y->node_sequence_nr,
		      y->win_len);
}

/* Offsets known in both layouts are equal. */
static void assert_agree(const struct tensor_layout *a, const struct tensor_layout *b)
{
#define AGREE(f)                                                                                   \
	do {                                                                                       \
		if (a->f != LAYOUT_NONE && b->f != LAYOUT_NONE)                                    \
			assert_int_equal(a->f, b->f);                                              \
	} while (0)
	AGREE(storage);
	AGREE(autograd_meta);
	AGREE(sizes);
	AGREE(numel);
	AGREE(storage_offset);
	AGREE(dtype);
	AGREE(device);
	AGREE(device_engaged);
	AGREE(storage_data_ptr);
	AGREE(storage_nbytes);
	AGREE(meta_grad_fn);
	AGREE(meta_requires_grad);
#undef AGREE
}

static struct tensor_layout whole(struct live *l, const struct layout_facts *f, const char *who)
{
	struct tensor_layout y;
	struct err e = {0};
	int rc = layout_solve(l->snap, l->n, f, l->rtti, &l->mem, &y, &e);
	print_layout(who, &y, rc);
	if (rc)
		print_message("# %s\n", e.what);
	assert_int_equal(rc, 0);
	assert_true(y.solved);
	return y;
}

static void with_accessors(struct live *l)
{
	struct layout_facts f = facts_of(l);
	struct tensor_layout y = whole(l, &f, "with accessors");
	assert_int_equal(y.unknown, 0);
	check_all(l, &y, 0);
}

/* Without accessors the data alone gives the same layout. */
static void without_accessors(struct live *l)
{
	struct layout_facts f = facts_of(l);
	struct tensor_layout hidden = whole(l, NULL, "data alone"), y = whole(l, &f, "all");
	assert_agree(&hidden, &y);
	assert_true(check_all(l, &hidden, 0xff) * 10 > l->n * 8);
}

/* Any 64 tensors of a training run suffice, and never give another layout. */
static void training(struct live *l, const struct layout_facts *f)
{
	struct layout_facts all = facts_of(l);
	struct tensor_layout y = whole(l, &all, "all"), part;
	size_t first = 0, solved = 0, tries = 0;
	while (first < l->n && is_kind(l->tensor[first], "train"))
		first++;
	assert_true(first > 100);
	for (size_t at = 0; at + 64 <= first; at += getenv("LONG") ? 9 : 36) {
		layout_solve(l->snap + at, 64, f, l->rtti, &l->mem, &part, NULL);
		assert_agree(&part, &y);
		solved += part.solved;
		tries++;
	}
	assert_int_equal(solved, tries);
}

static void training_with_accessors(struct live *l)
{
	struct layout_facts f = facts_of(l);
	training(l, &f);
}

static void training_without_accessors(struct live *l)
{
	training(l, NULL);
}

/* Single tensors and small groups (in the short run every fourth): too little evidence may leave
 * the layout open, but never gives a wrong one. With accessors one ordinary tensor is enough. */
static void few(struct live *l)
{
	struct layout_facts f = facts_of(l);
	struct tensor_layout y = whole(l, &f, "all"), part;
	const bool all = getenv("LONG");
	for (size_t i = 0; i < l->n; i++)
		for (size_t n = 1; n <= (all || i % 4 == 0 ? 5 : 1) && i + n <= l->n; n += 2) {
			layout_solve(l->snap + i, n, NULL, l->rtti, &l->mem, &part, NULL);
			assert_agree(&part, &y);
			layout_solve(l->snap + i, n, &f, l->rtti, &l->mem, &part, NULL);
			assert_agree(&part, &y);
		}
	for (size_t i = 0; i < l->n; i++) {
		const json_t *t = l->tensor[i];
		if (strcmp(text_of(t, "dtype"), "float32") || !is_kind(t, "plain") ||
		    json_array_size(json_object_get(t, "shape")) != 1 ||
		    json_integer_value(json_object_get(t, "numel")) != 3)
			continue;
		layout_solve(l->snap + i, 1, &f, l->rtti, &l->mem, &part, NULL);
		assert_true(part.solved);
		assert_int_equal(part.unknown & (LAYOUT_OFFSET | LAYOUT_DTYPE | LAYOUT_DEVICE |
						 LAYOUT_DATA_PTR | LAYOUT_AUTOGRAD),
				 0);
	}
}

/* Facts that contradict the tensors are rejected. */
static void wrong_accessors(struct live *l)
{
	struct layout_facts good = facts_of(l);
	struct tensor_layout y = whole(l, &good, "all"), part;
	int32_t *const fact[] = {&good.storage,	       &good.autograd_meta, &good.sizes,
				 &good.storage_offset, &good.numel,	    &good.dtype,
				 &good.device,	       &good.data_ptr};
	for (unsigned i = 0; i < sizeof(fact) / sizeof(fact[0]); i++) {
		int32_t right = *fact[i];
		for (int32_t wrong = right - 16; wrong <= right + 16; wrong += 8) {
			if (wrong == right)
				continue;
			*fact[i] = wrong;
			int rc = layout_solve(l->snap, l->n, &good, l->rtti, &l->mem, &part, NULL);
			if (rc != -EPROTO && rc != -EAGAIN)
				fail_msg("fact %u: %#x instead of %#x passed", i, wrong, right);
			assert_agree(&part, &y);
		}
		*fact[i] = right;
	}
}

static void test_pythons(void (*test)(struct live *))
{
	const char *list = getenv("DITRACE_TEST_PYTHONS");
	char *copy = strdup(list && *list ? list : "/usr/bin/python3:python3"), *save = NULL;
	static struct live l;
	unsigned done = 0;

	for (char *path = strtok_r(copy, ":", &save); path; path = strtok_r(NULL, ":", &save)) {
		if (!live_start(&l, path)) {
			print_message("# %s has no PyTorch\n", path);
			continue;
		}
		print_message("# %s: %zu tensors\n", path, l.n);
		test(&l);
		live_stop(&l);
		done++;
	}
	free(copy);
	if (!done) {
		print_message(
		    "# skipped: no Python with PyTorch; name one in DITRACE_TEST_PYTHONS\n");
		skip();
	}
}

static void everything(struct live *l)
{
	with_accessors(l);
	without_accessors(l);
	training_with_accessors(l);
	training_without_accessors(l);
	few(l);
	wrong_accessors(l);
}

static void test_live(void **state)
{
	(void)state;
	test_pythons(everything);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_live),
	};
	return unit_run(tests, NULL, NULL);
}
