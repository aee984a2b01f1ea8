#define _GNU_SOURCE
#include "symbolizer/target/auxv.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

uint64_t auxv_read(pid_t pid, uint64_t type)
{
	enum { MOST = 64 };
	char path[32];
	Elf64_auxv_t v[MOST];
	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, v, sizeof(v));
	close(fd);
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(v[0]); i++)
		if (v[i].a_type == type)
			return v[i].a_un.a_val;
	return 0;
}
