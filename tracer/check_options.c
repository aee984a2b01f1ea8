/* The command lines of run and attach, checked before a program is started or a process touched. */
#include <errno.h>
#include <string.h>

#include "base/ranges.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/when/when.h"
#include "tracer/engine/engine.h"
#include "tracer/internal.h"

static int check_list(const char *option, const char *list, struct err *e)
{
	struct filter f = {0};
	int r = list ? filter_compile(option, list, &f, e) : 0;
	filter_free(&f);
	return r;
}

static int check_ranges(const char *option, const char *text, struct err *e)
{
	struct ranges ranges = {0};
	int r = text ? ranges_parse(option, text, &ranges, e) : 0;
	ranges_free(&ranges);
	return r;
}

static int check_when(const char *text, struct err *e)
{
	struct when *when = NULL;
	int r = text ? when_compile("--when", text, &when, e) : 0;
	when_free(when);
	return r;
}

static int check_first_nan(const char *word, struct err *e)
{
	if (!word || !*word || !strcmp(word, "hold"))
		return 0;
	err_set(e, -EINVAL, "--first-nan=%s: there is only --first-nan=hold", word);
	return err_hint(e, "without a word, the program runs on");
}

static int check_depth(uint64_t depth, struct err *e)
{
	if (depth)
		return 0;
	err_set(e, -EINVAL, "--depth 0 would record nothing");
	return err_hint(e, "--depth 1 records the outermost ops, those that Python called");
}

/* The other engines have neither, and that takes no part where registers are needed, or nodes. */
static int check_buffers(const struct session_opts *o, struct err *e)
{
	const char *option = o->no_loss ? "--no-loss" : "--buffer";
	const char *stops = o->measure.first_nan ? "--first-nan"
			    : o->capture.dir	 ? "--capture"
						 : NULL;
	if ((!o->no_loss && !o->buffer) || o->engine == ENGINE_SHIM)
		return 0;
	if (o->engine == ENGINE_AUTO && !stops)
		return 0;
	err_set(e, -EINVAL, "%s needs the engine shim, and %s%s takes another", option,
		stops ? stops : "--engine ", stops ? "" : engine_names[o->engine]);
	return err_hint(e,
			stops ? "add --engine shim" : "leave --engine out, or take --engine shim");
}

int trace_options_check(const struct session_opts *o, struct err *e)
{
	int r = check_depth(o->depth, e);
	r = r ? r : check_list("--ops", o->ops, e);
	r = r ? r : check_list("--not-ops", o->not_ops, e);
	r = r ? r : trace_samples_check(o->sample, e);
	r = r ? r : check_when(o->when, e);
	r = r ? r : check_ranges("--nth", o->capture.nth, e);
	r = r ? r : check_ranges("--step", o->capture.steps, e);
	r = r ? r : check_list("--step-op", o->capture.step_op, e);
	return r ? r : check_first_nan(o->measure.first_nan, e);
}

struct partner {
	bool given, has;
	const char *option, *needs;
};

static int check_partners(const struct partner *p, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!p[i].given || p[i].has)
			continue;
		err_set(e, -EINVAL, "%s does nothing without %s", p[i].option, p[i].needs);
		return err_hint(e, "add it, or leave out %s", p[i].option);
	}
	return 0;
}

int check_options(const struct session_opts *o, const struct intervene_opts *change, bool changes,
		  struct err *e)
{
	const struct capture_opts *c = &o->capture;
	bool measures = o->measure.stats || o->measure.first_nan;
	bool chooses = c->dir || change->capture || measures;
	bool saves = c->dir || changes;
	const struct partner partners[] = {
	    {c->nth, chooses, "--nth", "--capture, --stats or --first-nan"},
	    {c->every, chooses || change->compare, "--every",
	     "--capture, --stats, --first-nan or --compare"},
	    {c->steps, chooses, "--step", "--capture, --stats or --first-nan"},
	    {c->step_op, c->steps, "--step-op", "--step"},
	    {c->max_calls, saves || measures, "--max-calls", "--capture"},
	    {c->max_bytes, saves || measures, "--max-bytes", "--capture"},
	    {change->budget, changes, "--budget", "--compare"},
	    {change->level, changes, "--level", "--fallback, --cast, --compare or --overflow"},
	};
	int r = trace_options_check(o, e);
	r = r ? r : check_buffers(o, e);
	return r ? r : check_partners(partners, sizeof(partners) / sizeof(partners[0]), e);
}
