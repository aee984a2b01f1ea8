/* Devices that PyTorch computes on: files below /dev that their drivers have. */
#ifndef TRACER_PROC_DEVICES_H
#define TRACER_PROC_DEVICES_H

#include <sys/types.h>

/* The file of a device that a program started from here could use, "/dev/nvidiactl"; NULL: there is
 * none, or the variable that names those to be used (CUDA_VISIBLE_DEVICES and the like) names none.
 * Static. */
const char *devices_here(void);

/* The file of a device that the process has opened to compute on; NULL: none, or that could not be
 * read. Static. */
const char *devices_of(pid_t pid);

#endif
