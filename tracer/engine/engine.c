#include "tracer/engine/engine.h"

#include <stddef.h>

const char *const engine_names[] = {"auto", "bpf", "ptrace", "shim", NULL};

/* The second choice and the third. `why` says what was wrong with the first. */
static int open_other(const struct engine_wanted *w, const struct err *why, struct engine **out,
		      struct err *note, struct err *e)
{
	struct err no_shim = {0};
	if (!engine_shim_open(w, out, &no_shim)) {
		err_set(note, why->code, "engine shim: %s", why->what);
		return 0;
	}
	int r = engine_ptrace_open(w->nplans, w->interesting, out, e);
	if (!r)
		err_set(note, why->code, "engine ptrace: %s; %s", why->what, no_shim.what);
	return r;
}

int engine_open(const struct engine_wanted *w, struct engine **out, struct err *note, struct err *e)
{
	struct err why = {0};
	if (w->choice == ENGINE_PTRACE)
		return engine_ptrace_open(w->nplans, w->interesting, out, e);
	if (w->choice == ENGINE_SHIM || (w->choice == ENGINE_AUTO && (w->waits || w->buffer)))
		return engine_shim_open(w, out, e);
	int r = engine_bpf_open(w->nplans, out, w->choice == ENGINE_BPF ? e : &why);
	return !r || w->choice == ENGINE_BPF ? r : open_other(w, &why, out, note, e);
}
