/* glibc's struct pthread, which pthread_self() points to. */
#ifndef SYMBOLIZER_PYTHON_PTHREAD_X86_64_H
#define SYMBOLIZER_PYTHON_PTHREAD_X86_64_H

#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/target/mem.h"

/* gettid(2) of the thread, in its own PID namespace, whose pthread_self() is `self`: the member tid
 * of struct pthread (nptl/descr.h; 720 on x86-64 from glibc 2.17 to 2.41). 0 when it cannot be
 * read; another C library has some other number there. */
static inline pid_t pthread_tid(const struct mem *m, uint64_t self)
{
	enum { TID = 720 };
	int32_t tid;
	return mem_read(m, self + TID, &tid, sizeof(tid)) ? 0 : tid;
}

#endif
