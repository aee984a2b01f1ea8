/* Which threads work for ditrace itself, in a table that whoever traces the process reads at each
 * op: SHIM_OWN_WORK. */
#include "tracer/shim/shim.h"

extern __attribute__((visibility("default"))) _Atomic uint64_t ditrace_own_work[OWN_SETS][OWN_WAYS];

_Atomic uint64_t ditrace_own_work[OWN_SETS][OWN_WAYS];

static __thread bool is_here; /* this thread is in the table */
static __thread unsigned locks;

static uint64_t self(void)
{
	return (uint64_t)(uintptr_t)__builtin_thread_pointer();
}

/* More threads at a time than a set has room for, at the same hash, are not to be expected; the ops
 * of the last one would be taken for the program's. */
static void enter(void)
{
	_Atomic uint64_t *set =
	    ditrace_own_work[own_work_set(self()) / sizeof(ditrace_own_work[0])];
	for (unsigned i = 0; i < OWN_WAYS && !is_here; i++) {
		uint64_t none = 0;
		is_here = atomic_compare_exchange_strong(&set[i], &none, self());
	}
}

static void leave(void)
{
	_Atomic uint64_t *set =
	    ditrace_own_work[own_work_set(self()) / sizeof(ditrace_own_work[0])];
	for (unsigned i = 0; i < OWN_WAYS; i++)
		if (set[i] == self())
			set[i] = 0;
	is_here = false;
}

bool own_work(bool is_own)
{
	bool was = is_here;
	if (is_own && !was)
		enter();
	else if (!is_own && was && !locks)
		leave();
	return was;
}

void own_work_lock(void)
{
	locks++;
}

void own_work_unlock(void)
{
	locks--;
}

void own_work_forked(void)
{
	for (unsigned i = 0; i < OWN_SETS; i++)
		for (unsigned k = 0; k < OWN_WAYS; k++)
			if (ditrace_own_work[i][k] != self())
				ditrace_own_work[i][k] = 0;
}
