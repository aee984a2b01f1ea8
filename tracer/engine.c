#include "tracer/engine.h"

const char *const engine_names[] = {"auto", "bpf", "ptrace", "shim", NULL};

static int open_shim(const struct engine_wanted *w, struct engine **out, struct err *e)
{
	return engine_shim_open(w->nplans, w->interesting, !w->pid, out, e);
}

int engine_open(const struct engine_wanted *w, struct engine **out, struct err *note, struct err *e)
{
	struct err why = {0};
	if (w->choice == ENGINE_PTRACE)
		return engine_ptrace_open(w->nplans, w->interesting, out, e);
	if (w->choice == ENGINE_SHIM)
		return open_shim(w, out, e);
	int r = engine_bpf_open(w->nplans, out, &why);
	if (!r)
		return 0;
	if (w->choice == ENGINE_BPF) {
		if (e)
			*e = why;
		return r;
	}
	r = engine_ptrace_open(w->nplans, w->interesting, out, e);
	if (!r)
		err_set(note, why.code, "engine ptrace: %s", why.what);
	return r;
}
