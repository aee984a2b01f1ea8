/* Jumps in all windows of a libtorch at work, which computes what it did without. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/target_files.h"
#include "tests/unit/pythons.h"
#include "tracer/engine/shim/jumps.h"

enum { PAGE = 4096, WINDOWS_MAX = 1 << 14, PARTS = 8 };

/* Trains in several threads again and again, with signals, until a line comes; prints how often the
 * result was another than the first time. Behind the memory for jumps are a page for code and one
 * for data. */
static const char program[] =
    "import ctypes, signal, sys, threading, torch\n"
    "torch.set_num_threads(1)\n"
    "size = int(sys.argv[1]) + 8192\n"
    "libc = ctypes.CDLL(None)\n"
    "libc.mmap.restype = ctypes.c_void_p\n"
    "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + "
    "[ctypes.c_long]\n"
    "ends = [l.split()[0].split('-')[1] for l in open('/proc/self/maps') if 'libtorch_cpu' in l]\n"
    "at, end = -1, int(ends[-1], 16) + 0xffff & ~0xffff\n"
    "while (at or -1) < 0 or at >= 1 << 63:\n"
    "    at = libc.mmap(end, size, 5, 0x100022, -1, 0)\n"
    "    at = -1 if at is None or at >= 1 << 63 else at\n"
    "    end += 1 << 20\n"
    "libc.mprotect(ctypes.c_void_p(at + size - 4096), 4096, 3)\n"
    "def train():\n"
    "    g = torch.Generator().manual_seed(1)\n"
    "    w = torch.rand(8, 8, generator=g, requires_grad=True)\n"
    "    for i in range(10):\n"
    "        x = torch.rand(4, 8, generator=g)\n"
    "        y = torch.tanh(x @ w).softmax(1)[:, 1:].sum() + (w * w).mean()\n"
    "        y.backward()\n"
    "        with torch.no_grad():\n"
    "            w -= 0.1 * w.grad\n"
    "            w.grad = None\n"
    "    return w.detach().clone()\n"
    "expected, stop, rounds, wrong = train(), False, 0, 0\n"
    "def work():\n"
    "    global rounds, wrong\n"
    "    while not stop:\n"
    "        wrong += not torch.equal(train(), expected)\n"
    "        rounds += 1\n"
    "threads = [threading.Thread(target=work) for i in range(8)]\n"
    "for t in threads: t.start()\n"
    "signal.signal(signal.SIGPROF, lambda *a: None)\n"
    "signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)\n"
    "print(at, flush=True)\n"
    "sys.stdin.readline()\n"
    "stop = True\n"
    "for t in threads: t.join()\n"
    "print(rounds, wrong, flush=True)\n";

struct live {
	FILE *in, *out;
	pid_t pid;
	int mem;
	struct jump_pool pool;
	uint64_t code_at; /* behind it */
	uint64_t hits_at;
	struct jump_site *sites;
	uint32_t n;
};

#define PART jump_pool_len(WINDOWS_MAX / PARTS)

static bool live_start(struct live *l, const char *python)
{
	int in[2], out[2];
	char size[24];

	*l = (struct live){.mem = -1};
	snprintf(size, sizeof(size), "%lu", (unsigned long)(PARTS * PART));
	assert_true(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	l->pid = fork();
	if (!l->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(python, python, "-W", "ignore", "-c", program, size, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	l->in = fdopen(in[1], "w");
	l->out = fdopen(out[0], "r");
	uint64_t at;
	if (fscanf(l->out, "%lu", &at) != 1)
		return false;
	for (; l->pool.n < PARTS; at += PART)
		l->pool.part[l->pool.n++] = (struct jump_part){at, PART};
	l->code_at = at;
	return true;
}

static void live_stop(struct live *l)
{
	if (l->in)
		fclose(l->in);
	fclose(l->out);
	if (l->mem >= 0)
		close(l->mem);
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	free(l->sites);
}

static void live_add(struct live *l, const struct code_window *w, uint64_t start, bool exit)
{
	struct jump_site *s = &l->sites[l->n];
	assert_true(l->n < WINDOWS_MAX && w->len <= JUMP_WINDOW_MAX);
	*s = (struct jump_site){
	    .addr = start + w->off,
	    .handler = l->code_at,
	    .number = l->n++,
	    .len = w->len,
	    .skips_red_zone = exit,
	};
	assert_int_equal(pread(l->mem, s->bytes, w->len, (off_t)s->addr), w->len);
}

static void live_windows(struct live *l)
{
	struct maps maps;
	struct libraries libs;
	struct op_table *t;
	uint64_t bias;

	assert_int_equal(maps_read(l->pid, &maps, NULL), 0);
	libraries_find(&maps, &libs);
	assert_non_null(libs.torch);
	struct ops_file files[OPS_FILES] = {{regular_open(libs.torch->path), libs.torch->path}};
	assert_int_equal(op_table_load(files, OPS_LAZY, -1, &t, NULL), 0);
	close(files[0].fd);
	assert_int_equal(elf_bias(t->elf[OPS_CPU], libs.torch, &bias), 0);
	struct func_windows *w = calloc(t->n, sizeof(*w));
	l->sites = calloc(WINDOWS_MAX, sizeof(*l->sites));
	assert_true(w && l->sites);
	assert_int_equal(op_table_windows(t, w), 0);
	for (uint32_t i = 0; i < t->n; i++) {
		if (!w[i].entry.len || !w[i].nexits)
			continue;
		live_add(l, &w[i].entry, t->ops[i].vaddr + bias, false);
		for (unsigned k = 0; k < w[i].nexits; k++)
			live_add(l, &w[i].exit[k], t->ops[i].vaddr + bias, true);
	}
	free(w);
	op_table_free(t);
	maps_free(&maps);
}

/* lock inc qword ptr [rip + to the next page]; ret 8 */
static void live_handler(struct live *l)
{
	const uint8_t code[] = {0xf0, 0x48, 0xff, 0x05, 0xf8, 0x0f, 0, 0, 0xc2, 8, 0};
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", l->pid);
	l->mem = open(path, O_RDWR | O_CLOEXEC);
	assert_true(l->mem >= 0);
	off_t at = (off_t)l->code_at;
	assert_int_equal(pwrite(l->mem, code, sizeof(code), at), sizeof(code));
	l->hits_at = (uint64_t)at + PAGE;
}

static uint64_t live_hits(const struct live *l)
{
	uint64_t hits;
	assert_int_equal(pread(l->mem, &hits, sizeof(hits), (off_t)l->hits_at), sizeof(hits));
	return hits;
}

static void live_is_clean(const struct live *l)
{
	uint8_t now[JUMP_WINDOW_MAX];
	for (uint32_t i = 0; i < l->n; i++) {
		const struct jump_site *s = &l->sites[i];
		assert_int_equal(pread(l->mem, now, s->len, (off_t)s->addr), s->len);
		assert_memory_equal(now, s->bytes, s->len);
	}
}

static double ms_since(uint64_t from)
{
	return (double)(clock_ns(CLOCK_MONOTONIC) - from) * 1e-6;
}

/* Where there is room for some, those that must be there come first. */
static void in_little_room(struct live *l)
{
	const uint32_t room = WINDOWS_MAX / PARTS, must = l->n - 1;
	struct jump_pool little = l->pool;
	struct jumps *j;
	struct jumps_done done;

	little.n = 1;
	l->sites[must].first = true;
	assert_int_equal(jumps_open(&j), 0);
	assert_int_equal(jumps_add(j, l->pid, &little, l->sites, l->n, &done, NULL), 0);
	assert_int_equal(done.no_room, l->n - room);
	assert_int_equal(done.written + done.busy + done.split, room);
	assert_int_not_equal(jumps_state(j, must), JUMP_NO_ROOM);
	jumps_close(j);
	live_is_clean(l);
}

static void come_and_go(struct live *l)
{
	struct jumps *j;
	struct jumps_done done;
	struct err e = {0};

	assert_int_equal(jumps_open(&j), 0);
	for (int i = 0, n = getenv("LONG") ? 200 : 5; i < n; i++) {
		uint64_t hits = live_hits(l), from = clock_ns(CLOCK_MONOTONIC);
		if (jumps_add(j, l->pid, &l->pool, l->sites, l->n, &done, &e))
			fail_msg("%s", e.what);
		double add = ms_since(from);
		assert_int_equal(done.foreign, 0);
		assert_int_equal(done.written + done.busy + done.split, l->n);
		while (live_hits(l) < hits + 1000)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		from = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(jumps_remove(j, l->pid), 0);
		print_message("# %u jumps, %u busy, %u split: in %.1f ms, stood %.1f ms, out %.1f "
			      "ms\n",
			      done.written, done.busy, done.split, add,
			      (double)done.stood_ns * 1e-6, ms_since(from));
		live_is_clean(l);
	}
	jumps_close(j);
}

static void check_python(struct live *l)
{
	long rounds, wrong;

	live_handler(l);
	live_windows(l);
	assert_true(l->n > 1000);
	in_little_room(l);
	come_and_go(l);
	fputs("\n", l->in);
	fflush(l->in);
	assert_int_equal(fscanf(l->out, "%ld %ld", &rounds, &wrong), 2);
	assert_true(rounds > 0);
	assert_int_equal(wrong, 0);
}

static void test_pythons(void **state)
{
	const char *list = getenv("DITRACE_TEST_PYTHONS");
	char *copy = strdup(list && *list ? list : "/usr/bin/python3"), *save = NULL;
	unsigned done = 0;

	(void)state;
	for (char *path = strtok_r(copy, ":", &save); path; path = strtok_r(NULL, ":", &save)) {
		struct live l;
		if (live_start(&l, path)) {
			check_python(&l);
			done++;
		} else {
			print_message("# %s has no PyTorch\n", path);
		}
		live_stop(&l);
	}
	free(copy);
	if (!done) {
		print_message(
		    "# skipped: no Python with PyTorch; name one in DITRACE_TEST_PYTHONS\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pythons)};

	return unit_run(tests, NULL, NULL);
}
