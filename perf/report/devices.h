/* What devices did: when they were busy, and the time of each kernel. */
#ifndef PERF_REPORT_DEVICES_H
#define PERF_REPORT_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"
#include "symbolizer/event/event.h"

/* The time in which at least one of many spans passed, in bounded memory. Spans may come in any
 * order, as long as not more than 65,536 later ones apart from each other come first; beyond that
 * they are told by stretches of time only. */

enum { BUSY_HELD = 1 << 17, BUSY_BINS = 1 << 15 };

struct busy_span {
	uint64_t from, to;
};

/* Zero-initialise. */
struct busy {
	struct busy_span *held;
	size_t n, room;
	bool tidy;	       /* `held` is sorted, and its spans are apart */
	uint64_t *bins;	       /* of what is held no more: busy time by stretch; NULL: nothing */
	uint64_t begin, width; /* of the first stretch; of each */
	uint64_t settled;      /* all that is held begins after it */
	bool late;	       /* a span came too late: times are about right */
};

/* from <= to. 0 or -ENOMEM. */
int busy_add(struct busy *b, uint64_t from, uint64_t to);

/* The busy time between two moments; *off: by how much it may be wrong. */
uint64_t busy_between(struct busy *b, uint64_t from, uint64_t to, uint64_t *off);

void busy_free(struct busy *b);

/* The devices of a trace. */

/* A device as one process sees it: others may have the same one by another number. */
struct device {
	uint32_t rank1; /* of the process; 0: not known */
	int32_t pid;
	int8_t type, index; /* c10::DeviceType */
	uint64_t activities;
	uint64_t sum_ns;	    /* of all, each by itself */
	uint64_t first_ns, last_ns; /* start of the first, end of the last */
	uint64_t copies_ns;	    /* of those, the copies */
	struct busy busy;
};

struct devices;

/* NULL if out of memory; free with devices_free. */
struct devices *devices_new(void);
void devices_free(struct devices *d); /* NULL allowed */

/* 0 or -ENOMEM. */
int devices_add(struct devices *d, const struct activity *a);

/* All, *n of them, in the order of their first activity. */
struct device *devices_list(const struct devices *d, size_t *n);

/* The name of the kind of copy that took longest, and its time; NULL: there were no copies. */
const char *devices_longest_copy(const struct devices *d, uint64_t *ns);

/* "cuda:0", of several processes "cuda:0 of rank 3" or "cuda:0 of pid 71". 64 bytes are always
 * enough. Returns out. */
const char *device_text(char *out, size_t size, const struct devices *d, const struct device *of);

#endif
