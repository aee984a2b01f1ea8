#include "symbolizer/event/sample.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static const struct op_desc none = {.name = "(in no op)", .schema = ""},
			    unknown = {.name = "(op not known)", .schema = ""};

static const struct op_desc *op_of(const struct sample *s)
{
	if (s->op)
		return s->op;
	return s->native && !s->native->truncated ? &none : &unknown;
}

const char *sample_op_name(const struct sample *s)
{
	return op_of(s)->name;
}

void sample_as_event(const struct sample *s, struct op_event *out)
{
	static const struct py_frame moved = {.file = "", .function = "(not read: it moved on)"};
	static const struct py_stack unread = {.depth = 1, .truncated = true, .frames = {&moved}};
	const struct py_stack *stack = s->mismatched ? &unread : s->python;
	*out = (struct op_event){.start_ns = s->time_ns,
				 .end_ns = s->time_ns + s->weight,
				 .op = op_of(s),
				 .stack = stack,
				 .where_stack = stack,
				 .native = s->native,
				 .pid = s->pid,
				 .tid = s->tid,
				 .phase = s->phase};
}

void sample_anon_file(int32_t pid, char *out, size_t size)
{
	static char boot[9]; /* random(4) */
	int fd = *boot ? -1 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, boot, sizeof(boot) - 1) != sizeof(boot) - 1)
			boot[0] = '-';
		close(fd);
	}
	snprintf(out, size, "[anon %" PRId32 " %s]", pid, boot);
}
