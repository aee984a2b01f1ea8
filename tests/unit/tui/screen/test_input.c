/* Keys and the mouse, however the bytes of a terminal are cut. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tui/screen/screen.h"

struct seen {
	int key, y, x;
};

enum { SEEN_MAX = 512 };

struct seen_keys {
	struct seen keys[SEEN_MAX];
	size_t n;
};

static void take_all(struct input *in, bool waited, struct seen_keys *s)
{
	struct seen k = {0};

	while ((k.key = input_key(in, waited, &k.y, &k.x)) != INPUT_MORE) {
		if (k.key != SCREEN_CLICK)
			k.y = k.x = 0;
		if (k.key != SCREEN_NO_KEY)
			s->keys[s->n++] = k;
		assert_true(s->n < SEEN_MAX);
	}
}

static struct input xterm(void)
{
	struct input in = {0};

	input_name(&in, "\033OA", SCREEN_UP);
	input_name(&in, "\033[5~", SCREEN_PAGE_UP);
	input_name(&in, "\033OP", SCREEN_F1);
	input_name(&in, "\033[15~", SCREEN_F1 + 4);
	input_name(&in, "\033[[E", SCREEN_F1 + 4);
	input_name(&in, NULL, SCREEN_ENTER);
	input_name(&in, "\b", SCREEN_BACKSPACE);
	assert_int_equal(in.nsequences, 5);
	return in;
}

static const struct {
	const char *bytes;
	struct seen keys[4];
	size_t n;
} cases[] = {
    {"\033[M B%\033[M#B%", {{SCREEN_CLICK, 4, 33}}, 1},
    {"\033[M (\365\033[M#(\365", {{SCREEN_CLICK, 212, 7}}, 1},
    {"\033[<0;34;5M\033[<0;34;5m", {{SCREEN_CLICK, 4, 33}}, 1},
    {"\033[<16;300;200M\033[<32;1;1M\033[<2;1;1M\033[<0;0;1M", {{SCREEN_CLICK, 199, 299}}, 1},
    {"\033[M`!!\033[Ma!!", {{SCREEN_WHEEL_UP, 0, 0}, {SCREEN_WHEEL_DOWN, 0, 0}}, 2},
    {"\033[<64;1;1M\033[<65;1;1M", {{SCREEN_WHEEL_UP, 0, 0}, {SCREEN_WHEEL_DOWN, 0, 0}}, 2},
    {"\033OA\033[A\033[B\033OD",
     {{SCREEN_UP, 0, 0}, {SCREEN_UP, 0, 0}, {SCREEN_DOWN, 0, 0}, {SCREEN_LEFT, 0, 0}},
     4},
    {"\033OP\033[15~\033[[E\033[5~",
     {{SCREEN_F1, 0, 0}, {SCREEN_F1 + 4, 0, 0}, {SCREEN_F1 + 4, 0, 0}, {SCREEN_PAGE_UP, 0, 0}},
     4},
    {"\033[1~\033[4~\033[6~\033[H",
     {{SCREEN_HOME, 0, 0}, {SCREEN_END, 0, 0}, {SCREEN_PAGE_DOWN, 0, 0}, {SCREEN_HOME, 0, 0}},
     4},
    {"\r\n\177\b",
     {{SCREEN_ENTER, 0, 0},
      {SCREEN_ENTER, 0, 0},
      {SCREEN_BACKSPACE, 0, 0},
      {SCREEN_BACKSPACE, 0, 0}},
     4},
    {"q\303\244\342\202\254\001", {{'q', 0, 0}, {0xe4, 0, 0}, {0x20ac, 0, 0}, {1, 0, 0}}, 4},
    {"\033[1;5C\033[?1;2c\033[200~x", {{'x', 0, 0}}, 1}, /* nothing that has a meaning here */
    {"\377\300x\033[12\033[Ay",
     {{'x', 0, 0}, {SCREEN_UP, 0, 0}, {'y', 0, 0}},
     3}, /* what is not well-formed is left out */
    {"\033\033[A\033x",
     {{SCREEN_ESCAPE, 0, 0}, {SCREEN_UP, 0, 0}, {SCREEN_ESCAPE, 0, 0}, {'x', 0, 0}},
     4},
};

static void assert_keys(const struct seen_keys *s, const struct seen *want, size_t n)
{
	assert_int_equal(s->n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(s->keys[i].key, want[i].key);
		assert_int_equal(s->keys[i].y, want[i].y);
		assert_int_equal(s->keys[i].x, want[i].x);
	}
}

/* All at once, and in two parts, cut at each byte. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		size_t len = strlen(cases[c].bytes);

		for (size_t cut = 0; cut < len; cut++) {
			struct input in = xterm();
			struct seen_keys s = {.n = 0};

			input_add(&in, cases[c].bytes, cut);
			take_all(&in, false, &s);
			input_add(&in, cases[c].bytes + cut, len - cut);
			take_all(&in, false, &s);
			assert_keys(&s, cases[c].keys, cases[c].n);
			assert_int_equal(input_patience(&in), 0);
		}
	}
}

/* Esc is a key once nothing has followed; a report of the mouse that follows even later is none of
 * other keys. */
static void test_late(void **state)
{
	static const char *const clicks[] = {"\033[M B%", "\033[<0;34;5M"};
	static const struct seen want[] = {{SCREEN_ESCAPE, 0, 0}, {SCREEN_CLICK, 4, 33}};

	(void)state;
	for (size_t c = 0; c < 2; c++)
		for (size_t cut = 2; cut < strlen(clicks[c]); cut++) {
			struct input in = xterm();
			struct seen_keys s = {.n = 0};

			input_add(&in, "\033", 1);
			take_all(&in, false, &s);
			assert_int_equal(s.n, 0);
			assert_true(input_patience(&in) > 0);
			take_all(&in, true, &s);
			assert_keys(&s, want, 1);
			input_add(&in, clicks[c] + 1, cut - 1);
			take_all(&in, false, &s);
			input_add(&in, clicks[c] + cut, strlen(clicks[c]) - cut);
			take_all(&in, false, &s);
			assert_keys(&s, want, 2);
		}
}

static void test_nothing_follows(void **state)
{
	static const struct seen want[] = {{SCREEN_ESCAPE, 0, 0}, {'[', 0, 0}, {'M', 0, 0}};
	struct input in = xterm();
	struct seen_keys s = {.n = 0};

	(void)state;
	input_add(&in, "\033", 1);
	take_all(&in, true, &s);
	input_add(&in, "[", 1);
	take_all(&in, false, &s);
	assert_int_equal(s.n, 1);
	take_all(&in, true, &s); /* a person's */
	input_add(&in, "M", 1);
	take_all(&in, false, &s);
	assert_keys(&s, want, 3);
	input_add(&in, "\033[M B", 5);
	take_all(&in, true, &s);
	assert_int_equal(s.n, 3);
	assert_int_equal(input_patience(&in), 0);
}

static void test_noise(void **state)
{
	struct input in = xterm();

	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		static const char often[] = "\033\033[[<M;01~O";
		char bytes[8];
		struct seen_keys s = {.n = 0};
		size_t n = (size_t)(rand() % 8);

		for (size_t k = 0; k < n; k++)
			bytes[k] = (char)(rand() % 2 ? rand() : often[rand() % (int)strlen(often)]);
		input_add(&in, bytes, n);
		take_all(&in, rand() % 4 == 0, &s);
		assert_true(in.n < INPUT_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_late),
	    cmocka_unit_test(test_nothing_follows),
	    cmocka_unit_test(test_noise),
	};

	return unit_run(tests, NULL, NULL);
}
