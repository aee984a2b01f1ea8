#define _GNU_SOURCE

#include <math.h>
#include <string.h>

#include "replay/numbers/numbers.h"
#include "tracer/shim/extension/modes.h"

enum { LINES = 1 << 12 /* slots; line_find takes the upper 12 bits of the hash */ };

static struct line lines[LINES];
static unsigned nlines;
static struct {
	object *quick, *name;
} own;

bool lines_ready(void)
{
	const struct modes_wanted texts[] = {{&own.quick, "quick"}, {&own.name, "name"}};
	lines_forget();
	return modes_texts(texts, sizeof(texts) / sizeof(texts[0]));
}

void lines_forget(void)
{
	for (size_t i = 0; i < LINES; i++) {
		python_drop(lines[i].plan);
		python_drop(lines[i].at);
		python_drop(lines[i].op);
	}
	memset(lines, 0, sizeof(lines));
	nlines = 0;
}

/* Different objects may denote one place of the program. */
static bool is_same(object *at, object *other)
{
	return at == other || py.PyObject_RichCompareBool(at, other, PY_EQUAL) == 1;
}

struct line *line_find(object *plan, object *at)
{
	uint64_t h = ((uintptr_t)plan >> 4) * 0x9e3779b97f4a7c15 + (uint64_t)py.PyObject_Hash(at);
	size_t i = h * 0xbf58476d1ce4e5b9 >> 52;
	while (lines[i].plan && (lines[i].plan != plan || !is_same(lines[i].at, at)))
		i = (i + 1) % LINES;
	return &lines[i];
}

void line_begin(struct line *l, object *plan, object *at)
{
	enum { QUICK = 1, EXACT = 2, IN_PLACE = 4 }; /* of modes/ */
	object *quick = py.PyObject_GetAttr(plan, own.quick);
	long kind = quick ? py.PyLong_AsLong(quick) : 0;
	object *name = py.PyObject_GetAttr(plan, own.name);
	object *op = name ? py.PyUnicode_AsUTF8String(name) : NULL;
	python_drop(name);
	python_drop(quick);
	if (!op || nlines >= LINES / 4 * 3) {
		python_drop(op);
		return;
	}
	nlines++;
	*l = (struct line){.plan = python_kept(plan),
			   .at = python_kept(at),
			   .op = op,
			   .whole = !(kind & QUICK),
			   .by.exact = kind & EXACT,
			   .dtype = LINE_NOTHING,
			   .in_place = kind & IN_PLACE};
	for (int i = 0; i < LINE_RESULTS; i++)
		l->told[i].dtype = LINE_NOTHING;
}

void line_learn_reach(object *plan, object *at, object *args, object *kwargs)
{
	double reach = judge_reach();
	struct line *l = reach ? line_find(plan, at) : NULL;
	if (!l || !l->plan)
		return;
	l->reach = reach;
	l->of = reach > 1 ? seen_hash(args, kwargs) : 0;
}

double line_reach(const struct line *l, object *args, object *kwargs)
{
	return l->reach > 1 && seen_hash(args, kwargs) == l->of ? l->reach : 1;
}

object *modes_settled(object *self, object *unused)
{
	object *list = py.PyList_New(0);
	(void)self, (void)unused;
	for (size_t i = 0; list && i < LINES; i++) {
		struct line *l = &lines[i];
		if (!l->calls)
			continue;
		object *calls = py.PyLong_FromLong((long)l->calls);
		object *tensors = py.PyLong_FromLong((long)l->tensors);
		object *row =
		    calls && tensors ? py.PyTuple_Pack(4, l->plan, l->at, calls, tensors) : NULL;
		python_drop(calls);
		python_drop(tensors);
		if (row && !py.PyList_Append(list, row))
			l->calls = l->tensors = 0;
		python_drop(row);
	}
	return list;
}

enum { FLOAT64 = 7, PROBES_MOST = 8 };

static __thread double least_reach = INFINITY;

double judge_reach(void)
{
	double least = least_reach;
	least_reach = INFINITY;
	return isfinite(least) ? least : 0;
}

static object *arg(object *args, ssize_t i)
{
	return py.PyTuple_GetItem(args, i);
}

static double number_at(object *args, ssize_t i)
{
	return py.PyFloat_AsDouble(arg(args, i));
}

/* None gives an empty *out, and is no error. */
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

/* The statistics that a verdict needs. 0 or -errno. */
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
	struct compare_params p = {
	    .atol = tolerance.atol,
	    .rtol = tolerance.rtol,
	    .allowance = n[3].data,
	    .threads = 1,
	    .roundoff = verdict_roundoff(n[0].dtype, number_at(args, 6)),
	    .floor = verdict_floor(n[0].dtype, number_at(args, 6), number_at(args, 7))};
	if (!r && !compare_all(n, &p, s)) {
		struct compare_tensor a = view(&n[0]), ref = view(&n[1]);
		struct verdict_input in = {.stats = &s[0],
					   .cpu = n[2].tensor ? &s[1] : NULL,
					   .against_cpu = n[2].tensor ? &s[2] : NULL,
					   .dtype = n[0].dtype,
					   .exact = py.PyObject_IsTrue(arg(args, 5)) == 1,
					   .reach = number_at(args, 6),
					   .common = number_at(args, 8),
					   .result = &a,
					   .reference = &ref,
					   .params = &p};
		v = tolerance.from_env
			? verdict_allclose(&s[0], p.atol, p.rtol, why, sizeof(why), &score)
			: verdict_judge(&in, why, sizeof(why), &score);
	}
	double worst = v == VERDICT_NOT_JUDGED ? 0 : s[0].worst;
	least_reach = fmin(least_reach, v == VERDICT_RIGHT ? number_at(args, 6) : 1);
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

static double root_mean_square(const struct numbers *n)
{
	return n->dtype == FLOAT64 ? sqrt(compare_mean_square(n->data, (size_t)n->n)) : 0;
}

static bool same_shape(const struct numbers *a, const struct numbers *b)
{
	bool same = a->ndim == b->ndim;
	for (int i = 0; same && i < a->ndim; i++)
		same = a->shape[i] == b->shape[i];
	return same;
}

bool judge_is_sure(const struct judge_by *by, const struct numbers *actual,
		   const struct numbers *reference, bool *sure, double *worst)
{
	bool from_env = by->tolerance.from_env;
	struct compare_stats s;
	struct err e = {0};
	if (!same_shape(actual, reference))
		return false;
	struct compare_params p = {.atol = by->tolerance.atol,
				   .rtol = by->tolerance.rtol,
				   .threads = 1,
				   .sums_only = true,
				   .roundoff = verdict_roundoff(actual->dtype, by->reach),
				   .floor = verdict_floor(actual->dtype, by->reach, 0)};
	struct compare_tensor a = view(actual), ref = view(reference);
	if (compare_tensors(&a, &ref, &p, &s, &e) || (from_env && s.not_close))
		return false;
	*worst = s.worst;
	*sure = from_env || verdict_is_sure(&s, actual->dtype, by->exact, by->reach);
	return true;
}

bool judge_is_equal(const struct numbers *a, const struct numbers *b)
{
	struct compare_params p = {.threads = 1, .sums_only = true};
	struct compare_stats s;
	struct err e = {0};
	struct compare_tensor x = view(a), y = view(b);
	const struct number *t = number_of(a->dtype);
	if (a->dtype != b->dtype || !same_shape(a, b))
		return false;
	return !memcmp(a->data, b->data, (size_t)a->n * t->itemsize * t->parts) ||
	       (!compare_tensors(&x, &y, &p, &s, &e) && !s.unequal);
}

object *modes_surely_right(object *self, object *args)
{
	struct numbers n[2] = {0};
	struct judge_by by = {.exact = py.PyObject_IsTrue(arg(args, 3)) == 1, .reach = 1};
	struct err e = {0};
	double worst;
	bool sure;
	(void)self;
	bool good = numbers_of(arg(args, 1), &n[0]) && numbers_of(arg(args, 2), &n[1]);
	object *op = good ? py.PyUnicode_AsUTF8String(arg(args, 0)) : NULL;
	good = op && !tolerance_of(py.PyBytes_AsString(op), n[0].dtype, &by.tolerance, &e) &&
	       judge_is_sure(&by, &n[0], &n[1], &sure, &worst);
	python_drop(op);
	numbers_drop(&n[0]);
	numbers_drop(&n[1]);
	python_forget(); /* a tensor whose elements cannot be read */
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

/* How far an element has moved; 0 where that is not finite. */
static double distance(const double *a, const double *b, int64_t i)
{
	double d = fabs(a[i] - b[i]);
	return isfinite(d) ? d : 0;
}

/* In each row of `length` elements, raise every value to at least a quarter of the row's root mean
 * square, but no more than sixteenfold. */
static void level_rows(double *typical, int64_t n, int64_t length)
{
	for (int64_t i = 0; i + length <= n && length; i += length) {
		double sum = 0;
		for (int64_t k = 0; k < length; k++)
			sum += typical[i + k] * typical[i + k];
		double least = 0.25 * sqrt(sum / (double)length);
		for (int64_t k = 0; k < length; k++)
			typical[i + k] = fmax(typical[i + k], fmin(least, 16 * typical[i + k]));
	}
}

/* m[0] to m[probes - 2]: with all inputs moved; m[probes - 1]: with half of them. */
static double probe(double *out, const double *ref, const double *const *m, int probes,
		    const struct numbers *shape)
{
	enum { MANY = 6 /* of replay/runner/probe.py */ };
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
	double rms = root_mean_square(&n), largest = 0;
	const double *v = n.data;
	for (int64_t i = 0; n.dtype == FLOAT64 && i < n.n; i++)
		largest = fmax(largest, fabs(v[i]));
	numbers_drop(&n);
	return pair(py.PyFloat_FromDouble(rms), py.PyFloat_FromDouble(largest));
}
