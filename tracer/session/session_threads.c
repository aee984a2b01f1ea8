#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/python/python.h"
#include "tracer/session/internal.h"

static void read_name(const struct op_event *ev, char *name, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", ev->pid, ev->tid);
	FILE *f = fopen(path, "re");
	if (f && fgets(name, (int)size, f))
		name[strcspn(name, "\n")] = '\0';
	if (f)
		fclose(f);
}

void session_name_thread(struct session *s, const struct op_event *ev)
{
	char name[64] = "";
	uint32_t slot = (uint32_t)ev->tid % THREAD_SLOTS;
	if (s->named[slot] == ev->tid)
		return;
	s->named[slot] = ev->tid;
	const struct proc *p = ev->tid == ev->pid ? session_proc(s, ev->pid) : NULL;
	int64_t worker = p && p->target->py ? python_loader_worker(p->target->py) : -1;
	if (worker >= 0)
		snprintf(name, sizeof(name), "DataLoader worker %" PRId64, worker);
	else
		read_name(ev, name, sizeof(name));
	if (name[0])
		OBSERVERS_CALL(s, on_thread, ev->pid, ev->tid, name);
}
