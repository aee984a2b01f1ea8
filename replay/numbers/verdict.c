#include "replay/numbers/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "AUTOCOMPARE_ERROR_TOLERANCE"

extern char **environ;

static const struct {
	int dtype;
	const char *name;
	double tolerance;
} defaults[] = {
    {5, "FLOAT16", 1e-4}, {15, "BFLOAT16", 1e-3}, {6, "FLOAT32", 1e-5}, {7, "FLOAT64", 1e-8}};

/* "ADD" of "torch.Tensor.add", "aten::add.Tensor" and "torch.ops.aten.add.Tensor". */
static void op_part(const char *op, char *out, size_t size)
{
	const char *colons = strstr(op, "::"), *dot = strrchr(op, '.');
	const char *in_torch = colons ? colons + 2 : NULL;
	if (!strncmp(op, "torch.ops.", 10) && strchr(op + 10, '.'))
		in_torch = strchr(op + 10, '.') + 1;
	const char *s = in_torch ? in_torch : dot ? dot + 1 : op;
	size_t n = 0;
	for (; *s && !(in_torch && *s == '.') && n + 1 < size; s++)
		out[n++] = (char)toupper((unsigned char)*s);
	out[n] = '\0';
}

/* 1: read into *out, 0: the variable is not set, or -EINVAL. */
static int tolerance_read_variable(const char *variable, struct tolerance *out, struct err *e)
{
	const char *text = getenv(variable);
	char *end, *end2;
	if (!text)
		return 0;
	double atol = strtod(text, &end);
	if (end != text && *end == ',') {
		double rtol = strtod(end + 1, &end2);
		while (isspace((unsigned char)*end2))
			end2++;
		if (end2 != end + 1 && !*end2 && atol >= 0 && rtol >= 0) {
			*out = (struct tolerance){atol, rtol, true};
			return 1;
		}
	}
	err_set(e, -EINVAL, "%s=%s is not two numbers", variable, text);
	return err_hint(e, "write atol,rtol: %s=1e-4,1e-5", variable);
}

int tolerance_of(const char *op, int dtype, struct tolerance *out, struct err *e)
{
	char part[256], variable[384];
	int r = 0;
	*out = (struct tolerance){1e-3, 1e-3, false};
	op_part(op, part, sizeof(part));
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		if (defaults[i].dtype != dtype)
			continue;
		out->atol = out->rtol = defaults[i].tolerance;
		snprintf(variable, sizeof(variable), "%s_" VARIABLE "_%s", part, defaults[i].name);
		r = tolerance_read_variable(variable, out, e);
		if (!r)
			r = tolerance_read_variable(strstr(variable, VARIABLE), out, e);
	}
	if (!r)
		r = tolerance_read_variable(VARIABLE, out, e);
	return r < 0 ? r : 0;
}

bool tolerance_in_env(void)
{
	for (char **v = environ; *v; v++) {
		const char *found = strstr(*v, VARIABLE), *equals = strchr(*v, '=');
		if (found && equals && found < equals && (found == *v || found[-1] == '_'))
			return true;
	}
	return false;
}

/* Limits in units of compare_params, measured on tests/corpus; see docs/verdict.md. */
static const double worst_limit = 3, rms_limit = 0.75, bias_limit = 0.4;
/* The CPU's kernels round, too: errors up to so many times theirs are accepted. */
static const double rms_of_cpu = 2, bias_of_cpu = 3;
/* Roundoffs that all elements may be too large or too small by: of each, and of their root mean
 * square; a mean of so few units is none. */
static const double scale_limit = 3, least_bias = 0.04;
/* Units of the roundoff inside of kernels: for functions that devices approximate, and for each
 * root of the number of summands that are added up in any order. */
static const double approximation = 2, disorder = 0.8;
static const double longest_sum = 1 << 14; /* no kernel adds up more, one after the other */
/* Standard errors from which on a mean counts as a bias rather than chance. */
static const double bias_errors = 8;
enum { BIAS_MIN = 64, SCALE_MIN = 16, DTYPE_FLOAT64 = 7, DTYPE_COMPLEX128 = 10 };

const char *verdict_name(enum verdict v)
{
	static const char *const names[] = {"right", "wrong", "not judged"};
	return names[v];
}

/* Unit roundoff of sums inside kernels: half types accumulate in float32. */
static double inner_roundoff(int dtype)
{
	bool twice = dtype == DTYPE_FLOAT64 || dtype == DTYPE_COMPLEX128;
	return twice ? 0x1p-53 : 0x1p-24;
}

/* Units of inner_roundoff that a kernel may be off by. */
static double inner_errors(double reach)
{
	return approximation + (reach > 1 ? disorder * sqrt(fmin(reach, longest_sum)) : 0);
}

double verdict_roundoff(int dtype, double reach)
{
	double u = compare_roundoff(dtype);
	return u > 0 ? u + inner_errors(reach) * inner_roundoff(dtype) : 0;
}

double verdict_floor(int dtype, double reach, double rms)
{
	double normal = compare_smallest_normal(dtype);
	double flushed = normal < 0x1p-100 ? normal : 0; /* kernels may flush subnormals to zero */
	return fmax(inner_errors(reach) * inner_roundoff(dtype) * rms, flushed);
}

struct figures {
	double worst, rms, mean, along, scale;
};

static struct figures figures_of(const struct compare_stats *s)
{
	double n = s->finite ? (double)s->finite : 1;
	return (struct figures){s->worst, sqrt(s->sum2 / n), s->sum / n, s->along / n,
				s->scale2 > 0 ? s->scale / s->scale2 : 0};
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* The worst finding so far, and its text. */
struct finding {
	double score;
	bool has_cpu;
	char *why;
	size_t size;
};

static void finding_note(struct finding *f, double value, double limit, const char *format,
			 double cpu)
{
	double score = value / limit;
	if (score <= 1 || score <= f->score)
		return;
	f->score = score;
	snprintf(f->why, f->size, format, value, cpu);
	char *about_cpu = f->has_cpu ? NULL : strstr(f->why, ", the CPU");
	if (about_cpu)
		*about_cpu = '\0';
}

/* Standard errors of the means if all elements err independently. */
static struct compare_spread independent(const struct compare_stats *s)
{
	double n = (double)s->finite, rms = sqrt(s->sum2 / n);
	double rest = s->scale2 > 0 ? s->sum2 - s->scale * s->scale / s->scale2 : 0;
	double scale = s->scale2 > 0 ? sqrt(fmax(rest, 0) / n / s->scale2) : (double)INFINITY;
	return (struct compare_spread){rms / sqrt(n), rms / sqrt(n), scale};
}

static bool is_beyond(double mean, double limit, double error)
{
	return fabs(mean) > limit && fabs(mean) > bias_errors * error;
}

struct bias_limits {
	double mean, along, scale;
};

static bool is_biased(const struct figures *a, const struct bias_limits *l,
		      const struct compare_spread *error, uint64_t n)
{
	return (n >= BIAS_MIN && (is_beyond(a->mean, l->mean, error->mean) ||
				  is_beyond(a->along, l->along, error->along))) ||
	       (n >= SCALE_MIN && is_beyond(a->scale, l->scale, error->scale));
}

static void note_bias(struct finding *f, const struct figures *a, const struct figures *c,
		      const struct bias_limits *l, const struct compare_spread *error, uint64_t n,
		      double to_roundoffs)
{
	if (n >= BIAS_MIN && is_beyond(a->mean, l->mean, error->mean))
		finding_note(f, fabs(a->mean), l->mean,
			     a->mean > 0
				 ? "biased: too large by %.3g units on average, the CPU by %.2g"
				 : "biased: too small by %.3g units on average, the CPU by %.2g",
			     fabs(c->mean));
	if (n >= BIAS_MIN && is_beyond(a->along, l->along, error->along))
		finding_note(f, fabs(a->along), l->along,
			     a->along > 0
				 ? "biased: %.3g units too far from zero on average, the CPU %.2g"
				 : "biased: %.3g units too near to zero on average, the CPU %.2g",
			     fabs(c->along));
	if (n >= SCALE_MIN && is_beyond(a->scale, l->scale, error->scale))
		finding_note(f, fabs(a->scale) * to_roundoffs, l->scale * to_roundoffs,
			     a->scale > 0
				 ? "biased: all too large by about %.3g roundoffs, the CPU by %.2g"
				 : "biased: all too small by about %.3g roundoffs, the CPU by %.2g",
			     fabs(c->scale) * to_roundoffs);
}

/* The mean of e if all elements were off by the same number of roundoffs of their root mean square.
 */
static double shift_limit(const struct verdict_input *in)
{
	const struct compare_stats *s = in->stats;
	double n = (double)s->finite, rms = sqrt(s->bb / n);
	double shift = (scale_limit + in->common) * compare_roundoff(in->dtype) * rms;
	return larger(shift * s->per_unit / n, least_bias);
}

static void judge_bias(struct finding *f, const struct figures *a, const struct figures *c,
		       const struct verdict_input *in)
{
	double per_roundoff = compare_roundoff(in->dtype) / verdict_roundoff(in->dtype, in->reach);
	double least = bias_limit + in->common * per_roundoff;
	struct bias_limits limits = {
	    larger(fmin(least, shift_limit(in)), bias_of_cpu * fabs(c->mean)),
	    larger(least, bias_of_cpu * fabs(c->along)),
	    larger((scale_limit + in->common) * per_roundoff, bias_of_cpu * fabs(c->scale))};
	struct compare_spread error = independent(in->stats);
	uint64_t n = in->stats->finite;
	if (!is_biased(a, &limits, &error, n) ||
	    (in->result &&
	     compare_spread(in->result, in->reference, in->params, in->stats, &error)))
		return;
	note_bias(f, a, c, &limits, &error, n, 1 / per_roundoff);
}

/* The average of a few errors may be as large as one of them. */
static double rms_limit_of(uint64_t n)
{
	return rms_limit + (worst_limit - rms_limit) / sqrt(n ? (double)n : 1);
}

static bool specials_match(const struct verdict_input *in)
{
	if (!in->stats->nan_wrong && !in->stats->inf_wrong)
		return true;
	return in->against_cpu && !in->against_cpu->nan_wrong && !in->against_cpu->inf_wrong;
}

static bool exactly_cpu(const struct verdict_input *in)
{
	return in->against_cpu && !in->against_cpu->unequal;
}

enum verdict verdict_judge(const struct verdict_input *in, char *why, size_t size, double *score)
{
	const struct compare_stats *s = in->stats;
	struct figures a = figures_of(s), c = in->cpu ? figures_of(in->cpu) : (struct figures){0};
	struct finding f = {.has_cpu = in->cpu, .why = why, .size = size};
	double roundoff = compare_roundoff(in->dtype);
	if (size)
		why[0] = '\0';
	*score = 0;
	if (!s->unequal || exactly_cpu(in))
		return VERDICT_RIGHT;
	*score = (double)INFINITY;
	if (!specials_match(in)) {
		snprintf(why, size, "%llu NaN and %llu infinities are not where they should be",
			 (unsigned long long)s->nan_wrong, (unsigned long long)s->inf_wrong);
		return VERDICT_WRONG;
	}
	if (in->exact || !(roundoff > 0)) {
		snprintf(why, size, "%llu of %llu elements differ, and must not",
			 (unsigned long long)s->unequal, (unsigned long long)s->n);
		return VERDICT_WRONG;
	}
	finding_note(&f, a.worst, worst_limit,
		     "%.4g units of rounding at the worst element, the CPU has %.2g", c.worst);
	finding_note(&f, a.rms, larger(rms_limit_of(s->finite), rms_of_cpu * c.rms),
		     "%.4g units of rounding on average, the CPU has %.2g", c.rms);
	judge_bias(&f, &a, &c, in);
	*score = f.score;
	return f.score > 1 ? VERDICT_WRONG : VERDICT_RIGHT;
}

/* An allowance makes the unit larger, so each |e|, and with them worst and rms, smaller. If each
 * error shrinks by its own factor, the mean is at most that of the errors of one sign: (sum |e| +
 * |sum e|) / 2, and rms is an upper bound of the mean of |e|. What is left of the limits on a shift
 * and a scale of all is for allowances that follow the errors a little. */
bool verdict_is_sure(const struct compare_stats *s, int dtype, bool exact, double reach)
{
	struct figures a = figures_of(s);
	double u = compare_roundoff(dtype);
	if (!s->unequal)
		return true;
	if (exact || !(u > 0) || s->nan_wrong || s->inf_wrong)
		return false;
	return a.worst <= worst_limit && a.rms <= rms_limit &&
	       (a.rms + larger(fabs(a.mean), fabs(a.along))) / 2 <= bias_limit &&
	       (fabs(a.mean) <= least_bias || s->finite < BIAS_MIN) &&
	       (fabs(a.scale) * verdict_roundoff(dtype, reach) <= scale_limit * u / 1.5 ||
		s->finite < SCALE_MIN);
}

enum verdict verdict_allclose(const struct compare_stats *s, double atol, double rtol, char *why,
			      size_t size, double *score)
{
	if (size)
		why[0] = '\0';
	*score = s->not_close ? larger(compare_max_abs(s) / larger(atol, 1e-300), 1.0000001) : 0;
	if (!s->not_close)
		return VERDICT_RIGHT;
	if (isnan(*score))
		*score = (double)INFINITY;
	snprintf(why, size, "%llu of %llu elements are beyond atol %g, rtol %g",
		 (unsigned long long)s->not_close, (unsigned long long)s->n, atol, rtol);
	return VERDICT_WRONG;
}
