/* Files that become shorter while they are mapped. */
#ifndef BASE_BUS_H
#define BASE_BUS_H

#include <stdbool.h>

/* From now on, and in children, an access beyond the end of such a file does not end the process
 * (SIGBUS, mmap(2)): it reads zeros, as all parsers must bear. `otherwise`, unless NULL, is called
 * for a SIGBUS that has another cause, before the default action follows; it may only do what is
 * async-signal-safe. */
void bus_guard(void (*otherwise)(int sig));

/* Whether that has happened in this process. */
bool bus_read_zeros(void);

#endif
