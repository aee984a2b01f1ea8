/* Plans executed on the test's own memory: the result of each kind of read, reads across the end of
 * a mapping, pairing of entries and exits, and the number of system calls. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/torch/layout.h"
#include "tracer/engine/plan_reader.h"

enum { PAGE = 4096, RECORDS = 64 };

static struct hit *records[RECORDS];
static unsigned nrecords;
static bool full;
static struct remote *mem;
static struct hit_buf out;
static struct proc_conf conf;
static uint64_t regs[ARCH_REGS];
static uint64_t stack[256];
static uint8_t *edge; /* first byte after two readable pages */

static int take(void *arg, const struct hit *h)
{
	(void)arg;
	if (full)
		return -1;
	assert_true(nrecords < RECORDS);
	records[nrecords] = malloc(h->size);
	memcpy(records[nrecords++], h, h->size);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	mem = remote_new();
	out = (struct hit_buf){.sink = take};
	conf = (struct proc_conf){.generation = 3};
	memset(regs, 0, sizeof(regs));
	regs[ARCH_SP] = (uintptr_t)&stack[128];
	nrecords = 0;
	full = false;
	if (!edge) {
		uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(p + 2 * PAGE, PAGE);
		edge = p + 2 * PAGE;
	}
	return !mem;
}

static int teardown(void **state)
{
	(void)state;
	while (nrecords)
		free(records[--nrecords]);
	remote_free(mem);
	return 0;
}

static struct op_hit hit_of(const struct op_plan *plan, uint32_t op)
{
	remote_begin(mem, gettid());
	return (struct op_hit){
	    .mem = mem,
	    .out = &out,
	    .conf = &conf,
	    .plan = plan,
	    .regs = regs,
	    .ts = 77,
	    .op = op,
	    .proc = 5,
	};
}

static const struct item *item_of(const struct hit *h, unsigned n)
{
	const uint8_t *p = (const uint8_t *)(h + 1);
	for (; n; n--)
		p += sizeof(struct item) + ((((const struct item *)p)->len + 7U) & ~7U);
	assert_true(p < (const uint8_t *)h + h->size);
	return (const struct item *)p;
}

static const struct item *read_one(struct probe_read rd, uint64_t a)
{
	static struct shadow_stack t;
	const struct op_plan plan = {.nentry = 1, .nexit = 0, .read = {rd}};
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_DI] = a;
	struct op_hit h = hit_of(&plan, 1);
	assert_true(shadow_stack_entry(&t, &h));
	assert_true(nrecords > 0);
	return item_of(records[nrecords - 1], 0);
}

static void memory_is_read_in_blocks(void **state)
{
	uint8_t seen[600];
	(void)state;
	for (int i = 0; i < 2 * PAGE; i++)
		(edge - 2 * PAGE)[i] = (uint8_t)(i * 7);
	remote_begin(mem, gettid());
	uint64_t before = remote_calls(mem), at = (uintptr_t)edge - 700;
	assert_int_equal(remote_read(mem, at, seen, sizeof(seen)), 0);
	assert_memory_equal(seen, edge - 700, sizeof(seen));
	assert_int_equal(remote_read(mem, at + 3, seen, 300), 0);
	assert_memory_equal(seen, edge - 697, 300);
	assert_true(remote_calls(mem) - before <= 3);
	/* Up to the last byte and no further. */
	assert_int_equal(remote_read(mem, (uintptr_t)edge - 1, seen, 1), 0);
	assert_int_equal(remote_read(mem, (uintptr_t)edge - 1, seen, 2), -EFAULT);
	assert_int_equal(seen[0], 0);
	assert_int_equal(remote_read(mem, 16, seen, 1), -EFAULT);
	assert_int_equal(remote_read(mem, UINT64_MAX - 3, seen, 8), -EFAULT);
	assert_int_equal(remote_word(mem, (uintptr_t)edge), 0);
}

static void what_is_missing_is_fetched_together(void **state)
{
	uint64_t word[1000];
	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		word[i] = i;
	remote_begin(mem, gettid());
	uint64_t before = remote_calls(mem);
	remote_collect(mem, true);
	for (unsigned i = 0; i < 1000; i += 50) {
		uint64_t w;
		assert_int_equal(remote_read(mem, (uintptr_t)&word[i], &w, 8), -EAGAIN);
	}
	remote_want(mem, (uintptr_t)edge, 8); /* unreadable; the others are */
	assert_true(remote_fetch(mem) >= 20);
	remote_collect(mem, false);
	for (unsigned i = 0; i < 1000; i += 50)
		assert_int_equal(remote_word(mem, (uintptr_t)&word[i]), i);
	assert_true(remote_calls(mem) - before <= 2);
	assert_int_equal(remote_fetch(mem), 0);
}

static void words_and_bytes(void **state)
{
	uint64_t data[4] = {11, 22, 33, 44}, at = (uintptr_t)data;
	(void)state;
	const struct item *it = read_one((struct probe_read){.kind = READ_WORD, .a = 0}, 123);
	assert_int_equal(it->kind, ITEM_DATA);
	assert_int_equal(*(const uint64_t *)(it + 1), 123);
	it = read_one((struct probe_read){.kind = READ_MEM, .a = 0, .off = 8, .size = 16}, at);
	assert_int_equal(it->len, 16);
	assert_memory_equal(it + 1, &data[1], 16);
	data[3] = at;
	it = read_one(
	    (struct probe_read){
		.kind = READ_MEM, .a = 0, .off = 24, .size = 8, .deref = 1, .b = 16},
	    at);
	assert_int_equal(*(const uint64_t *)(it + 1), 33);
	it =
	    read_one((struct probe_read){.kind = READ_MEM, .a = 0, .size = 8}, (uintptr_t)edge - 4);
	assert_int_equal(it->kind, ITEM_FAULT);
	assert_int_equal(it->len, 0);
}

static void arrays_and_strings(void **state)
{
	static const struct probe_read longs = {
	    .kind = READ_ARRAY, .a = 0, .b = 1, .c = LOC_NONE, .size = 8};
	const struct probe_read text = {
	    .kind = READ_ARRAY, .a = 0, .b = 1, .c = LOC_NONE, .size = 1};
	const struct probe_read optional = {.kind = READ_ARRAY, .a = 0, .b = 1, .c = 2, .size = 8};
	static uint64_t many[3000];
	(void)state;
	regs[ARCH_SI] = 3;
	const struct item *it = read_one(longs, (uintptr_t)many);
	assert_int_equal(it->len, 24);
	assert_int_equal(it->aux, 3);
	regs[ARCH_SI] = 3000;
	it = read_one(longs, (uintptr_t)many);
	assert_int_equal(it->aux, 3000);
	assert_int_equal(it->len, 2048);
	regs[ARCH_SI] = 5;
	it = read_one(text, (uintptr_t) "hello");
	assert_int_equal(it->kind, ITEM_STRING);
	assert_memory_equal(it + 1, "hello\0\0", 8);
	it = read_one(text, (uintptr_t)edge - 2);
	assert_int_equal(it->kind, ITEM_FAULT);
	regs[ARCH_DX] = 0;
	it = read_one(optional, (uintptr_t)many);
	assert_int_equal(it->kind, ITEM_UNSET);
	regs[ARCH_DX] = 1;
	it = read_one(optional, (uintptr_t)many);
	assert_int_equal(it->kind, ITEM_DATA);
}

/* {data, length, ...} behind a pointer; and the schema passed to parseSchema. */
static void std_strings(void **state)
{
	static struct shadow_stack t;
	uint64_t object[6] = {0, 0, (uintptr_t) "aten::neg(Tensor self)", 22},
		 at = (uintptr_t)object;
	(void)state;
	const struct item *it = read_one(
	    (struct probe_read){.kind = READ_STD_STRING, .a = 0, .off = 16}, (uintptr_t)&at);
	assert_int_equal(it->kind, ITEM_STRING);
	assert_int_equal(it->len, 22);
	assert_memory_equal(it + 1, "aten::neg(Tensor self)", 22);
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_SI] = (uintptr_t)&object[2];
	struct op_hit h = hit_of(NULL, 0);
	shadow_stack_schema(&t, &h);
	assert_int_equal(nrecords, 2);
	assert_int_equal(records[1]->kind, HIT_SCHEMA);
	assert_memory_equal(item_of(records[1], 0) + 1, "aten::neg(Tensor self)", 22);
	regs[ARCH_SI] = (uintptr_t)edge;
	shadow_stack_schema(&t, &h);
	assert_int_equal(nrecords, 2);
}

/* The same before the C++11 ABI: the length is stored before the text. */
static void cow_strings(void **state)
{
	static struct shadow_stack t;
	struct {
		uint64_t length, room, references;
		char text[16];
	} rep = {9, 9, 0, "aten::neg"};
	/* a ConstantString behind a word and its reference counts, and what follows it */
	uint64_t object[6] = {1, 0, (uintptr_t)rep.text, 0x21, 7, 0}, at = (uintptr_t)object;
	uint64_t value[2] = {(uintptr_t)object, 8},
		 list[3] = {(uintptr_t)value, (uintptr_t)(value + 2)};
	(void)state;
	conf.cow_strings = 1;
	conf.tensor.target_size = 16;
	const struct item *it = read_one(
	    (struct probe_read){.kind = READ_STD_STRING, .a = 0, .off = 16}, (uintptr_t)&at);
	assert_int_equal(it->kind, ITEM_STRING);
	assert_int_equal(it->len, 9);
	assert_memory_equal(it + 1, "aten::neg", 9);
	read_one((struct probe_read){.kind = READ_IVALUES, .a = 0}, (uintptr_t)list);
	it = item_of(records[1], 1);
	assert_int_equal(it->kind, ITEM_OBJECT);
	assert_int_equal(it->aux, OBJECT_STRING);
	it = item_of(records[1], 2);
	assert_int_equal(it->kind, ITEM_STRING);
	assert_memory_equal(it + 1, "aten::neg", 9);
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_SI] = (uintptr_t)&object[2];
	struct op_hit h = hit_of(NULL, 0);
	shadow_stack_schema(&t, &h);
	assert_int_equal(nrecords, 3);
	assert_memory_equal(item_of(records[2], 0) + 1, "aten::neg", 9);
}

/* A class that TorchScript knows, in the only slot of an object: what is in it comes, too. */
static void object_with_a_slot(void **state)
{
	uint64_t held[8] = {0x1110, 0x2220}, slot[4] = {(uintptr_t)held, 15};
	/* a word and its reference counts, the type, then the slots */
	uint64_t object[13] = {0x3330, 1, 1}, at = 2 + OBJECT_TYPE_SIZE / 8;
	uint64_t value[2] = {(uintptr_t)object, 15},
		 list[3] = {(uintptr_t)value, (uintptr_t)(value + 2)};
	(void)state;
	conf.cow_strings = 0;
	conf.tensor.target_size = 16;
	for (unsigned slots = 0; slots <= 2; slots++) {
		object[at] = (uintptr_t)slot;
		object[at + 1] = (uintptr_t)(slot + 2 * slots);
		object[at + 2] = (uintptr_t)(slot + 4);
		read_one((struct probe_read){.kind = READ_IVALUES, .a = 0}, (uintptr_t)list);
		const struct hit *h = records[nrecords - 1];
		const struct item *it = item_of(h, 1);
		assert_int_equal(it->kind, ITEM_OBJECT);
		assert_int_equal(it->aux, slots == 1 ? OBJECT_SLOT : 0);
		assert_int_equal(it->len, OBJECT_SIZE);
		if (slots != 1)
			continue;
		it = item_of(h, 2);
		assert_int_equal(it->kind, ITEM_OBJECT);
		assert_int_equal(it->len, 8 + sizeof(held));
		assert_int_equal(((const uint64_t *)(it + 1))[0], (uintptr_t)held);
		assert_memory_equal((const uint64_t *)(it + 1) + 1, held, sizeof(held));
	}
}

/* A TensorImpl with a storage, an autograd meta and seven dimensions out of line. */
struct fake {
	uint64_t word[WIN_MAX / 8];
	uint64_t storage[8], meta[16], node[8], outline[14];
};

static void make_tensor(struct fake *f)
{
	for (unsigned i = 0; i < sizeof(*f) / 8; i++)
		((uint64_t *)f)[i] = 1000 + i;
	f->word[2] = (uintptr_t)f->storage;
	f->word[3] = (uintptr_t)f->meta;
	f->word[7] = 7;
	f->word[8] = (uintptr_t)f->outline;
	f->meta[6] = (uintptr_t)f->node;
	conf.tensor = (struct tensor_read){
	    .win_len = 0xd0,
	    .storage = 0x10,
	    .storage_from = 8,
	    .storage_len = 24,
	    .meta = 0x18,
	    .meta_len = 64,
	    .grad_fn = 0x30,
	    .node_seq = 16,
	    .sizes = 0x38,
	    .inline_dims = 5,
	};
}

static void tensors(void **state)
{
	static struct fake f;
	uint64_t handle = (uintptr_t)&f;
	const struct probe_read rd = {.kind = READ_TENSOR, .a = 0};
	(void)state;
	make_tensor(&f);
	uint64_t before = remote_calls(mem);
	const struct item *it = read_one(rd, (uintptr_t)&handle);
	const uint8_t *p = (const uint8_t *)(it + 1);
	assert_int_equal(it->kind, ITEM_TENSOR);
	assert_int_equal(it->aux, TPART_STORAGE | TPART_META | TPART_OUTLINE);
	assert_int_equal(it->len, 8 + 0xd0 + 24 + 64 + 7 * 16);
	assert_int_equal(*(const uint64_t *)p, handle);
	assert_memory_equal(p + 8, &f, 0xd0);
	assert_memory_equal(p + 8 + 0xd0, &f.storage[1], 24);
	assert_memory_equal(p + 8 + 0xd0 + 24, f.meta, 64);
	assert_memory_equal(p + 8 + 0xd0 + 24 + 64, f.outline, 7 * 16);
	/* The handle, the object, its parts: one call for each level. */
	assert_true(remote_calls(mem) - before <= 3);
	/* What it points to is unreadable. */
	f.word[2] = (uintptr_t)edge;
	f.word[3] = (uintptr_t)edge - 8;
	it = read_one(rd, (uintptr_t)&handle);
	assert_int_equal(it->aux, TPART_META_FAULT | TPART_OUTLINE);
	handle = (uintptr_t)edge - 16;
	it = read_one(rd, (uintptr_t)&handle);
	assert_int_equal(it->aux, TPART_FAULT);
	assert_int_equal(it->len, 8);
	handle = 0;
	it = read_one(rd, (uintptr_t)&handle);
	assert_int_equal(it->aux, TPART_UNDEFINED);
}

/* Objects at the end of their page. */
static void ends_of_pages(void **state)
{
	enum { IMPL = 0xc0, STORAGE = 0x80, OBJECT = 32 };
	static const uint8_t nothing[WIN_MAX];
	struct tensor_snapshot s;
	uint64_t handle = (uintptr_t)edge - IMPL, word[3] = {(uintptr_t)edge - STORAGE, 0, 0};
	uint64_t value[2] = {(uintptr_t)edge - OBJECT, 8},
		 list[2] = {(uintptr_t)value, (uintptr_t)(value + 2)};
	(void)state;
	conf.tensor.discover = 1;
	memset(edge - IMPL, 0x5a, IMPL);
	memcpy(edge - IMPL + SNAPSHOT_FIRST, word, sizeof(word));
	const struct item *it =
	    read_one((struct probe_read){.kind = READ_TENSOR, .a = 0}, (uintptr_t)&handle);
	assert_int_equal(it->kind, ITEM_SNAPSHOT);
	assert_int_equal(it->len, sizeof(s));
	memcpy(&s, it + 1, sizeof(s));
	assert_int_equal(s.impl_len, IMPL);
	assert_memory_equal(s.impl, edge - IMPL, IMPL);
	assert_memory_equal(s.impl + IMPL, nothing, WIN_MAX - IMPL);
	assert_int_equal(s.at[0].valid, 1);
	assert_int_equal(s.at[0].len, STORAGE);
	assert_memory_equal(s.at[0].bytes, edge - STORAGE, STORAGE);
	assert_int_equal(s.at[1].valid, 0);
	read_one((struct probe_read){.kind = READ_IVALUES, .a = 0}, (uintptr_t)list);
	it = item_of(records[1], 1);
	assert_int_equal(it->kind, ITEM_OBJECT);
	assert_int_equal(it->len, OBJECT);
}

/* Frames of code object, previous frame, instruction, first local variable. */
static const struct py_walk four_words = {
    .frame_window_len = 32,
    .fw_previous = 8,
    .fw_instr = 16,
    .instr_size = 8,
    .fw_owner = PY_NO_OFFSET,
    .fw_local = 24,
};

/* A record with the code object as its only frame. */
/* Returns how many code objects are to be sent for it. */
static uint32_t name_code(const void *code)
{
	const uint64_t frame[4] = {(uintptr_t)code};
	struct hit_buf other = {.sink = take};
	struct py_thread t = {0};
	bool gap = false;
	hit_buf_begin(&other, &gap);
	pyframes_put(&t, &four_words, mem, &other, (uintptr_t)frame, false, 0);
	return t.nmet;
}

/* How many frames of a chain of three are the backward's own, by the frame that called the engine.
 */
static uint32_t own_of(uint64_t frames[][4], bool is_backward, int base)
{
	struct hit_buf other = {.sink = take};
	struct py_thread t = {0};
	bool gap = false;
	hit_buf_begin(&other, &gap);
	pyframes_put(&t, &four_words, mem, &other, (uintptr_t)frames[0], is_backward,
		     base < 0 ? 0 : (uintptr_t)frames[base]);
	const struct item *it = (const struct item *)(other.hit + 1);
	assert_int_equal(it->len, 3 * STACK_FRAME_SIZE);
	assert_int_equal(it->aux & STACK_CUT, 0);
	return it->aux >> STACK_OWN_SHIFT;
}

static void frames_of_the_backward(void **state)
{
	uint64_t frames[3][4] = {{8}, {16}, {24}};
	(void)state;
	remote_begin(mem, gettid());
	frames[0][1] = (uintptr_t)frames[1];
	frames[1][1] = (uintptr_t)frames[2];
	assert_int_equal(own_of(frames, true, 0), 0);
	assert_int_equal(own_of(frames, true, 2), 2);
	assert_int_equal(own_of(frames, true, -1), 3); /* a thread of the engine's own */
	assert_int_equal(own_of(frames, false, 2), 0);
}

/* A code object with strings at the end of their page. */
static void freed_code(void **state)
{
	static struct shadow_stack t;
	static uint64_t lines[4 + 2 * CODE_LINES / 8] = {1, 0, sizeof(lines) - 32, 0, 0x1234};
	uint64_t code[4] = {1, (uintptr_t)edge - 64, (uintptr_t)edge - 8, (uintptr_t)lines};
	(void)state;
	conf.code = (struct py_code_read){.size = sizeof(code),
					  .filename = 8,
					  .name = 16,
					  .linetable = 24,
					  .bytes_size = 16,
					  .bytes_data = 32};
	memset(edge - 64, 0x5a, 64);
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_ARG0] = (uintptr_t)code;
	struct op_hit h = hit_of(NULL, 0);
	shadow_stack_code_freed(&t, &h);
	assert_int_equal(nrecords, 0);
	assert_int_equal(name_code(code), 1);
	assert_int_equal(name_code(code), 0);
	shadow_stack_code_freed(&t, &h);
	assert_int_equal(name_code(code), 1);
	assert_int_equal(nrecords, 1);
	assert_int_equal(item_of(records[0], 0)->len, 8 + sizeof(code));
	assert_memory_equal((const uint64_t *)(item_of(records[0], 0) + 1) + 1, code, sizeof(code));
	assert_int_equal(item_of(records[0], 1)->len, 8 + 64);
	assert_memory_equal((const uint64_t *)(item_of(records[0], 1) + 1) + 1, edge - 64, 64);
	assert_int_equal(item_of(records[0], 2)->len, 8 + 8);
	/* its line table in pieces */
	assert_int_equal(item_of(records[0], 3)->len, 8 + CODE_LINES);
	assert_int_equal(item_of(records[0], 4)->len, 8 + CODE_LINES);
	assert_int_equal(item_of(records[0], 5)->len, 8 + 32);
	assert_int_equal(((const uint64_t *)(item_of(records[0], 5) + 1))[0],
			 (uintptr_t)lines + 2 * CODE_LINES);
	code[3] = (uintptr_t)edge;
	remote_begin(mem, gettid()); /* forget the earlier one */
	shadow_stack_code_freed(&t, &h);
	assert_int_equal(nrecords, 2);
	assert_int_equal(item_of(records[1], 3)->len, 8);
}

static void vectors_of_tensors(void **state)
{
	static struct fake f[40];
	uint64_t handles[40], ends[2] = {(uintptr_t)handles, (uintptr_t)(handles + 40)};
	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		make_tensor(&f[i]);
		handles[i] = (uintptr_t)&f[i];
	}
	uint64_t before = remote_calls(mem);
	const struct item *it =
	    read_one((struct probe_read){.kind = READ_VECTOR, .a = 0}, (uintptr_t)ends);
	assert_int_equal(it->kind, ITEM_LIST);
	assert_int_equal(it->aux, 40);
	for (unsigned i = 0; i < 40; i++) {
		it = item_of(records[nrecords - 1], 1 + i);
		assert_int_equal(it->aux, TPART_STORAGE | TPART_META | TPART_OUTLINE);
		assert_int_equal(*(const uint64_t *)(it + 1), handles[i]);
	}
	assert_true(remote_calls(mem) - before <= 6);
}

static void long_hits_come_in_parts(void **state)
{
	static struct fake f[200];
	static uint64_t handles[200];
	uint64_t ends[2] = {(uintptr_t)handles, (uintptr_t)(handles + 200)};
	unsigned n = 0;
	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		make_tensor(&f[i]);
		handles[i] = (uintptr_t)&f[i];
	}
	read_one((struct probe_read){.kind = READ_VECTOR, .a = 0}, (uintptr_t)ends);
	assert_true(nrecords > 3);
	for (unsigned i = 0; i < nrecords; i++) {
		const struct hit *h = records[i];
		assert_int_equal(!!(h->flags & HIT_MORE), i + 1 < nrecords);
		assert_int_equal(!!(h->flags & HIT_CONT), i > 0);
		for (const uint8_t *p = (const uint8_t *)(h + 1);
		     p < (const uint8_t *)h + h->size;) {
			const struct item *it = (const void *)p;
			n += it->kind == ITEM_TENSOR;
			p += sizeof(*it) + ((it->len + 7U) & ~7U);
		}
	}
	assert_int_equal(n, 200);
}

static const struct op_plan call = {
    .nentry = 1,
    .nexit = 1,
    .read = {{.kind = READ_WORD, .a = 0}, {.kind = READ_WORD, .a = LOC_NOW | ARCH_AX}}};

static void enter(struct shadow_stack *t, const struct op_plan *plan, uint32_t op, int at)
{
	regs[ARCH_SP] = (uintptr_t)&stack[at];
	struct op_hit h = hit_of(plan, op);
	assert_true(shadow_stack_entry(t, &h));
}

static void leave(struct shadow_stack *t, const struct op_plan *plan, uint32_t op, int at)
{
	regs[ARCH_SP] = (uintptr_t)&stack[at];
	struct op_hit h = hit_of(plan, op);
	shadow_stack_exit(t, &h);
}

static void is_record(unsigned n, int kind, uint32_t op, int depth, uint64_t seq)
{
	assert_true(n < nrecords);
	assert_int_equal(records[n]->kind, kind);
	assert_int_equal(records[n]->op, op);
	assert_int_equal(records[n]->depth, depth);
	assert_int_equal(records[n]->seq, seq);
	assert_int_equal(records[n]->proc, 5);
	assert_int_equal(records[n]->tid, 9);
	assert_int_equal(records[n]->generation, 3);
}

static void ops_are_paired(void **state)
{
	static struct shadow_stack t;
	(void)state;
	t = (struct shadow_stack){.tid = 9};
	leave(&t, &call, 1, 100); /* was running before */
	assert_int_equal(nrecords, 0);
	enter(&t, &call, 1, 100);
	enter(&t, &call, 2, 90);
	leave(&t, &call, 2, 88);
	leave(&t, &call, 1, 98);
	assert_int_equal(nrecords, 4);
	is_record(0, HIT_ENTRY, 1, 0, 1);
	is_record(1, HIT_ENTRY, 2, 1, 2);
	is_record(2, HIT_EXIT, 2, 1, 2);
	is_record(3, HIT_EXIT, 1, 0, 1);
	assert_int_equal(t.depth, 0);
}

static void ops_that_throw_are_dropped(void **state)
{
	static struct shadow_stack t;
	(void)state;
	t = (struct shadow_stack){.tid = 9};
	enter(&t, &call, 1, 100);
	enter(&t, &call, 2, 90); /* throws, and so do the ops it calls */
	enter(&t, &call, 3, 80);
	enter(&t, &call, 4, 95);
	is_record(3, HIT_ENTRY, 4, 1, 4);
	enter(&t, &call, 5, 90);
	leave(&t, &call, 1, 99); /* 4 and 5 are gone as well */
	is_record(5, HIT_EXIT, 1, 0, 1);
	assert_int_equal(t.depth, 0);
}

/* A deferred entry: the record is the same as at the first instruction. */
static void entries_are_late(void **state)
{
	static struct shadow_stack t;
	struct op_plan late = {.nentry = 3,
			       .nexit = 1,
			       .nstack = 1,
			       .flags = PLAN_MOVED,
			       .entry_sp = 20 * 8,
			       .arg_reg = {ARCH_DI, ARCH_R14, ARCH_NOREG},
			       .read = {{.kind = READ_WORD, .a = 1},
					{.kind = READ_SLOT, .off = -24},
					{.kind = READ_WORD, .a = LOC_STACK},
					{.kind = READ_WORD, .a = LOC_NOW | ARCH_AX}}};
	(void)state;
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_SI] = 1;
	regs[ARCH_R14] = 0x1234;
	stack[97] = 0x5678;
	stack[101] = 0x9abc;
	enter(&t, &late, 1, 80); /* 100 at the first instruction */
	assert_true(records[0]->sp == (uintptr_t)&stack[100]);
	const uint64_t want[] = {0x1234, 0x5678, 0x9abc};
	for (unsigned i = 0; i < 3; i++) {
		const struct item *it = item_of(records[0], i);
		assert_int_equal(it->read, i);
		assert_int_equal(it->len, 8);
		assert_memory_equal(it + 1, &want[i], 8);
	}
	enter(&t, &call, 2, 79); /* below it, so called by it */
	is_record(1, HIT_ENTRY, 2, 1, 2);
	leave(&t, &call, 2, 79);
	leave(&t, &late, 1, 80);
	assert_int_equal(t.depth, 0);
	/* a second call from the same place: the first one is gone */
	enter(&t, &late, 1, 80);
	enter(&t, &late, 1, 80);
	assert_int_equal(t.depth, 1);
}

static void filters_mute(void **state)
{
	static struct shadow_stack t;
	struct op_plan mark = call, node = call;
	(void)state;
	mark.flags = PLAN_MARK;
	node.flags = PLAN_BACKWARD;
	t = (struct shadow_stack){.tid = 9};
	conf.max_depth = 1;
	enter(&t, &mark, 1, 100);
	enter(&t, &call, 2, 90);
	enter(&t, &call, 3, 80); /* too deep */
	leave(&t, &call, 3, 80);
	leave(&t, &call, 2, 90);
	leave(&t, &mark, 1, 100);
	assert_int_equal(nrecords, 2);
	is_record(0, HIT_ENTRY, 2, 0, 2);
	is_record(1, HIT_EXIT, 2, 0, 2);
	conf.max_depth = 0;
	conf.phase = 2; /* backward only, and what it calls */
	enter(&t, &call, 2, 100);
	enter(&t, &node, 4, 90);
	enter(&t, &call, 2, 80);
	assert_int_equal(nrecords, 4);
	is_record(2, HIT_ENTRY, 4, 0, 5);
	is_record(3, HIT_ENTRY, 2, 1, 6);
	assert_int_equal(records[3]->flags, HIT_BACKWARD);
}

static void what_is_aside_is_no_level(void **state)
{
	static struct shadow_stack t;
	struct op_plan aside = call;
	(void)state;
	aside.flags = PLAN_ASIDE;
	t = (struct shadow_stack){.tid = 9};
	conf.max_depth = 2;
	enter(&t, &call, 1, 100);
	enter(&t, &aside, 2, 90);
	enter(&t, &call, 3, 80);
	leave(&t, &call, 3, 80);
	leave(&t, &aside, 2, 90);
	enter(&t, &aside, 2, 90); /* throws */
	enter(&t, &call, 3, 92);
	leave(&t, &call, 3, 92);
	leave(&t, &call, 1, 100);
	conf.max_depth = 0;
	assert_int_equal(nrecords, 9);
	is_record(1, HIT_ENTRY, 2, 1, 2);
	is_record(2, HIT_ENTRY, 3, 1, 3);
	is_record(3, HIT_EXIT, 3, 1, 3);
	is_record(4, HIT_EXIT, 2, 1, 2);
	is_record(6, HIT_ENTRY, 3, 1, 5);
	is_record(8, HIT_EXIT, 1, 0, 1);
	assert_int_equal(t.shown, 0);
}

static void nesting_has_an_end(void **state)
{
	static struct shadow_stack t;
	struct op_plan mark = call;
	(void)state;
	mark.flags = PLAN_MARK;
	t = (struct shadow_stack){.tid = 9};
	for (int i = 0; i < OPEN_MAX; i++)
		enter(&t, &mark, 1, 200 - i);
	regs[ARCH_SP] = (uintptr_t)&stack[10];
	struct op_hit h = hit_of(&mark, 1);
	assert_false(shadow_stack_entry(&t, &h));
	assert_int_equal(t.depth, OPEN_MAX);
}

static void lost_records_are_told(void **state)
{
	static struct shadow_stack t;
	(void)state;
	t = (struct shadow_stack){.tid = 9};
	full = true;
	enter(&t, &call, 1, 100);
	full = false;
	leave(&t, &call, 1, 100);
	enter(&t, &call, 1, 100);
	assert_int_equal(nrecords, 2);
	assert_true(records[0]->flags & HIT_GAP);
	assert_false(records[1]->flags & HIT_GAP);
}

static void own_dispatch_is_counted_once(void **state)
{
	static struct shadow_stack t;
	bool seen;
	(void)state;
	t = (struct shadow_stack){.tid = 9};
	regs[ARCH_SP] = (uintptr_t)&stack[50];
	regs[ARCH_SI] = 1; /* another scope */
	assert_false(shadow_stack_dispatched(&t, regs, &seen));
	regs[ARCH_SI] = 0;
	assert_true(shadow_stack_dispatched(&t, regs, &seen));
	assert_false(seen);
	enter(&t, &call, 1, 100);
	regs[ARCH_SP] = (uintptr_t)&stack[50];
	assert_true(shadow_stack_dispatched(&t, regs, &seen));
	assert_true(seen);
	assert_true(shadow_stack_dispatched(&t, regs, &seen));
	assert_false(seen);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(memory_is_read_in_blocks),
	    TEST(what_is_missing_is_fetched_together),
	    TEST(words_and_bytes),
	    TEST(arrays_and_strings),
	    TEST(std_strings),
	    TEST(cow_strings),
	    TEST(object_with_a_slot),
	    TEST(tensors),
	    TEST(ends_of_pages),
	    TEST(frames_of_the_backward),
	    TEST(freed_code),
	    TEST(vectors_of_tensors),
	    TEST(long_hits_come_in_parts),
	    TEST(ops_are_paired),
	    TEST(ops_that_throw_are_dropped),
	    TEST(entries_are_late),
	    TEST(filters_mute),
	    TEST(what_is_aside_is_no_level),
	    TEST(nesting_has_an_end),
	    TEST(lost_records_are_told),
	    TEST(own_dispatch_is_counted_once),
	};
	return unit_run(tests, NULL, NULL);
}
