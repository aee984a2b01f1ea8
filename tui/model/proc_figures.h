/* Processor time, memory and threads of a process, from /proc. */
#ifndef TUI_MODEL_PROC_FIGURES_H
#define TUI_MODEL_PROC_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tui/model/top.h"

/* Zero-initialise, one for each process. */
struct proc_figures {
	uint64_t read_ns, cpu_ns; /* when it was read last, and what it had used then */
	double percent;
};

/* Fill *out, at most once a second anew. False when the process is not there. */
bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out);

#endif
