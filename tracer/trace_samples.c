/* Samples in addition to a session's events. */
#define _GNU_SOURCE
#include "tracer/trace_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "base/text.h"
#include "tracer/sample/sampler.h"

struct trace_samples {
	struct record_samples to;
	struct sampler *sampler;
};

static int parse_hz(const char *text, uint64_t *hz, struct err *e)
{
	*hz = SAMPLER_HZ;
	if (*text && (!text_number(text, hz) || !*hz)) {
		err_set(e, -EINVAL, "--sample %s: not a number of samples a second", text);
		return err_hint(e, "--sample=99");
	}
	return 0;
}

int trace_samples_check(const char *text, struct err *e)
{
	uint64_t hz;
	return text ? parse_hz(text, &hz, e) : 0;
}

int trace_samples_open(const char *text, struct session *session, struct trace_samples **out,
		       struct err *e)
{
	uint64_t hz;
	*out = NULL;
	if (!text)
		return 0;
	int r = parse_hz(text, &hz, e);
	if (r)
		return r;
	struct trace_samples *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	const struct sampler_sink sink = record_samples_sink(&s->to);
	s->to.writer = session_writer(session);
	r = sampler_open(hz, &sink, &s->sampler, e);
	if (r) {
		free(s);
		return r;
	}
	trace_write_sampling(s->to.writer, sampler_how(s->sampler));
	*out = s;
	return 0;
}

int trace_samples_add_child(struct trace_samples *s, pid_t child, struct err *e)
{
	return s ? sampler_add_child(s->sampler, child, e) : 0;
}

int trace_samples_add_process(struct trace_samples *s, pid_t pid, struct err *e)
{
	return s ? sampler_add_process(s->sampler, pid, e) : 0;
}

int trace_samples_fd(const struct trace_samples *s)
{
	return s ? sampler_fd(s->sampler) : -1;
}

int trace_samples_read(struct trace_samples *s, struct err *e)
{
	int r = s ? sampler_read(s->sampler) : 0;
	return r ? err_set(e, r, "cannot take samples: %s", strerror(-r)) : 0;
}

void trace_samples_finish(struct trace_samples *s)
{
	if (!s)
		return;
	sampler_read(s->sampler);
	record_samples_summary(s->sampler);
	sampler_close(s->sampler);
	free(s);
}
