/* Processes of ditrace's own that outlive it by the moment that it takes to leave the traced ones
 * as they were, and how they are talked to. */
#ifndef TRACER_PROC_HELPER_H
#define TRACER_PROC_HELPER_H

#include <stdbool.h>
#include <stddef.h>

/* Make the calling process, a fresh child, one of these: named `name` (15 bytes at most), in a
 * session of its own, without the user's terminal and files, spared when memory runs out (as far as
 * it may ask for that). `sock`, its end to ditrace, is kept. */
void helper_begin(const char *name, int sock);

/* Send or receive all `n` bytes over a stream socket, whatever interrupts. false: the other end is
 * gone. */
bool helper_send(int sock, const void *buf, size_t n);
bool helper_receive(int sock, void *buf, size_t n);

#endif
