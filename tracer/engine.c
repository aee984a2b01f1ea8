#include "tracer/engine.h"

const char *const engine_names[] = {"auto", "bpf", "ptrace", "shim", NULL};

int engine_open(enum engine_choice choice, uint32_t nplans, interesting_fn *interesting,
		struct engine **out, struct err *note, struct err *e)
{
	struct err why = {0};
	if (choice == ENGINE_PTRACE)
		return engine_ptrace_open(nplans, interesting, out, e);
	if (choice == ENGINE_SHIM)
		return engine_shim_open(nplans, out, e);
	int r = engine_bpf_open(nplans, out, &why);
	if (!r)
		return 0;
	if (choice == ENGINE_BPF) {
		if (e)
			*e = why;
		return r;
	}
	r = engine_ptrace_open(nplans, interesting, out, e);
	if (!r)
		err_set(note, why.code, "engine ptrace: %s", why.what);
	return r;
}
