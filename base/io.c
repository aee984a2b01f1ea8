#include "base/io.h"

#include <errno.h>
#include <unistd.h>

int io_write_all(int fd, const void *buf, size_t len)
{
	for (const char *p = buf; len;) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
