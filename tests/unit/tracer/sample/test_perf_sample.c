
#include "tests/unit/unit.h"

#include <unistd.h>

#include "symbolizer/native/native_stack.h"
#include "tracer/proc/follow.h"
#include "tracer/sample/internal.h"

struct record {
	struct perf_event_header h;
	uint8_t body[1024];
};

static void put(struct record *r, const void *bytes, size_t n)
{
	memcpy(r->body + (r->h.size - sizeof(r->h)), bytes, n);
	r->h.size = (uint16_t)(r->h.size + n);
}

static void put_word(struct record *r, uint64_t w)
{
	put(r, &w, sizeof(w));
}

/* Process 7, thread 8, at 1000 ns, period 500; word n of the registers is 100 + n. */
static struct record sample(bool regs, uint64_t stack, uint64_t used)
{
	static const uint8_t bytes[256] = {1, 2, 3};
	struct record r = {.h = {.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_KERNEL}};
	const uint32_t numbers[2] = {7, 8};
	r.h.size = sizeof(r.h);
	put(&r, numbers, sizeof(numbers));
	put_word(&r, 1000);
	put_word(&r, 500);
	put_word(&r, regs ? PERF_REGS_ABI : 0);
	for (uint64_t i = 0; regs && i < PERF_REGS; i++)
		put_word(&r, 100 + i);
	put_word(&r, stack);
	put(&r, bytes, stack);
	if (stack)
		put_word(&r, used);
	return r;
}

static void a_sample_is_taken_apart(void **state)
{
	(void)state;
	struct record r = sample(true, 64, 24);
	struct perf_sample s;
	assert_true(perf_sample_parse(&r.h, &s));
	assert_int_equal(s.pid, 7);
	assert_int_equal(s.tid, 8);
	assert_int_equal(s.time, 1000);
	assert_int_equal(s.period, 500);
	assert_true(s.in_kernel);
	assert_true(s.has_regs);
	assert_int_equal(s.regs[ARCH_AX], 100);
	assert_int_equal(s.regs[ARCH_SP], 107);
	assert_int_equal(s.regs[ARCH_IP], 108);
	assert_int_equal(s.regs[ARCH_R15], 119);
	assert_int_equal(s.len, 24);
	assert_int_equal(s.stack[2], 3);
}

static void without_user_space(void **state)
{
	(void)state;
	struct record r = sample(false, 0, 0);
	struct perf_sample s;
	assert_true(perf_sample_parse(&r.h, &s));
	assert_false(s.has_regs);
	assert_int_equal(s.len, 0);
}

static void what_is_short_is_refused(void **state)
{
	(void)state;
	struct record whole = sample(true, 64, 64);
	struct perf_sample s;
	for (size_t size = 0; size < whole.h.size; size++) {
		struct record r = whole;
		r.h.size = (uint16_t)size;
		assert_false(perf_sample_parse(&r.h, &s));
	}
	struct record more = sample(true, 64, 65);
	assert_false(perf_sample_parse(&more.h, &s));
	struct record other = whole;
	other.h.type = PERF_RECORD_MMAP2;
	assert_false(perf_sample_parse(&other.h, &s));
}

/* Process 7, thread 8: 0x2000 bytes at 0x1000, at file offset 0x3000; then the sample_id. */
static struct record mapping(bool build)
{
	static const uint8_t id[24] = {20, 0, 0, 0, 0xab, 0xcd};
	struct record r = {.h = {.type = PERF_RECORD_MMAP2}};
	const uint32_t numbers[2] = {7, 8}, device[2] = {9, 10}, how[2] = {5, 2};
	r.h.size = sizeof(r.h);
	r.h.misc = build ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0;
	put(&r, numbers, sizeof(numbers));
	put_word(&r, 0x1000);
	put_word(&r, 0x2000);
	put_word(&r, 0x3000);
	if (build)
		put(&r, id, sizeof(id));
	else {
		put(&r, device, sizeof(device));
		put_word(&r, 11);
		put_word(&r, 0);
	}
	put(&r, how, sizeof(how));
	put(&r, "/lib/l.so", 10);
	put_word(&r, 0);
	put_word(&r, 1000);
	return r;
}

static void a_mapping_is_taken_apart(void **state)
{
	(void)state;
	struct record r = mapping(false), b = mapping(true);
	struct perf_mmap m;
	assert_true(perf_mmap_parse(&r.h, &m));
	assert_int_equal(m.pid, 7);
	assert_int_equal(m.tid, 8);
	assert_int_equal(m.map.start, 0x1000);
	assert_int_equal(m.map.end, 0x3000);
	assert_int_equal(m.map.offset, 0x3000);
	assert_true(m.map.exec && m.map.read && !m.map.write);
	assert_int_equal(m.map.inode, 11);
	assert_int_equal(m.map.dev_major, 9);
	assert_int_equal(m.map.nbuild, 0);
	assert_string_equal(m.map.path, "/lib/l.so");
	assert_true(perf_mmap_parse(&b.h, &m));
	assert_int_equal(m.map.inode, 0);
	assert_int_equal(m.map.nbuild, 20);
	assert_int_equal(m.map.build[1], 0xcd);
	r.h.type = PERF_RECORD_SAMPLE;
	assert_false(perf_mmap_parse(&r.h, &m));
	for (size_t size = 0; size < sizeof(b.h) + 64 + 10; size++) {
		b.h.size = (uint16_t)size;
		assert_false(perf_mmap_parse(&b.h, &m));
	}
}

static void add(struct known_maps *k, uint64_t start, uint64_t end, const char *path, int wanted)
{
	const struct mapping m = {
	    .start = start, .end = end, .offset = 0, .exec = true, .inode = 1, .path = path};
	assert_int_equal(known_maps_add(k, NULL, &m), wanted);
}

static const char *at(const struct known_maps *k, uint64_t addr)
{
	const struct mapping *m = maps_find(&k->maps, addr);
	return m ? m->path : "";
}

static void code_stays_known_until_it_is_replaced(void **state)
{
	(void)state;
	struct known_maps k = {0}, child = {0};
	const struct mapping other = {.start = 0x1000, .end = 0x1001, .exec = true, .path = "/c"};
	add(&k, 0x1000, 0x5000, "/a", 1);
	add(&k, 0x1000, 0x4000, "/a", 0); /* contained in a known mapping */
	assert_true(known_maps_replaces(&k, &other));
	add(&k, 0x2000, 0x3000, "/b", 1);
	assert_string_equal(at(&k, 0x1fff), "/a");
	assert_string_equal(at(&k, 0x2fff), "/b");
	assert_string_equal(at(&k, 0x3000), "/a");
	assert_int_equal(maps_find(&k.maps, 0x3000)->offset, 0x2000);
	assert_int_equal(known_maps_inherit(&child, &k), 0);
	known_maps_free(&k);
	assert_string_equal(at(&child, 0x2000), "/b");
	/* Not a mapping of this process; those it has count. */
	assert_int_equal(known_maps_read(&child, getpid()), 0);
	assert_string_equal(at(&child, 0x2000), "/b");
	assert_non_null(maps_find(&child.maps, (uintptr_t)known_maps_read));
	known_maps_free(&child);
}

static void the_layout_is_the_kernels(void **state)
{
	(void)state;
	struct perf_event_attr attr = {0};
	perf_sample_ask(&attr);
	assert_int_equal(__builtin_popcountll(attr.sample_regs_user), PERF_REGS);
	assert_int_equal(attr.sample_stack_user % 8, 0);
	assert_int_equal(attr.sample_type & PERF_SAMPLE_IP, 0);
}

static void functions_of_a_jit_are_found(void **state)
{
	(void)state;
	struct perf_map m = {0};
	char *text = strdup("2000 10 second one\nnonsense\n1000 80 first\n1040 10 inner\n3000 0 x\n"
			    "ffffffffffffffff 2 y\n4000 10 unfinish");
	assert_non_null(text);
	assert_int_equal(perf_map_parse(&m, text), 0);
	assert_string_equal(perf_map_find(&m, 0x1000), "first");
	assert_string_equal(perf_map_find(&m, 0x1045), "inner");
	assert_string_equal(perf_map_find(&m, 0x200f), "second one");
	assert_null(perf_map_find(&m, 0x2010));
	assert_null(perf_map_find(&m, 0xfff));
	assert_null(perf_map_find(&m, 0x3000));
	assert_null(perf_map_find(&m, 0x4000));
	perf_map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_sample_is_taken_apart),
	    cmocka_unit_test(without_user_space),
	    cmocka_unit_test(what_is_short_is_refused),
	    cmocka_unit_test(the_layout_is_the_kernels),
	    cmocka_unit_test(a_mapping_is_taken_apart),
	    cmocka_unit_test(code_stays_known_until_it_is_replaced),
	    cmocka_unit_test(functions_of_a_jit_are_found),
	};
	return unit_run(tests, NULL, NULL);
}
