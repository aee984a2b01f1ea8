#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

static FILE *terminal; /* 77 columns wide */

static int setup(void **state)
{
	(void)state;
	struct winsize ws = {.ws_row = 20, .ws_col = 77};
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	if (master < 0 || grantpt(master) || unlockpt(master))
		return -1;
	terminal = fopen(ptsname(master), "r+");
	return terminal && !ioctl(fileno(terminal), TIOCSWINSZ, &ws) ? 0 : -1;
}

static struct terminal with(const char *term, const char *no_color)
{
	unsetenv("TERM");
	unsetenv("NO_COLOR");
	if (term)
		setenv("TERM", term, 1);
	if (no_color)
		setenv("NO_COLOR", no_color, 1);
	return terminal_of(terminal);
}

static void colours_where_they_are_welcome(void **state)
{
	(void)state;
	assert_int_equal(with("xterm", NULL).width, 77);
	assert_true(with("xterm", NULL).color);
	assert_true(with("xterm", "").color);
	assert_false(with("xterm", "1").color);
	assert_false(with("dumb", NULL).color);
	assert_false(with(NULL, NULL).color);
	assert_int_equal(with("dumb", "1").width, 77);
	terminal_color = TERMINAL_NEVER;
	assert_false(with("xterm", NULL).color);
	terminal_color = TERMINAL_ALWAYS;
	assert_true(with("dumb", "1").color);
	terminal_color = TERMINAL_AUTO;
}

static void a_file_is_no_terminal(void **state)
{
	(void)state;
	FILE *f = tmpfile();
	assert_non_null(f);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	assert_int_equal(terminal_of(f).width, 0);
	assert_false(terminal_of(f).color);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(colours_where_they_are_welcome),
	    cmocka_unit_test(a_file_is_no_terminal),
	};
	return unit_run(tests, setup, NULL);
}
