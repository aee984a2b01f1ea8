#include "perf/trace/trace_end.h"

#include <errno.h>
#include <stdio.h>

#include "base/options.h"
#include "base/text.h"

int trace_end_print(const char *path, int code, const struct err *e, uint64_t lost)
{
	char count[40];
	fflush(stdout);
	if (lost)
		fprintf(stderr, "ditrace: %s lost while recording\n",
			text_counted(count, sizeof(count), lost, "event"));
	if (code == -EAGAIN) {
		fputs("ditrace: ", stderr);
		text_print_safe(stderr, path);
		fputs(" is still being written: this is what it holds so far\n", stderr);
		return EXIT_GOOD;
	}
	if (code == 0)
		return EXIT_GOOD;
	err_print(e);
	return EXIT_FAILED;
}
