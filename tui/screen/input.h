/* What a terminal sends, as keys. Pure: no terminal is needed. */
#ifndef TUI_SCREEN_INPUT_H
#define TUI_SCREEN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_BYTES = 256, INPUT_SEQUENCES = 32, INPUT_SEQUENCE_MAX = 16 };

/* Bytes that are no key yet. Zero-initialise. */
struct input {
	char bytes[INPUT_BYTES];
	size_t n;
	bool cut; /* the escape of what follows may have been given as a key */
	/* What this terminal sends for its keys, by its entry in terminfo. */
	struct input_sequence {
		char text[INPUT_SEQUENCE_MAX];
		int key; /* enum screen_key */
	} sequences[INPUT_SEQUENCES];
	size_t nsequences;
};

/* Names `key` what the terminal sends as `text`; what is NULL, longer than INPUT_SEQUENCE_MAX - 1
 * bytes, or does not begin with an escape, is left out. */
void input_name(struct input *in, const char *text, int key);

/* Add the n bytes that have come. Those for which there is no room are dropped: n is at most
 * INPUT_BYTES - in->n. */
void input_add(struct input *in, const char *bytes, size_t n);

/* How long to wait for the rest of what has come, in ms; 0: nothing has begun. A part of a key
 * comes late from a terminal on a busy host or behind a slow connection. */
int input_patience(const struct input *in);

enum { INPUT_MORE = -2 }; /* there is no key before more bytes come */

/* Take the next key: a code point or an enum screen_key; SCREEN_NO_KEY for what means nothing here,
 * such as the release of a button; INPUT_MORE. `waited`: the rest has not come in time. For
 * SCREEN_CLICK *y and *x are its position, from 0. */
int input_key(struct input *in, bool waited, int *y, int *x);

#endif
