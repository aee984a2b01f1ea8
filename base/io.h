/* File descriptors. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stddef.h>

/* Write all `len` bytes, whatever interrupts. 0 or -errno of write(2); -EIO when it writes nothing.
 */
int io_write_all(int fd, const void *buf, size_t len);

/* The bytes of a file from its start, at most `most`, ended with a NUL; "" when it cannot be read.
 * Free it. NULL without memory. */
char *io_text(int fd, size_t most);

#endif
