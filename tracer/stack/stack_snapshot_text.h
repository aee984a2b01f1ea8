/* A look at a process for people, and for programs. */
#ifndef TRACER_STACK_STACK_SNAPSHOT_TEXT_H
#define TRACER_STACK_STACK_SNAPSHOT_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tracer/stack/stack_snapshot.h"

struct stack_snapshot_view {
	pid_t pid;
	struct stack_reader *stack_reader;
	const struct stack_snapshot *look; /* the last one */
	unsigned looks;			   /* taken */
	uint64_t first_ns;		   /* when the first of them began, CLOCK_MONOTONIC */
	bool native;			   /* native stacks were asked for */
	bool all;			   /* frames of torch and of the interpreter, too */
};

/* Threads that do the same at the same place are shown once. 0, -ENOMEM or -EIO. */
int stack_snapshot_print(const struct stack_snapshot_view *v, FILE *f);

/* One JSON object, see ditrace-stack(1). 0, -ENOMEM or -EIO. */
int stack_snapshot_json(const struct stack_snapshot_view *v, FILE *f);

#endif
