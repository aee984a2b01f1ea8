#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/table.h"
#include "perf/calls/call_tree.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"

struct profile_thread {
	int64_t last_us;
	uint8_t *told; /* by call tree node: already written */
	size_t room;
};

struct export_profile {
	struct call_tree *tree;
	struct intern ids; /* of threads */
	struct profile_thread *threads;
	size_t threads_room;
};

struct export_profile *export_profile_new(void)
{
	struct export_profile *p = calloc(1, sizeof(*p));
	if (p)
		p->tree = call_tree_new();
	if (p && p->tree)
		return p;
	free(p);
	return NULL;
}

void export_profile_free(struct export_profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->ids.used && i < p->threads_room; i++)
		free(p->threads[i].told);
	call_tree_free(p->tree);
	intern_free(&p->ids);
	free(p->threads);
	free(p);
}

/* Open an event, up to its arguments. The profile of thread `number` has id number + 1. */
static void open_event(struct json_out *j, const char *name, const struct sample *s, int64_t number,
		       int64_t us)
{
	json_line(j);
	json_open(j, NULL, '{');
	json_text(j, "ph", "P");
	json_i64(j, "pid", s->pid);
	json_i64(j, "tid", s->tid);
	json_i64(j, "ts", us);
	json_text(j, "cat", "disabled-by-default-v8.cpu_profiler");
	json_text(j, "name", name);
	json_format(j, "id", "\"0x%" PRIx64 "\"", number + 1);
	json_open(j, "args", '{');
	json_open(j, "data", '{');
}

static void close_event(struct json_out *j)
{
	for (int i = 0; i < 3; i++)
		json_close(j, '}');
}

/* The sample's thread and its index; begins its profile if it is new. NULL if out of memory. */
static struct profile_thread *thread_of(struct export_profile *p, struct json_out *j,
					const struct sample *s, int64_t us, int64_t *number)
{
	int32_t key[2] = {s->pid, s->tid};
	bool is_new;
	*number = intern(&p->ids, key, sizeof(key), &is_new);
	if (*number < 0 ||
	    array_grow(&p->threads, &p->threads_room, (size_t)*number + 1, sizeof(*p->threads)))
		return NULL;
	if (is_new) {
		p->threads[*number] = (struct profile_thread){.last_us = us};
		open_event(j, "Profile", s, *number, us);
		json_i64(j, "startTime", us);
		close_event(j);
	}
	return &p->threads[*number];
}

static void put_node(struct json_out *j, const struct call_node *n, uint32_t number)
{
	json_open(j, NULL, '{');
	json_u64(j, "id", number + 1);
	if (n->parent != CALL_TREE_ROOT)
		json_u64(j, "parent", n->parent + 1);
	json_open(j, "callFrame", '{');
	json_text(j, "functionName", n->name);
	json_text(j, "scriptId", "0");
	json_text(j, "url", "");
	json_i64(j, "lineNumber", -1);
	json_i64(j, "columnNumber", -1);
	json_close(j, '}');
	json_close(j, '}');
}

/* Write the nodes from the root to `node` that the thread's profile lacks, parents first. */
static int put_nodes(struct export_profile *p, struct profile_thread *t, struct json_out *j,
		     uint32_t node)
{
	size_t n, old = t->room;
	const struct call_node *nodes = call_tree_nodes(p->tree, &n);
	if (array_grow(&t->told, &t->room, n, 1))
		return -ENOMEM;
	if (t->room > old)
		memset(t->told + old, 0, t->room - old);
	uint32_t *path = NULL;
	size_t room = 0, depth = 0;
	int r = 0;
	for (uint32_t i = node; !r && i != CALL_TREE_ROOT && !t->told[i]; i = nodes[i].parent) {
		r = array_grow(&path, &room, depth + 1, sizeof(*path));
		if (!r)
			path[depth++] = i;
	}
	for (size_t i = depth; i-- && !r;) {
		put_node(j, &nodes[path[i]], path[i]);
		t->told[path[i]] = 1;
	}
	free(path);
	return r;
}

int export_profile_add(struct export_profile *p, struct json_out *j, const struct sample *s,
		       int64_t us)
{
	uint32_t node;
	int64_t number;
	int r = call_tree_sample_node(p->tree, s, CALL_MIXED, &node);
	struct profile_thread *t = r ? NULL : thread_of(p, j, s, us, &number);
	if (!t)
		return -ENOMEM;
	open_event(j, "ProfileChunk", s, number, us);
	json_open(j, "cpuProfile", '{');
	json_open(j, "nodes", '[');
	r = put_nodes(p, t, j, node);
	json_close(j, ']');
	json_open(j, "samples", '[');
	json_u64(j, NULL, node + 1);
	json_close(j, ']');
	json_close(j, '}');
	json_open(j, "timeDeltas", '[');
	json_i64(j, NULL, us - t->last_us);
	json_close(j, ']');
	json_u64(j, "weight", s->weight);
	close_event(j);
	t->last_us = us;
	return r;
}

static int samples_add_item(void *arg, const struct trace_item *item)
{
	return item->type == TRACE_SAMPLE ? call_tree_add_sample(arg, &item->sample, CALL_MIXED)
					  : 0;
}

/* The frames of a node, outermost first; frames are numbered by name_id. */
static void put_path(struct json_out *j, const struct call_node *nodes, uint32_t at)
{
	uint32_t path[1024] = {0};
	size_t n = 0;
	for (; at != CALL_TREE_ROOT && n < sizeof(path) / sizeof(path[0]); at = nodes[at].parent)
		path[n++] = nodes[at].name_id;
	json_line(j);
	json_open(j, NULL, '[');
	while (n--)
		json_u64(j, NULL, path[n]);
	json_close(j, ']');
}

/* The names in order of name_id. */
static int put_frames(struct json_out *j, const struct call_node *nodes, size_t n)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++)
		if (nodes[i].name_id >= most)
			most = nodes[i].name_id + 1;
	const char **names = calloc((size_t)most + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		names[nodes[i].name_id] = nodes[i].is_op ? op_text(nodes[i].name) : nodes[i].name;
	for (uint32_t i = 0; i < most; i++) {
		json_line(j);
		json_open(j, NULL, '{');
		json_text(j, "name", names[i] ? names[i] : "");
		json_close(j, '}');
	}
	free(names);
	return 0;
}

static void put_weights(struct json_out *j, const struct call_node *nodes, size_t n)
{
	json_open(j, "samples", '[');
	json_line(j);
	for (size_t i = 0; i < n; i++)
		if (nodes[i].self_ns)
			put_path(j, nodes, (uint32_t)i);
	json_close(j, ']');
	json_open(j, "weights", '[');
	for (size_t i = 0; i < n; i++)
		if (nodes[i].self_ns)
			json_u64(j, NULL, nodes[i].self_ns);
	json_close(j, ']');
}

static int put_profile(FILE *f, struct call_tree *t)
{
	struct json_out j = {.f = f};
	size_t n;
	const struct call_node *nodes = call_tree_nodes(t, &n);
	uint64_t whole = 0;
	for (size_t i = 0; i < n; i++)
		whole += nodes[i].self_ns;
	export_speedscope_open(&j);
	json_open(&j, NULL, '{');
	json_text(&j, "type", "sampled");
	json_text(&j, "name", "samples");
	json_text(&j, "unit", "nanoseconds");
	json_u64(&j, "startValue", 0);
	json_u64(&j, "endValue", whole);
	put_weights(&j, nodes, n);
	json_close(&j, '}');
	export_speedscope_frames(&j);
	int r = put_frames(&j, nodes, n);
	export_speedscope_close(&j);
	return r;
}

int export_speedscope_samples(struct export_in *in, FILE *f, struct err *e)
{
	struct call_tree *t = call_tree_new();
	if (!t)
		return err_set(e, -ENOMEM, "no memory to read %s", in->path);
	int r = export_each(in, samples_add_item, t, e);
	int w = put_profile(f, t);
	call_tree_free(t);
	return w ? err_set(e, w, "no memory to read %s", in->path) : r;
}

static int put_stack(FILE *f, const struct py_stack *s)
{
	char *text = NULL;
	size_t len;
	struct json_out j = {.f = open_memstream(&text, &len)};
	if (j.f) {
		sample_json_stack(&j, NULL, s);
		if (fclose(j.f) == 0)
			csv_quoted(f, text);
	}
	free(text);
	return j.f && text ? 0 : -ENOMEM;
}

static void put_frame(FILE *f, const struct py_frame *x, bool line)
{
	putc(',', f);
	if (x)
		csv_text(f, x->file);
	if (line && x && x->line)
		fprintf(f, ",%" PRId32, x->line);
	else if (line)
		putc(',', f);
	putc(',', f);
	if (x)
		csv_text(f, x->function);
}

static int put_sample(void *arg, const struct trace_item *item)
{
	FILE *f = arg;
	const struct sample *s = &item->sample;
	if (item->type != TRACE_SAMPLE)
		return 0;
	fprintf(f, "%" PRIu64 ",%" PRId32 ",%" PRId32 ",%" PRIu64 ",", s->time_ns, s->pid, s->tid,
		s->weight);
	csv_text(f, sample_op_name(s));
	fprintf(f, ",%s,%d,%d", op_phase_names[s->phase], s->in_kernel, s->mismatched);
	put_frame(f, py_stack_where(s->python), true);
	put_frame(f, s->native && s->native->depth ? s->native->frames[0] : NULL, false);
	putc(',', f);
	int r = put_stack(f, s->python);
	putc(',', f);
	r = r ? r : put_stack(f, s->native);
	putc('\n', f);
	return r ? r : ferror(f) ? -EIO : 0;
}

int export_csv_samples(struct export_in *in, FILE *f, struct err *e)
{
	fputs("time_ns,pid,tid,weight,op,phase,in_kernel,mismatched,file,line,function,object,"
	      "symbol,python,native\n",
	      f);
	return export_each(in, put_sample, f, e);
}
