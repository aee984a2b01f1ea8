#include "perf/events/where_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

const char *where_text(char *out, size_t size, const struct py_frame *frame, int phase)
{
	if (!frame)
		snprintf(out, size, "%s",
			 phase == PHASE_BACKWARD ? "(forward op not known)" : "(no Python frame)");
	else
		snprintf(out, size, "%s:%" PRId32 " %s%s%s", text_base_name(frame->file),
			 frame->line, frame->function, frame->text ? ": " : "",
			 frame->text ? frame->text : "");
	return out;
}
