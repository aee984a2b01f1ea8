/* Starts a command that waits until ditrace is ready for it; also starts helper processes. */
#ifndef TRACER_PROC_SPAWN_H
#define TRACER_PROC_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Another user as whom a command is started: run --user. */

enum { SPAWN_USER_VARIABLES = 4 };

/* Zero-initialise. */
struct spawn_user {
	const char *name; /* as it was given; not owned */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* with `gid`, as getgrouplist(3) has them */
	size_t ngroups;
	char *variable[SPAWN_USER_VARIABLES]; /* "HOME=...", SHELL, USER, LOGNAME */
};

/* Look up a name, or a number that is no name, in the user database. A number without an entry is a
 * user with the group of the same number, the home "/" and the shell /bin/sh. `name` must outlive
 * `u`. 0; -EPERM unless this process is root's; -ENOENT; -ENOMEM; with *e. Free with
 * spawn_user_free in any case. */
int spawn_user_find(const char *name, struct spawn_user *u, struct err *e);

/* This process's environment with those variables changed, NULL-terminated; the caller frees the
 * array, its strings are of the two. NULL: no memory. */
char **spawn_user_environment(const struct spawn_user *u);

/* Become that user for good: for a fresh child, as it is async-signal-safe and of one thread. 0 or
 * -errno. */
int spawn_user_become(const struct spawn_user *u);

void spawn_user_free(struct spawn_user *u);

/* The command. */

/* What a command inherits from ditrace's caller, not from ditrace. */
struct spawn_caller {
	sigset_t mask;
	sigset_t ignored;
	const struct spawn_user *user; /* whose rights it gets; NULL: ditrace's */
};

/* Save the signal mask and the set of ignored signals, with no user; call it before changing
 * either. */
void spawn_caller_save(struct spawn_caller *s);

struct spawn {
	pid_t pid;
	int gate, report; /* descriptors to the child; -1 when closed */
	const char *user; /* the name of spawn_caller's; NULL: none */
};

/* Fork a child that will exec argv[0] (searched in PATH; argv is NULL-terminated) once
 * spawn_release is called, with what `c` has, the limit on open files that ditrace was started with
 * (system.h), the current environment and the standard streams. If ditrace dies before that,
 * the child exits; afterwards the command runs on. All other descriptors of ditrace must be
 * close-on-exec. `tracer`: a process that the child allows to trace it under Yama (ptrace(2),
 * ptrace_scope 1); 0: none. 0, or -errno with *e. */
int spawn_prepare(char *const argv[], const struct spawn_caller *c, pid_t tracer, struct spawn *out,
		  struct err *e);

/* Let the child exec, and wait for it. 0; on failure -errno with *e, and the child has been reaped.
 */
int spawn_release(struct spawn *p, char *const argv[], struct err *e);

/* Make a child that was never released exit, and reap it. */
void spawn_cancel(struct spawn *p);

/* fork(2) for a process of ditrace: the child gets `sig` when the calling thread exits
 * (PR_SET_PDEATHSIG, prctl(2)), and exits at once if that has already happened. */
pid_t spawn_part(int sig);

/* End process `pid` (0: none) below what was started by SIGTERM, having said so on stderr: it does
 * not have what the options name, and --keep-going was not given. */
void spawn_end_refused(pid_t pid);

/* The exit status that a shell derives from a wait(2) status: the status itself, or 128 + signal.
 */
int spawn_exit_status(int status);

/* The exit status of a shell that cannot run a command because of `code` (negative errno): 127 if
 * it does not exist, otherwise 126 (POSIX.1-2017, XCU 2.8.2). */
int spawn_failure_status(int code);

/* Helper processes of ditrace, which outlive it briefly to restore the targets, and communication
 * with them. */

/* Fork a process that runs serve(its end of a stream socket, arg) and exits; *sock: the caller's
 * end, which it closes. Its pid, or -errno. */
pid_t helper_start(void (*serve)(int sock, void *arg), void *arg, int *sock);

/* Make the calling process, a fresh child, a helper: named `name` (at most 15 bytes), in its own
 * session, with all signals blocked, without the user's terminal and files, and protected from the
 * OOM killer if permitted. `sock`, its connection to ditrace, stays open. */
void helper_begin(const char *name, int sock);

/* Close all of a helper's descriptors from 3 on but these two, open ones or the same: what ditrace
 * has open may be the end of a connection whose closing tells others that ditrace has ended. */
void helper_keep(int a, int b);

/* Send or receive all `n` bytes on a stream socket, retrying after EINTR. False: the other end is
 * gone. */
bool helper_send(int sock, const void *buf, size_t n);
bool helper_receive(int sock, void *buf, size_t n);

/* helper_receive from the helper process `pid`, which is continued if somebody has stopped it: a
 * target may wait until it answers. */
bool helper_answer(int sock, pid_t pid, void *buf, size_t n);

#endif
