#include "perf/collectives/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Relative to the first bound: shifts may be larger than what a double has of ns. */
struct bound {
	double at; /* first, for compare() */
	double low, high, ends;
};

struct fitting {
	struct bound *all;
	double *lows, *highs; /* room for one of each bound */
	size_t n;
};

static const double most = CLOCK_DRIFT_MOST / 1e6;

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The least and the greatest value at time `at`, with that drift; greatest < least: there is none.
 */
struct range {
	double least, greatest;
};

static struct range range_at(const struct fitting *f, double drift, double at)
{
	struct range r = {-INFINITY, INFINITY};
	for (size_t i = 0; i < f->n; i++) {
		double more = drift * (at - f->all[i].at);
		r.least = fmax(r.least, f->all[i].low + more);
		r.greatest = fmin(r.greatest, f->all[i].high + more);
	}
	return r;
}

/* How much room the bounds leave with that drift: a concave function of it. */
static double room_of(const struct fitting *f, double drift)
{
	struct range r = range_at(f, drift, 0);
	return r.greatest - r.least;
}

enum { STEPS = 60 }; /* of a search, each by a third or by half */

/* The drift that leaves most room. */
static double widest(const struct fitting *f)
{
	double a = -most, b = most;
	for (int i = 0; i < STEPS; i++) {
		double x = a + (b - a) / 3, y = b - (b - a) / 3;
		if (room_of(f, x) < room_of(f, y))
			a = x;
		else
			b = y;
	}
	return (a + b) / 2;
}

/* From `in`, which leaves room, towards `out`: the last drift that does. */
static double last_with_room(const struct fitting *f, double in, double out)
{
	if (room_of(f, out) >= 0)
		return out;
	for (int i = 0; i < STEPS; i++) {
		double x = (in + out) / 2;
		if (room_of(f, x) >= 0)
			in = x;
		else
			out = x;
	}
	return in;
}

/* The greatest value at that time of all drifts from a to b: concave in the drift. `sign` -1: the
 * least, times -1. */
static double extreme(const struct fitting *f, double a, double b, double at, int sign)
{
	double best = -INFINITY;
	for (int i = 0; i < STEPS; i++) {
		double x = a + (b - a) / 3, y = b - (b - a) / 3;
		struct range p = range_at(f, x, at), q = range_at(f, y, at);
		double u = sign > 0 ? p.greatest : -p.least, v = sign > 0 ? q.greatest : -q.least;
		best = fmax(best, fmax(u, v));
		if (u < v)
			a = x;
		else
			b = y;
	}
	return best;
}

/* The values with that drift that most bounds allow: Marzullo's algorithm. How many do. */
static size_t agreed(const struct fitting *f, double drift, struct range *out)
{
	size_t depth = 0, ended = 0;
	for (size_t i = 0; i < f->n; i++) {
		f->lows[i] = f->all[i].low - drift * f->all[i].at;
		f->highs[i] = f->all[i].high - drift * f->all[i].at;
	}
	qsort(f->lows, f->n, sizeof(*f->lows), compare_doubles);
	qsort(f->highs, f->n, sizeof(*f->highs), compare_doubles);
	for (size_t i = 0; i < f->n; i++) {
		while (ended < f->n && f->highs[ended] < f->lows[i])
			ended++;
		if (i + 1 - ended <= depth || ended > i)
			continue;
		depth = i + 1 - ended;
		*out = (struct range){f->lows[i], f->highs[ended]};
	}
	return depth;
}

/* The slope of the ends: of the median of the first third to that of the last one. */
static double slope(const struct fitting *f)
{
	size_t third = f->n / 3;
	double at[2], ends[2];
	if (!third)
		return 0;
	for (int k = 0; k < 2; k++) {
		const struct bound *from = &f->all[k ? f->n - third : 0];
		for (size_t i = 0; i < third; i++) {
			f->lows[i] = from[i].at;
			f->highs[i] = from[i].ends;
		}
		at[k] = median(f->lows, third);
		ends[k] = median(f->highs, third);
	}
	double d = at[1] > at[0] ? (ends[1] - ends[0]) / (at[1] - at[0]) : 0;
	return fabs(d) <= most ? d : 0;
}

/* Leave out the bounds that contradict the others. Their number. */
static size_t leave_out(struct fitting *f, double drift, const struct range *r)
{
	size_t n = 0, all = f->n;
	for (size_t i = 0; i < all; i++) {
		const struct bound b = f->all[i];
		double more = drift * b.at;
		if (b.low - more <= r->least && b.high - more >= r->greatest)
			f->all[n++] = b;
	}
	f->n = n;
	return all - n;
}

static int make_feasible(struct fitting *f, size_t *against)
{
	struct range still = {0}, moving = {0};
	double drift = slope(f);
	size_t a = agreed(f, 0, &still), b = agreed(f, drift, &moving);
	if ((a > b ? a : b) * 2 <= f->n)
		return -ERANGE;
	*against = a >= b ? leave_out(f, 0, &still) : leave_out(f, drift, &moving);
	return 0;
}

/* Half of the ends are as near as this to `value`. */
static double spread_of_ends(const struct fitting *f, double drift, double value)
{
	for (size_t i = 0; i < f->n; i++)
		f->lows[i] = fabs(f->all[i].ends - drift * f->all[i].at - value);
	return median(f->lows, f->n);
}

static double median_of_ends(const struct fitting *f, double drift)
{
	for (size_t i = 0; i < f->n; i++)
		f->lows[i] = f->all[i].ends - drift * f->all[i].at;
	return median(f->lows, f->n);
}

/* How far off a value that changes by `drift` may be at that time. */
static double off_at(const struct fitting *f, const double drifts[2], double value, double at)
{
	return fmax(extreme(f, drifts[0], drifts[1], at, 1) - value,
		    extreme(f, drifts[0], drifts[1], at, -1) + value);
}

static void fit(const struct fitting *f, double drift, struct clock_fit *out)
{
	struct range r = range_at(f, drift, 0);
	double value = fmin(fmax(median_of_ends(f, drift), r.least), r.greatest);
	const double drifts[2] = {last_with_room(f, drift, -most), last_with_room(f, drift, most)};
	double first = f->all[0].at, last = first;
	for (size_t i = 0; i < f->n; i++) {
		first = fmin(first, f->all[i].at);
		last = fmax(last, f->all[i].at);
	}
	out->drift = drift;
	out->spread_ns = (uint64_t)spread_of_ends(f, drift, value);
	out->known_ns = (uint64_t)ceil(fmax(fmax(off_at(f, drifts, value + drift * first, first),
						 off_at(f, drifts, value + drift * last, last)),
					    0));
	out->shift_ns += llround(value);
}

/* None, unless the bounds call for it, or the ends do, where the bounds allow it. */
static double choose_drift(const struct fitting *f)
{
	double ends = slope(f);
	bool may_move = room_of(f, ends) >= 0;
	if (room_of(f, 0) < 0)
		return may_move ? ends : widest(f);
	double still = spread_of_ends(f, 0, median_of_ends(f, 0));
	return may_move && spread_of_ends(f, ends, median_of_ends(f, ends)) * 2 < still ? ends : 0;
}

static int fit_relative(struct fitting *f, struct clock_fit *out)
{
	double drift = choose_drift(f);
	if (room_of(f, drift) < 0) {
		int r = make_feasible(f, &out->against);
		if (r)
			return r;
		drift = choose_drift(f);
	}
	if (room_of(f, drift) < 0)
		return -ERANGE;
	fit(f, drift, out);
	return 0;
}

int clock_fit(const struct clock_bound *bounds, size_t n, struct clock_fit *out)
{
	if (!n)
		return -ENODATA;
	struct fitting f = {.all = calloc(n, sizeof(*f.all)),
			    .lows = calloc(n, sizeof(*f.lows)),
			    .highs = calloc(n, sizeof(*f.highs)),
			    .n = n};
	int r = -ENOMEM;
	*out = (struct clock_fit){.shift_ns = bounds[0].low, .at_ns = bounds[0].at_ns};
	if (f.all && f.lows && f.highs) {
		for (size_t i = 0; i < n; i++)
			f.all[i] =
			    (struct bound){.at = (double)(int64_t)(bounds[i].at_ns - out->at_ns),
					   .low = (double)(bounds[i].low - out->shift_ns),
					   .high = (double)(bounds[i].high - out->shift_ns),
					   .ends = (double)(bounds[i].ends - out->shift_ns)};
		qsort(f.all, n, sizeof(*f.all), compare_doubles); /* by time */
		r = fit_relative(&f, out);
	}
	free(f.all);
	free(f.lows);
	free(f.highs);
	return r;
}
