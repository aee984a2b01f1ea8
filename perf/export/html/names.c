#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/export/html/internal.h"

int page_names_open(struct page_names *n)
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

void page_names_close(struct page_names *n)
{
	if (n->out.f)
		fclose(n->out.f);
	free(n->text);
	intern_free(&n->ids);
}
