#include "perf/events/print_sample.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "perf/events/json_event.h"

static void print_stack(FILE *f, const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *x = s->frames[i];
		fputs("    ", f);
		text_print_safe(f, x->function);
		fputs("  (", f);
		text_print_safe(f, text_base_name(x->file));
		if (x->line)
			fprintf(f, ":%" PRId32, x->line);
		fputs(")\n", f);
	}
	if (s && s->truncated)
		fputs("    ...\n", f);
}

void sample_print(FILE *f, const struct sample *s, uint64_t origin_ns)
{
	uint64_t ns = s->time_ns > origin_ns ? s->time_ns - origin_ns : 0;
	fprintf(f, "%" PRIu64 ".%06" PRIu64 " s  %" PRId32 "/%" PRId32 "  ", ns / 1000000000,
		ns % 1000000000 / 1000, s->pid, s->tid);
	text_print_safe(f, sample_op_name(s));
	fputs(s->phase == PHASE_BACKWARD ? "  (backward)\n" : "\n", f);
	print_stack(f, s->native);
	print_stack(f, s->python);
	if (s->mismatched)
		fputs("    (Python frames not read: it moved on)\n", f);
}

static void json_text(FILE *f, const char *key, const char *text)
{
	fprintf(f, "\"%s\":", key);
	if (text)
		json_write_string(f, text, strlen(text));
	else
		fputs("null", f);
}

void sample_json_stack(FILE *f, const struct py_stack *s)
{
	putc('[', f);
	for (uint16_t i = 0; s && i < s->depth; i++) {
		fputs(i ? ",{" : "{", f);
		json_text(f, "file", s->frames[i]->file);
		fprintf(f, ",\"line\":%" PRId32 ",", s->frames[i]->line);
		json_text(f, "function", s->frames[i]->function);
		putc('}', f);
	}
	putc(']', f);
}

void sample_json(FILE *f, const struct sample *s)
{
	fprintf(f,
		"{\"sample\":true,\"time_ns\":%" PRIu64 ",\"pid\":%" PRId32 ",\"tid\":%" PRId32
		",\"weight\":%" PRIu64 ",",
		s->time_ns, s->pid, s->tid, s->weight);
	json_text(f, "op", s->op ? s->op->name : NULL);
	fprintf(f, ",\"phase\":\"%s\",\"in_kernel\":%s,\"mismatched\":%s",
		s->phase == PHASE_BACKWARD ? "backward" : "forward",
		s->in_kernel ? "true" : "false", s->mismatched ? "true" : "false");
	fputs(",\"python\":", f);
	sample_json_stack(f, s->python);
	fputs(",\"native\":", f);
	sample_json_stack(f, s->native);
	putc('}', f);
}
