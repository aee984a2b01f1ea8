#include "tui/model/proc_figures.h"

#include "tracer/proc/usage.h"

bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out)
{
	enum { SECOND = 1000000000 };
	struct usage u;
	if (!usage_read_stat(pid, &u))
		return false;
	uint64_t now = u.at_ns, cpu_ns = u.cpu_ns;
	out->threads = (unsigned)u.threads;
	out->rss_bytes = u.rss;
	if (!f->read_ns)
		f->percent = -1;
	else if (now - f->read_ns >= SECOND && cpu_ns >= f->cpu_ns)
		f->percent = 100.0 * (double)(cpu_ns - f->cpu_ns) / (double)(now - f->read_ns);
	if (!f->read_ns || now - f->read_ns >= SECOND) {
		f->read_ns = now;
		f->cpu_ns = cpu_ns;
	}
	out->cpu_percent = f->percent;
	return true;
}
