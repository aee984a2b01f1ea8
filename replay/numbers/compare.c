#define _GNU_SOURCE
#include "replay/numbers/numbers.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"

/* Chunks do not depend on the number of threads, so neither do the sums. */
enum { CHUNK = 256 * COMPARE_BLOCK, THREADS_MAX = 64, DTYPE_FLOAT64 = 7 };

enum { OF_A, OF_B, OF_ALLOWANCE, WALKS };

struct compare_walk {
	const char *data;
	number_load load;
};

/* The loop nest over both tensors and the allowance. Dimensions of size one are dropped, contiguous
 * neighbours merged; the parts of complex numbers are the last dimension. For tensors that are not
 * row-major, dimensions are in order of memory. Steps are in bytes. */
struct dim {
	int64_t size, step[WALKS];
	int64_t row_major; /* step of the row-major index */
};

struct job {
	struct compare_walk walks[WALKS];
	int ndim;
	struct dim dims[COMPARE_DIMS + 1];
	struct compare_units units;
	bool has_allowance;
	bool is_int, is_unsigned;
	uint64_t n, nchunks;
	struct compare_stats *chunks;
	atomic_uint_fast64_t next;
};

static bool is_float(const struct number *t)
{
	return t->kind == NUMBER_FLOAT || t->kind == NUMBER_COMPLEX;
}

static bool is_uint64(const struct number *t)
{
	return t->kind == NUMBER_UNSIGNED && t->itemsize == sizeof(uint64_t);
}

double compare_roundoff(int dtype)
{
	const struct number *t = number_of(dtype);
	return is_float(t) ? ldexp(1, -t->digits) : 0;
}

double compare_smallest_normal(int dtype)
{
	const struct number *t = number_of(dtype);
	return is_float(t) ? ldexp(1, t->emin) : 0;
}

double compare_smallest(int dtype)
{
	const struct number *t = number_of(dtype);
	return is_float(t) ? ldexp(1, t->emin - t->digits + 1) : 0;
}

static void add_dim(struct job *j, const struct dim *d)
{
	struct dim *last = j->ndim ? &j->dims[j->ndim - 1] : NULL;
	bool follows = last && last->row_major == d->size * d->row_major;
	if (d->size == 1)
		return;
	for (int i = 0; i < WALKS && follows; i++)
		follows = last->step[i] == d->size * d->step[i];
	if (!follows) {
		j->dims[j->ndim++] = *d;
		return;
	}
	last->size *= d->size;
	last->row_major = d->row_major;
	memcpy(last->step, d->step, sizeof(d->step));
}

static int64_t stride_of(const struct compare_tensor *t, int i, int64_t dense)
{
	return t->stride ? t->stride[i] : dense;
}

/* By decreasing step. Insertion sort is stable. */
static void sort_dims(struct dim *dims, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0; k--) {
			struct dim *d = &dims[k], swap = *d;
			if (llabs(d[-1].step[OF_A]) + llabs(d[-1].step[OF_B]) >=
			    llabs(d->step[OF_A]) + llabs(d->step[OF_B]))
				break;
			*d = d[-1];
			d[-1] = swap;
		}
}

static void dims_init(struct job *j, const struct compare_tensor *a, const struct compare_tensor *b)
{
	const struct number *ta = number_of(a->dtype), *tb = number_of(b->dtype);
	struct dim dims[COMPARE_DIMS + 1];
	int64_t dense = 1, parts = ta->parts;
	for (int i = a->ndim - 1; i >= 0; i--) {
		dims[i] = (struct dim){.size = a->shape[i], .row_major = dense * parts};
		dims[i].step[OF_A] = stride_of(a, i, dense) * ta->itemsize * parts;
		dims[i].step[OF_B] = stride_of(b, i, dense) * tb->itemsize * parts;
		dims[i].step[OF_ALLOWANCE] = dense * parts * (int64_t)sizeof(double);
		dense *= a->shape[i];
	}
	sort_dims(dims, a->ndim);
	for (int i = 0; i < a->ndim; i++)
		add_dim(j, &dims[i]);
	add_dim(j, &(struct dim){parts, {ta->itemsize, tb->itemsize, sizeof(double)}, 1});
	if (!j->ndim)
		j->dims[j->ndim++] =
		    (struct dim){1, {ta->itemsize, tb->itemsize, sizeof(double)}, 1};
}

/* The row-major index of element number `at` of the loop nest. */
static uint64_t row_major(const struct job *j, uint64_t at)
{
	uint64_t index = 0;
	if (at == UINT64_MAX)
		return at;
	for (int i = j->ndim - 1; i >= 0; i--) {
		uint64_t size = (uint64_t)j->dims[i].size;
		index += at % size * (uint64_t)j->dims[i].row_major;
		at /= size;
	}
	return index;
}

/* Load `n` elements, from number `at` of the loop nest on. */
static void fetch(const struct job *j, int which, uint64_t at, size_t n, void *out)
{
	int64_t place[COMPARE_DIMS + 1];
	int last = j->ndim - 1;
	const struct compare_walk *w = &j->walks[which];
	const char *p = w->data;
	for (int i = last; i >= 0; i--) {
		place[i] = (int64_t)(at % (uint64_t)j->dims[i].size);
		at /= (uint64_t)j->dims[i].size;
		p += place[i] * j->dims[i].step[which];
	}
	while (n) {
		int64_t left = j->dims[last].size - place[last], step = j->dims[last].step[which];
		size_t run = (size_t)left < n ? (size_t)left : n;
		w->load(p, step, run, out);
		out = (char *)out + 8 * run;
		n -= run;
		p -= place[last] * step;
		place[last] = 0;
		for (int i = last - 1; i >= 0; i--) {
			p += j->dims[i].step[which];
			if (++place[i] < j->dims[i].size)
				break;
			p -= place[i] * j->dims[i].step[which];
			place[i] = 0;
		}
	}
}

static void stats_init(struct compare_stats *s)
{
	*s = (struct compare_stats){.first_unequal = UINT64_MAX,
				    .first_wrong = UINT64_MAX,
				    .max_abs_at = UINT64_MAX,
				    .worst_at = UINT64_MAX};
}

union block {
	double d[COMPARE_BLOCK];
	int64_t i[COMPARE_BLOCK];
} __attribute__((aligned(64)));

static void chunk(const struct job *j, uint64_t at, uint64_t end, struct compare_stats *s)
{
	union block a, b, k;
	while (at < end) {
		size_t n = end - at < COMPARE_BLOCK ? end - at : COMPARE_BLOCK;
		fetch(j, OF_A, at, n, &a);
		fetch(j, OF_B, at, n, &b);
		if (j->has_allowance)
			fetch(j, OF_ALLOWANCE, at, n, &k);
		if (j->is_int)
			compare_block_int(a.i, b.i, j->is_unsigned, n, at, &j->units, s);
		else
			compare_block(a.d, b.d, j->has_allowance ? k.d : NULL, n, at, &j->units, s);
		at += n;
	}
}

static void *work(void *arg)
{
	struct job *j = arg;
	uint64_t i;
	while ((i = atomic_fetch_add(&j->next, 1)) < j->nchunks) {
		uint64_t at = i * CHUNK;
		stats_init(&j->chunks[i]);
		chunk(j, at, at + CHUNK < j->n ? at + CHUNK : j->n, &j->chunks[i]);
	}
	return NULL;
}

static unsigned cpus(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

static void run_all(struct job *j, unsigned threads)
{
	pthread_t t[THREADS_MAX];
	unsigned started = 0;
	threads = threads ? threads : cpus();
	threads = threads < THREADS_MAX ? threads : THREADS_MAX;
	if (threads > j->nchunks / 2)
		threads = (unsigned)(j->nchunks / 2);
	for (; started + 1 < threads; started++)
		if (pthread_create(&t[started], NULL, work, j))
			break;
	work(j);
	for (unsigned i = 0; i < started; i++)
		pthread_join(t[i], NULL);
}

static double max(double a, double b)
{
	return b > a ? b : a;
}

/* Chunks are merged in order, so that the first of equal maxima stays. */
static void merge(struct compare_stats *s, const struct compare_stats *c)
{
	bool had_wrong = s->first_wrong != UINT64_MAX, has_wrong = c->first_wrong != UINT64_MAX;
	if (!had_wrong && (has_wrong || c->worst > s->worst)) {
		s->a_at_worst = c->a_at_worst;
		s->b_at_worst = c->b_at_worst;
	}
	if (c->worst > s->worst)
		s->worst_at = c->worst_at;
	if (c->max_abs > s->max_abs)
		s->max_abs_at = c->max_abs_at;
	s->first_wrong = had_wrong ? s->first_wrong : c->first_wrong;
	if (s->first_unequal == UINT64_MAX)
		s->first_unequal = c->first_unequal;
	s->n += c->n;
	s->unequal += c->unequal;
	s->not_close += c->not_close;
	s->nan_wrong += c->nan_wrong;
	s->inf_wrong += c->inf_wrong;
	s->finite += c->finite;
	s->max_abs = max(s->max_abs, c->max_abs);
	s->max_rel = max(s->max_rel, c->max_rel);
	s->ulp = max(s->ulp, c->ulp);
	s->worst = max(s->worst, c->worst);
	s->dot += c->dot;
	s->aa += c->aa;
	s->bb += c->bb;
	s->sum += c->sum;
	s->sum2 += c->sum2;
	s->along += c->along;
	s->scale += c->scale;
	s->scale2 += c->scale2;
	s->per_unit += c->per_unit;
}

static void set_units(struct compare_units *u, const struct compare_params *p,
		      const struct compare_tensor *a)
{
	const struct number *t = number_of(a->dtype);
	double least = compare_smallest(a->dtype) / 2, normal = compare_smallest_normal(a->dtype);
	u->atol = p->atol;
	u->rtol = p->rtol;
	u->roundoff = p->roundoff > 0 ? p->roundoff : compare_roundoff(a->dtype);
	u->floor = p->floor > least ? p->floor : least;
	if (!(u->floor > 0x1p-1070))
		u->floor = 0x1p-1070; /* avoids 0 / 0 for equal zeros */
	u->sums_only = p->sums_only;
	u->to_ulp = is_float(t) ? ldexp(1, t->digits - 1) : 0;
	if (!(normal > 0))
		normal = 1;
	memcpy(&u->emin_bits, &normal, sizeof(normal));
}

/* The number of elements, or -EINVAL. */
static int64_t count_elements(const struct compare_tensor *a, const struct compare_tensor *b,
			      struct err *e)
{
	int64_t n = 1;
	if (a->ndim < 0 || a->ndim > COMPARE_DIMS || a->ndim != b->ndim)
		return err_set(e, -EINVAL, "%d dimensions against %d", a->ndim, b->ndim);
	for (int i = 0; i < a->ndim; i++) {
		if (a->shape[i] != b->shape[i])
			return err_set(e, -EINVAL, "dimension %d is %lld against %lld", i,
				       (long long)a->shape[i], (long long)b->shape[i]);
		if (a->shape[i] < 0 || __builtin_mul_overflow(n, a->shape[i], &n) ||
		    n > INT64_MAX / 32)
			return err_set(e, -EINVAL, "an invalid shape");
	}
	return n;
}

static int no_numbers(const struct compare_tensor *t, struct err *e)
{
	const char *name = names_dtype(t->dtype);
	return err_set(e, -ENOTSUP, "elements of dtype %s are not compared",
		       name ? name : "unknown");
}

static void set_walks(struct job *j, const struct compare_tensor *a, const struct compare_tensor *b,
		      const struct compare_params *p)
{
	const struct number *ta = number_of(a->dtype), *tb = number_of(b->dtype);
	const struct number *tk = number_of(DTYPE_FLOAT64);
	j->is_int = !is_float(ta) && !is_float(tb) && is_uint64(ta) == is_uint64(tb);
	j->is_unsigned = is_uint64(ta);
	j->has_allowance = p->allowance && !j->is_int;
	j->walks[OF_A] = (struct compare_walk){a->data, j->is_int ? ta->to_int : ta->to_double};
	j->walks[OF_B] = (struct compare_walk){b->data, j->is_int ? tb->to_int : tb->to_double};
	j->walks[OF_ALLOWANCE] = (struct compare_walk){(const char *)p->allowance, tk->to_double};
	dims_init(j, a, b);
	set_units(&j->units, p, a);
}

static int run_chunks(struct job *j, unsigned threads, struct compare_stats *out)
{
	struct compare_stats small[4];
	j->chunks = j->nchunks <= 4 ? small : calloc(j->nchunks, sizeof(*j->chunks));
	if (!j->chunks)
		return -ENOMEM;
	run_all(j, threads);
	for (uint64_t i = 0; i < j->nchunks; i++)
		merge(out, &j->chunks[i]);
	if (j->chunks != small)
		free(j->chunks);
	out->first_unequal = row_major(j, out->first_unequal);
	out->first_wrong = row_major(j, out->first_wrong);
	out->max_abs_at = row_major(j, out->max_abs_at);
	out->worst_at = row_major(j, out->worst_at);
	return 0;
}

int compare_tensors(const struct compare_tensor *a, const struct compare_tensor *b,
		    const struct compare_params *p, struct compare_stats *out, struct err *e)
{
	const struct number *ta = number_of(a->dtype), *tb = number_of(b->dtype);
	struct job j = {0};
	int64_t n = count_elements(a, b, e);
	stats_init(out);
	if (n < 0)
		return (int)n;
	if (ta->kind == NUMBER_NONE || tb->kind == NUMBER_NONE)
		return no_numbers(ta->kind == NUMBER_NONE ? a : b, e);
	if (ta->parts != tb->parts)
		return err_set(e, -ENOTSUP, "complex numbers against real ones");
	if (!n)
		return 0;
	set_walks(&j, a, b, p);
	j.n = (uint64_t)n * ta->parts;
	j.nchunks = (j.n + CHUNK - 1) / CHUNK;
	if (run_chunks(&j, p->threads, out))
		return err_set(e, -ENOMEM, "no memory to compare %llu elements",
			       (unsigned long long)j.n);
	return 0;
}

double compare_cosine(const struct compare_stats *s)
{
	if (s->nan_wrong || s->inf_wrong)
		return NAN;
	if (s->aa == 0 || s->bb == 0)
		return s->aa == s->bb ? 1 : 0;
	double c = s->dot / (sqrt(s->aa) * sqrt(s->bb));
	return c > 1 ? 1 : c < -1 ? -1 : c;
}

double compare_max_abs(const struct compare_stats *s)
{
	return s->nan_wrong ? NAN : s->inf_wrong ? (double)INFINITY : s->max_abs;
}

double compare_max_rel(const struct compare_stats *s)
{
	return s->nan_wrong ? NAN : s->inf_wrong ? (double)INFINITY : s->max_rel;
}

const char *compare_index(char *out, size_t size, const struct compare_tensor *t, uint64_t at)
{
	int64_t place[COMPARE_DIMS] = {0};
	size_t len = 0;
	at /= number_of(t->dtype)->parts ? number_of(t->dtype)->parts : 1;
	for (int i = t->ndim - 1; i >= 0; i--) {
		place[i] = t->shape[i] ? (int64_t)(at % (uint64_t)t->shape[i]) : 0;
		at /= t->shape[i] ? (uint64_t)t->shape[i] : 1;
	}
	snprintf(out, size, "[");
	for (int i = 0; i < t->ndim; i++) {
		len = strlen(out);
		snprintf(out + len, size - len, "%s%lld", i ? ", " : "", (long long)place[i]);
	}
	len = strlen(out);
	snprintf(out + len, size - len, "]");
	return out;
}
