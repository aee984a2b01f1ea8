/* Programs in which functions of PyTorch do something else: the library inside
 * (tracer/shim/extension/modes) asks here what to do with each, and tells what it did. Prints on
 * standard error. */
#ifndef TRACER_INTERVENE_INTERVENE_H
#define TRACER_INTERVENE_INTERVENE_H

#include <sys/types.h>

#include "tracer/intervene/intervene_rules.h"

struct intervene;

/* Write the library, listen, and set the environment of what this process starts. `rules` must
 * outlive it, and change as ditrace ctl (intervene_ctl.h) says. 0, or -errno with *e. */
int intervene_open(struct intervene_rules *rules, struct intervene **out, struct err *e);

/* The same for a process that runs, which has a libtorch: the library is brought in (injector.h).
 */
int intervene_enter(struct intervene_rules *rules, pid_t pid, struct intervene **out,
		    struct err *e);

/* Have all programs compute by themselves from now on, and wait until they do, for two seconds. */
void intervene_leave(struct intervene *v);

/* Answer whatever asks within the next `ms` milliseconds, and print what is told. */
void intervene_step(struct intervene *v, int ms);

/* Take what has come, print what was done in all, and say so when that is nothing. */
void intervene_finish(struct intervene *v);

/* The programs that are still connected compute by themselves from now on. */
void intervene_close(struct intervene *v);

#endif
