/* The options of the command report: which go together, and what they need. */
#include <errno.h>
#include <stddef.h>

#include "perf/internal.h"

static int refuse(const char *option, const char *other, struct err *e)
{
	err_set(e, -EINVAL, "%s does not go with %s", option, other);
	return err_hint(e, "leave out one of them; see: ditrace report --help");
}

static int check_frames(const struct report *p, struct err *e)
{
	if (!p->graph && (p->frames || p->all)) {
		err_set(e, -EINVAL, "--%s is of call graphs", p->all ? "all" : "frames");
		return err_hint(e, "ask for one: --call-graph callees");
	}
	if (p->frames != CALL_NATIVE || p->samples)
		return 0;
	err_set(e, -EINVAL, "--frames native: events of ops have no native frames");
	return err_hint(e, "samples have: --samples, of a file recorded with --sample");
}

static int check_per_step(const struct report *p, struct err *e)
{
	if (!p->per_step)
		return 0;
	if (p->graph || p->samples)
		return refuse("--per-step", p->graph ? "--call-graph" : "--samples", e);
	return p->format ? refuse("--per-step",
				  p->format == FORMAT_JSON ? "--format json" : "--format csv", e)
			 : 0;
}

static int check_together(const struct report *p, struct err *e)
{
	const char *form = p->graph ? "--call-graph" : p->sides ? "--side-by-side" : "--gaps";
	if (p->graph && (p->sides || p->gaps))
		return refuse(form, p->sides ? "--side-by-side" : "--gaps", e);
	if (p->samples && (p->sides || p->gaps))
		return refuse(p->sides ? "--side-by-side" : "--gaps", "samples", e);
	if (p->sides && p->gaps)
		return refuse(form, "--gaps", e);
	if ((p->graph || p->gaps) && (p->group || p->sort || p->columns))
		return refuse(form, p->group ? "--group" : p->sort ? "--sort" : "--columns", e);
	return 0;
}

/* What of the options is not of --collectives and --skew; NULL: nothing. */
static const char *not_of_collectives(const struct report *p)
{
	const struct {
		bool given;
		const char *name;
	} others[] = {{p->group, "--group"},
		      {p->sort, "--sort"},
		      {p->columns, "--columns"},
		      {p->sides, "--side-by-side"},
		      {p->gaps, "--gaps"},
		      {p->graph, "--call-graph"},
		      {p->samples, "--samples"},
		      {p->frames, "--frames"},
		      {p->all, "--all"},
		      {p->percent_limit, "--percent-limit"},
		      {p->per_step, "--per-step"},
		      {p->skew && p->choice.ops, "--ops"},
		      {p->skew && p->choice.not_ops, "--not-ops"},
		      {p->skew && p->choice.when, "--when"},
		      {p->skew && p->choice.rank, "--rank"},
		      {p->skew && p->collectives, "--collectives"},
		      {p->skew && p->format == FORMAT_CSV, "--format csv"}};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].given)
			return others[i].name;
	return NULL;
}

/* --group kernel: 1 if it is given. */
static int prepare_kernels(struct report *p, struct err *e)
{
	unsigned keys;
	int r = kernels_parse(p->group, &keys, e);
	if (r <= 0)
		return r;
	const char *other = p->sides ? "--side-by-side" : p->samples ? "samples" : NULL;
	other = p->columns ? "--columns" : other;
	if (other)
		return refuse("--group kernel", other, e);
	p->opts.sort = REPORT_BY_DEVICE_TIME;
	r = p->sort ? kernels_parse_sort(p->sort, &p->opts.sort, e) : 0;
	if (r)
		return r;
	p->opts.kernels = p->kernels = kernels_new(keys);
	return p->kernels ? 1 : err_set(e, -ENOMEM, "no memory to sum up %s", p->path);
}

/* --group block: 1 if it is given. */
static int prepare_blocks(struct report *p, struct err *e)
{
	int r = code_blocks_parse(p->group, e);
	if (r <= 0)
		return r;
	if (p->sides || p->samples)
		return refuse("--group block", p->sides ? "--side-by-side" : "samples", e);
	const char *of_calls = p->choice.ops	   ? "--ops"
			       : p->choice.not_ops ? "--not-ops"
			       : p->choice.when	   ? "--when"
						   : NULL;
	if (of_calls) {
		err_set(e, -EINVAL,
			"--group block does not go with %s: a block is no call of an op", of_calls);
		return err_hint(e, "--time, --step and --rank choose among blocks");
	}
	p->opts.sort = REPORT_BY_TOTAL;
	r = p->sort ? code_blocks_parse_sort(p->sort, &p->opts.sort, e) : 0;
	p->opts.columns = p->columns ? &p->chosen : NULL;
	if (!r && p->columns)
		r = code_blocks_parse_columns(p->columns, &p->chosen, e);
	if (r)
		return r;
	p->opts.blocks = p->blocks = code_blocks_new();
	return p->blocks ? 1 : err_set(e, -ENOMEM, "no memory to sum up %s", p->path);
}

/* By what rows are summed up, of those that --group names. */
static unsigned row_keys(struct report *p, unsigned keys)
{
	if (keys == AGGREGATE_MODULE && !p->sort && !p->columns && !p->sides && !p->samples &&
	    p->format == FORMAT_TABLE) {
		p->opts.modules = true;
		keys |= AGGREGATE_PHASE;
	}
	if (p->samples)
		keys |= AGGREGATE_SAMPLES;
	if (p->sides)
		keys = (keys & ~(unsigned)AGGREGATE_PHASE) | AGGREGATE_SIDES;
	return keys;
}

/* What rows by `keys` may have, as the trace is not read yet: for --columns and --sort. */
static unsigned keys_with_all_that_may_be(const struct report *p, unsigned keys)
{
	const unsigned flops = p->sides || p->samples || p->gaps || p->graph ? 0 : AGGREGATE_FLOPS;
	const unsigned devices = flops && !(keys & AGGREGATE_NO_ACTIVITIES)
				     ? AGGREGATE_ACTIVITIES | AGGREGATE_MEMORY |
					   AGGREGATE_NET_MEMORY | AGGREGATE_DEVICE_MEMORY
				     : 0;
	return keys | AGGREGATE_RANKS | devices | flops;
}

static int prepare_columns(struct report *p, unsigned can, struct err *e)
{
	p->opts.columns = &p->chosen;
	return report_columns_parse(p->columns, can, &p->chosen, e);
}

static int allocate_sums(struct report *p, unsigned keys, struct err *e)
{
	const unsigned workers = p->graph || p->samples ? 0 : AGGREGATE_WORKERS;
	const bool of_calls = trace_choice_of_calls(&p->choice),
		   has_steps = !of_calls && !p->graph && !(p->blocks && report_is_of_span(p));
	keys |= p->blocks ? 0 : report_columns_keys(&p->chosen) & AGGREGATE_FLOPS;
	if (p->opts.sort == REPORT_BY_FLOPS || p->opts.sort == REPORT_BY_FLOP_RATE)
		keys |= AGGREGATE_FLOPS;
	keys |= (of_calls ? AGGREGATE_PART : 0) | (p->choice.ops ? AGGREGATE_MARKS : 0);
	p->sum = aggregate_new(keys | AGGREGATE_STEADY | workers);
	p->gap_sum = p->gaps ? aggregate_new(AGGREGATE_LINE | workers) : NULL;
	p->tree = p->graph ? call_tree_new() : NULL;
	p->overflow = overflow_new();
	p->steps = has_steps ? breakdown_new() : NULL;
	if (!p->sum || !p->overflow || (has_steps && !p->steps) || (p->gaps && !p->gap_sum) ||
	    (p->graph && !p->tree))
		return err_set(e, -ENOMEM, "no memory to sum up %s", p->path);
	return 0;
}

int report_prepare(struct report *p, struct err *e)
{
	unsigned keys = AGGREGATE_DEFAULT;
	int r = check_together(p, e);
	r = r ? r : check_frames(p, e);
	r = r ? r : check_per_step(p, e);
	int others = r ? r : prepare_kernels(p, e);
	others = others ? others : prepare_blocks(p, e);
	if (others < 0)
		return others;
	if (p->group && !others)
		r = group_parse(p->group, &keys, e);
	keys = row_keys(p, keys);
	const unsigned can = keys_with_all_that_may_be(p, keys);
	if (!r && p->sort && !others)
		r = group_parse_sort(p->sort, can, &p->opts.sort, e);
	if (p->sides && !p->sort)
		p->opts.sort = REPORT_BY_TOTAL;
	if (p->format == FORMAT_TABLE && !p->blocks)
		p->opts.percent_limit = REPORT_PERCENT_LIMIT;
	if (!r && p->percent_limit)
		r = report_parse_percent(p->percent_limit, &p->opts.percent_limit, e);
	if (!r && p->columns && !p->blocks)
		r = prepare_columns(p, can, e);
	return r ? r : allocate_sums(p, keys, e);
}

int report_check_collectives(const struct report *p, struct err *e)
{
	const char *other = not_of_collectives(p);
	return other ? refuse(p->skew ? "--skew" : "--collectives", other, e) : 0;
}
