/* --first-nan, measured from inside: what the first operator was, and what is not known. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "tracer/intervene/internal.h"

static void describe(char out[static INTERVENE_FOUND_LINE], const json_t *m)
{
	const char *place = json_text_of(m, "place"), *node = json_text_of(m, "node");
	snprintf(out, INTERVENE_FOUND_LINE, "%s, id %" PRId64 "%s%s%s%s", json_text_of(m, "name"),
		 (int64_t)json_integer_value(json_object_get(m, "id")), *place ? ", at " : "",
		 place, *node ? ", in the backward of " : "", node);
}

static void print_counts(const json_t *counts)
{
	static const char *const names[] = {"NaN", "+inf", "-inf"};
	const char *between = "";
	char text[32];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		json_int_t n = json_integer_value(json_array_get(counts, i));
		if (n <= 0)
			continue;
		fprintf(stderr, "%s%s %s", between, text_count(text, sizeof(text), (uint64_t)n),
			names[i]);
		between = ", ";
	}
}

static void print_stack(const char *title, const json_t *lines)
{
	if (!json_array_size(lines))
		return;
	fprintf(stderr, "  %s, innermost first:\n", title);
	for (size_t i = 0; i < json_array_size(lines); i++) {
		fputs("    ", stderr);
		text_print_safe(stderr, json_text_at(lines, i));
		putc('\n', stderr);
	}
}

static void print_found(json_t *m)
{
	const char *node = json_text_of(m, "node");
	fputs("ditrace: the first NaN or infinity: ", stderr);
	text_print_safe(stderr, json_text_of(m, "name"));
	fputs(" gave ", stderr);
	print_counts(json_object_get(m, "counts"));
	fputs(", and all that it was given is finite\n", stderr);
	if (*node) {
		fputs("  it ran in the backward, of ", stderr);
		text_print_safe(stderr, node);
		putc('\n', stderr);
	}
	print_stack("Python stack of its forward op", json_object_get(m, "forward"));
	print_stack(*node ? "Python stack of the backward" : "Python stack",
		    json_object_get(m, "python"));
	intervene_tables_print(stderr, m, NULL);
	if (!json_is_true(json_object_get(m, "kept")))
		fputs("ditrace: the inputs are not saved: the op has written over them, and they "
		      "are too large to be kept\n",
		      stderr);
}

bool intervene_found_op(struct intervene_found *f, json_t *m, pid_t pid)
{
	if (f->pid)
		return false;
	f->pid = pid;
	f->thread = (pid_t)json_integer_value(json_object_get(m, "thread"));
	describe(f->line, m);
	print_found(m);
	return true;
}

void intervene_found_over(struct intervene_found *f, bool holds)
{
	f->over = true;
	if (holds)
		fprintf(stderr,
			"ditrace: process %d is left stopped; thread %d stands at the end of this "
			"op\n"
			"  look at it: gdb -p %d\n"
			"  let it run on: kill -CONT %d\n",
			f->pid, f->thread, f->pid, f->pid);
	fflush(stderr);
}

void intervene_found_passed(struct intervene_found *f, const json_t *m)
{
	if (!f->passed[0])
		describe(f->passed, m);
}

static void print_line(const char *what, const char *line)
{
	fputs(what, stderr);
	text_print_safe(stderr, line);
	putc('\n', stderr);
}

static void print_passed(const struct intervene_found *f, uint64_t calls)
{
	char n[32];
	fprintf(stderr, "  %s gave such numbers and had been given some",
		text_counted(n, sizeof(n), calls, "call"));
	print_line("; the first: ", f->passed);
}

void intervene_found_print(const struct intervene_found *f, const struct intervene_totals *t)
{
	const uint64_t passed = intervene_totals_calls(t, INTERVENE_PASSED);
	const bool unsure = intervene_found_status(f, t) == EXIT_FAILED;
	if (f->pid) {
		print_line("ditrace: the first NaN or infinity came from ", f->line);
		return;
	}
	fprintf(stderr, "ditrace: no op%s made a NaN or an infinity of finite inputs\n",
		unsure ? " of those that could be measured" : "");
	if (passed && f->passed[0])
		print_passed(f, passed);
}

int intervene_found_status(const struct intervene_found *f, const struct intervene_totals *t)
{
	return f->pid ? EXIT_FOUND : intervene_totals_unmeasured(t) ? EXIT_FAILED : EXIT_GOOD;
}
