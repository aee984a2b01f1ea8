/* report --collectives and --skew: read twice, first all calls, then those that are asked for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"
#include "perf/collectives/collectives.h"
#include "perf/internal.h"

/* Takes an item of what is asked for. 0 or -ENOMEM. */
typedef int take_fn(void *arg, const struct trace_item *item);

/* Returns like trace_query_next at the end of the file. */
static int read_all(struct trace_query *q, take_fn *fn, void *arg, struct err *e)
{
	struct trace_item item;
	int n, r;
	while ((n = trace_query_next(q, &item, e)) > 0)
		if ((r = fn(arg, &item)))
			return err_set(e, r, "no memory for the collectives");
	return n;
}

static int see_item(void *arg, const struct trace_item *item)
{
	return collectives_see(arg, item);
}

static int choose_item(void *arg, const struct trace_item *item)
{
	if (item->type == TRACE_EVENT)
		collectives_choose(arg, &item->event);
	return 0;
}

static int see_between(void *arg, const struct trace_item *item)
{
	if (item->type == TRACE_USAGE)
		skew_see_usage(arg, &item->usage, item->rank1);
	return item->type == TRACE_EVENT ? skew_see(arg, &item->event) : 0;
}

struct reading {
	const struct collectives_report *o;
	struct collectives *all;
	struct skew *skew;
	struct trace_query *chosen; /* of skew: keeps the frames of its rows */
};

static int no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "no memory for the collectives");
}

/* Read again, now only what is asked for. Of a damaged file there is what there is, which the first
 * time told. */
static int read_chosen(struct reading *x, take_fn *fn, void *arg, struct err *e)
{
	const struct trace_query_opts opts = {.choice = x->o->choice, .kinds = TRACE_OPS};
	if (x->chosen)
		trace_query_close(x->chosen);
	x->chosen = NULL;
	int r = trace_query(x->o->path, &opts, &x->chosen, e);
	r = r ? r : read_all(x->chosen, fn, arg, e);
	return r == -EAGAIN || r == -ENODATA || r == -EBADMSG ? 0 : r;
}

/* Calls are numbered from all of the trace, then those that are asked for are counted. */
static int read_again(struct reading *x, struct err *e)
{
	const struct trace_choice *c = &x->o->choice;
	bool chooses = c->ops || c->not_ops || c->when || c->time || c->step || c->rank;
	if (chooses)
		collectives_choose_none(x->all);
	int r = chooses ? read_chosen(x, choose_item, x->all, e) : 0;
	if (r || !x->o->skew)
		return r;
	x->skew = skew_new(x->all);
	return x->skew ? read_chosen(x, see_between, x->skew, e) : no_memory(e);
}

static int print(const struct reading *x)
{
	const struct collectives_report *o = x->o;
	const struct terminal terminal = terminal_of(stdout);
	const struct collectives_opts opts = {.limit = o->limit, .terminal = terminal};
	if (o->json)
		return x->skew ? skew_print_json(x->skew, stdout)
			       : collectives_print_json(x->all, stdout);
	if (o->csv)
		return collectives_print_csv(x->all, stdout);
	pager_start();
	return x->skew ? skew_print(x->skew, stdout, &terminal)
		       : collectives_print(x->all, stdout, &opts);
}

/* Of a damaged file what there is. Returns like trace_query_next at the end of the file. */
static int show(struct reading *x, struct trace_query *q, struct err *e)
{
	struct err again = {0};
	int end = read_all(q, see_item, x->all, e);
	int r = end == -ENOMEM ? end : collectives_match(x->all);
	if (r)
		return no_memory(e);
	if ((r = read_again(x, &again))) {
		*e = again;
		return r;
	}
	if (collectives_sum(x->all))
		return no_memory(e);
	r = print(x);
	if (!r && fflush(stdout))
		r = -errno;
	pager_wait();
	return r ? err_set(e, r, "cannot write the report: %s", strerror(-r)) : end;
}

int report_collectives(const struct collectives_report *o)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct reading x = {.o = o, .all = collectives_new()};
	struct trace_query *q = NULL;
	struct err e = {0};
	int wrong = trace_choice_check(&o->choice, &e);
	int r = wrong ? wrong : !x.all ? no_memory(&e) : trace_query(o->path, &opts, &q, &e);
	r = r ? r : show(&x, q, &e);
	skew_free(x.skew);
	collectives_free(x.all);
	if (x.chosen)
		trace_query_close(x.chosen);
	int status = trace_query_end(q, 0, r, &e);
	return wrong ? EXIT_USAGE : status;
}
