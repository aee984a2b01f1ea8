/* Internal to perf/annotate: the text of a Python file. */
#ifndef PERF_ANNOTATE_INTERNAL_H
#define PERF_ANNOTATE_INTERNAL_H

#include "perf/annotate/annotate.h"

struct source {
	char *bytes;
	char *
	    *lines; /* without what ends them; NULL: the text is not known to be the recorded one */
	size_t n;
	const char *why; /* lines is NULL: a reason. Else NULL, or what is not certain */
};

/* The text of the file as it is now. Only -ENOMEM is an error. */
int source_read(struct source *s, const struct annotate_file *file, uint64_t begun_ns);
void source_free(struct source *s);

#endif
