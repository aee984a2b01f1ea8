#include "perf/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/table.h"
#include "perf/events/json_event.h"
#include "perf/trace/trace_read.h"

/* The backward of one forward op. */
struct backward {
	uint64_t ns;
	uint64_t last; /* offset of its last node in the spill file, plus 1 */
	uint32_t nodes;
};

/* A node in the spill file, followed by its two JSON texts with their NULs. */
struct spilled {
	uint64_t before;	  /* the op's previous node, as backward.last */
	uint32_t inputs, outputs; /* lengths in bytes */
};

struct export
{
	FILE *f, *spill;
	uint64_t spill_len;
	struct intern ids; /* forward id to index into backwards */
	struct backward *backwards;
	uint32_t size;
	struct export_in *in;
};

static struct backward *backward_of(struct export *x, uint64_t forward_id, bool add)
{
	bool is_new = false;
	int64_t i = add ? intern(&x->ids, &forward_id, sizeof(forward_id), &is_new)
			: intern_find(&x->ids, &forward_id, sizeof(forward_id));
	if (i < 0)
		return NULL;
	if (i >= x->size) {
		uint32_t size = x->size ? x->size * 2 : 1024;
		struct backward *grown = realloc(x->backwards, size * sizeof(*grown));
		if (!grown)
			return NULL;
		x->backwards = grown;
		x->size = size;
	}
	if (is_new)
		x->backwards[i] = (struct backward){0};
	return &x->backwards[i];
}

/* {"node": ..., "values": [...]}; the caller frees it. NULL without memory. */
static char *node_text(const struct op_event *ev, void (*values)(FILE *, const struct op_event *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	fputs("{\"node\":", f);
	json_write_string(f, ev->op->name, strlen(ev->op->name));
	fputs(",\"values\":", f);
	values(f, ev);
	putc('}', f);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static int spill(struct export *x, struct backward *b, const char *inputs, const char *outputs)
{
	struct spilled s = {.before = b->last,
			    .inputs = (uint32_t)strlen(inputs) + 1,
			    .outputs = (uint32_t)strlen(outputs) + 1};
	if (fwrite(&s, sizeof(s), 1, x->spill) != 1 || fwrite(inputs, s.inputs, 1, x->spill) != 1 ||
	    fwrite(outputs, s.outputs, 1, x->spill) != 1)
		return -EIO;
	b->last = x->spill_len + 1;
	b->nodes++;
	x->spill_len += sizeof(s) + s.inputs + s.outputs;
	return 0;
}

static int keep_node(struct export *x, const struct op_event *ev)
{
	struct backward *b = backward_of(x, ev->forward_id, true);
	char *inputs = node_text(ev, json_results), *outputs = node_text(ev, json_args);
	int r = b && inputs && outputs ? spill(x, b, inputs, outputs) : -ENOMEM;
	if (b && ev->end_ns > ev->start_ns)
		b->ns += ev->end_ns - ev->start_ns;
	free(inputs);
	free(outputs);
	return r;
}

static bool is_node(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD;
}

/* First pass: collect the backward nodes. */
static int gather(struct export *x, const char *path, struct err *e)
{
	struct trace_reader *reader;
	struct trace_item item;
	int n = trace_reader_open(path, &reader, e), r = 0;
	if (n)
		return n;
	while (!r && (n = trace_read_next(reader, &item, NULL)) > 0)
		if (item.type == TRACE_EVENT && is_node(&item.event) && item.event.forward_id)
			r = keep_node(x, &item.event);
	trace_reader_close(reader);
	if (r) {
		err_set(e, r, "cannot buffer the backward of %s: %s", path, strerror(-r));
		return err_hint(e, "make room in " P_tmpdir);
	}
	return 0; /* the second pass reports how the file ends */
}

static char *read_text(struct export *x, uint64_t at, uint32_t len)
{
	char *text = malloc(len);
	if (text && fseeko(x->spill, (off_t)at, SEEK_SET) == 0 &&
	    fread(text, len, 1, x->spill) == 1)
		return text;
	free(text);
	return NULL;
}

/* The texts of an op's nodes as one CSV field with a JSON array: grad_inputs if `inputs`, else
 * grad_outputs. */
static int put_nodes(struct export *x, const struct backward *b, bool inputs)
{
	char **texts = calloc(b->nodes + 1, sizeof(*texts));
	uint64_t at = b->last;
	int r = texts ? 0 : -ENOMEM;
	for (uint32_t i = b->nodes; i-- && !r;) {
		struct spilled s;
		if (fseeko(x->spill, (off_t)(at - 1), SEEK_SET) ||
		    fread(&s, sizeof(s), 1, x->spill) != 1)
			r = -EIO;
		else if (!(texts[i] = read_text(x, at - 1 + sizeof(s) + (inputs ? 0 : s.inputs),
						inputs ? s.inputs : s.outputs)))
			r = -EIO;
		else
			at = s.before;
	}
	char *all = NULL;
	size_t len;
	FILE *m = r ? NULL : open_memstream(&all, &len);
	if (m) {
		for (uint32_t i = 0; i < b->nodes; i++)
			fprintf(m, "%c%s", i ? ',' : '[', texts[i]);
		putc(']', m);
		fclose(m);
		csv_quoted(x->f, all);
	}
	free(all);
	for (uint32_t i = 0; texts && i < b->nodes; i++)
		free(texts[i]);
	free(texts);
	return r ? r : m ? 0 : -ENOMEM;
}

static int put_json(struct export *x, const struct op_event *ev,
		    void (*values)(FILE *, const struct op_event *))
{
	char *text = NULL;
	size_t len;
	FILE *m = open_memstream(&text, &len);
	if (!m)
		return -ENOMEM;
	values(m, ev);
	fclose(m);
	csv_quoted(x->f, text);
	free(text);
	return 0;
}

static void put_ms(struct export *x, uint64_t ns)
{
	fprintf(x->f, ",%.8f", (double)ns / 1e6);
}

/* The row of a forward op; b: its backward, or NULL. */
static int put_forward(struct export *x, const struct op_event *ev, const struct backward *b)
{
	csv_text(x->f, ev->op->name);
	fprintf(x->f, ",%" PRIu64, ev->id);
	if (ev->end_ns)
		put_ms(x, ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0);
	else
		putc(',', x->f);
	if (b)
		put_ms(x, b->ns);
	else
		putc(',', x->f);
	fputs(",ms,", x->f);
	int r = put_json(x, ev, json_args);
	putc(',', x->f);
	if (!r)
		r = put_json(x, ev, json_results);
	putc(',', x->f);
	if (!r && b)
		r = put_nodes(x, b, true);
	putc(',', x->f);
	if (!r && b)
		r = put_nodes(x, b, false);
	putc('\n', x->f);
	return r;
}

static int put_lone_node(struct export *x, const struct op_event *ev)
{
	csv_text(x->f, ev->op->name);
	fputs(",,", x->f);
	if (ev->end_ns)
		put_ms(x, ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0);
	else
		putc(',', x->f);
	fputs(",ms,,,", x->f);
	int r = put_json(x, ev, json_results);
	putc(',', x->f);
	if (!r)
		r = put_json(x, ev, json_args);
	putc('\n', x->f);
	return r;
}

static int put_event(struct export *x, const struct op_event *ev)
{
	bool lone = is_node(ev) && !ev->forward_id;
	int r = 0;
	if ((!lone && (is_node(ev) || ev->phase != PHASE_FORWARD)) || !export_chooses(x->in, ev))
		return 0;
	if (lone)
		r = put_lone_node(x, ev);
	else
		r = put_forward(x, ev, backward_of(x, ev->id, false));
	return r ? r : ferror(x->f) ? -EIO : 0;
}

/* Second pass: write the rows. */
static int put_all(struct export *x, const char *path, struct err *e)
{
	struct trace_reader *reader;
	struct trace_item item;
	int n = trace_reader_open(path, &reader, e), r = 0;
	if (n)
		return n;
	struct trace_order *order = trace_order_new(reader, false);
	fputs("name,forward_id,forward_elapsed,backward_elapsed,unit,input,output,grad_inputs,grad_"
	      "outputs\n",
	      x->f);
	while (order && !r && (n = trace_order_next(order, &item, e)) > 0) {
		if (item.type == TRACE_LOST)
			x->in->lost += item.lost.count;
		else if (item.type == TRACE_EVENT)
			r = put_event(x, &item.event);
	}
	if (!order)
		r = -ENOMEM;
	trace_order_free(order);
	trace_reader_close(reader);
	return r ? err_set(e, r, "cannot write the rows: %s", strerror(-r)) : n;
}

int export_csv(struct export_in *in, FILE *f, struct err *e)
{
	struct export x = {.f = f, .in = in, .spill = tmpfile()};
	int r;
	in->lost = 0;
	if (!x.spill) {
		int code = -errno;
		err_set(e, code, "cannot open a temporary file: %s", strerror(-code));
		return err_hint(e, "make room in " P_tmpdir ", or make it writable");
	}
	r = gather(&x, in->path, e);
	if (!r)
		r = put_all(&x, in->path, e);
	fclose(x.spill);
	intern_free(&x.ids);
	free(x.backwards);
	return r;
}
