/* Stacks as flame graphs: folded, for other programs, and drawn. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/calls/call_tree.h"
#include "perf/export/export.h"

static int add_device_item(void *tree, const struct trace_item *item)
{
	return item->type == TRACE_ACTIVITY ? call_tree_add_activity(tree, &item->activity) : 0;
}

static int folded_add_item(void *arg, const struct trace_item *item)
{
	if (item->type == TRACE_SAMPLE)
		return call_tree_add_sample(arg, &item->sample, CALL_MIXED);
	if (item->type == TRACE_SUM)
		return call_tree_add_sum(arg, &item->sum, CALL_MIXED);
	return item->type == TRACE_EVENT ? call_tree_add(arg, &item->event, CALL_MIXED) : 0;
}

/* Write a name with ":" in place of ";", which separates frames. Spaces may stay: the number
 * follows the last one of a line. */
static void put_name(FILE *f, const char *name)
{
	char safe[2048];
	text_safe(safe, sizeof(safe), name);
	for (char *c = safe; *c; c++)
		putc(*c == ';' ? ':' : *c, f);
}

static void put_path(FILE *f, const struct call_node *nodes, uint32_t at)
{
	uint32_t path[1024];
	size_t n = 0;
	for (; at != CALL_TREE_ROOT && n < sizeof(path) / sizeof(path[0]); at = nodes[at].parent)
		path[n++] = at;
	while (n--) {
		put_name(f,
			 nodes[path[n]].is_op ? op_text(nodes[path[n]].name) : nodes[path[n]].name);
		if (n)
			putc(';', f);
	}
}

int export_folded(struct export_in *in, FILE *f, struct err *e)
{
	struct call_tree *t = call_tree_new();
	size_t n = 0;
	if (!t)
		return err_set(e, -ENOMEM, "no memory to read %s", in->path);
	int r = export_each(in, in->devices ? add_device_item : folded_add_item, t, e);
	const struct call_node *nodes = call_tree_nodes(t, &n);
	for (size_t i = 0; i < n; i++) {
		if (!nodes[i].self_ns)
			continue;
		put_path(f, nodes, (uint32_t)i);
		fprintf(f, " %" PRIu64 "\n", nodes[i].self_ns);
	}
	call_tree_free(t);
	return r;
}

/* Pixels. A frame narrower than NARROWEST thousandths is not drawn, one narrower than LABELLED has
 * no label. */
enum { WIDTH = 1400, MARGIN = 10, ROW = 18, HEAD = 34, LETTER = 7, LABELLED = 30, NARROWEST = 250 };

struct svg_box {
	double x, width;
	uint32_t depth;
};

struct svg {
	FILE *f;
	const struct call_node *nodes;
	struct svg_box *boxes;
	uint32_t *order; /* by parent, the longest first */
	size_t n, left_out;
	uint64_t whole_ns, left_out_ns;
	uint32_t depth;
	bool samples, devices, in_ns;
};

struct svg_input {
	struct call_tree *tree;
	bool samples, devices, in_cycles;
};

static int add_item(void *arg, const struct trace_item *item)
{
	struct svg_input *in = arg;
	if (in->devices)
		return add_device_item(in->tree, item);
	if (item->type == TRACE_SAMPLE) {
		in->samples = true;
		return call_tree_add_sample(in->tree, &item->sample, CALL_MIXED);
	}
	if (item->type == TRACE_SUM)
		return call_tree_add_sum(in->tree, &item->sum, CALL_BESIDE);
	if (item->type == TRACE_SAMPLING)
		in->in_cycles = item->sampling.event && !strcmp(item->sampling.event, "cycles");
	return item->type == TRACE_EVENT ? call_tree_add(in->tree, &item->event, CALL_BESIDE) : 0;
}

/* The outermost frames come first. */
static int compare_frames(const void *a, const void *b, void *nodes)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct call_node *x = &((const struct call_node *)nodes)[i];
	const struct call_node *y = &((const struct call_node *)nodes)[k];
	if (x->parent != y->parent)
		return x->parent + 1 < y->parent + 1 ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return (i > k) - (i < k);
}

/* A caller has a smaller index than what it calls, so its box is known by then. */
static void place_boxes(struct svg *s)
{
	const double narrowest = NARROWEST / 1000.0;
	double next = MARGIN;
	for (size_t i = 0; i < s->n; i++)
		s->whole_ns += s->nodes[i].parent == CALL_TREE_ROOT ? s->nodes[i].total_ns : 0;
	for (size_t i = 0; i < s->n; i++) {
		uint32_t at = s->order[i], parent = s->nodes[at].parent;
		bool is_top = parent == CALL_TREE_ROOT;
		struct svg_box *b = &s->boxes[at];
		if (!i || s->nodes[s->order[i - 1]].parent != parent)
			next = is_top ? MARGIN : s->boxes[parent].x;
		b->x = next;
		b->width = s->whole_ns ? (double)(WIDTH - 2 * MARGIN) *
					     (double)s->nodes[at].total_ns / (double)s->whole_ns
				       : 0;
		b->depth = is_top ? 0 : s->boxes[parent].depth + 1;
		next += b->width;
		if (b->width < narrowest) {
			s->left_out++;
			s->left_out_ns += is_top || s->boxes[parent].width >= narrowest
					      ? s->nodes[at].total_ns
					      : 0;
		} else if (b->depth > s->depth) {
			s->depth = b->depth;
		}
	}
}

static void put_text(FILE *f, const char *text)
{
	char safe[2048];
	text_safe(safe, sizeof(safe), text);
	for (const char *c = safe; *c; c++)
		switch (*c) {
		case '<':
			fputs("&lt;", f);
			break;
		case '&':
			fputs("&amp;", f);
			break;
		default:
			putc(*c, f);
		}
}

static void put_head(const struct svg *s)
{
	char whole[32], left[32], frames[48];
	int height = HEAD + ROW * ((int)s->depth + 1) + MARGIN;
	fprintf(
	    s->f,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
	    "%d\">\n<style>\n"
	    "text { font: 12px system-ui, sans-serif; fill: #1d2530; } rect { stroke: #fff; "
	    "stroke-width: 0.5; }\n"
	    ".b { fill: #fff; } .k0 { fill: #e3e7ec; } .k1 { fill: #9cc0ea; } .k2 { fill: #f0bd84; "
	    "} "
	    ".k3 { fill: #86cdc4; } .k4 { fill: #a5cfa0; }\n"
	    "@media (prefers-color-scheme: dark) { text { fill: #dde4ec; } rect { stroke: #12161c; "
	    "} .b { fill: #12161c; } .k0 { fill: #2a323d; } .k1 { fill: #2f5f9a; } .k2 { fill: "
	    "#9a5f22; } .k3 { fill: #24776c; } .k4 { fill: #3d6b3a; } }\n"
	    "</style>\n<rect class=\"b\" width=\"100%%\" height=\"100%%\"/>\n",
	    WIDTH, height, WIDTH, height);
	fprintf(s->f, "<text x=\"%d\" y=\"20\">", MARGIN);
	if (s->samples)
		fputs("samples of Python, native code and ops", s->f);
	else if (s->devices)
		fprintf(s->f, "time on devices, %s: by the ops that launched it",
			text_ns(whole, sizeof(whole), s->whole_ns));
	else
		fprintf(s->f, "time in ops, %s: forward (blue), backward beside it (orange)",
			text_ns(whole, sizeof(whole), s->whole_ns));
	if (s->left_out)
		fprintf(s->f, "; %s too narrow to draw%s%s",
			text_counted(frames, sizeof(frames), s->left_out, "frame"),
			s->in_ns ? ": " : "",
			s->in_ns ? text_ns(left, sizeof(left), s->left_out_ns) : "");
	fputs("</text>\n", s->f);
}

/* As much of the name as has room. */
static void put_label(const struct svg *s, const char *name, double x, double width, int y)
{
	char text[256];
	size_t room = (size_t)((width - LETTER) / LETTER);
	if (width < LABELLED)
		return;
	snprintf(text, sizeof(text), "%s", name);
	if (room + 1 < sizeof(text) && strlen(text) > room) {
		text[room ? room - 1 : 0] = '\0';
		text_drop_part(text);
		strcat(text, "…");
	}
	fprintf(s->f, "<text x=\"%.1f\" y=\"%d\">", x + 3, y + ROW - 5);
	put_text(s->f, text);
	fputs("</text>", s->f);
}

static void put_box(const struct svg *s, uint32_t at)
{
	const struct call_node *n = &s->nodes[at];
	const struct svg_box *b = &s->boxes[at];
	char total[32], calls[32];
	int y = HEAD + (int)b->depth * ROW;
	if (b->width < NARROWEST / 1000.0)
		return;
	fprintf(s->f, "<g><title>");
	put_text(s->f, n->name);
	fprintf(s->f, "\n%s%s%.1f %%", s->in_ns ? text_ns(total, sizeof(total), n->total_ns) : "",
		s->in_ns ? ", " : "", 100.0 * (double)n->total_ns / (double)s->whole_ns);
	if (n->calls)
		fprintf(s->f, ", %s",
			text_counted(calls, sizeof(calls), n->calls,
				     s->samples	  ? "sample"
				     : s->devices ? "run"
						  : "call"));
	fprintf(s->f,
		"</title><rect class=\"k%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>",
		n->is_op ? 1 + n->phase : 0, b->x, y, b->width, ROW - 1);
	put_label(s, n->name, b->x, b->width, y);
	fputs("</g>\n", s->f);
}

static int draw(FILE *f, const struct svg_input *in)
{
	struct svg s = {.f = f,
			.samples = in->samples,
			.devices = in->devices,
			.in_ns = !in->samples || !in->in_cycles};
	s.nodes = call_tree_nodes(in->tree, &s.n);
	s.boxes = calloc(s.n + 1, sizeof(*s.boxes));
	s.order = calloc(s.n + 1, sizeof(*s.order));
	int r = s.boxes && s.order ? 0 : -ENOMEM;
	if (!r) {
		for (size_t i = 0; i < s.n; i++)
			s.order[i] = (uint32_t)i;
		qsort_r(s.order, s.n, sizeof(*s.order), compare_frames, (void *)s.nodes);
		place_boxes(&s);
		put_head(&s);
		for (size_t i = 0; i < s.n; i++)
			put_box(&s, (uint32_t)i);
		fputs("</svg>\n", f);
	}
	free(s.boxes);
	free(s.order);
	return r;
}

int export_svg(struct export_in *in, FILE *f, struct err *e)
{
	struct svg_input input = {.tree = call_tree_new(), .devices = in->devices};
	if (!input.tree)
		return err_set(e, -ENOMEM, "no memory to read %s", in->path);
	int r = export_each(in, add_item, &input, e);
	if (draw(f, &input))
		r = err_set(e, -ENOMEM, "no memory to draw %s", in->path);
	call_tree_free(input.tree);
	return r;
}
