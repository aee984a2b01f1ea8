#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/actions/actions.h"
#include "tui/model/top.h"

int panel_text(struct top *t)
{
	struct lines *l = &t->lines;
	const char *text = actions_text(t->acts);
	lines_reset(l);
	for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n') {
		bool head = !strncmp(text, "pid ", 4) || !strncmp(text, "thread ", 7);
		lines_add(l, head ? STYLE_BOLD : STYLE_PLAIN, "%.*s", (int)strcspn(text, "\n"),
			  text);
	}
	return l->failed;
}

static void draw_prompt(const struct top *t, int y)
{
	char text[VIEW_FILTER_MAX + 16];
	snprintf(text, sizeof(text), "/%s", view_filter(t->view));
	int x = screen_text(y, 0, screen_width() - 1, text, STYLE_BOLD);
	screen_cursor(y, x);
}

void panel_status(const struct top *t, int y)
{
	static const char table_keys[] =
	    "? help  q quit  Enter details  g group  < > sort  / filter  "
	    "p pause  s stacks  c capture  C compare  f to CPU  u undo  "
	    "i interval  r reset  e save  d detach  a attach";
	static const char other_keys[] = "q back to the table  Up Down PgUp PgDn Left Right move";
	if (t->typing)
		draw_prompt(t, y);
	else if (t->asks)
		screen_text(y, 0, screen_width(), t->question, STYLE_BOLD);
	else if (t->message[0])
		screen_text(y, 0, screen_width(), t->message, STYLE_BOLD);
	else
		screen_text(y, 0, screen_width(), t->panel == TOP_TABLE ? table_keys : other_keys,
			    STYLE_DIM);
}

enum { LINE_MAX_BYTES = 1024, SPARKS = 24 };

struct head_text {
	char s[LINE_MAX_BYTES];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void add_text(struct head_text *t, const char *format,
							   ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(t->s + t->len, sizeof(t->s) - t->len, format, args);
	va_end(args);
	if (n > 0)
		t->len = t->len + (size_t)n < sizeof(t->s) ? t->len + (size_t)n : sizeof(t->s) - 1;
	text_drop_part(t->s);
}

static const char *or_unknown(const char *s)
{
	return s[0] ? s : "unknown";
}

static void target_line(const struct top *t, const struct view_head *h)
{
	struct head_text l = {0};
	char at[32], waits[256];
	uint64_t s = h->wall_ns / 1000000000;
	add_text(&l, "ditrace top  ");
	if (!h->target)
		add_text(&l, "%s",
			 t->live ? live_waits_for(t->live, waits, sizeof(waits))
				 : "no process known");
	else
		add_text(&l, "pid %" PRId32 " %s  torch %s  CPython %s  engine %s", h->target->pid,
			 h->target->argv[0] ? h->target->argv : h->target->comm,
			 or_unknown(h->target->torch_version),
			 or_unknown(h->target->python_version), or_unknown(h->target->engine));
	if (h->targets > 1)
		add_text(&l, "  and %u more", h->targets - 1);
	snprintf(at, sizeof(at), " %02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60,
		 s % 60);
	screen_text(0, 0, screen_width() - 9, l.s, STYLE_PLAIN);
	screen_right(0, screen_width() - 9, 9, at, STYLE_PLAIN);
	screen_line(0, STYLE_BAR);
}

/* A sparkline of as many steps as fit. */
static void add_sparks(struct head_text *l, const struct step_times *steps, int room)
{
	uint64_t ns[SPARKS], max = 0;
	unsigned n = step_times_last(steps, ns,
				     room < 0	     ? 0
				     : room < SPARKS ? (unsigned)room
						     : SPARKS);
	for (unsigned i = 0; i < n; i++)
		max = ns[i] > max ? ns[i] : max;
	for (unsigned i = 0; i < n; i++)
		add_text(l, "%s", screen_block(ns[i], max));
}

/* Mean over the last steps, as single ones vary. */
static uint64_t step_ns(const struct step_times *steps)
{
	uint64_t ns[SPARKS], sum = 0;
	unsigned n = step_times_last(steps, ns, SPARKS);
	for (unsigned i = 0; i < n; i++)
		sum += ns[i];
	return n ? sum / n : 0;
}

/* As many of the figures as `room` columns take. */
static void process_figures(const struct top_process *p, int room, struct head_text *out)
{
	char n[32], threads[32], cpu[32] = "", texts[3][64];
	if (!p->known)
		return;
	if (p->cpu_percent >= 0)
		snprintf(cpu, sizeof(cpu), "CPU %.0f %%", p->cpu_percent);
	snprintf(texts[0], sizeof(texts[0]), "%s", cpu);
	snprintf(texts[1], sizeof(texts[1]), "RSS %s", text_bytes(n, sizeof(n), p->rss_bytes));
	snprintf(texts[2], sizeof(texts[2]), "%s",
		 text_counted(threads, sizeof(threads), p->threads, "thread"));
	for (int i = 0; i < 3; i++)
		if (texts[i][0] && (int)(out->len + strlen(texts[i])) + 2 <= room)
			add_text(out, "%s%s", out->len ? "  " : "", texts[i]);
}

static void step_line(const struct top *t, const struct view_head *h)
{
	struct head_text l = {0}, figures = {0};
	char count[32], time[32];
	uint64_t ns = h->summed ? 0 : step_ns(h->steps);
	if (h->steps->done == 0)
		add_text(&l, "no step of an optimizer seen");
	else
		add_text(&l, "%s%s", h->summed ? "at least " : "",
			 text_counted(count, sizeof(count), h->steps->done, "step"));
	if (ns)
		add_text(&l, "  %s/step  %.1f/s  ", text_ns(time, sizeof(time), ns),
			 1e9 / (double)ns);
	process_figures(&t->process, screen_width() - (int)l.len - 2, &figures);
	int width = (int)figures.len, left = screen_width() - (width ? width + 2 : 0);
	if (ns)
		add_sparks(&l, h->steps, left - (int)l.len);
	screen_text(1, 0, screen_width(), l.s, STYLE_BOLD);
	if (width)
		screen_right(1, left + 2, width, figures.s, STYLE_BOLD);
}

/* Whether the trace has (nearly) every op dispatched, as far as that was measured. */
static bool has_all_ops(const struct top *t, const struct view_head *h)
{
	enum { WHOLE = 1000, NEARLY = 990 };
	/* Time in calls that were summed up lies between those that were not. */
	if (h->summed)
		return false;
	uint32_t seen = h->stats ? h->stats->seen_permille : TRACE_SEEN_UNKNOWN;
	return seen <= WHOLE ? seen >= NEARLY : t->live && !live_leaves_out(t->live);
}

static void add_part(struct head_text *l, const char *name, double percent, bool always)
{
	if (always || percent >= 0.5)
		add_text(l, "  %s %.0f %%", name, percent);
}

/* Shares of the threads' time; the names are explained in the help. */
static void add_shares(struct head_text *l, const struct view_head *h, bool all_ops)
{
	add_part(l, "in ops", h->in_ops, true);
	if (h->python_ran >= 0) {
		add_part(l, all_ops ? "Python" : "not in these", h->python_ran, true);
		add_part(l, "waits", h->waited, true);
		add_part(l, "other", h->other_ran, false);
	} else if (all_ops) {
		add_part(l, "Python/waits", h->python, true);
		add_part(l, "no Python", h->other, false);
	} else {
		add_part(l, "not in these", h->outside, true);
	}
}

static void rates_line(const struct top *t, const struct view_head *h)
{
	struct head_text l = {0};
	char n[32];
	add_text(&l, "%s ops/s", text_count(n, sizeof(n), (uint64_t)(h->ops_per_s + 0.5)));
	add_text(&l, "  lost %s", text_count(n, sizeof(n), h->lost));
	if (h->summed)
		add_text(&l, "  sums only %s", text_count(n, sizeof(n), h->summed));
	if (h->stats && h->stats->lean)
		add_text(&l, "  without values %s", text_count(n, sizeof(n), h->stats->lean));
	if (h->in_ops >= 0)
		add_shares(&l, h, has_all_ops(t, h));
	if (h->probes >= 0)
		add_text(&l, h->probes_are_least ? "  probes %.0f+%%" : "  probes %.0f %%",
			 h->probes);
	else if (h->probes_most)
		add_text(&l, "  probes most of the time");
	screen_text(2, 0, screen_width(), l.s, h->lost ? STYLE_WARM : STYLE_PLAIN);
}

static void add_source(struct head_text *l, const struct top *t)
{
	double speed = t->player ? player_speed(t->player) : 0;
	if (t->live)
		add_text(l, "  %s%s", live_state(t->live),
			 t->player && player_state(t->player) == PLAYER_GOES_ON ? ", behind" : "");
	else if (player_state(t->player) == PLAYER_ENDED)
		add_text(l, "  end of file");
	else if (player_state(t->player) == PLAYER_BROKEN)
		add_text(l, "  file cut");
	else if (speed > 0)
		add_text(l, "  speed %gx", speed);
	else
		add_text(l, "  full speed");
	if (t->paused)
		add_text(l, "  PAUSED");
}

static void settings_line(const struct top *t)
{
	struct head_text l = {0};
	bool reversed;
	enum view_column column = view_sorted(t->view, &reversed);
	add_text(&l, "by %s%s  sort %s%s  %s", grouping_names[view_group(t->view)],
		 view_is_tree(t->view) ? ", as a tree" : "", view_column_names[column],
		 reversed ? " reversed" : "", view_interval(t->view) ? "last 2 s" : "cumulative");
	add_source(&l, t);
	add_text(&l, "  filter: %s", view_filter(t->view)[0] ? view_filter(t->view) : "none");
	screen_text(3, 0, screen_width(), l.s, STYLE_DIM);
}

void panel_head(const struct top *t)
{
	struct view_head h;
	view_head(t->view, &h);
	target_line(t, &h);
	step_line(t, &h);
	rates_line(t, &h);
	settings_line(t);
}
