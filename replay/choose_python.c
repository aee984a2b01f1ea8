#include "replay/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/run_python.h"
#include "base/text.h"
#include "replay/capture/capture_files.h"

static int on_the_path(struct python_choice *out, struct err *e)
{
	int r = python_find("torch", out->path, sizeof(out->path), e);
	return r ? err_hint(e, "name the interpreter of the training: --python PATH") : 0;
}

static bool same(const struct capture_place *a, const struct capture_place *b)
{
	return !strcmp(a->python, b->python) && !strcmp(a->python_changed, b->python_changed);
}

/* The first capture of the most common interpreter, or NULL if none names one; *kinds is the number
 * of different interpreters. */
static const struct capture_place *commonest(const struct capture_places *p, size_t *kinds)
{
	const struct capture_place *best = NULL;
	size_t most = 0, seen = 0;
	for (size_t i = 0; i < p->n && (!i || seen < p->n); i++) {
		size_t n = 0;
		bool before = !p->list[i].python;
		for (size_t k = 0; k < i && !before; k++)
			before = p->list[k].python && same(&p->list[k], &p->list[i]);
		for (size_t k = i; k < p->n && !before; k++)
			n += p->list[k].python && same(&p->list[k], &p->list[i]);
		*kinds += n > 0;
		seen += n;
		if (n > most) {
			most = n;
			best = &p->list[i];
		}
	}
	return best;
}

/* Choose the interpreter of the captures; `p` is the first of the most common one. */
static int as_captured(const struct capture_place *p, size_t kinds, struct python_choice *out,
		       struct err *e)
{
	bool there = interpreter_is_there(p->python, p->python_changed);
	if (there && python_has(p->python, "torch")) {
		snprintf(out->path, sizeof(out->path), "%s", p->python);
		if (kinds > 1)
			snprintf(out->note, sizeof(out->note),
				 "the captures are of %zu interpreters; all are run with %s, the "
				 "commonest",
				 kinds, p->python);
		return 0;
	}
	int r = on_the_path(out, e);
	if (!r)
		snprintf(out->note, sizeof(out->note),
			 "the captures are of %s, which %s; they are run with %s", p->python,
			 there ? "has no torch now" : "is not here, or has changed since",
			 out->path);
	return r;
}

int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e)
{
	size_t kinds = 0;
	*out = (struct python_choice){0};
	python_drop_empty_folders();
	if (given &&
	    (size_t)snprintf(out->path, sizeof(out->path), "%s", given) >= sizeof(out->path))
		return err_set(e, -ENAMETOOLONG, "--python: the path is too long");
	if (given)
		return 0;
	const struct capture_place *p = commonest(captures, &kinds);
	return p ? as_captured(p, kinds, out, e) : on_the_path(out, e);
}

void python_choice_say(const struct python_choice *c, FILE *f)
{
	if (!c->note[0])
		return;
	fputs("ditrace: ", f);
	text_print_safe(f, c->note);
	putc('\n', f);
}
