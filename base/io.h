/* File descriptors. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stddef.h>

/* Write all `len` bytes, retrying on EINTR and short writes. 0 or -errno of write(2); -EIO when it
 * writes 0 bytes. */
int io_write_all(int fd, const void *buf, size_t len);

/* At most `most` bytes from the start of a file, NUL-terminated, from malloc; "" when it cannot be
 * read. NULL when out of memory. */
char *io_text(int fd, size_t most);

#endif
