#include "base/file_limit.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit given;
static bool raised;

void file_limit_raise(void)
{
	if (getrlimit(RLIMIT_NOFILE, &given))
		return;
	struct rlimit l = given;
	l.rlim_cur = l.rlim_max;
	raised = !setrlimit(RLIMIT_NOFILE, &l);
}

void file_limit_restore(void)
{
	if (raised)
		setrlimit(RLIMIT_NOFILE, &given);
}

int file_limit_check(unsigned n, struct err *e)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= n)
		return 0;
	return err_set(e, -EMFILE, "too many open files: %llu may be open, and %u are needed",
		       (unsigned long long)l.rlim_cur, n);
}
