#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/export/html/internal.h"

/* 0 or -ENOMEM; page_names_close in either case. */
static int page_names_open(struct page_names *n)
{
	*n = (struct page_names){0};
	n->out.f = open_memstream(&n->text, &n->len);
	return n->out.f ? 0 : -ENOMEM;
}

int64_t page_name(struct page_names *n, const char *text)
{
	bool is_new;
	int64_t id = intern(&n->ids, text, (uint32_t)strlen(text), &is_new);
	if (id >= 0 && is_new) {
		json_line(&n->out);
		json_text(&n->out, NULL, text);
	}
	return id;
}

static void page_names_close(struct page_names *n)
{
	if (n->out.f)
		fclose(n->out.f);
	free(n->text);
	intern_free(&n->ids);
}

/* The page up to its data, and what follows it; see the Makefile. */
extern const char _binary_page_head_start[], _binary_page_head_end[];
extern const char _binary_page_tail_start[], _binary_page_tail_end[];

enum { PAGE_MAX = 5000000, OPS_WHOLE = 30000 };

struct page {
	const struct export_in *in;
	struct page_steps steps;
	struct page_sums *sums;
	struct page_timeline *timeline;
	struct call_tree *beside, *ran, *samples, *devices;
	bool has_ops, has_samples, has_activities;
	const char *event; /* of the samples */
};

static int no_memory(const struct export_in *in, struct err *e)
{
	return err_set(e, -ENOMEM, "no memory to sum up %s", in->path);
}

static int add_event(struct page *p, const struct op_event *ev)
{
	if (export_is_mark(p->in, ev))
		return page_timeline_add_mark(p->timeline, ev);
	p->has_ops = true;
	int r = call_tree_add(p->beside, ev, CALL_BESIDE);
	r = r ? r : call_tree_add(p->ran, ev, CALL_MIXED);
	return r ? r : page_timeline_add(p->timeline, ev);
}

static int add_sum(struct page *p, const struct op_sum *s)
{
	p->has_ops = true;
	int r = call_tree_add_sum(p->beside, s, CALL_BESIDE);
	return r ? r : call_tree_add_sum(p->ran, s, CALL_MIXED);
}

static int add_activity(struct page *p, const struct activity *a)
{
	p->has_activities = true;
	int r = call_tree_add_activity(p->devices, a);
	return r ? r : page_timeline_add_activity(p->timeline, a);
}

static int add_item(void *arg, const struct trace_item *item)
{
	struct page *p = arg;
	if (item->type == TRACE_EVENT)
		return add_event(p, &item->event);
	if (item->type == TRACE_SUM)
		return add_sum(p, &item->sum);
	if (item->type == TRACE_ACTIVITY)
		return add_activity(p, &item->activity);
	if (item->type == TRACE_THREAD)
		return page_timeline_thread(p->timeline, item->thread.pid, item->thread.tid,
					    item->thread.name);
	if (item->type == TRACE_SAMPLING)
		p->event = item->sampling.event;
	if (item->type != TRACE_SAMPLE)
		return 0;
	p->has_samples = true;
	return call_tree_add_sample(p->samples, &item->sample, CALL_MIXED);
}

/* Steps and sums first: they say which steps are whole. Returns like trace_query_next at the end.
 */
static int read_trace(struct page *p, struct export_in *in, struct err *e)
{
	int r = in->choice->step_op ? 0 : page_steps_read(&p->steps, in, e);
	if (r)
		return r;
	p->sums = page_sums_read(in, &p->steps, e);
	if (!p->sums)
		return e->code;
	if (page_steps_choose(&p->steps, OPS_WHOLE))
		return no_memory(in, e);
	p->timeline = page_timeline_new(&p->steps);
	p->beside = call_tree_new();
	p->ran = call_tree_new();
	p->samples = call_tree_new();
	p->devices = call_tree_new();
	if (!p->timeline || !p->beside || !p->ran || !p->samples || !p->devices)
		return no_memory(in, e);
	r = export_each(in, add_item, p, e);
	return page_timeline_finish(p->timeline) ? no_memory(in, e) : r;
}

static int put_trees(const struct page *p, struct json_out *j, struct page_names *names,
		     size_t most)
{
	int r = 0;
	json_line(j);
	json_open(j, "flames", '{');
	if (p->has_ops)
		r = page_tree_json(p->beside, "beside", j, names, most);
	if (p->has_ops && !r)
		r = page_tree_json(p->ran, "ran", j, names, most);
	if (p->has_samples && !r)
		r = page_tree_json(p->samples, "samples", j, names, most);
	if (p->has_activities && !r)
		r = page_tree_json(p->devices, "devices", j, names, most);
	json_close(j, '}');
	return r;
}

static void put_choice(const struct export_in *in, struct json_out *j)
{
	const struct trace_choice *c = in->choice;
	const char *name = strrchr(in->path, '/');
	json_text(j, "file", name ? name + 1 : in->path);
	json_text(j, "when", c->when);
	json_text(j, "time", c->time);
	json_text(j, "step", c->step);
	json_u64(j, "lost", trace_query_lost(in->query));
}

static int put_data(struct page *p, FILE *f, const struct page_limits *limits)
{
	struct json_out j = {.f = f};
	struct page_names names;
	int r = page_names_open(&names);
	json_open(&j, NULL, '{');
	put_choice(p->in, &j);
	json_text(&j, "sampled_event", p->event);
	json_float(&j, "percent_limit", limits->percent_limit);
	r = r ? r : page_sums_json(p->sums, &j, limits);
	if (!r)
		page_steps_json(&p->steps, trace_query_origin(p->in->query), &j);
	r = r ? r : page_timeline_json(p->timeline, &j, &names, limits->slices);
	r = r ? r : put_trees(p, &j, &names, limits->nodes);
	json_line(&j);
	json_open(&j, "names", '[');
	if (!r && !fflush(names.out.f))
		fwrite(names.text, 1, names.len, f);
	json_close(&j, ']');
	json_close(&j, '}');
	page_names_close(&names);
	return r;
}

/* Within JSON "<" stands in strings alone. As an escape it cannot end the script element that the
 * data is in, nor open a comment there. */
static void put_escaped(FILE *f, const char *text, size_t len)
{
	const char *end = text + len, *next;
	for (; (next = memchr(text, '<', (size_t)(end - text))); text = next + 1) {
		fwrite(text, 1, (size_t)(next - text), f);
		fputs("\\u003c", f);
	}
	fwrite(text, 1, (size_t)(end - text), f);
}

static size_t between(const char *start, const char *end)
{
	return (size_t)(end - start);
}

static size_t page_size(const char *data, size_t len)
{
	size_t n = len + between(_binary_page_head_start, _binary_page_head_end) +
		   between(_binary_page_tail_start, _binary_page_tail_end);
	for (size_t i = 0; i < len; i++)
		n += data[i] == '<' ? strlen("\\u003c") - 1 : 0;
	return n;
}

/* The data, with as much as the page may have. The caller frees it. */
static int make_data(struct page *p, char **data, size_t *len)
{
	struct page_limits limits = {.nodes = 12000, .slices = 40000};
	for (;;) {
		FILE *f = open_memstream(data, len);
		if (!f)
			return -ENOMEM;
		int r = put_data(p, f, &limits);
		if (fclose(f) && !r)
			r = -ENOMEM;
		if (r || page_size(*data, *len) <= PAGE_MAX || limits.nodes < 2)
			return r;
		free(*data);
		*data = NULL;
		limits.nodes /= 2;
		limits.slices /= 2;
		limits.percent_limit = limits.percent_limit * 4 + 0.0001;
	}
}

static void page_free(struct page *p)
{
	page_steps_free(&p->steps);
	page_sums_free(p->sums);
	page_timeline_free(p->timeline);
	call_tree_free(p->beside);
	call_tree_free(p->ran);
	call_tree_free(p->samples);
	call_tree_free(p->devices);
}

int export_html(struct export_in *in, FILE *f, struct err *e)
{
	struct page p = {.in = in};
	char *data = NULL;
	size_t len = 0;
	int end = read_trace(&p, in, e), r = p.timeline ? make_data(&p, &data, &len) : end;
	if (r) {
		end = p.timeline ? no_memory(in, e) : end;
	} else {
		fwrite(_binary_page_head_start, 1,
		       between(_binary_page_head_start, _binary_page_head_end), f);
		put_escaped(f, data, len);
		fwrite(_binary_page_tail_start, 1,
		       between(_binary_page_tail_start, _binary_page_tail_end), f);
	}
	free(data);
	page_free(&p);
	return end;
}
