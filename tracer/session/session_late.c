/* Whether a process was added before it called ops. Engines that hear of it when it loads PyTorch
 * add it then; but this process may have been stopped meanwhile, or had no processor. */
#include <errno.h>
#include <string.h>

#include "symbolizer/python/python.h"
#include "symbolizer/target/process.h"
#include "tracer/session/internal.h"

static bool is_import(const struct py_frame *f)
{
	static const char file[] = "/torch/__init__.py";
	const size_t n = strlen(f->file), k = sizeof(file) - 1;
	return !strcmp(f->function, "<module>") && n >= k && !strcmp(f->file + n - k, file);
}

static bool has_import(struct py_runtime *py, pid_t ns_pid)
{
	enum { FRAMES = 512 };
	uint64_t pairs[FRAMES][2];
	bool cut, found = false;
	int n = py_walk_thread(py, 0, ns_pid, pairs, FRAMES, &cut);
	for (int i = 0; i < n && !found; i++)
		found = is_import(py_resolve(py, pairs[i][0], pairs[i][1]));
	return found;
}

/* Hazard: what is resolved while the thread may run is not kept, as its code may be freed. */
static bool is_importing(const struct target *t)
{
	struct process p;
	struct py_runtime *py = NULL;
	bool found = !process_read(t->pid, &p, NULL) && !python_open(t->pid, &t->mem, &py, NULL) &&
		     has_import(py, p.status.ns_pid ? p.status.ns_pid : t->pid);
	python_close(py);
	return found;
}

static bool is_of_traced(struct session *s, pid_t pid)
{
	struct process p;
	return !process_read(pid, &p, NULL) && session_proc(s, p.status.ppid);
}

bool session_came_late(struct session *s, const struct proc *p)
{
	const pid_t pid = p->target->pid;
	/* The shim has it wait; of what is forked others tell. */
	if (s->engine->observes || is_of_traced(s, pid) || !target_find_boxed(p->target) ||
	    is_importing(p->target))
		return false;
	if (s->engine->trouble.code)
		return true;
	err_set(&s->engine->trouble, -ENODATA,
		"process %d had imported PyTorch before its probes were in: its first ops may be "
		"missing",
		pid);
	err_hint(&s->engine->trouble, "--engine shim misses none");
	return true;
}
