#include <errno.h>
#include <stdlib.h>

#include "symbolizer/python/internal.h"

int py_module_dict(const struct py_runtime *rt, const char *module, uint64_t *dict)
{
	/* md_dict of PyModuleObject: Objects/moduleobject.c (3.8),
	 * Include/internal/pycore_moduleobject.h. */
	enum { MD_DICT = 16 };
	const struct py_walk *w = &rt->layout.walk;
	uint64_t interp, modules, found;
	int rc = py_read_word(rt, w->interp_head_addr, &interp);

	for (unsigned i = 0; !rc && interp && i < PY_MAX_INTERPRETERS; i++) {
		rc = py_read_word(rt, interp + rt->layout.modules, &modules);
		if (!rc)
			rc = py_dict_get(rt, modules, module, &found);
		if (!rc)
			return py_read_word(rt, found + MD_DICT, dict);
		if (rc == -ENOENT)
			rc = py_read_word(rt, interp + w->interp_next, &interp);
	}
	return rc ? rc : -ENOENT;
}

int py_module_get(const struct py_runtime *rt, const char *module, const char *name,
		  uint64_t *value)
{
	uint64_t dict;
	int rc = py_module_dict(rt, module, &dict);

	return rc ? rc : py_dict_get(rt, dict, name, value);
}

/* A slot is described by a member_descriptor of its class: d_member of PyMemberDescrObject
 * (Include/descrobject.h, Include/cpython/descrobject.h), which has the offset of the value in the
 * object (PyMemberDef: Include/structmember.h, Include/descrobject.h). */
static int slot_get(const struct py_runtime *rt, uint64_t obj, uint64_t type, const char *name,
		    uint64_t *value)
{
	enum { D_MEMBER = 40, OFFSET = 16, MAX_OFFSET = 1 << 16 };
	uint64_t dict, descriptor, kind, member, at;
	char text[32];
	int rc = py_type_dict(rt, type, &dict);

	if (!rc)
		rc = py_dict_get(rt, dict, name, &descriptor);
	if (!rc)
		rc = py_object_type(rt, descriptor, &kind);
	if (rc)
		return rc;
	if (py_type_name(rt, kind, text, sizeof(text)) < 0 || strcmp(text, "member_descriptor"))
		return -ENOENT;
	rc = py_read_word(rt, descriptor + D_MEMBER, &member);
	if (!rc)
		rc = py_read_word(rt, member + OFFSET, &at);
	if (!rc && (at > MAX_OFFSET || at % 8))
		rc = -EPROTO;
	if (!rc)
		rc = py_read_word(rt, obj + at, value);
	return rc ? rc : *value ? 0 : -ENOENT;
}

int py_attribute_get(const struct py_runtime *rt, uint64_t obj, const char *name, uint64_t *value)
{
	struct py_dict d;
	uint64_t type;
	int rc = py_object_type(rt, obj, &type);

	if (rc)
		return rc;
	rc = py_attributes_open(rt, obj, type, &d);
	if (!rc)
		rc = py_dict_find(rt, &d, name, value);
	return rc == -ENOENT ? slot_get(rt, obj, type, name, value) : rc;
}

int64_t python_loader_worker(const struct py_runtime *rt)
{
	uint64_t info, id;
	int rc = py_module_get(rt, "torch.utils.data._utils.worker", "_worker_info", &info);

	if (!rc)
		rc = py_attribute_get(rt, info, "id", &id);
	return rc ? rc : py_read_int(rt, id);
}

/* The name of the Thread object if it is that of thread `tid`, else -ENOENT. */
static ssize_t name_if(const struct py_runtime *rt, uint64_t thread, int32_t tid, char *out,
		       size_t size)
{
	uint64_t id, name;
	int rc = py_attribute_get(rt, thread, "_native_id", &id);

	if (!rc && py_read_int(rt, id) != tid)
		rc = -ENOENT;
	if (!rc)
		rc = py_attribute_get(rt, thread, "_name", &name);
	return rc ? rc : py_read_str(rt, name, out, size);
}

ssize_t python_thread_name(const struct py_runtime *rt, int32_t tid, char *out, size_t size)
{
	uint64_t active;
	struct py_dict d;
	int rc = py_module_get(rt, "threading", "_active", &active);

	if (!rc)
		rc = py_dict_open(rt, active, &d);
	if (rc)
		return rc;
	uint64_t(*pairs)[2] = calloc(d.n + 1, sizeof(*pairs));
	rc = pairs ? py_dict_read(rt, &d, pairs) : -ENOMEM;
	ssize_t n = rc ? rc : -ENOENT;
	for (size_t i = 0; !rc && i < d.n && n < 0; i++)
		if (pairs[i][1])
			n = name_if(rt, pairs[i][1], tid, out, size);
	free(pairs);
	return n;
}
