#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include "symbolizer/plan/code_print.h"
#include "tests/unit/pythons.h"
#include "tests/unit/sample_hits.h"
#include "tracer/sample/internal.h"

enum { PIECE = 2048, PIECES_MOST = 32 };

/* A Python that sleeps in the last line of code whose line table is long; then it is gone, and so
 * is all of its memory. */
struct sleeper {
	struct py_runtime *rt;
	struct mem mem;
	pid_t pid;
	uint64_t pair[2], print, table;
	struct record first, piece[PIECES_MOST]; /* as they are sent */
	unsigned pieces;
};

static void put_memory(struct record *r, const struct mem *m, uint64_t addr, uint64_t at,
		       uint32_t len)
{
	uint8_t item[8 + PIECE];
	assert_true(len <= PIECE);
	memcpy(item, &at, 8);
	assert_int_equal(mem_read(m, addr, item + 8, len), 0);
	record_item(r, ITEM_DATA, 0, 0, item, 8 + len);
}

static struct hit hit_of(const struct sleeper *s, bool more)
{
	return (struct hit){.kind = HIT_CODE_MET,
			    .flags = more ? HIT_MORE : 0,
			    .tid = (uint32_t)s->pid,
			    .sp = s->pair[0],
			    .seq = s->print};
}

static uint64_t word_at(const struct sleeper *s, uint64_t addr)
{
	uint64_t w;
	assert_int_equal(mem_read_u64(&s->mem, addr, &w), 0);
	return w;
}

static void copy_code(struct sleeper *s)
{
	const struct py_code_read c = python_code_read(s->rt);
	const uint64_t code = s->pair[0], table = word_at(s, code + c.linetable);
	const uint64_t size = word_at(s, table + c.bytes_size) + c.bytes_data;
	s->table = table;
	record_begin(&s->first, hit_of(s, true));
	put_memory(&s->first, &s->mem, code, code, c.size);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t str = word_at(s, code + (i ? c.name : c.filename));
		put_memory(&s->first, &s->mem, str, str, 64);
	}
	put_memory(&s->first, &s->mem, table, table, PIECE);
	for (uint64_t at = PIECE; at < size; at += PIECE) {
		struct record *r = &s->piece[s->pieces++];
		assert_true(s->pieces < PIECES_MOST);
		uint64_t len = size - at < PIECE ? size - at : PIECE;
		record_begin(r, hit_of(s, at + len < size));
		put_memory(r, &s->mem, table + at, table + at, (uint32_t)len);
	}
	assert_true(s->pieces > 2);
}

static int begin(void **state)
{
	static const char program[] =
	    "import threading\n"
	    "lines = [f'n{i % 10} = {i}' for i in range(2999)]\n"
	    "lines += ['import time; print(threading.get_ident(), flush=True); time.sleep(36000)']\n"
	    "exec(compile('\\n'.join(lines), '<long>', 'exec'))\n";
	const char *const argv[] = {"python3", "-c", program, NULL};
	struct python p = python_start(argv);
	struct sleeper *s = calloc(1, sizeof(*s));
	struct err e = {0};
	char line[32];
	bool truncated;
	assert_non_null(s);
	assert_non_null(fgets(line, sizeof(line), p.out));
	s->pid = p.pid;
	s->mem = mem_process(p.pid);
	assert_int_equal(python_open(p.pid, &s->mem, &s->rt, &e), 0);
	assert_int_equal(
	    py_walk_thread(s->rt, strtoull(line, NULL, 10), 0, &s->pair, 1, &truncated), 1);
	s->print = py_code_print(s->rt, s->pair[0], PRINT_PARTS);
	copy_code(s);
	python_stop(&p, SIGKILL);
	*state = s;
	return 0;
}

static int end(void **state)
{
	struct sleeper *s = *state;
	python_close(s->rt);
	free(s);
	return 0;
}

static bool is_known(struct sleeper *s, struct code_copies *c)
{
	code_copies_learn(c, s->pid, s->rt);
	return py_code_see(s->rt, s->pair[0], s->print);
}

static void add_pieces(struct sleeper *s, struct code_copies *c, unsigned from)
{
	for (unsigned i = from; i < s->pieces; i++) {
		assert_false(is_known(s, c));
		code_copies_add(c, &s->piece[i].hit);
	}
}

static void check_frame(struct sleeper *s)
{
	const uint64_t frame[1][4] = {{s->pair[0], s->pair[1], 0, s->print}};
	const struct py_frame *f =
	    py_stack_intern_prints(s->rt, frame, 1, false, false, 0)->frames[0];
	assert_string_equal(f->file, "<long>");
	assert_string_equal(f->function, "<module>");
	assert_int_equal(f->line, 3000);
}

static void a_long_line_table_is_put_together(void **state)
{
	struct sleeper *s = *state;
	struct code_copies c = {0};
	code_copies_add(&c, &s->first.hit);
	add_pieces(s, &c, 0);
	code_copies_learn(&c, s->pid + 1, s->rt);
	assert_false(py_code_see(s->rt, s->pair[0], s->print));
	assert_true(is_known(s, &c));
	check_frame(s);
	assert_int_equal(c.n, 0);
	code_copies_free(&c);
}

static void with_a_piece_missing_it_is_not_known(void **state)
{
	struct sleeper *s = *state;
	struct code_copies c = {0};
	add_pieces(s, &c, 0); /* the first record was lost */
	assert_false(is_known(s, &c));
	code_copies_add(&c, &s->first.hit);
	add_pieces(s, &c, 1);
	assert_false(is_known(s, &c));
	code_copies_free(&c);
}

/* One with the same print was freed as it was sent. */
static void one_that_was_freed_has_no_part_in_the_next(void **state)
{
	struct sleeper *s = *state;
	struct code_copies c = {0};
	struct record *other = malloc(sizeof(*other));
	uint8_t item[8 + PIECE];
	const uint64_t at = s->table + PIECE;
	assert_non_null(other);
	memset(item, 7, sizeof(item));
	memcpy(item, &at, 8);
	record_begin(other, hit_of(s, true));
	record_item(other, ITEM_DATA, 0, 0, item, sizeof(item));
	code_copies_add(&c, &s->first.hit);
	code_copies_add(&c, &other->hit);
	free(other);
	code_copies_add(&c, &s->first.hit);
	add_pieces(s, &c, 0);
	assert_true(is_known(s, &c));
	check_frame(s);
	code_copies_free(&c);
}

/* Many that were freed as they were sent take no room for ever. */
static void those_without_an_end_are_dropped(void **state)
{
	struct sleeper *s = *state;
	struct code_copies c = {0};
	struct hit first = s->first.hit;
	for (unsigned i = 0; i < 1000; i++) {
		s->first.hit.seq = first.seq ^ i << 8;
		code_copies_add(&c, &s->first.hit);
	}
	assert_in_range(c.n, 1, 300);
	s->first.hit = first;
	code_copies_add(&c, &s->first.hit);
	add_pieces(s, &c, 0);
	assert_true(is_known(s, &c));
	code_copies_learn(&c, s->pid, NULL);
	assert_int_equal(c.n, 0);
	code_copies_free(&c);
}

#define COPIES_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    COPIES_TEST(a_long_line_table_is_put_together),
	    COPIES_TEST(with_a_piece_missing_it_is_not_known),
	    COPIES_TEST(one_that_was_freed_has_no_part_in_the_next),
	    COPIES_TEST(those_without_an_end_are_dropped),
	};
	return unit_run(tests, NULL, NULL);
}
