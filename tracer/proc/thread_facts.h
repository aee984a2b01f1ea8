/* What /proc tells of one thread: proc_pid_task(5). */
#ifndef TRACER_PROC_THREAD_FACTS_H
#define TRACER_PROC_THREAD_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { SYSCALL_ARGS = 6 };

struct thread_facts {
	pid_t tid, ns_tid; /* ns_tid: in the innermost PID namespace it is in */
	char name[32];
	char state;	   /* R S D T t Z X I */
	pid_t tracer;	   /* 0: nobody traces it */
	uint64_t run_ns;   /* time on a processor; may lack the time since the last tick */
	uint64_t switches; /* times that it left a processor, by itself or not */
	bool in_syscall;   /* it waits in one; syscall and arg are known */
	long syscall;
	uint64_t arg[SYSCALL_ARGS];
	char wchan[64]; /* the function of the kernel that it waits in; "" not known */
};

/* Of thread `tid` of process `pid`. What may not be read is left empty. 0; -ESRCH when there is no
 * such thread (any more). */
int thread_facts_read(pid_t pid, pid_t tid, struct thread_facts *out);

/* The number of the system call that the thread waits in; -1: in none, or that may not be known. */
long thread_syscall(pid_t pid, pid_t tid);

/* Take in the text of a thread's file "syscall". */
void thread_facts_syscall(const char *text, struct thread_facts *out);

/* What a process uses of the machine, by /proc (proc(5)). */

/* Since the process began, but for those that are of the moment. */
struct usage {
	uint64_t at_ns;		/* CLOCK_MONOTONIC, when it was read */
	uint64_t start_ticks;	/* when the process began: with its number an identity */
	uint64_t cpu_ns;	/* of all threads, those that have ended, too; clock ticks apart */
	uint64_t rss, peak;	/* resident memory now, and the most there was; bytes */
	uint64_t threads;	/* now */
	uint64_t fds;		/* open now */
	uint64_t read, written; /* bytes that read(2), write(2) and the like moved */
	uint64_t switches;	/* of the threads that are there now */
	bool has_fds, has_io;	/* this user may know them */
};

/* Of these at_ns, start_ticks, cpu_ns, rss (to some pages) and threads, by one read. False when the
 * process is not there. */
bool usage_read_stat(pid_t pid, struct usage *out);

/* 0; -ESRCH with *e when it has ended; -EPERM with *e when nothing of it may be read. */
int usage_read(pid_t pid, struct usage *out, struct err *e);

#endif
