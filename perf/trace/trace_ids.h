/* Numbers for the things that a trace file defines once: ops, stacks, frames, strings, threads,
 * tensor metadata. */
#ifndef PERF_TRACE_TRACE_IDS_H
#define PERF_TRACE_TRACE_IDS_H

#include <stddef.h>

#include "base/intern.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"

/* Zero-initialise, then set the four fields below. */
struct trace_ids {
	/* Writes a definition record; 0 or -errno. Called once for each thing, before its number is
	 * given out. */
	int (*record)(void *arg, enum trace_type type, const void *payload, size_t len);
	void *arg;
	uint8_t *scratch; /* where definitions are put together; the caller's */
	size_t scratch_size;

	struct intern strings, ops, metas, frames, stacks, threads;
	struct ptrmap op_ids, frame_ids, stack_ids; /* numbers found before, by address */
	bool *frame_has_text;
	uint32_t frame_has_text_size;
};

/* The number of the thing, or -errno (-EMSGSIZE: too large for a record; -ENOMEM; what `record`
 * gave). Things of equal content have one number, whoever owns them. */
int64_t trace_ids_op(struct trace_ids *t, const struct op_desc *op);
int64_t trace_ids_stack(struct trace_ids *t, const struct py_stack *s);
int64_t trace_ids_string(struct trace_ids *t, const char *s);

/* Writes a TEXT record when the frame, part of a stack that has a number, got its text after that.
 * 0 or -errno. */
int trace_ids_frame_text(struct trace_ids *t, const struct py_frame *f);

/* The number of a thread; `name` (may be NULL) is written when it is given, or the thread is new.
 */
int64_t trace_ids_thread(struct trace_ids *t, int32_t pid, int32_t tid, const char *name);

/* The same for a META payload, for struct meta_numbers (trace_encode.h); `ids` is a struct
 * trace_ids. When too much memory is in use, metas not known yet get -ENOENT. */
int64_t trace_ids_meta(void *ids, const void *payload, uint32_t len);

/* Forget addresses, because what stands there may change. */
void trace_ids_forget(struct trace_ids *t);

void trace_ids_free(struct trace_ids *t);

#endif
