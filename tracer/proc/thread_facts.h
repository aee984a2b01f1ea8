/* What /proc reports of a thread (proc_pid_task(5)) and of a process (proc(5)), and the devices
 * that it uses. */
#ifndef TRACER_PROC_THREAD_FACTS_H
#define TRACER_PROC_THREAD_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { SYSCALL_ARGS = 6 };

struct thread_facts {
	pid_t tid, ns_tid; /* ns_tid: in its innermost PID namespace */
	char name[32];
	char state;	   /* R S D T t Z X I */
	pid_t tracer;	   /* 0: not traced */
	uint64_t run_ns;   /* CPU time; may lack the time since the last tick */
	uint64_t switches; /* context switches, voluntary or not */
	bool in_syscall;   /* blocked in a system call; syscall and arg are known */
	long syscall;
	uint64_t arg[SYSCALL_ARGS];
	char wchan[64]; /* kernel function that it is blocked in; "": unknown */
};

/* Read them for thread `tid` of process `pid`. What this user may not read stays empty. 0; -ESRCH
 * if there is no such thread. */
int thread_facts_read(pid_t pid, pid_t tid, struct thread_facts *out);

/* The number of the system call that the thread is blocked in; -1: none, or not permitted. */
long thread_syscall(pid_t pid, pid_t tid);

/* Parse the text of a thread's "syscall" file. */
void thread_facts_syscall(const char *text, struct thread_facts *out);

/* Resource usage of a process. */

/* Totals since the process began, except where marked "now". */
struct usage {
	uint64_t at_ns;	      /* CLOCK_MONOTONIC, when it was read */
	uint64_t start_ticks; /* start time; with the PID it identifies the process */
	uint64_t cpu_ns;      /* of all threads, including exited ones; granularity: clock ticks */
	uint64_t rss, peak;   /* resident memory in bytes, now and at its peak */
	uint64_t threads;     /* now */
	uint64_t fds;	      /* open now */
	uint64_t read, written; /* bytes moved by read(2), write(2) and the like */
	uint64_t switches;	/* context switches of the present threads */
	bool has_fds, has_io;	/* this user may read them */
};

/* Read only at_ns, start_ticks, cpu_ns, rss (accurate to a few pages) and threads, from a single
 * file. False if the process does not exist. */
bool usage_read_stat(pid_t pid, struct usage *out);

/* 0; -ESRCH with *e if the process has exited; -EPERM with *e if nothing of it may be read. */
int usage_read(pid_t pid, struct usage *out, struct err *e);

/* Lists of processes, and what they have started. */

/* Zero-initialise. */
struct process_list {
	pid_t *pids;
	size_t n, room;
};

/* Add a process, unless it is there. 0 or -ENOMEM. */
int process_list_add(struct process_list *l, pid_t pid);

/* Add all that are below those in the list now, parents before children (process_children). 0 or
 * -ENOMEM. */
int process_list_add_below(struct process_list *l);

void process_list_free(struct process_list *l);

/* Devices that PyTorch computes on: files below /dev that their drivers have. */

/* The file of a device that a program started from here could use, "/dev/nvidiactl"; NULL: there is
 * none, or the variable that names those to be used (CUDA_VISIBLE_DEVICES and the like) names none.
 * Static. */
const char *devices_here(void);

/* As devices_here, of a device that the process has opened to compute on; NULL: none, or that could
 * not be read. Static. */
const char *devices_of(pid_t pid);

#endif
