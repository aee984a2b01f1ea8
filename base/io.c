#include "base/io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
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

char *io_text(int fd, size_t most)
{
	struct stat st;
	size_t size = fstat(fd, &st) ? 0 : (size_t)st.st_size;
	size = size < most ? size : most;
	char *text = malloc(size + 1);
	ssize_t n = text ? pread(fd, text, size, 0) : 0;
	if (text)
		text[n > 0 ? n : 0] = '\0';
	return text;
}
