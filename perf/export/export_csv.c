#include "perf/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/table.h"
#include "perf/events/print_event.h"
#include "perf/export/internal.h"

/* The backward nodes of one forward op. */
struct export_backward {
	uint64_t ns;
	uint64_t last; /* offset of its last node in the spill file, plus 1 */
	uint32_t nodes;
};

/* A node in the spill file, followed by its two JSON texts with their NULs. */
struct spilled {
	uint64_t before;	  /* the op's previous node, like export_backward.last */
	uint32_t inputs, outputs; /* lengths in bytes */
};

struct export
{
	FILE *f;
	struct export_in *in;
};

static struct export_backward *backward_of(struct export_notes *n, uint64_t forward_id, bool add)
{
	bool is_new = false;
	int64_t i = add ? intern(&n->ids, &forward_id, sizeof(forward_id), &is_new)
			: intern_find(&n->ids, &forward_id, sizeof(forward_id));
	if (i < 0)
		return NULL;
	if (i >= n->size) {
		uint32_t size = n->size ? n->size * 2 : 1024;
		struct export_backward *grown = realloc(n->backwards, size * sizeof(*grown));
		if (!grown)
			return NULL;
		n->backwards = grown;
		n->size = size;
	}
	if (is_new)
		n->backwards[i] = (struct export_backward){0};
	return &n->backwards[i];
}

/* {"node": ..., "values": [...]}; the caller frees it. NULL if out of memory. */
static char *node_text(const struct op_event *ev, json_values_fn *values)
{
	char *text = NULL;
	size_t len;
	struct json_out j = {.f = open_memstream(&text, &len)};
	if (!j.f)
		return NULL;
	json_open(&j, NULL, '{');
	json_text(&j, "node", ev->op->name);
	values(&j, "values", ev);
	json_close(&j, '}');
	if (fclose(j.f) == 0)
		return text;
	free(text);
	return NULL;
}

static int spill(struct export_notes *n, struct export_backward *b, const char *inputs,
		 const char *outputs)
{
	struct spilled s = {.before = b->last,
			    .inputs = (uint32_t)strlen(inputs) + 1,
			    .outputs = (uint32_t)strlen(outputs) + 1};
	if (fwrite(&s, sizeof(s), 1, n->spill) != 1 || fwrite(inputs, s.inputs, 1, n->spill) != 1 ||
	    fwrite(outputs, s.outputs, 1, n->spill) != 1)
		return -EIO;
	b->last = n->spill_len + 1;
	b->nodes++;
	n->spill_len += sizeof(s) + s.inputs + s.outputs;
	return 0;
}

static int keep_node(struct export_notes *n, const struct op_event *ev)
{
	struct export_backward *b = backward_of(n, ev->forward_id, true);
	char *inputs = node_text(ev, json_results), *outputs = node_text(ev, json_args);
	int r = b && inputs && outputs ? spill(n, b, inputs, outputs) : -ENOMEM;
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

int export_csv_note(void *arg, const struct trace_item *item, struct err *e)
{
	struct export_in *in = arg;
	if (item->type != TRACE_EVENT || !is_node(&item->event) || !item->event.forward_id)
		return 0;
	struct export_notes *n = export_notes(in);
	int r = !n ? -ENOMEM : n->spill || (n->spill = file_unnamed()) ? 0 : -errno;
	r = r ? r : keep_node(n, &item->event);
	if (!r)
		return 0;
	err_set(e, r, "cannot keep the backward of %s aside: %s", in->path, strerror(-r));
	return err_hint(e, "make room in " P_tmpdir ", or make it writable");
}

static char *read_text(FILE *spill, uint64_t at, uint32_t len)
{
	char *text = malloc(len);
	if (text && fseeko(spill, (off_t)at, SEEK_SET) == 0 && fread(text, len, 1, spill) == 1)
		return text;
	free(text);
	return NULL;
}

/* The texts of an op's nodes as one CSV field with a JSON array: grad_inputs if `inputs`, else
 * grad_outputs. */
static int put_nodes(struct export *x, const struct export_backward *b, bool inputs)
{
	FILE *spill = x->in->notes->spill;
	char **texts = calloc(b->nodes + 1, sizeof(*texts));
	uint64_t at = b->last;
	int r = texts ? 0 : -ENOMEM;
	for (uint32_t i = b->nodes; i-- && !r;) {
		struct spilled s;
		if (fseeko(spill, (off_t)(at - 1), SEEK_SET) || fread(&s, sizeof(s), 1, spill) != 1)
			r = -EIO;
		else if (!(texts[i] = read_text(spill, at - 1 + sizeof(s) + (inputs ? 0 : s.inputs),
						inputs ? s.inputs : s.outputs)))
			r = -EIO;
		else
			at = s.before;
	}
	char *all = NULL;
	size_t len;
	struct json_out j = {.f = r ? NULL : open_memstream(&all, &len)};
	if (j.f) {
		json_open(&j, NULL, '[');
		for (uint32_t i = 0; i < b->nodes; i++)
			json_format(&j, NULL, "%s", texts[i]);
		json_close(&j, ']');
		fclose(j.f);
		csv_quoted(x->f, all);
	}
	free(all);
	for (uint32_t i = 0; texts && i < b->nodes; i++)
		free(texts[i]);
	free(texts);
	return r ? r : j.f ? 0 : -ENOMEM;
}

static int put_json(struct export *x, const struct op_event *ev, json_values_fn *values)
{
	char *text = NULL;
	size_t len;
	struct json_out j = {.f = open_memstream(&text, &len)};
	if (!j.f)
		return -ENOMEM;
	values(&j, NULL, ev);
	fclose(j.f);
	csv_quoted(x->f, text);
	free(text);
	return 0;
}

static void put_ms(struct export *x, uint64_t ns)
{
	fprintf(x->f, ",%.8f", (double)ns / 1e6);
}

/* The row of a forward or recomputed op, with its backward nodes (NULL: none ran). */
static int put_forward(struct export *x, const struct op_event *ev, const struct export_backward *b)
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
	fprintf(x->f, ",%s\n", op_phase_names[ev->phase]);
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
	fprintf(x->f, ",%s\n", op_phase_names[ev->phase]);
	return r;
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct export *x = arg;
	const struct op_event *ev = &item->event;
	struct export_notes *n = x->in->notes;
	if (item->type != TRACE_EVENT)
		return 0;
	bool lone = is_node(ev) && !ev->forward_id;
	if ((!lone && (is_node(ev) || ev->phase == PHASE_BACKWARD)) ||
	    !trace_query_chooses(x->in->query, ev))
		return 0;
	int r = lone ? put_lone_node(x, ev)
		     : put_forward(x, ev, n ? backward_of(n, ev->id, false) : NULL);
	return r ? r : ferror(x->f) ? -EIO : 0;
}

int export_csv(struct export_in *in, FILE *f, struct err *e)
{
	struct export x = {.f = f, .in = in};
	fputs("name,forward_id,forward_elapsed,backward_elapsed,unit,input,output,grad_inputs,grad_"
	      "outputs,phase\n",
	      f);
	return export_each(in, put_item, &x, e);
}
