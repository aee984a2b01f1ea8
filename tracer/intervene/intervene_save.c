#include "tracer/intervene/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "replay/replay.h"

/* Where the source of a capture reads from. */
struct pieces {
	struct worker *w;
	json_t *message;
};

static int read_piece(void *ctx, uint64_t address, void *to, size_t n)
{
	const struct pieces *p = ctx;
	char key[32];
	uint64_t number = (address >> DESCRIBED_PIECE_BITS) - 1;
	uint64_t at = address & ((UINT64_C(1) << DESCRIBED_PIECE_BITS) - 1);
	snprintf(key, sizeof(key), "p%" PRIu64, number);
	json_t *offset = json_object_get(json_object_get(p->message, key), "offset");
	const void *from =
	    offset ? worker_memory(p->w, (size_t)json_integer_value(offset) + at, n) : NULL;
	if (!from)
		return -EFAULT;
	memcpy(to, from, n);
	return 0;
}

static int take_keywords(json_t *list, struct arena *a, struct pth_content *c)
{
	size_t n = json_array_size(list), ignored;
	struct pth_keyword *k = arena_alloc(a, (n + 1) * sizeof(*k));
	int r = k ? 0 : -ENOMEM;
	for (size_t i = 0; i < n && !r; i++) {
		json_t *pair = json_array_get(list, i), *one = json_array();
		struct value *v;
		json_array_append(one, json_array_get(pair, 1));
		r = described_values(one, a, &v, &ignored);
		k[i] = (struct pth_keyword){json_text_at(pair, 0), v};
		json_decref(one);
	}
	c->kwargs = k;
	c->nkwargs = (unsigned)n;
	return r;
}

static int take_owners(json_t *list, struct arena *a, struct pth_content *c)
{
	if (!json_is_array(list))
		return 0;
	if (json_array_size(list) != c->nargs)
		return -EPROTO;
	const char **of = arena_alloc(a, (c->nargs + 1) * sizeof(*of));
	for (unsigned i = 0; of && i < c->nargs; i++)
		of[i] = json_text_at(list, i);
	c->of = of;
	return of ? 0 : -ENOMEM;
}

static int take_content(json_t *m, struct arena *a, struct pth_content *c)
{
	struct value *args;
	size_t n = 0;
	int r = described_values(json_object_get(m, "args"), a, &args, &n);
	if (r)
		return r;
	c->args = args;
	c->nargs = (unsigned)n;
	c->args_in_one = json_is_true(json_object_get(m, "in_one"));
	r = take_keywords(json_object_get(m, "kwargs"), a, c);
	return r ? r : take_owners(json_object_get(m, "of"), a, c);
}

enum { AUTOCAST_MOST = 16 }; /* types of devices */

static void take_autocast(json_t *m, struct capture_autocast *out, struct capture_about *about)
{
	json_t *on = json_object_get(m, "autocast"), *dtype;
	const char *device;
	if (!json_is_object(on) || json_object_size(on) > AUTOCAST_MOST)
		return;
	about->autocast = out;
	json_object_foreach(on, device, dtype) if (json_is_string(dtype)) out[about->nautocast++] =
	    (struct capture_autocast){device, json_string_value(dtype)};
}

static int write_part(struct intervene_save *s, json_t *m, struct worker *w, pid_t pid,
		      const struct pth_content *from, struct capture_saved *saved, struct err *e)
{
	json_t *where = json_object_get(m, "where");
	struct pth_content content = *from;
	struct py_frame frame = {.file = json_text_at(where, 0),
				 .line = (int32_t)json_integer_value(json_array_get(where, 1)),
				 .function = json_text_at(where, 2),
				 .column = -1,
				 .end_column = -1};
	struct capture_about about = {.where = frame.file[0] ? &frame : NULL, .no_addresses = true};
	struct capture_autocast autocast[AUTOCAST_MOST];
	struct pieces pieces = {w, m};
	const struct source source = {.ctx = &pieces, .read = read_piece, .devices = true};
	struct capture_call call = {.id = (uint64_t)json_integer_value(json_object_get(m, "id")),
				    .time_s = json_integer_value(json_object_get(m, "time")),
				    .pid = pid};
	take_autocast(m, autocast, &about);
	snprintf(call.op, sizeof(call.op), "%s", json_text_of(m, "op"));
	return capture_write_content(&s->files, &call, json_text_of(m, "above"),
				     json_text_of(m, "part"), &content, &about, &source, saved, e);
}

/* Once for successive calls of the same op. */
static void tell_refused(struct intervene_save *s, const char *op, const struct err *why)
{
	if (!strcmp(s->refused, op))
		return;
	snprintf(s->refused, sizeof(s->refused), "%s", op);
	fputs("ditrace: not saved: ", stderr);
	text_print_safe(stderr, why->what);
	fputc('\n', stderr);
}

static void tell_saved(const struct capture_saved *saved, const char *part)
{
	char line[sizeof(saved->path) + sizeof("saved ")];
	snprintf(line, sizeof(line), "saved %s", saved->path);
	size_t len = strlen(line), tail = strlen(part) + sizeof("/.pth") - 1;
	line[len > tail ? len - tail : len] = '\0';
	fputs("ditrace: ", stderr);
	text_print_words(stderr, line, 9, 4, (size_t)terminal_of(stderr).width);
	fputc('\n', stderr);
	fflush(stderr);
}

static bool is_first(const char *part)
{
	return !strcmp(part, "input") || !strcmp(part, "device/input");
}

static bool are_names(json_t *m)
{
	const char *above = json_text_of(m, "above");
	const char *part = json_text_of(m, "part");
	return !strstr(above, "..") && !strstr(part, "..") && part[0] && part[0] != '/';
}

static void give_up(struct intervene_save *s, const struct err *why)
{
	s->trouble = *why;
	fputs("ditrace: ", stderr);
	text_print_safe(stderr, why->what);
	fputs("\n  hint: no more calls are saved, all else goes on; free some space, run it in "
	      "another folder, or set --max-bytes\n",
	      stderr);
	fflush(stderr);
}

int intervene_save(struct intervene_save *s, json_t *m, struct worker *w, pid_t pid, bool *failed)
{
	struct arena a = {0};
	struct pth_content content = {0};
	struct capture_saved saved;
	struct err why = {0};
	*failed = s->trouble.code || (*failed && !is_first(json_text_of(m, "part")));
	if (s->trouble.code)
		return 0;
	int r = are_names(m) ? take_content(m, &a, &content) : -EPROTO;
	r = r ? r : worker_map(w);
	if (r) {
		arena_free(&a);
		return r;
	}
	r = write_part(s, m, w, pid, &content, &saved, &why);
	arena_free(&a);
	*failed |= r != 0;
	if (capture_is_over(r))
		give_up(s, &why);
	else if (r)
		tell_refused(s, json_text_of(m, "op"), &why);
	if (!json_is_true(json_object_get(m, "last")))
		return 0;
	if (!*failed) {
		s->calls++;
		tell_saved(&saved, json_text_of(m, "part"));
	}
	return 0;
}

void intervene_save_print(const struct intervene_save *s, uint64_t most)
{
	char text[32], size[32];
	if (!s->calls)
		return;
	fprintf(stderr, "ditrace: %s saved, %s", text_counted(text, sizeof(text), s->calls, "call"),
		text_bytes(size, sizeof(size), s->files.bytes));
	if (most)
		fprintf(stderr, ", at most %" PRIu64 " of each function at a line", most);
	fprintf(stderr,
		"; ditrace replay %s%sop_tools_results/op_capture_results runs them again\n",
		s->files.root, s->files.root[0] ? "/" : "");
}
