/* What is done with memory, as libc10 is told of it. A record is put into a ring of its own, which
 * is read quickly: what has been freed can only be told if every record is there. */
#include "tracer/shim/record/internal.h"

enum { CPU = 0 }; /* c10::DeviceType */

/* False: it is nothing to be told. A c10::Device is passed by value: type and index, a byte each
 * (c10/core/Device.h). */
static bool fill(struct shim_memory_record *m, const uint64_t *regs, uint32_t which)
{
	const uint8_t *arg = arch_int_arg;
	const bool is_device = which == SHIM_MEMORY_REPORT;
	m->hit.op = which;
	m->hit.sp = regs[arg[is_device ? 0 : 1]];
	if (is_device) {
		m->hit.seq = regs[arg[1]];
		m->total = regs[arg[2]];
		m->reserved = regs[arg[3]];
		m->hit.generation = (uint16_t)regs[arg[4]];
		return (int8_t)m->hit.generation != CPU && m->hit.seq;
	}
	m->hit.seq = which == SHIM_MEMORY_NEW ? regs[arg[2]] : 0;
	return m->hit.sp && (m->hit.seq || which == SHIM_MEMORY_DELETE);
}

static void put(struct recorder_thread *t, struct shim_memory_record *m)
{
	struct shim_thread *of = thread_slot(t);
	struct shim_memory_record *to =
	    chunks_room(&of->memory, &t->memory, t->share->memory_ring[t->index], sizeof(*to), 0);
	if (!to) {
		thread_count(&of->memory_lost, 1);
		return;
	}
	m->hit.ts = ticks_now(&t->ticks);
	m->hit.size = sizeof(*m);
	*to = *m;
	chunks_done(&of->memory, &to->hit);
}

void jump_memory_told(const uint64_t *regs, uint32_t which)
{
	struct shim_memory_record m = {.hit = {.size = 0}};
	if (!fill(&m, regs, which) || !inside_begin())
		return;
	struct recorder_thread *t = recorder_take();
	if (t) {
		put(t, &m);
		t->busy = false;
	}
	inside_end();
}
