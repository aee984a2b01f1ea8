/* Text for people: safe strings, numbers with separators and units. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The UTF-8 character at the start of the `left` bytes at s, its code point into *cp: its length in
 * bytes; 0 when they begin with none (RFC 3629: no overlong forms, no surrogates, nothing above
 * U+10FFFF). */
size_t text_utf8(const char *s, size_t left, uint32_t *cp);

/* Take off the beginning of a character that `s` ends with, as snprintf leaves it where it cuts. */
void text_drop_part(char *s);

/* Whether a terminal shows the character and does nothing else: no control character (C0, DEL, C1),
 * none that turns the reading direction. */
bool text_is_safe(uint32_t cp);

/* Write `s` (NUL-terminated, from any source) to `f`: control characters, DEL, the C1 range and
 * bytes that are not UTF-8 appear as \xNN, so that a string of the target cannot drive the
 * terminal. */
void text_print_safe(FILE *f, const char *s);

/* The same into `out` of `size` bytes (always NUL-terminated when size > 0); returns the length
 * written, cut at a whole character when it does not fit. */
size_t text_safe(char *out, size_t size, const char *s);

/* What stands behind the last '/' of a path (in it); the whole of one that ends with it. */
const char *text_base_name(const char *path);

/* Columns that `s` takes on a terminal (UTF-8, by wcwidth-like rules of the C library's tables;
 * unprintable characters count 0). */
size_t text_width(const char *s);

/* "1,234,567" into out; returns out. 27 bytes are always enough. */
const char *text_count(char *out, size_t size, uint64_t n);

/* "1 op", "1,234 ops": the number with the word, which takes an s. Returns out. */
const char *text_counted(char *out, size_t size, uint64_t n, const char *word);

/* A duration in ns with a unit that changes with its size: "412 us", "1.9 ms", "12.4 s". */
const char *text_ns(char *out, size_t size, uint64_t ns);

/* A size in bytes: "512 B", "11.8 MiB". */
const char *text_bytes(char *out, size_t size, uint64_t bytes);

/* The names nearest to a mistyped one. */

enum { SUGGESTIONS_MAX = 5, SUGGESTIONS_WORD = 64 };

/* Zero-initialise but for `word`, the name as typed, which must stay. */
struct suggestions {
	const char *word;
	size_t n;
	struct {
		unsigned distance;
		char name[SUGGESTIONS_WORD];
	} found[SUGGESTIONS_MAX]; /* nearest first */
};

/* Offer a name. Kept while it is among the SUGGESTIONS_MAX nearest by edit distance (insertions,
 * deletions, changes and swaps of neighbours) and not too far: a third of the word's length, and at
 * least 2. Names and words of SUGGESTIONS_WORD bytes and more are passed over. */
void suggestions_add(struct suggestions *x, const char *name);

/* "add, addr, addmm" into out; false when nothing is near. */
bool suggestions_list(const struct suggestions *x, char *out, size_t size);

#endif
