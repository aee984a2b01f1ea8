#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "tracer/shim/record/internal.h"

/* The beginning of PyTypeObject (Include/cpython/object.h, 3.8 to 3.13; not of free-threaded
 * builds, whose object header is longer). */
struct type_head {
	size_t refcount;
	void *type;
	size_t size;
	const char *name;
	size_t basic_size, item_size;
	void (*dealloc)(void *);
};

static struct type_head *code_type;
static void (*dealloc)(void *);
static void (*_Atomic told)(uint64_t code);

static void freed(void *code)
{
	void (*fn)(uint64_t) = told;
	if (fn)
		fn((uint64_t)(uintptr_t)code);
	dealloc(code);
}

void pycode_watch(void (*fn)(uint64_t code))
{
	struct type_head *t = told == fn ? NULL : dlsym(RTLD_DEFAULT, "PyCode_Type");
	if (!t || !t->dealloc)
		return;
	told = fn;
	if (t->dealloc == freed)
		return;
	dealloc = t->dealloc;
	code_type = t;
	t->dealloc = freed;
}

/* If somebody else has replaced tp_dealloc since, leave it alone. */
void pycode_unwatch(void)
{
	told = NULL;
	if (code_type && code_type->dealloc == freed)
		code_type->dealloc = dealloc;
}
