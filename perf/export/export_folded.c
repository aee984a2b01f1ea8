#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "perf/export/export.h"
#include "perf/report/call_tree.h"

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
		put_name(f, nodes[path[n]].name);
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
	int r = export_each(in, folded_add_item, t, e);
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
