#define _GNU_SOURCE
#include "tracer/shim/modes_judge.h"

#include <math.h>

#include "replay/tolerance.h"
#include "replay/verdict.h"
#include "tracer/shim/modes_numbers.h"

enum { FLOAT64 = 7, PROBES_MOST = 8 };

static object *arg(object *args, ssize_t i)
{
	return py.PyTuple_GetItem(args, i);
}

static double number_at(object *args, ssize_t i)
{
	return py.PyFloat_AsDouble(arg(args, i));
}

/* None gives no numbers, and is no error. */
static bool numbers_at(object *args, ssize_t i, struct numbers *out)
{
	*out = (struct numbers){0};
	return arg(args, i) == py._Py_NoneStruct || numbers_of(arg(args, i), out);
}

static struct compare_tensor view(const struct numbers *n)
{
	return (struct compare_tensor){n->data, n->dtype, n->ndim, n->shape, NULL};
}

static object *pair(object *a, object *b)
{
	object *r = a && b ? py.PyTuple_Pack(2, a, b) : NULL;
	python_drop(a);
	python_drop(b);
	return r;
}

/* The statistics of a verdict. 0 or -errno. */
static int compare_all(const struct numbers n[4], const struct compare_params *p,
		       struct compare_stats s[3])
{
	struct err e = {0};
	struct compare_tensor a = view(&n[0]), ref = view(&n[1]), cpu = view(&n[2]);
	int r = compare_tensors(&a, &ref, p, &s[0], &e);
	if (!r && n[2].tensor)
		r = compare_tensors(&cpu, &ref, p, &s[1], &e);
	if (!r && n[2].tensor)
		r = compare_tensors(&a, &cpu, p, &s[2], &e);
	return r;
}

static object *verdict_of(object *args, const char *op, const struct numbers n[4])
{
	struct tolerance tolerance;
	struct compare_stats s[3];
	struct err e = {0};
	char why[512];
	double score = 0;
	enum verdict v = VERDICT_NOT_JUDGED;
	int r = tolerance_of(op, n[0].dtype, &tolerance, &e);
	struct compare_params p = {.atol = tolerance.atol,
				   .rtol = tolerance.rtol,
				   .allowance = n[3].data,
				   .threads = 1,
				   .floor = verdict_floor(n[0].dtype, number_at(args, 7))};
	if (!r && !compare_all(n, &p, s)) {
		struct verdict_input in = {.stats = &s[0],
					   .cpu = n[2].tensor ? &s[1] : NULL,
					   .against_cpu = n[2].tensor ? &s[2] : NULL,
					   .dtype = n[0].dtype,
					   .exact = py.PyObject_IsTrue(arg(args, 5)) == 1,
					   .reach = number_at(args, 6)};
		v = tolerance.from_env
			? verdict_allclose(&s[0], p.atol, p.rtol, why, sizeof(why), &score)
			: verdict_judge(&in, why, sizeof(why), &score);
	}
	double worst = v == VERDICT_NOT_JUDGED ? 0 : s[0].worst;
	return pair(py.PyLong_FromLong(v), py.PyFloat_FromDouble(worst));
}

object *modes_judged(object *self, object *args)
{
	struct numbers n[4] = {0};
	object *r = NULL;
	(void)self;
	bool good = true;
	for (int i = 0; i < 4 && good; i++)
		good = numbers_at(args, i + 1, &n[i]);
	object *op = good ? py.PyUnicode_AsUTF8String(arg(args, 0)) : NULL;
	if (op)
		r = verdict_of(args, py.PyBytes_AsString(op), n);
	python_drop(op);
	for (int i = 0; i < 4; i++)
		numbers_drop(&n[i]);
	return r;
}

static double mean_square(const struct numbers *n)
{
	const double *v = n->data;
	double squares = 0;
	int64_t finite = 0;
	for (int64_t i = 0; n->dtype == FLOAT64 && i < n->n; i++)
		if (isfinite(v[i])) {
			squares += v[i] * v[i];
			finite++;
		}
	return finite ? squares / (double)finite : 0;
}

static bool same_shape(const struct numbers *a, const struct numbers *b)
{
	bool same = a->ndim == b->ndim;
	for (int i = 0; same && i < a->ndim; i++)
		same = a->shape[i] == b->shape[i];
	return same;
}

/* False: it cannot be told. *worst: in units of rounding. */
static bool look(const char *op, const struct numbers n[2], bool exact, bool *sure, double *worst)
{
	struct tolerance t;
	struct compare_stats s;
	struct err e = {0};
	if (!same_shape(&n[0], &n[1]) || tolerance_of(op, n[0].dtype, &t, &e))
		return false;
	struct compare_params p = {.atol = t.atol,
				   .rtol = t.rtol,
				   .threads = 1,
				   .floor = verdict_floor(n[0].dtype, sqrt(mean_square(&n[1])))};
	struct compare_tensor a = view(&n[0]), ref = view(&n[1]);
	if (compare_tensors(&a, &ref, &p, &s, &e) || (t.from_env && s.not_close))
		return false;
	*worst = s.worst;
	*sure = t.from_env || verdict_is_sure(&s, n[0].dtype, exact);
	return true;
}

object *modes_surely_right(object *self, object *args)
{
	struct numbers n[2] = {0};
	double worst;
	bool sure;
	(void)self;
	bool good = numbers_of(arg(args, 1), &n[0]) && numbers_of(arg(args, 2), &n[1]);
	object *op = good ? py.PyUnicode_AsUTF8String(arg(args, 0)) : NULL;
	good = op && look(py.PyBytes_AsString(op), n, py.PyObject_IsTrue(arg(args, 3)) == 1, &sure,
			  &worst);
	python_drop(op);
	numbers_drop(&n[0]);
	numbers_drop(&n[1]);
	python_forget(); /* what has no numbers here */
	return good ? pair(py.PyBool_FromLong(sure), py.PyFloat_FromDouble(worst)) : python_none();
}

/* splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

object *modes_perturbed(object *self, object *args)
{
	struct numbers n;
	(void)self;
	if (!numbers_of(arg(args, 0), &n))
		return NULL;
	uint64_t state = (uint64_t)py.PyLong_AsLong(arg(args, 1));
	double u = number_at(args, 2), *v = (double *)n.data;
	bool part = py.PyObject_IsTrue(arg(args, 3)) == 1;
	for (int64_t i = 0; n.dtype == FLOAT64 && i < n.n; i++) {
		uint64_t r = next_random(&state);
		double size = 0.5 + (double)(r >> 12) * 0x1p-53;
		if (!part || r & 2)
			v[i] *= 1 + (r & 1 ? u : -u) * size;
	}
	numbers_drop(&n);
	return python_kept(arg(args, 0));
}

/* How far an element has moved; 0 where that is no number. */
static double distance(const double *a, const double *b, int64_t i)
{
	double d = fabs(a[i] - b[i]);
	return isfinite(d) ? d : 0;
}

/* Rows of `length` elements: none is taken to move by less than a quarter of what its row does. */
static void level_rows(double *typical, int64_t n, int64_t length)
{
	for (int64_t i = 0; i + length <= n && length; i += length) {
		double sum = 0;
		for (int64_t k = 0; k < length; k++)
			sum += typical[i + k] * typical[i + k];
		double least = 0.25 * sqrt(sum / (double)length);
		for (int64_t k = 0; k < length; k++)
			typical[i + k] = fmax(typical[i + k], least);
	}
}

/* m[0] to m[probes - 2]: all inputs moved; m[probes - 1]: half of them. */
static double probe(double *out, const double *ref, const double *const *m, int probes,
		    const struct numbers *shape)
{
	enum { MANY = 6 /* of replay/runner/00_head.py */ };
	int64_t moving = 0, still = 0;
	for (int64_t i = 0; i < shape->n; i++) {
		double sum = 0;
		for (int k = 0; k < probes - 1; k++)
			sum += distance(m[k], ref, i) * distance(m[k], ref, i);
		out[i] = sqrt(sum / (probes - 1));
		moving += sum > 0;
		still += sum > 0 && distance(m[probes - 1], ref, i) == 0;
	}
	double inputs = moving ? log2((double)moving / fmax((double)still, 0.5)) : 0;
	if (inputs >= MANY && shape->ndim)
		level_rows(out, shape->n, shape->shape[shape->ndim - 1]);
	for (int64_t i = 0; i < shape->n; i++)
		out[i] = fmax(out[i], distance(m[probes - 1], ref, i));
	return inputs;
}

object *modes_probed(object *self, object *args)
{
	struct numbers n[2 + PROBES_MOST] = {0};
	const double *m[PROBES_MOST];
	ssize_t all = py.PyTuple_Size(args);
	bool good = all >= 4 && all <= 2 + PROBES_MOST;
	double inputs = 0;
	(void)self;
	for (ssize_t i = 0; i < all && good; i++)
		good = numbers_of(arg(args, i), &n[i]) && n[i].dtype == FLOAT64 && n[i].n == n[0].n;
	for (ssize_t i = 2; i < all && good; i++)
		m[i - 2] = n[i].data;
	if (good)
		inputs = probe((double *)n[0].data, n[1].data, m, (int)all - 2, &n[1]);
	else if (!py.PyErr_Occurred())
		py.PyErr_SetString(*(object **)py.PyExc_TypeError, "probed: not of one shape");
	for (ssize_t i = 0; i < 2 + PROBES_MOST; i++)
		numbers_drop(&n[i]);
	return good ? py.PyFloat_FromDouble(inputs) : NULL;
}

object *modes_extent(object *self, object *t)
{
	struct numbers n;
	(void)self;
	if (!numbers_of(t, &n))
		return NULL;
	double squares = 0, largest = 0;
	const double *v = n.data;
	int64_t finite = 0;
	for (int64_t i = 0; n.dtype == FLOAT64 && i < n.n; i++) {
		largest = fmax(largest, fabs(v[i]));
		finite += isfinite(v[i]);
		squares += isfinite(v[i]) ? v[i] * v[i] : 0;
	}
	numbers_drop(&n);
	return pair(py.PyFloat_FromDouble(finite ? sqrt(squares / (double)finite) : 0),
		    py.PyFloat_FromDouble(largest));
}
