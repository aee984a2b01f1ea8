/* Names of the system calls in which a thread may wait. */
#ifndef TRACER_STACK_SYSCALL_NAMES_H
#define TRACER_STACK_SYSCALL_NAMES_H

/* What a wait in it is for. */
enum syscall_kind {
	SYSCALL_OTHER,
	SYSCALL_FUTEX,
	SYSCALL_SLEEP,
	SYSCALL_POLL,	 /* waits until files are ready */
	SYSCALL_IO,	 /* its first argument is a file descriptor */
	SYSCALL_CHILD,	 /* waits for a child */
	SYSCALL_SIGNAL,	 /* waits for a signal */
	SYSCALL_RESTART, /* goes on with a wait that was interrupted, of which nothing is known */
};

/* The name of system call `nr` of this machine, with its kind; NULL: it is not in the list. */
const char *syscall_name(long nr, enum syscall_kind *kind);

#endif
