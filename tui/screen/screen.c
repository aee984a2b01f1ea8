#define _GNU_SOURCE

#define NCURSES_WIDECHAR 1
#include "tui/screen/screen.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"

enum { TEXT_MAX = 4096 };

static SCREEN *screen;
static bool utf8, color;
static struct termios before;
static char restore[256];
static volatile sig_atomic_t end_signal;
static struct input input;
static uint64_t input_ns; /* when its last bytes came */

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};
static const int crashes[] = {SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGQUIT};

static void on_end(int sig)
{
	end_signal = sig;
}

/* Only async-signal-safe calls. */
static void on_crash(int sig)
{
	if (write(STDOUT_FILENO, restore, strlen(restore)) < 0)
		_exit(128 + sig);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(sig); /* SA_RESETHAND: the default action follows on return */
}

static void catch (const int *signals, size_t n, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	for (size_t i = 0; i < n; i++)
		sigaction(signals[i], &a, NULL);
}

/* NULL: the terminal has none. */
static const char *capability(const char *name)
{
	const char *s = tigetstr((char *)name);
	return s == (char *)-1 ? NULL : s;
}

static void add_capability(const char *name)
{
	const char *s = capability(name);
	if (s)
		strncat(restore, s, sizeof(restore) - strlen(restore) - 1);
}

static void prepare_restore(void)
{
	restore[0] = '\0';
	if (tigetstr((char *)"kmous") != NULL)
		strcat(restore, "\033[?1000l\033[?1006l"); /* xterm's mouse reporting */
	add_capability("sgr0");
	add_capability("cnorm");
	add_capability("rmkx");
	add_capability("rmcup");
}

/* ncurses does not read the keys: its getch() waits without end after an event of the mouse that
 * was not asked for, such as a release, and takes a press after a release that was lost for none.
 */
static void name_keys(void)
{
	static const struct {
		const char *capability;
		int key;
	} keys[] = {
	    {"kcuu1", SCREEN_UP},      {"kcud1", SCREEN_DOWN},	{"kcub1", SCREEN_LEFT},
	    {"kcuf1", SCREEN_RIGHT},   {"kpp", SCREEN_PAGE_UP}, {"knp", SCREEN_PAGE_DOWN},
	    {"khome", SCREEN_HOME},    {"kend", SCREEN_END},	{"kent", SCREEN_ENTER},
	    {"kbs", SCREEN_BACKSPACE}, {"kfnd", SCREEN_HOME},	{"kslt", SCREEN_END},
	};
	input = (struct input){0};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		input_name(&input, capability(keys[i].capability), keys[i].key);
	for (int i = 1; i <= 10; i++) {
		char name[8];
		snprintf(name, sizeof(name), "kf%d", i);
		input_name(&input, capability(name), SCREEN_F1 + i - 1);
	}
}

static void set_colors(void)
{
	color = terminal_of(stdout).color && has_colors();
	if (!color)
		return;
	start_color();
	use_default_colors();
	init_pair(STYLE_WARM, COLOR_YELLOW, -1);
	init_pair(STYLE_HOT, COLOR_RED, -1);
}

static int unable(struct err *e)
{
	const char *term = getenv("TERM");
	err_set(e, -ENOTSUP, "cannot show a live view on a terminal of type \"%s\"",
		term ? term : "");
	return err_hint(e, "set TERM to what the terminal is, as in TERM=xterm; ditrace report "
			   "shows a table without");
}

int screen_check(struct err *e)
{
	int status;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		if (setupterm(NULL, STDOUT_FILENO, &status) != OK || !tigetstr((char *)"cup"))
			return unable(e);
		del_curterm(cur_term);
		return 0;
	}
	err_set(e, -ENOTTY, "cannot show a live view: this is not a terminal");
	return err_hint(e, "ditrace report prints a table, ditrace script the events");
}

int screen_open(struct err *e)
{
	tcgetattr(STDIN_FILENO, &before);
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return unable(e);
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	set_colors();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	typeahead(-1); /* a frame is drawn whole, though more has come */
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	prepare_restore();
	name_keys();
	catch (end_signals, sizeof(end_signals) / sizeof(int), on_end, 0);
	catch (crashes, sizeof(crashes) / sizeof(int), on_crash, (int)SA_RESETHAND);
	bus_guard(on_crash);
	return 0;
}

void screen_close(void)
{
	if (!screen)
		return;
	catch (crashes, sizeof(crashes) / sizeof(int), SIG_DFL, 0);
	bus_guard(NULL);
	endwin();
	delscreen(screen);
	screen = NULL;
}

int screen_end_signal(void)
{
	return end_signal;
}

int screen_height(void)
{
	return LINES;
}

int screen_width(void)
{
	return COLS;
}

void screen_begin(void)
{
	curs_set(0);
	erase();
}

void screen_show(void)
{
	refresh();
}

static attr_t attributes(enum style style)
{
	switch (style) {
	case STYLE_BOLD:
		return A_BOLD;
	case STYLE_DIM:
		return A_DIM;
	case STYLE_BAR:
	case STYLE_SELECTED:
		return A_REVERSE;
	case STYLE_WARM:
		return color ? (attr_t)COLOR_PAIR(STYLE_WARM) : A_NORMAL;
	case STYLE_HOT:
		return A_BOLD | (color ? (attr_t)COLOR_PAIR(STYLE_HOT) : A_NORMAL);
	default:
		return A_NORMAL;
	}
}

/* Length in bytes of the prefix of `s` (safe text) that fits into `width` cells; *cells is its
 * width. */
static size_t fitting(const char *s, int width, int *cells)
{
	size_t at = 0, len = strlen(s), n;
	uint32_t cp;
	*cells = 0;
	for (; at < len; at += n) {
		n = text_utf8(s + at, len - at, &cp);
		int w = n ? wcwidth((wchar_t)cp) : 1;
		if (!n)
			n = 1;
		if (*cells + (w > 0 ? w : 0) > width)
			break;
		*cells += w > 0 ? w : 0;
	}
	return at;
}

/* Replace each character outside ASCII, except the ellipsis, by one "?". */
static void to_ascii(char *s)
{
	size_t to = 0, len = strlen(s), n;
	uint32_t cp;
	for (size_t at = 0; at < len; at += n) {
		n = text_utf8(s + at, len - at, &cp);
		if (!n)
			n = 1;
		s[to++] = n == 1 ? s[at] : '?';
	}
	s[to] = '\0';
}

int screen_text(int y, int x, int width, const char *text, enum style style)
{
	char safe[TEXT_MAX];
	int cells;
	if (width > COLS - x)
		width = COLS - x;
	if (width <= 0 || y < 0 || y >= LINES)
		return 0;
	text_safe(safe, sizeof(safe), text);
	if (!utf8)
		to_ascii(safe);
	size_t n = fitting(safe, width, &cells);
	bool cut = safe[n] != '\0';
	if (cut)
		n = fitting(safe, width - 1, &cells);
	attr_set(attributes(style), (short)PAIR_NUMBER(attributes(style)), NULL);
	mvaddnstr(y, x, safe, (int)n);
	if (cut)
		mvaddstr(y, x + cells++, utf8 ? "…" : ">");
	attr_set(A_NORMAL, 0, NULL);
	return cells;
}

void screen_right(int y, int x, int width, const char *text, enum style style)
{
	int w = (int)strlen(text);
	screen_text(y, x + (w < width ? width - w : 0), width, text, style);
}

void screen_line(int y, enum style style)
{
	mvchgat(y, 0, -1, attributes(style), (short)PAIR_NUMBER(attributes(style)), NULL);
}

const char *screen_block(unsigned long long value, unsigned long long max)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	unsigned long long i = max ? value * 8 / max : 0;
	return (utf8 ? blocks : ascii)[i > 7 ? 7 : i];
}

void screen_cursor(int y, int x)
{
	move(y, x);
	curs_set(1);
}

static bool is_resized(void)
{
	struct winsize w;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col ||
	    !is_term_resized(w.ws_row, w.ws_col))
		return false;
	resizeterm(w.ws_row, w.ws_col);
	return true;
}

/* Read what comes within `timeout_ms`; a terminal that is gone ends the view. */
static void read_input(int timeout_ms)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char bytes[INPUT_BYTES];
	if (poll(&p, 1, timeout_ms) != 1)
		return;
	ssize_t n = p.revents & POLLIN ? read(STDIN_FILENO, bytes, INPUT_BYTES - input.n) : 0;
	if (n <= 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
		end_signal = SIGHUP;
	if (n <= 0)
		return;
	input_add(&input, bytes, (size_t)n);
	input_ns = clock_ns(CLOCK_MONOTONIC);
}

/* The key that has come, or that nothing follows; INPUT_MORE. *rest_ms: how long to wait for what
 * would follow; -1: nothing has begun. */
static int take_key(int *rest_ms, int *y, int *x)
{
	int key = SCREEN_NO_KEY;
	while (key == SCREEN_NO_KEY) {
		int patience = input_patience(&input);
		uint64_t waited_ms = (clock_ns(CLOCK_MONOTONIC) - input_ns) / 1000000;
		bool over = waited_ms >= (uint64_t)patience;
		*rest_ms = !patience ? -1 : over ? 0 : patience - (int)waited_ms;
		key = input_key(&input, over, y, x);
	}
	return key;
}

int screen_key(int timeout_ms, int *y, int *x)
{
	int rest_ms;
	if (is_resized())
		return SCREEN_RESIZE;
	if (input.n)
		read_input(0); /* it may have come long ago */
	int key = take_key(&rest_ms, y, x);
	if (key != INPUT_MORE)
		return key;
	read_input(rest_ms >= 0 && rest_ms < timeout_ms ? rest_ms : timeout_ms);
	key = take_key(&rest_ms, y, x);
	return key == INPUT_MORE ? SCREEN_NO_KEY : key;
}
