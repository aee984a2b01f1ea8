#include "tui/model/view_internal.h"

static double percent(uint64_t part, uint64_t whole)
{
	return part >= whole ? 100 : 100.0 * (double)part / (double)whole;
}

static double ops_per_s(const struct view *v)
{
	enum { IDLE_NS = 2000000000 };
	if (v->now_ns > v->last_ns + IDLE_NS || v->last_ns == v->first_ns)
		return 0;
	if (v->ops_per_s > 0)
		return v->ops_per_s;
	return (double)v->second.ops * 1e9 / (double)(v->last_ns - v->first_ns);
}

enum { LOOKS_LEAST = 20 };

static uint64_t looks_of(const struct off_op_part *p)
{
	return p->ran + p->waited;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* Little time may have no looks: that it waited then changes no figure that is shown. */
static bool is_looked_at(double percent, const struct off_op_part *p)
{
	return percent < 0.5 || looks_of(p) >= LOOKS_LEAST;
}

static void tell_outside(const struct off_op *o, struct view_head *out)
{
	const struct off_op_part *p = &o->python, *n = &o->other;
	out->python_ran = out->other_ran = out->waited = -1;
	out->python = out->outside * share(p->ns, p->ns + n->ns);
	out->other = out->outside - out->python;
	if (!looks_of(p) && !looks_of(n))
		return;
	if (!is_looked_at(out->python, p) || !is_looked_at(out->other, n))
		return;
	out->python_ran = out->python * share(p->ran, looks_of(p));
	out->other_ran = out->other * share(n->ran, looks_of(n));
	out->waited = out->outside - out->python_ran - out->other_ran;
}

void view_head(const struct view *v, struct view_head *out)
{
	uint64_t ns;
	*out = (struct view_head){.target = v->targets ? &v->target : NULL,
				  .targets = v->targets,
				  .stats = v->has_stats ? &v->stats : NULL,
				  .lost = v->lost,
				  .steps = &v->steps,
				  .in_ops = -1,
				  .outside = -1,
				  .python_ran = -1,
				  .probes = -1};
	aggregate_totals(grouping_sum(view_shown(v, &ns)), &out->totals);
	out->wall_ns = v->last_ns - v->first_ns;
	out->ops_per_s = ops_per_s(v);
	if (out->totals.observed_ns) {
		out->in_ops = percent(out->totals.self_ns, out->totals.observed_ns);
		out->outside = 100 - out->in_ops;
		tell_outside(view_shown_outside(v), out);
	}
	const struct cost *from = &v->costs[v->interval ? 1 : 0], *to = &v->costs[2];
	if (to->probe_ns > from->probe_ns && to->observed_ns > from->observed_ns)
		out->probes =
		    percent(to->probe_ns - from->probe_ns, to->observed_ns - from->observed_ns);
}
