/* Samples beside the events of a session, into the same file: --sample of run and attach. */
#ifndef TRACER_TRACE_SAMPLES_H
#define TRACER_TRACE_SAMPLES_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/session/session.h"

struct trace_samples;

/* What `hz`, the text of --sample, asks for: NULL: *out is NULL; "": 99 a second. The session stays
 * the caller's. 0 or -errno with *e; free with trace_samples_finish. */
int trace_samples_open(const char *hz, struct session *session, struct trace_samples **out,
		       struct err *e);

/* As sampler_add_child and sampler_add_process; `s` may be NULL in all of these. */
int trace_samples_add_child(struct trace_samples *s, pid_t child, struct err *e);
int trace_samples_add_process(struct trace_samples *s, pid_t pid, struct err *e);

/* A descriptor to poll, or -1. */
int trace_samples_fd(const struct trace_samples *s);

/* Take what there is. 0 or -errno with *e. */
int trace_samples_read(struct trace_samples *s, struct err *e);

/* Take the last ones, say on stderr how many there were, and free `s`. To be called before
 * session_finish and session_close. */
void trace_samples_finish(struct trace_samples *s);

#endif
