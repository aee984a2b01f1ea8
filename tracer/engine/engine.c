#include "tracer/engine/engine.h"

#include <errno.h>
#include <stddef.h>

uint64_t engine_ring_bytes(uint64_t wanted, uint64_t usual)
{
	const uint64_t bytes = wanted ? wanted : usual;
	return bytes < ENGINE_RING_LEAST  ? ENGINE_RING_LEAST
	       : bytes > ENGINE_RING_MOST ? ENGINE_RING_MOST
					  : bytes;
}

const char *const engine_names[] = {"auto", "bpf", "ptrace", "shim", NULL};

/* Where the shim cannot be: `why`. One that has to observe all ops, as no jumps can be written, is
 * better than ptrace, which could write no breakpoints, either. */
static int open_other(const struct engine_wanted *w, const struct err *why, struct engine **out,
		      struct err *note, struct err *e)
{
	struct err no_bpf = {0}, no_shim = *why;
	if (w->stops) {
		err_set(&no_bpf, -ENOTSUP, "bpf stops no threads");
	} else if (!engine_bpf_open(w, out, &no_bpf)) {
		err_set(note, why->code, "engine bpf: %s", why->what);
		return 0;
	}
	if (why->code == -EACCES && !engine_shim_open(w, out, &no_shim)) {
		err_set(note, why->code, "engine shim, without jumps: %s; %s", why->what,
			no_bpf.what);
		return 0;
	}
	int r = engine_ptrace_open(w, out, e);
	if (!r)
		err_set(note, why->code, "engine ptrace: %s; %s", no_shim.what, no_bpf.what);
	return r;
}

/* A second ditrace in a process is told so: bpf could place no probes among the jumps of the first.
 */
static bool is_last_word(const struct err *why)
{
	return why->code == -EALREADY;
}

static int open_auto(const struct engine_wanted *w, struct engine **out, struct err *note,
		     struct err *e)
{
	struct err no_bpf = {0}, no_shim = {0};
	if (w->not_shim && !engine_bpf_open(w, out, &no_bpf)) {
		err_set(note, -ENOTSUP, "engine bpf: %s", w->not_shim);
		return 0;
	}
	int r = engine_shim_fits(w->pid, &no_shim);
	r = r ? r : engine_shim_open(w, out, &no_shim);
	if (!r && no_bpf.code)
		err_set(note, no_bpf.code, "engine shim, though %s: %s", w->not_shim, no_bpf.what);
	if (!r || !is_last_word(&no_shim))
		return r ? open_other(w, &no_shim, out, note, e) : 0;
	if (e)
		*e = no_shim;
	return r;
}

int engine_open(const struct engine_wanted *w, struct engine **out, struct err *note, struct err *e)
{
	if (w->choice == ENGINE_PTRACE)
		return engine_ptrace_open(w, out, e);
	if (w->choice == ENGINE_BPF)
		return engine_bpf_open(w, out, e);
	return w->choice == ENGINE_SHIM || w->waits ? engine_shim_open(w, out, e)
						    : open_auto(w, out, note, e);
}
