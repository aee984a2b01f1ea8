#define _GNU_SOURCE

#include <inttypes.h>
#include <stdio.h>

#include "replay/numbers/numbers.h"
#include "tracer/shim/extension/modes.h"

/* DLTensor, the beginning of DLManagedTensor (dlpack.h 0.8; the same since 0.2). */
struct dl_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

/* DLDataTypeCode, and the c10::ScalarType of each width. */
static const struct {
	uint8_t code, bits;
	int dtype;
} dtypes[] = {{0, 8, 1},  {0, 16, 2}, {0, 32, 3},  {0, 64, 4}, {1, 8, 0},    {2, 16, 5},
	      {2, 32, 6}, {2, 64, 7}, {4, 16, 15}, {5, 64, 9}, {5, 128, 10}, {6, 8, 11}};
enum { BOOL = 11 };

static struct {
	object *to_dlpack, *uint8;
	object *is_conj, *is_neg, *data_ptr, *offset, *numel, *storage, *later, *a_is_cpu;
} own;

bool numbers_ready(void)
{
	const struct modes_wanted names[] = {{&own.to_dlpack, "names.TO_DLPACK"},
					     {&own.uint8, "names.UINT8"},
					     {&own.is_conj, "names.IS_CONJ"},
					     {&own.is_neg, "names.IS_NEG"},
					     {&own.data_ptr, "names.DATA_PTR"},
					     {&own.offset, "names.STORAGE_OFFSET"},
					     {&own.numel, "names.NUMEL"},
					     {&own.storage, "names.STORAGE"},
					     {&own.later, "names.computes_later"}},
				  text = {&own.a_is_cpu, "is_cpu"};
	return modes_names(names, sizeof(names) / sizeof(names[0])) && modes_texts(&text, 1);
}

static bool says_no(object *method, object *tensor)
{
	object *r = py.PyObject_CallFunctionObjArgs(method, tensor, PY_END);
	python_drop(r);
	return r == py._Py_FalseStruct;
}

/* Whether its elements are in memory of this process with their plain values. */
static bool is_direct(object *t)
{
	return python_has(t, own.a_is_cpu, py._Py_TrueStruct) && says_no(own.is_conj, t) &&
	       says_no(own.is_neg, t);
}

static object *method(object *o, const char *name)
{
	object *f = o ? py.PyObject_GetAttrString(o, name) : NULL;
	object *r = f ? py.PyObject_CallObject(f, NULL) : NULL;
	python_drop(f);
	return r;
}

/* The number that a function gives for an object, or -1. Steals the reference to that number. */
static long as_number(object *r)
{
	long n = r ? py.PyLong_AsLong(r) : -1;
	python_drop(r);
	if (n == -1)
		python_forget();
	return n;
}

static long asked_number(object *function, object *o)
{
	return as_number(py.PyObject_CallFunctionObjArgs(function, o, PY_END));
}

static bool is_storage_empty(object *t)
{
	object *storage = py.PyObject_CallFunctionObjArgs(own.storage, t, PY_END);
	long bytes = as_number(method(storage, "nbytes"));
	python_drop(storage);
	return bytes == 0;
}

bool numbers_lack_memory(object *t)
{
	/* Below autograd a tensor of a device that computes later must not be asked for its memory.
	 */
	if (!python_has(t, own.a_is_cpu, py._Py_TrueStruct) && !says_no(own.later, t))
		return false;
	long at = asked_number(own.data_ptr, t);
	if (at > 0)
		return asked_number(own.offset, t) > 0 && is_storage_empty(t);
	return !at && asked_number(own.numel, t) > 0;
}

/* Its elements without history, on the CPU, contiguous. A new reference. */
static object *packed(object *t)
{
	static const char *const steps[] = {"detach", "cpu", "resolve_conj", "resolve_neg",
					    "contiguous"};
	t = python_kept(t);
	for (unsigned i = 0; t && i < sizeof(steps) / sizeof(steps[0]); i++) {
		object *next = method(t, steps[i]);
		python_drop(t);
		t = next;
	}
	return t;
}

/* A bool tensor's bytes as uint8 where DLPack refuses: it had no bool at first. */
static object *capsule_of(object *t, bool *is_bool)
{
	object *c = py.PyObject_CallFunctionObjArgs(own.to_dlpack, t, PY_END);
	if (c)
		return c;
	object *error[3], *dtype = NULL;
	py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	dtype = py.PyObject_GetAttrString(t, "dtype");
	object *text = dtype ? py.PyObject_Str(dtype) : NULL;
	*is_bool = text && !py.PyUnicode_CompareWithASCIIString(text, "torch.bool");
	object *view = *is_bool ? py.PyObject_GetAttrString(t, "view") : NULL;
	object *bytes = view ? py.PyObject_CallFunctionObjArgs(view, own.uint8, PY_END) : NULL;
	c = bytes ? py.PyObject_CallFunctionObjArgs(own.to_dlpack, bytes, PY_END) : NULL;
	python_drop(bytes);
	python_drop(view);
	python_drop(text);
	python_drop(dtype);
	if (c) {
		python_drop(error[0]);
		python_drop(error[1]);
		python_drop(error[2]);
	} else {
		py.PyErr_Restore(error[0], error[1], error[2]);
	}
	return c;
}

static int dtype_of(const struct dl_tensor *d)
{
	for (unsigned i = 0; d->lanes == 1 && i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (dtypes[i].code == d->code && dtypes[i].bits == d->bits)
			return dtypes[i].dtype;
	return -1;
}

static bool is_packed(const struct dl_tensor *d)
{
	int64_t expected = 1;
	bool packed = true;
	for (int i = d->ndim - 1; d->strides && i >= 0; i--) {
		packed = packed && (d->shape[i] == 1 || d->strides[i] == expected);
		expected *= d->shape[i];
	}
	return packed || !expected;
}

/* Steals the reference to t, which may be NULL with an error. NULL with an error, or without one
 * when the elements are not packed. */
static struct dl_tensor *open_tensor(object *t, bool *is_bool, struct numbers *out)
{
	*out = (struct numbers){.tensor = t, .n = 1};
	*is_bool = false;
	out->capsule = t ? capsule_of(t, is_bool) : NULL;
	struct dl_tensor *d =
	    out->capsule ? py.PyCapsule_GetPointer(out->capsule, "dltensor") : NULL;
	if (d && is_packed(d))
		return d;
	numbers_drop(out);
	return NULL;
}

bool numbers_of(object *tensor, struct numbers *out)
{
	enum { CPU = 1 };
	bool is_bool;
	if (numbers_lack_memory(tensor)) {
		py.PyErr_SetString(*(object **)py.PyExc_TypeError, "a tensor without memory");
		return false;
	}
	struct dl_tensor *d =
	    is_direct(tensor) ? open_tensor(python_kept(tensor), &is_bool, out) : NULL;
	if (!d) {
		python_forget();
		d = open_tensor(packed(tensor), &is_bool, out);
	}
	if (!d)
		return false;
	out->dtype = is_bool ? BOOL : dtype_of(d);
	out->data = (const char *)d->data + d->byte_offset;
	out->ndim = d->ndim;
	out->shape = d->shape;
	for (int i = 0; i < d->ndim; i++)
		out->n *= d->shape[i];
	if (out->dtype >= 0 && d->device_type == CPU)
		return true;
	numbers_drop(out);
	py.PyErr_SetString(*(object **)py.PyExc_TypeError, "it has a dtype without known numbers");
	return false;
}

/* Nobody has consumed the capsule, so its destructor frees the memory. */
void numbers_drop(struct numbers *n)
{
	python_drop(n->capsule);
	python_drop(n->tensor);
	*n = (struct numbers){0};
}

/* Statistics of a tensor for --overflow: those of --stats (replay/numbers/numbers.h). */

enum { COLUMNS = 11 };

static void bound(char out[32], const struct stats *s, double value, int64_t exact)
{
	if (!s->is_int || !s->count)
		snprintf(out, 32, "%.6g", value);
	else
		snprintf(out, 32, s->is_unsigned ? "%" PRIu64 : "%" PRId64, exact);
}

static object *row_of(const struct stats *s)
{
	char text[COLUMNS][32];
	bool bad = s->nan || s->pos_inf || s->neg_inf;
	snprintf(text[0], 32, "%s", bad ? "True" : "False");
	bound(text[1], s, s->min, s->min_int);
	bound(text[2], s, s->max, s->max_int);
	snprintf(text[3], 32, "%.6g", s->mean);
	snprintf(text[4], 32, "%.6g", s->std);
	snprintf(text[5], 32, "%.6g", s->l2);
	snprintf(text[6], 32, "%" PRIu64, s->nan);
	snprintf(text[7], 32, "%" PRIu64, s->pos_inf);
	snprintf(text[8], 32, "%" PRIu64, s->neg_inf);
	snprintf(text[9], 32, "%" PRIu64, s->zeros);
	snprintf(text[10], 32, "%016" PRIx64, s->hash);
	object *row = py.PyList_New(0);
	for (int i = 0; row && i < COLUMNS; i++) {
		object *cell = py.PyUnicode_FromString(text[i]);
		if (cell && py.PyList_Append(row, cell))
			py.PyErr_Clear();
		python_drop(cell);
	}
	return row;
}

object *modes_measure(object *self, object *tensor)
{
	struct numbers n;
	(void)self;
	if (!numbers_of(tensor, &n))
		return NULL;
	struct stats s;
	struct stats_sum *sum = stats_begin(n.dtype);
	if (sum) {
		stats_add(sum, n.data, (size_t)n.n);
		stats_end(sum, &s);
	}
	numbers_drop(&n);
	return sum ? row_of(&s) : python_none();
}
