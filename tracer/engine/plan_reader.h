/* Carrying out the reads of a probe plan (symbolizer/plan/plan.h) in user space on a thread that
 * stands still: the same items, byte for byte, as tracer/engine/bpf/probes.bpf.c makes of the same
 * memory, but that the class alone is sent of an object whose class is known, and of a list of
 * IValues more than the first 128. */
#ifndef TRACER_ENGINE_PLAN_READER_H
#define TRACER_ENGINE_PLAN_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/hit_buf.h"
#include "tracer/engine/remote.h"

/* One stop of a thread at the entry or the exit of an op. Nothing is owned. */
struct reading {
	struct remote *mem;
	struct hit_buf *out;
	const struct proc_conf *conf;
	const struct op_plan *plan;
	const uint64_t *w;    /* LOC_MAX words kept at the entry */
	const uint64_t *regs; /* ARCH_REGS registers as they are now (enum arch_reg) */
	uint64_t sp;	      /* stack pointer at the entry */
	bool is_exit;
	bool unsure; /* what is being read may not be what it looks like */
};

/* Append the items of the plan's entry or exit reads to r->out. While r->mem collects, what is not
 * known yet is noted there, and the items are worth nothing. */
void plan_reader_run(const struct reading *r);

/* The std::string at `at`, of the ABI that r->conf says: address and length of its text, in s. 0 or
 * -errno. */
int plan_reader_std_string(const struct reading *r, uint64_t at, uint64_t s[2]);

#endif
