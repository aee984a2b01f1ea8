#include "perf/export/export_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/intern.h"
#include "perf/events/json_event.h"
#include "perf/report/call_tree.h"

struct profile_thread {
	int64_t last_us;
	uint8_t *told; /* by the number of a node of the tree: it was written */
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

/* An event up to its arguments; the profile of thread `number` has the id number + 1. */
static void begin(FILE *f, bool *any, const char *name, const struct sample *s, int64_t number,
		  int64_t us)
{
	fprintf(
	    f,
	    "%s\n{\"ph\":\"P\",\"pid\":%" PRId32 ",\"tid\":%" PRId32 ",\"ts\":%" PRId64
	    ",\"cat\":\"disabled-by-default-v8.cpu_profiler\",\"name\":\"%s\",\"id\":\"0x%" PRIx64
	    "\",\"args\":{\"data\":{",
	    *any ? "," : "", s->pid, s->tid, us, name, number + 1);
	*any = true;
}

/* The thread of the sample, and its number. NULL without memory. */
static struct profile_thread *thread_of(struct export_profile *p, FILE *f, bool *any,
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
		begin(f, any, "Profile", s, *number, us);
		fprintf(f, "\"startTime\":%" PRId64 "}}}", us);
	}
	return &p->threads[*number];
}

static void put_node(FILE *f, const struct call_node *n, uint32_t number)
{
	fprintf(f, "{\"id\":%" PRIu32, number + 1);
	if (n->parent != CALL_TREE_ROOT)
		fprintf(f, ",\"parent\":%" PRIu32, n->parent + 1);
	fputs(",\"callFrame\":{\"functionName\":", f);
	json_write_string(f, n->name, strlen(n->name));
	fputs(",\"scriptId\":\"0\",\"url\":\"\",\"lineNumber\":-1,\"columnNumber\":-1}}", f);
}

/* The nodes on the way to `node` that the thread's profile does not have yet, parents first. */
static int put_nodes(struct export_profile *p, struct profile_thread *t, FILE *f, uint32_t node)
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
		put_node(f, &nodes[path[i]], path[i]);
		fputs(i ? "," : "", f);
		t->told[path[i]] = 1;
	}
	free(path);
	return r;
}

int export_profile_add(struct export_profile *p, FILE *f, bool *any, const struct sample *s,
		       int64_t us)
{
	uint32_t node;
	int64_t number;
	int r = call_tree_sample_node(p->tree, s, CALL_MIXED, &node);
	struct profile_thread *t = r ? NULL : thread_of(p, f, any, s, us, &number);
	if (!t)
		return -ENOMEM;
	begin(f, any, "ProfileChunk", s, number, us);
	fputs("\"cpuProfile\":{\"nodes\":[", f);
	r = put_nodes(p, t, f, node);
	fprintf(f,
		"],\"samples\":[%" PRIu32 "]},\"timeDeltas\":[%" PRId64 "],\"weight\":%" PRIu64
		"}}}",
		node + 1, us - t->last_us, s->weight);
	t->last_us = us;
	return r;
}
