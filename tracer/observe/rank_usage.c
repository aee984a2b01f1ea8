/* What the main threads of ranks got of processors, and their page faults: told in the trace, as a
 * rank that shares its processor is late in no line of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/process.h"
#include "tracer/observe/internal.h"

static const uint64_t EVERY_NS = 100000000; /* a read takes some ten microseconds */

void rank_usage_add(struct rank_usage *u, const struct trace_process *p)
{
	if (p->rank.rank >= 0 && !p->worker)
		(void)process_list_add(&u->ranks, p->pid);
}

/* proc_pid_schedstat(5); of proc_pid_stat(5) the 10th and the 12th field, after a name that may
 * contain any characters. */
static bool read_usage(pid_t pid, struct trace_usage *out)
{
	char name[64], text[1024];
	snprintf(name, sizeof(name), "task/%d/stat", pid);
	if (process_file(pid, "schedstat", text, sizeof(text)) <= 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &out->run_ns, &out->wait_ns) != 2 ||
	    process_file(pid, name, text, sizeof(text)) <= 0)
		return false;
	const char *p = strrchr(text, ')');
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64,
			   &out->minor_faults, &out->major_faults) == 2;
}

int rank_usage_write(struct rank_usage *u, struct trace_writer *w, uint64_t now_ns)
{
	if (now_ns - u->written_ns < EVERY_NS)
		return 0;
	u->written_ns = now_ns;
	for (size_t i = 0; i < u->ranks.n;) {
		struct trace_usage one = {.pid = u->ranks.pids[i], .ns = now_ns};
		int r = read_usage(one.pid, &one) ? trace_write_usage(w, &one) : 1;
		if (r < 0)
			return r;
		if (r)
			u->ranks.pids[i] = u->ranks.pids[--u->ranks.n];
		else
			i++;
	}
	return 0;
}

void rank_usage_free(struct rank_usage *u)
{
	free(u->ranks.pids);
	*u = (struct rank_usage){0};
}
