/* Starting a command that waits until ditrace is ready for it. */
#ifndef TRACER_PROC_SPAWN_H
#define TRACER_PROC_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* What a command inherits from ditrace's own caller, not from ditrace. */
struct spawn_signals {
	sigset_t mask;
	sigset_t ignored;
};

/* Remember signal mask and ignored signals; call it before the first change to either. */
void spawn_signals_save(struct spawn_signals *s);

struct spawn {
	pid_t pid;
	int gate, report; /* to the child; -1 when closed */
};

/* Fork a child that will become argv[0] (found by PATH, NULL-ended argv) once spawn_release is
 * called, with the signals of `s`, the environment and the standard streams as they are. If ditrace
 * dies before that, the child ends; if it dies later, the command runs on. All other descriptors of
 * ditrace must be close-on-exec. `tracer` is a process that it lets trace it where Yama asks for
 * that (ptrace(2), ptrace_scope 1), 0: none. 0, or -errno with *e. */
int spawn_prepare(char *const argv[], const struct spawn_signals *s, pid_t tracer,
		  struct spawn *out, struct err *e);

/* Let the child go, and wait until it has become the command. 0; when that fails -errno with *e,
 * and the child is gone and waited for. */
int spawn_release(struct spawn *p, char *const argv[], struct err *e);

/* End and reap a child that was never released. */
void spawn_cancel(struct spawn *p);

/* fork(2), for a part of ditrace: the child gets `sig` as soon as the calling thread ends
 * (PR_SET_PDEATHSIG, prctl(2)), and is over at once where that has ended already. */
pid_t spawn_part(int sig);

/* What a shell makes of a wait(2) status: the exit status, or 128 + signal. */
int spawn_exit_status(int status);

/* What a shell exits with when a command could not be run for the reason `code` (negative errno):
 * 127 when there is none of that name, else 126 (POSIX.1-2017, XCU 2.8.2). */
int spawn_failure_status(int code);

/* Processes of ditrace's own that outlive it by the moment that it takes to leave the traced ones
 * as they were, and how they are talked to. */

/* Make the calling process, a fresh child, one of these: named `name` (15 bytes at most), in a
 * session of its own, without the user's terminal and files, spared when memory runs out (as far as
 * it may ask for that). `sock`, its end to ditrace, is kept. */
void helper_begin(const char *name, int sock);

/* Send or receive all `n` bytes over a stream socket, whatever interrupts. false: the other end is
 * gone. */
bool helper_send(int sock, const void *buf, size_t n);
bool helper_receive(int sock, void *buf, size_t n);

#endif
