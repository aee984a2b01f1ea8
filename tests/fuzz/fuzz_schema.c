/* Fuzzes a library's read-only data and symbols: the readers of schemas and of C++ names stay
 * within them. The input serves as a schema text, as an image to scan, and as a symbol to look up
 * in it. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/event.h"
#include "symbolizer/ops/schema.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void as_text(const char *text, size_t len, struct arena *a)
{
	struct schema s;
	struct op_desc d;
	if (!schema_parse(text, len, "aten", a, &s) && schema_to_desc(&s, a, &d))
		abort();
}

static void as_library(const char *image, size_t len, const char *symbol, struct arena *a)
{
	struct schema_index x = {0};
	struct cxx_function fn;
	struct schema s;

	if (!schema_index_add(&x, image, len) && !cxx_function_parse(symbol, a, &fn) &&
	    !schema_index_find(&x, &fn, a, &s) && s.nargs != fn.nparams)
		abort();
	schema_index_free(&x);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct arena a = {0};
	struct cxx_param p = {0};
	char *copy = malloc(size + 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	as_text((const char *)data, size, &a);
	as_library((const char *)data, size, copy, &a);
	cxx_type_parse((const char *)data, size, &p);
	free(copy);
	arena_free(&a);
	return 0;
}
