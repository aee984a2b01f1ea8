#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/target/elf.h"

enum { TEXT_MOST = 1 << 16 };

struct demangled {
	char *text;
	size_t len, room;
	jmp_buf full;
};

/* The only way out of libiberty, which has no memory of its own at this point. */
static void demangled_add(const char *piece, size_t n, void *arg)
{
	struct demangled *d = arg;
	if (d->len + n >= TEXT_MOST || array_grow(&d->text, &d->room, d->len + n + 1, 1))
		longjmp(d->full, 1);
	memcpy(d->text + d->len, piece, n);
	d->len += n;
	d->text[d->len] = '\0';
}

static bool demangle_into(const char *symbol, int options, struct demangled *d)
{
	return !setjmp(d->full) && cplus_demangle_v3_callback(symbol, options, demangled_add, d);
}

char *elf_demangle(const char *symbol, int options)
{
	struct demangled d = {0};
	if (demangle_into(symbol, options, &d))
		return d.text;
	free(d.text);
	return NULL;
}
