/* What debuggers are told of the memory for stubs, which they know no file of: gdb's "JIT
 * Compilation Interface" (its manual, chapter 31). It looks for these names in each file, also
 * among the local symbols, and reads the list when it attaches; if it has before, it has a
 * breakpoint in the function. */
#include "tracer/engine/shim/jumps.h"
#include "tracer/shim/record/internal.h"

enum { NOTHING, REGISTER, UNREGISTER };

struct code_entry {
	struct code_entry *next, *prev;
	const void *file;
	uint64_t size;
};

/* By this name alone, but not exported, as others in the process may export theirs. */
struct {
	uint32_t version, action;
	struct code_entry *relevant, *first;
} __jit_debug_descriptor __attribute__((used)) = {.version = 1};

__attribute__((noinline, noipa, used)) void __jit_debug_register_code(void);

void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

enum { PARTS_MOST = 2 * JUMP_PARTS };

static struct code_entry entries[PARTS_MOST];
static struct stub_image images[PARTS_MOST];
static unsigned nshown;

static void tell_debugger(uint32_t action, struct code_entry *of)
{
	__jit_debug_descriptor.action = action;
	__jit_debug_descriptor.relevant = of;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = NOTHING;
}

void debugger_show(const struct jump_pool *pool)
{
	for (uint64_t i = 0; i < pool->n && nshown < PARTS_MOST; i++, nshown++) {
		struct code_entry *e = &entries[nshown], *first = __jit_debug_descriptor.first;
		stub_image_make(&images[nshown], pool->part[i].addr - STUB_IMAGE,
				pool->part[i].len + STUB_IMAGE);
		*e = (struct code_entry){first, NULL, &images[nshown], sizeof(images[nshown])};
		if (first)
			first->prev = e;
		__jit_debug_descriptor.first = e;
		tell_debugger(REGISTER, e);
	}
}

void debugger_hide(void)
{
	for (struct code_entry *e; (e = __jit_debug_descriptor.first);) {
		__jit_debug_descriptor.first = e->next;
		if (e->next)
			e->next->prev = NULL;
		tell_debugger(UNREGISTER, e);
	}
	nshown = 0;
}
