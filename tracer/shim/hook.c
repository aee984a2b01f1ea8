/* Finds the moment at which the process gets its libtorch: preloaded, this library comes before the
 * C library in the search for symbols, and each shared object that is being initialised calls
 * __cxa_atexit for its static objects (Itanium C++ ABI, 3.3.6.3). All that it needs is mapped then,
 * and none of its ops has run. A program without libtorch notices nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/shim/shim.h"

typedef int atexit_fn(void (*f)(void *), void *arg, void *dso);

static int is_torch(struct dl_phdr_info *i, size_t size, void *out)
{
	(void)size;
	const char *slash = strrchr(i->dlpi_name, '/'), *name = slash ? slash + 1 : i->dlpi_name;
	if (strncmp(name, "libtorch_cpu.so", strlen("libtorch_cpu.so")))
		return 0;
	*(const char **)out = i->dlpi_name;
	return 1;
}

__attribute__((visibility("default"))) int __cxa_atexit(void (*f)(void *), void *arg, void *dso);

int __cxa_atexit(void (*f)(void *), void *arg, void *dso)
{
	static atexit_fn *libc;
	static bool found, looking;
	if (!libc)
		libc = (atexit_fn *)dlsym(RTLD_NEXT, "__cxa_atexit");
	int r = libc(f, arg, dso);
	if (found || looking || !getenv(SHIM_SOCKET))
		return r;
	const char *path = NULL;
	looking = true; /* the loader calls back */
	dl_iterate_phdr(is_torch, &path);
	looking = false;
	if (!path)
		return r;
	found = true;
	void *torch = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (torch && shim_connect())
		recorder_start(torch);
	return r;
}
