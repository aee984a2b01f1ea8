
#include <string.h>

#include "base/text.h"
#include "tui/screen/screen.h"

/* A person's Esc comes alone; for the rest of a sequence that has begun there is time. */
enum { ESCAPE = 0x1b, ESCAPE_MS = 50, REST_MS = 2000 };

void input_name(struct input *in, const char *text, int key)
{
	if (!text || text[0] != ESCAPE || !text[1] || strlen(text) >= INPUT_SEQUENCE_MAX ||
	    in->nsequences == INPUT_SEQUENCES)
		return;
	struct input_sequence *s = &in->sequences[in->nsequences++];
	strcpy(s->text, text);
	s->key = key;
}

void input_add(struct input *in, const char *bytes, size_t n)
{
	if (n > INPUT_BYTES - in->n)
		n = INPUT_BYTES - in->n;
	memcpy(in->bytes + in->n, bytes, n);
	in->n += n;
}

int input_patience(const struct input *in)
{
	if (!in->n)
		return 0;
	return in->n == 1 ? ESCAPE_MS : REST_MS;
}

static int input_take(struct input *in, size_t n, int key)
{
	in->n -= n;
	memmove(in->bytes, in->bytes + n, in->n);
	return key;
}

static int character(uint32_t c)
{
	switch (c) {
	case '\r':
	case '\n':
		return SCREEN_ENTER;
	case 0x7f:
	case '\b':
		return SCREEN_BACKSPACE;
	default:
		return (int)c;
	}
}

static int take_character(struct input *in, bool waited)
{
	uint8_t lead = (uint8_t)in->bytes[0];
	size_t whole = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	uint32_t c;
	size_t n = text_utf8(in->bytes, in->n, &c);
	if (n || !in->bytes[0])
		return input_take(in, n ? n : 1, n ? character(c) : SCREEN_NO_KEY);
	return in->n < whole && !waited ? INPUT_MORE : input_take(in, 1, SCREEN_NO_KEY);
}

/* A sequence of this terminal: its key, INPUT_MORE if it may become one, or SCREEN_NO_KEY. */
static int take_named(struct input *in)
{
	bool may_be = false;
	for (size_t i = 0; i < in->nsequences; i++) {
		const struct input_sequence *s = &in->sequences[i];
		size_t n = strlen(s->text), some = n < in->n ? n : in->n;
		if (memcmp(s->text, in->bytes, some) != 0)
			continue;
		if (some == n)
			return input_take(in, n, s->key);
		may_be = true;
	}
	return may_be ? INPUT_MORE : SCREEN_NO_KEY;
}

/* xterm's "Mouse Tracking" (ctlseqs): the button in the two lowest bits, 3: a release; 4, 8, 16:
 * Shift, Alt, Control; 32: motion; 64: the wheel, which has no release; 128: further buttons. */
static int mouse_key(unsigned button, bool pressed)
{
	enum { MODIFIERS = 4 | 8 | 16 };
	switch (pressed ? button & ~(unsigned)MODIFIERS : 3) {
	case 0:
		return SCREEN_CLICK;
	case 64:
		return SCREEN_WHEEL_UP;
	case 65:
		return SCREEN_WHEEL_DOWN;
	default:
		return SCREEN_NO_KEY;
	}
}

/* ESC [ M and three bytes: button, column and line, each with 32, the latter from 1. */
static int take_x10(struct input *in, int *y, int *x)
{
	const uint8_t *b = (const uint8_t *)in->bytes + 3;
	if (in->n < 6)
		return INPUT_MORE;
	*x = b[1] - 33;
	*y = b[2] - 33;
	return input_take(in, 6, mouse_key(b[0] - 32U, *x >= 0 && *y >= 0));
}

static unsigned parameter(const char **at, const char *end)
{
	unsigned n = 0;
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
		n = n < 100000 ? n * 10 + (unsigned)(**at - '0') : n;
	*at += *at < end && **at == ';';
	return n;
}

/* ESC [ < button ; column ; line M, or m for a release: xterm's mode 1006. */
static int sgr_mouse(const char *at, const char *end, int *y, int *x)
{
	unsigned button = parameter(&at, end), column = parameter(&at, end),
		 line = parameter(&at, end);
	*x = (int)column - 1;
	*y = (int)line - 1;
	return mouse_key(button, at == end && *end == 'M' && column && line);
}

/* What most terminals send where terminfo says nothing else: xterm's ctlseqs, "PC-Style Function
 * Keys" and "VT220-Style Function Keys". */
static int final_key(char final)
{
	switch (final) {
	case 'A':
		return SCREEN_UP;
	case 'B':
		return SCREEN_DOWN;
	case 'C':
		return SCREEN_RIGHT;
	case 'D':
		return SCREEN_LEFT;
	case 'F':
		return SCREEN_END;
	case 'H':
		return SCREEN_HOME;
	default:
		return SCREEN_NO_KEY;
	}
}

static int tilde_key(unsigned n)
{
	static const int keys[] = {[1] = SCREEN_HOME,	   [4] = SCREEN_END,  [5] = SCREEN_PAGE_UP,
				   [6] = SCREEN_PAGE_DOWN, [7] = SCREEN_HOME, [8] = SCREEN_END};
	return n < sizeof(keys) / sizeof(*keys) && keys[n] ? keys[n] : SCREEN_NO_KEY;
}

/* ESC [ parameters intermediate-bytes final-byte (ECMA-48, 5.4). */
static int take_control(struct input *in, int *y, int *x)
{
	const char *begin = in->bytes + 2, *end = in->bytes + in->n, *at = begin;
	while (at < end && *at >= 0x20 && *at <= 0x3f)
		at++;
	if (at == end)
		return in->n < INPUT_BYTES ? INPUT_MORE : input_take(in, in->n, SCREEN_NO_KEY);
	size_t n = (size_t)(at - in->bytes);
	if (*at < 0x40 || *at == 0x7f) /* it ends here: another begins */
		return input_take(in, n, SCREEN_NO_KEY);
	int key = at == begin	  ? final_key(*at)
		  : *at == '~'	  ? tilde_key(parameter(&begin, at))
		  : *begin == '<' ? sgr_mouse(begin + 1, at, y, x)
				  : SCREEN_NO_KEY;
	return input_take(in, n + 1, key);
}

static int take_sequence(struct input *in, int *y, int *x)
{
	if (in->n == 1)
		return INPUT_MORE;
	int key = take_named(in);
	if (key != SCREEN_NO_KEY)
		return key;
	if (in->bytes[1] == '[')
		return in->n > 2 && in->bytes[2] == 'M' ? take_x10(in, y, x)
							: take_control(in, y, x);
	if (in->bytes[1] != 'O')
		return input_take(in, 1, SCREEN_ESCAPE); /* Esc, and another key at once */
	return in->n < 3 ? INPUT_MORE : input_take(in, 3, final_key(in->bytes[2]));
}

/* Whether what has come may be the rest of a report of the mouse, whose escape was taken for a
 * person's. */
static bool is_rest(const struct input *in)
{
	return in->cut && in->n < INPUT_BYTES && in->bytes[0] == '[' &&
	       (in->n == 1 || in->bytes[1] == 'M' || in->bytes[1] == '<');
}

static void mend(struct input *in)
{
	memmove(in->bytes + 1, in->bytes, in->n++);
	in->bytes[0] = ESCAPE;
	in->cut = false;
}

int input_key(struct input *in, bool waited, int *y, int *x)
{
	if (!in->n)
		return INPUT_MORE;
	if (is_rest(in) && in->n == 1 && !waited)
		return INPUT_MORE;
	if (is_rest(in) && in->n > 1)
		mend(in);
	in->cut = false;
	if (in->bytes[0] != ESCAPE)
		return take_character(in, waited);
	int key = take_sequence(in, y, x);
	if (key != INPUT_MORE || !waited)
		return key;
	in->cut = in->n == 1;
	return in->cut ? input_take(in, 1, SCREEN_ESCAPE) : input_take(in, in->n, SCREEN_NO_KEY);
}
