#include <string.h>

#include "symbolizer/code/return_sites.h"

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/* Itanium C++ ABI 5.1.4.3: D1 and D2 name the complete and the base object destructor. The compiler
 * appends .part.0 and the like to its own copies. */
static bool is_destructor(const char *name)
{
	const char *end = strstr(name, "D1Ev");

	if (!end)
		end = strstr(name, "D2Ev");
	return end && (!end[4] || end[4] == '.');
}

bool return_sites_cleanup_symbol(const char *name)
{
	static const char *const exact[] = {"free", "pthread_mutex_unlock", "__stack_chk_fail"};

	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++)
		if (!strcmp(name, exact[i]))
			return true;
	/* operator delete, operator delete[] */
	if (begins(name, "_ZdlPv") || begins(name, "_ZdaPv"))
		return true;
	if (begins(name, "_ZN3c106SymInt8release_Ev") ||
	    (begins(name, "_ZN3c1013intrusive_ptrI") && strstr(name, "15reset_not_null_E")))
		return true;
	return (begins(name, "_ZNSt") || begins(name, "_ZN3c10")) && is_destructor(name);
}
