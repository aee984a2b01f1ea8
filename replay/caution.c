#include "replay/internal.h"

json_t *request_with(json_t *request, const struct caution *c)
{
	json_object_set_new(request, "trust", json_boolean(c->trust));
	json_object_set_new(request, "max_bytes", json_integer((json_int_t)c->max_bytes));
	return request;
}

int caution_before(struct caution *c, const char *python, char *const *folders, size_t n,
		   char *const **before, struct err *e)
{
	int r = c->sandboxed ? sandbox_open(&c->sandbox, python, folders, n, e) : 0;
	*before = c->sandbox.argv;
	return r;
}
