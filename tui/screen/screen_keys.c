#define _GNU_SOURCE
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <poll.h>
#include <unistd.h>

#include "tui/screen/screen.h"
#include "tui/screen/screen_internal.h"

static const struct {
	int curses, key;
} keys[] = {
    {KEY_UP, SCREEN_UP},	 {KEY_DOWN, SCREEN_DOWN},
    {KEY_LEFT, SCREEN_LEFT},	 {KEY_RIGHT, SCREEN_RIGHT},
    {KEY_PPAGE, SCREEN_PAGE_UP}, {KEY_NPAGE, SCREEN_PAGE_DOWN},
    {KEY_HOME, SCREEN_HOME},	 {KEY_END, SCREEN_END},
    {KEY_ENTER, SCREEN_ENTER},	 {KEY_BACKSPACE, SCREEN_BACKSPACE},
    {KEY_RESIZE, SCREEN_RESIZE}, {KEY_FIND, SCREEN_HOME},
    {KEY_SELECT, SCREEN_END},
};

static int mouse_key(int *y, int *x)
{
	MEVENT m;
	if (getmouse(&m) != OK)
		return SCREEN_NO_KEY;
	*y = m.y;
	*x = m.x;
	if (m.bstate & BUTTON4_PRESSED)
		return SCREEN_WHEEL_UP;
	if (m.bstate & BUTTON5_PRESSED)
		return SCREEN_WHEEL_DOWN;
	return m.bstate & BUTTON1_PRESSED ? SCREEN_CLICK : SCREEN_NO_KEY;
}

static int function_key(int c, int *y, int *x)
{
	if (c == KEY_MOUSE)
		return mouse_key(y, x);
	if (c >= KEY_F(1) && c <= KEY_F(10))
		return SCREEN_F1 + (c - KEY_F(1));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].curses == c)
			return keys[i].key;
	return SCREEN_NO_KEY;
}

static int character(wint_t c)
{
	switch (c) {
	case '\r':
	case '\n':
		return SCREEN_ENTER;
	case 0x1b:
		return SCREEN_ESCAPE;
	case 0x7f:
	case '\b':
		return SCREEN_BACKSPACE;
	default:
		return (int)c;
	}
}

/* Reading from a terminal that is gone fails at once. */
static void look_for_hangup(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	if (poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
		screen_hangup();
}

int screen_key(int timeout_ms, int *y, int *x)
{
	wint_t c;
	timeout(timeout_ms);
	int r = get_wch(&c);
	if (r == KEY_CODE_YES)
		return function_key((int)c, y, x);
	if (r != ERR)
		return character(c);
	look_for_hangup();
	return SCREEN_NO_KEY;
}
