#include "replay/capture_choose.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

enum { NAME_SIZE = 512 };

/* The operator that a capture's name stands for, "aten::add". */
static const char *operator_name(const char *name, char *out)
{
	const char *dot;
	if (strstr(name, "::"))
		return name;
	if (!strncmp(name, "torch.ops.", 10) && (dot = strchr(name + 10, '.'))) {
		snprintf(out, NAME_SIZE, "%.*s::%s", (int)(dot - name - 10), name + 10, dot + 1);
		return out;
	}
	dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;
	size_t n = strlen(last);
	if (n > 4 && !strncmp(last, "__", 2) && !strcmp(last + n - 2, "__"))
		snprintf(out, NAME_SIZE, "aten::%.*s", (int)n - 4, last + 2);
	else
		snprintf(out, NAME_SIZE, "aten::%s", last);
	return out;
}

static bool names(const struct filter *f, const char *op)
{
	char name[NAME_SIZE];
	struct op_desc desc = {
	    .kind = OP_DISPATCHED, .name = operator_name(op, name), .schema = ""};
	return filter_match(f, &desc);
}

int capture_choose(struct capture_places *p, const char *ops, const char *not_ops, struct err *e)
{
	struct filter yes = {0}, no = {0};
	size_t all = p->n;
	bool *keep = calloc(all + 1, sizeof(*keep));
	int r = keep ? 0 : err_set(e, -ENOMEM, "no memory for %zu captures", all);
	r = r || !ops ? r : filter_compile("--ops", ops, &yes, e);
	r = r || !not_ops ? r : filter_compile("--not-ops", not_ops, &no, e);
	for (size_t i = 0; i < all && !r; i++)
		keep[i] =
		    (!ops || names(&yes, p->list[i].op)) && !(not_ops && names(&no, p->list[i].op));
	if (!r)
		capture_places_choose(p, keep);
	free(keep);
	filter_free(&yes);
	filter_free(&no);
	if (r || p->n)
		return r;
	err_set(e, -ENOENT, "none of the %zu captures is of such an op", all);
	return err_hint(e, "the folders of the tree have the names of the ops");
}
