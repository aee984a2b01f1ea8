/* Text for people: safe strings, numbers with separators and units. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decode the UTF-8 character at the start of the `left` bytes at s into *cp. Returns its length in
 * bytes; 0 when there is no valid one (RFC 3629: no overlong forms, no surrogates, nothing above
 * U+10FFFF). */
size_t text_utf8(const char *s, size_t left, uint32_t *cp);

/* Drop an incomplete UTF-8 character at the end of `s`, as snprintf leaves one when it truncates.
 */
void text_drop_part(char *s);

/* Whether printing the character has no side effect on a terminal: it is neither a control
 * character (C0, DEL, C1) nor a bidirectional mark or override, nor a separator of lines. */
bool text_is_safe(uint32_t cp);

/* Write `s` (NUL-terminated, untrusted) to `f`; control characters, DEL, C1 and invalid UTF-8
 * appear as \xNN, so that a string of the target cannot drive the terminal. */
void text_print_safe(FILE *f, const char *s);

/* The same into `out` of `size` bytes (always NUL-terminated when size > 0); truncated between
 * characters. Returns the length written. */
size_t text_safe(char *out, size_t size, const char *s);

/* The part of a path after its last '/'; the whole path if it ends with one. Points into `path`. */
const char *text_base_name(const char *path);

/* Columns of `s` (UTF-8) on a terminal, by the C library's wcwidth; unprintable characters count 0.
 */
size_t text_width(const char *s);

/* Print `text` like text_print_safe, from column `at`, with line breaks between words where it
 * would have more than `width` columns (0: no limit). Lines that follow begin at `indent`. */
void text_print_words(FILE *f, const char *text, size_t at, size_t indent, size_t width);

/* Print `s`, or, where it has more than `width` columns, its beginning and "…" in that many. */
void text_print_cut(FILE *f, const char *s, size_t width);

/* Print `text` (untrusted), such as a command line, its start left out so that it and `besides`
 * columns fit into `width`, of which it has 16 at least; width 0: all of it. */
void text_print_end(FILE *f, const char *text, size_t width, size_t besides);

/* Parse a number of decimal digits and nothing else. False, with *out unchanged, if it is none or
 * does not fit. */
bool text_number(const char *text, uint64_t *out);

/* "1,234,567" into out; returns out. 27 bytes are always enough. */
const char *text_count(char *out, size_t size, uint64_t n);

/* "1 op", "1,234 ops": the number and the word, with a plural s. Returns out. */
const char *text_counted(char *out, size_t size, uint64_t n, const char *word);

/* The shortest decimal that parses to the same double, with ".0" for whole numbers, as Python's
 * repr: "1e-05", "0.1", "2.0"; "nan", "inf", "-inf". Returns out; 32 bytes are always enough. */
const char *text_float(char *out, size_t size, double f);

/* A duration in ns, in a unit that suits its size: "412 us", "1.9 ms", "12.4 s". Returns out. */
const char *text_ns(char *out, size_t size, uint64_t ns);

/* A size in bytes: "512 B", "11.8 MiB". Returns out. */
const char *text_bytes(char *out, size_t size, uint64_t bytes);

/* The name of a C++ function, its template arguments "<...>" where they would fill the line.
 * Returns out. */
const char *text_without_templates(char *out, size_t size, const char *name);

/* Suggestions for a mistyped name. */

enum { SUGGESTIONS_MAX = 5, SUGGESTIONS_WORD = 64 };

/* Zero-initialise except `word`, the name as typed, borrowed. */
struct suggestions {
	const char *word;
	size_t n;
	struct {
		unsigned distance;
		char name[SUGGESTIONS_WORD];
	} found[SUGGESTIONS_MAX]; /* nearest first */
};

/* Offer a candidate. The SUGGESTIONS_MAX nearest by edit distance (insertions, deletions,
 * substitutions and transpositions of neighbours) are kept, within a distance of a third of the
 * word's length or 2, whichever is more; of words of up to 3 letters, of 1. Names and words of
 * SUGGESTIONS_WORD bytes or more are ignored. */
void suggestions_add(struct suggestions *x, const char *name);

/* "add, addr, addmm" into out; false when there is no suggestion. */
bool suggestions_list(const struct suggestions *x, char *out, size_t size);

/* Terminal capabilities of a stream, and the pager. */

struct terminal {
	int width;  /* columns; 0: not a terminal, or unknown */
	int height; /* rows, as width */
	bool color; /* colour escape sequences may be used */
};

enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

/* What the command line says of colours (any of the three) and of the pager (auto or never); both
 * auto at first. */
extern int terminal_color, terminal_pager;

/* Their words, in this order. */
extern const char *const terminal_colors[], *const terminal_pagers[];

#define COLOR_OPTION                                                                               \
	{                                                                                          \
		0, "color", OPTION_CHOICE, &terminal_color, "WHEN",                                \
		    "colours: auto (default), always or never", terminal_colors                    \
	}

#define PAGER_OPTION                                                                               \
	{                                                                                          \
		0, "pager", OPTION_CHOICE, &terminal_pager, "WHEN",                                \
		    "start $PAGER on a terminal: auto (default) or never", terminal_pagers         \
	}

/* A line on standard error, if that is a terminal, that says how much of a file is read.
 * Zero-initialise. */
struct read_progress {
	uint64_t items, shown_ns;
	bool is_shown;
};

/* Whether another look is worth its time: for every 1,024th item that is read. */
bool progress_is_due(struct read_progress *p);

/* `share`: 0 to 1. The line is written five times a second at most. */
void progress_show(struct read_progress *p, const char *path, double share);

/* Before anything else is written. */
void progress_hide(struct read_progress *p);

/* Width and colour support of `f`. By itself no colour when NO_COLOR is set and not empty
 * (https://no-color.org) or TERM is "dumb" or unset. */
struct terminal terminal_of(FILE *f);

/* When standard output is a terminal, and terminal_pager is auto, start $PAGER ("less" if unset,
 * with LESS=FRX unless set) and redirect standard output to it. Does nothing when $PAGER is empty
 * or "cat", or less is not installed. Returns whether a pager was started. */
int pager_start(void);

/* Close standard output and wait for the pager to exit; no effect without one. */
void pager_wait(void);

/* A line on the terminal of stderr, rewritten while something goes on. Zero-initialise. */
struct status_line {
	bool on;    /* stderr is a terminal, and the line was asked for */
	bool shown; /* there is one to clear */
	uint64_t begun_ns, next_ns;
};

void status_line_open(struct status_line *l);

/* Whether it is time to show it again: twice a second. */
bool status_line_due(struct status_line *l);

/* "0:12  34,567 ops  1.2 MiB  0 lost": time since it was opened, `n` of `what`, size of the file,
 * how much was lost. */
void status_line_show(struct status_line *l, const char *what, uint64_t n, uint64_t bytes,
		      uint64_t lost);

/* Clear it, before anything else is printed there. */
void status_line_clear(struct status_line *l);

#endif
