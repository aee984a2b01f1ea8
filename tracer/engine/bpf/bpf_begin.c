#include "tracer/engine/bpf/bpf_begin.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <bpf/libbpf.h>

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

int bpf_begin(uint64_t *ns_dev, uint64_t *ns_ino)
{
	struct stat ns;
	if (!getenv("DITRACE_LIBBPF_LOG"))
		libbpf_set_print(quiet);
	if (stat("/proc/self/ns/pid", &ns))
		return -errno;
	*ns_dev = ns.st_dev;
	*ns_ino = ns.st_ino;
	return 0;
}
