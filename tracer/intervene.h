/* Programs in which functions of PyTorch do something else: the library inside (tracer/shim/modes)
 * asks here what to do with each, and tells what it did. Prints on standard error. */
#ifndef TRACER_INTERVENE_H
#define TRACER_INTERVENE_H

#include "tracer/intervene_rules.h"

struct intervene;

/* Write the library, listen, and set the environment of what this process starts. `rules` must
 * outlive it. 0, or -errno with *e. */
int intervene_open(const struct intervene_rules *rules, struct intervene **out, struct err *e);

/* Answer whatever asks within the next `ms` milliseconds, and print what is told. */
void intervene_step(struct intervene *v, int ms);

/* Take what has come, print what was done in all, and say so when that is nothing. */
void intervene_finish(struct intervene *v);

/* The programs that are still connected compute by themselves from now on. */
void intervene_close(struct intervene *v);

#endif
