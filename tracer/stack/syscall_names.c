#define _GNU_SOURCE
#include "tracer/stack/syscall_names.h"

#include <stddef.h>
#include <sys/syscall.h>

#define CALL(name, kind)                                                                           \
	{                                                                                          \
		SYS_##name, kind, #name                                                            \
	}

static const struct {
	long nr;
	enum syscall_kind kind;
	const char *name;
} calls[] = {
    CALL(futex, SYSCALL_FUTEX),
#ifdef SYS_futex_waitv
    CALL(futex_waitv, SYSCALL_FUTEX),
#endif
    CALL(restart_syscall, SYSCALL_RESTART),
    CALL(nanosleep, SYSCALL_SLEEP),
    CALL(clock_nanosleep, SYSCALL_SLEEP),
#ifdef SYS_poll
    CALL(poll, SYSCALL_POLL),
    CALL(select, SYSCALL_POLL),
    CALL(epoll_wait, SYSCALL_POLL),
    CALL(pause, SYSCALL_SIGNAL),
#endif
    CALL(ppoll, SYSCALL_POLL),
    CALL(pselect6, SYSCALL_POLL),
    CALL(epoll_pwait, SYSCALL_POLL),
#ifdef SYS_epoll_pwait2
    CALL(epoll_pwait2, SYSCALL_POLL),
#endif
    CALL(io_getevents, SYSCALL_POLL),
    CALL(io_uring_enter, SYSCALL_POLL),
    CALL(read, SYSCALL_IO),
    CALL(write, SYSCALL_IO),
    CALL(readv, SYSCALL_IO),
    CALL(writev, SYSCALL_IO),
    CALL(pread64, SYSCALL_IO),
    CALL(pwrite64, SYSCALL_IO),
    CALL(recvfrom, SYSCALL_IO),
    CALL(sendto, SYSCALL_IO),
    CALL(recvmsg, SYSCALL_IO),
    CALL(sendmsg, SYSCALL_IO),
    CALL(accept, SYSCALL_IO),
    CALL(accept4, SYSCALL_IO),
    CALL(connect, SYSCALL_IO),
    CALL(fsync, SYSCALL_IO),
    CALL(fdatasync, SYSCALL_IO),
    CALL(flock, SYSCALL_IO),
    CALL(fcntl, SYSCALL_IO),
    CALL(ioctl, SYSCALL_IO),
    CALL(sendfile, SYSCALL_IO),
    CALL(wait4, SYSCALL_CHILD),
    CALL(waitid, SYSCALL_CHILD),
    CALL(rt_sigtimedwait, SYSCALL_SIGNAL),
    CALL(rt_sigsuspend, SYSCALL_SIGNAL),
    CALL(openat, SYSCALL_OTHER),
    CALL(close, SYSCALL_OTHER),
    CALL(mmap, SYSCALL_OTHER),
    CALL(munmap, SYSCALL_OTHER),
    CALL(mprotect, SYSCALL_OTHER),
    CALL(madvise, SYSCALL_OTHER),
    CALL(sched_yield, SYSCALL_OTHER),
    CALL(exit_group, SYSCALL_OTHER),
};

const char *syscall_name(long nr, enum syscall_kind *kind)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].nr != nr)
			continue;
		*kind = calls[i].kind;
		return calls[i].name;
	}
	*kind = SYSCALL_OTHER;
	return NULL;
}
