/* Notices when the process loads libtorch: preloaded, this library precedes the C library in symbol
 * lookup, and each shared object calls __cxa_atexit for its static objects while it is initialised
 * (Itanium C++ ABI, 3.3.6.3). By then all that is needed is mapped and none of its ops has run. A
 * program without libtorch is not affected. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "tracer/shim/shim.h"

typedef int atexit_fn(void (*f)(void *), void *arg, void *dso);

__attribute__((visibility("default"))) int __cxa_atexit(void (*f)(void *), void *arg, void *dso);

int __cxa_atexit(void (*f)(void *), void *arg, void *dso)
{
	static atexit_fn *libc;
	static bool found, looking;
	if (!libc)
		libc = (atexit_fn *)dlsym(RTLD_NEXT, "__cxa_atexit");
	int r = libc(f, arg, dso);
	if (found || looking || (!getenv(SHIM_SOCKET) && !getenv(MODES_SOCKET)))
		return r;
	looking = true; /* the loader may re-enter here */
	void *torch = shim_find_torch();
	looking = false;
	if (!torch)
		return r;
	found = true;
	if (getenv(SHIM_SOCKET))
		shim_come(getenv(SHIM_SOCKET), torch);
	modes_start(getenv(MODES_SOCKET));
	return r;
}
