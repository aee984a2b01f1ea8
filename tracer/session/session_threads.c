#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/python/python.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/session/internal.h"

/* As Python's threading names it, whose ids are of the process's own PID namespace; else as the
 * kernel does. */
static void read_name(const struct op_event *ev, const struct py_runtime *py, char *name,
		      size_t size)
{
	struct thread_facts facts;
	if (thread_facts_read(ev->pid, ev->tid, &facts))
		return;
	if (!py || python_thread_name(py, facts.ns_tid, name, size) <= 0)
		snprintf(name, size, "%s", facts.name);
}

void session_name_thread(struct session *s, const struct op_event *ev)
{
	char name[64] = "";
	uint32_t slot = (uint32_t)ev->tid % THREAD_SLOTS;
	if (s->named[slot] == ev->tid)
		return;
	s->named[slot] = ev->tid;
	const struct proc *p = session_proc(s, ev->pid);
	const struct py_runtime *py = p ? p->target->py : NULL;
	int64_t worker = py && ev->tid == ev->pid ? python_loader_worker(py) : -1;
	if (worker >= 0)
		snprintf(name, sizeof(name), "DataLoader worker %" PRId64, worker);
	else
		read_name(ev, py, name, sizeof(name));
	if (name[0])
		OBSERVERS_CALL(s, on_thread, ev->pid, ev->tid, name);
}
