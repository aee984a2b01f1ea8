#include "replay/replay.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "replay/numbers/numbers.h"
#include "symbolizer/event/names.h"

struct replay_row *rows_add(struct rows *rows)
{
	if (array_grow(&rows->list, &rows->size, rows->n + 1, sizeof(*rows->list)))
		return NULL;
	struct replay_row *r = &rows->list[rows->n];
	*r = (struct replay_row){.number = rows->n++};
	return r;
}

void rows_free(struct rows *rows)
{
	free(rows->list);
	*rows = (struct rows){0};
}

/* A tensor of a message; its data is in shared memory. */
struct blob {
	struct compare_tensor t;
	int64_t shape[COMPARE_DIMS];
	size_t bytes;
	bool there;
};

static int take_blob(struct blob *b, json_t *message, const char *key, struct worker *w)
{
	json_t *o = json_object_get(message, key), *shape = json_object_get(o, "shape");
	const char *dtype = json_string_value(json_object_get(o, "dtype"));
	int64_t n = 1;
	memset(b, 0, sizeof(*b));
	if (!json_is_object(o))
		return 0;
	b->t.dtype = dtype ? names_dtype_code(dtype) : -1;
	if (json_array_size(shape) > COMPARE_DIMS || !names_itemsize(b->t.dtype))
		return -EPROTO;
	b->t.ndim = (int)json_array_size(shape);
	b->t.shape = b->shape;
	for (int i = 0; i < b->t.ndim; i++) {
		b->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
		if (b->shape[i] < 0 || __builtin_mul_overflow(n, b->shape[i], &n))
			return -EPROTO;
	}
	if (__builtin_mul_overflow((size_t)n, (size_t)names_itemsize(b->t.dtype), &b->bytes))
		return -EPROTO;
	b->t.data =
	    worker_memory(w, (size_t)json_integer_value(json_object_get(o, "offset")), b->bytes);
	b->there = b->t.data != NULL;
	return b->there ? 0 : -EPROTO;
}

/* Whether there is a double for each number of the tensor: two for a complex one. */
static bool fits(const struct blob *allowance, const struct blob *of)
{
	return allowance->t.dtype == names_dtype_code("float64") &&
	       allowance->bytes / sizeof(double) * number_of(of->t.dtype)->itemsize == of->bytes;
}

static void copy(char *out, size_t size, json_t *message, const char *key)
{
	const char *s = json_string_value(json_object_get(message, key));
	snprintf(out, size, "%s", s ? s : "");
	text_drop_part(out);
}

static double number(json_t *message, const char *key)
{
	return json_number_value(json_object_get(message, key));
}

static void set_figures(struct replay_row *r, const struct compare_stats *s)
{
	double n = s->finite ? (double)s->finite : 1;
	r->has_figures = true;
	r->allclose = !s->not_close;
	r->equal = !s->unequal;
	r->cosine = compare_cosine(s);
	r->max_abs = compare_max_abs(s);
	r->max_rel = compare_max_rel(s);
	r->ulp = s->nan_wrong ? NAN : s->inf_wrong ? (double)INFINITY : s->ulp;
	r->worst = s->worst;
	r->rms = sqrt(s->sum2 / n);
	r->mean = s->sum / n;
	r->along = s->along / n;
}

static void set_cpu_figures(struct replay_row *r, const struct compare_stats *s)
{
	double n = s->finite ? (double)s->finite : 1;
	r->has_cpu = true;
	r->cpu_max_abs = compare_max_abs(s);
	r->cpu_ulp = s->nan_wrong ? NAN : s->ulp;
	r->cpu_worst = s->worst;
	r->cpu_rms = sqrt(s->sum2 / n);
	r->cpu_mean = s->sum / n;
	r->cpu_along = s->along / n;
}

/* Append the place of the worst element to the reason. */
static void say_place(struct replay_row *r, const struct blob *a, const struct compare_stats *s)
{
	char place[80];
	bool special = s->first_wrong != UINT64_MAX;
	uint64_t at = special ? s->first_wrong : s->worst_at;
	size_t len = strlen(r->why);
	if (at == UINT64_MAX)
		return;
	compare_index(place, sizeof(place), &a->t, at);
	snprintf(r->why + len, sizeof(r->why) - len, "; %s %s: got %.9g want %.9g",
		 special ? "first" : "worst", place, s->a_at_worst, s->b_at_worst);
}

static int fill_tensor(struct replay_row *r, const char *op, json_t *m, struct worker *w,
		       const struct row_rules *rules, struct err *e)
{
	struct blob a, ref, cpu, allowance;
	struct compare_stats stats, cpu_stats, between;
	struct tolerance tolerance;
	if (worker_map(w) || take_blob(&a, m, "actual", w) || take_blob(&ref, m, "reference", w) ||
	    take_blob(&cpu, m, "cpu", w) || take_blob(&allowance, m, "allowance", w) || !a.there ||
	    !ref.there || (allowance.there && !fits(&allowance, &a)))
		return err_set(e, -EPROTO, "the runner sent an invalid tensor");
	int rc = tolerance_of(op, a.t.dtype, &tolerance, e);
	if (rc)
		return rc;
	struct compare_params p = {
	    .atol = tolerance.atol,
	    .rtol = tolerance.rtol,
	    .allowance = allowance.t.data,
	    .threads = rules->threads,
	    .roundoff = verdict_roundoff(a.t.dtype, number(m, "reach")),
	    .floor = verdict_floor(a.t.dtype, number(m, "reach"), number(m, "scale"))};
	r->atol = p.atol;
	r->rtol = p.rtol;
	r->reach = number(m, "reach");
	rc = compare_tensors(&a.t, &ref.t, &p, &stats, e);
	if (!rc && cpu.there)
		rc = compare_tensors(&cpu.t, &ref.t, &p, &cpu_stats, e);
	if (!rc && cpu.there)
		rc = compare_tensors(&a.t, &cpu.t, &p, &between, e);
	if (rc == -ENOTSUP) {
		r->verdict = VERDICT_NOT_JUDGED;
		snprintf(r->why, sizeof(r->why), "%s", e->what);
		return 0;
	}
	if (rc)
		return rc;
	set_figures(r, &stats);
	if (cpu.there) {
		set_cpu_figures(r, &cpu_stats);
		r->cpu_emulated = json_is_true(json_object_get(m, "emulated"));
	}
	struct verdict_input in = {.stats = &stats,
				   .cpu = cpu.there ? &cpu_stats : NULL,
				   .against_cpu = cpu.there ? &between : NULL,
				   .dtype = a.t.dtype,
				   .exact = json_is_true(json_object_get(m, "exact")),
				   .reach = r->reach,
				   .common = number(m, "common"),
				   .result = &a.t,
				   .reference = &ref.t,
				   .params = &p};
	r->verdict =
	    rules->by_allclose || tolerance.from_env
		? verdict_allclose(&stats, p.atol, p.rtol, r->why, sizeof(r->why), &r->score)
		: verdict_judge(&in, r->why, sizeof(r->why), &r->score);
	if (r->verdict == VERDICT_WRONG)
		say_place(r, &a, &stats);
	return 0;
}

static void fill_value(struct replay_row *r, json_t *m)
{
	bool equal = json_is_true(json_object_get(m, "equal"));
	r->verdict = equal ? VERDICT_RIGHT : VERDICT_WRONG;
	r->equal = r->allclose = equal;
	if (equal)
		return;
	r->score = (double)INFINITY;
	snprintf(r->why, sizeof(r->why), "got %s want %s",
		 json_string_value(json_object_get(m, "actual")),
		 json_string_value(json_object_get(m, "reference")));
	text_drop_part(r->why);
}

/* What correct kernels may give otherwise is not wrong. */
static void spare(struct replay_row *r, json_t *m)
{
	if (r->verdict != VERDICT_WRONG || !json_object_get(m, "choice"))
		return;
	r->verdict = VERDICT_NOT_JUDGED;
	r->score = r->worst = 0;
	r->has_figures = r->has_cpu = false;
	copy(r->why, sizeof(r->why), m, "choice");
}

int row_fill(struct replay_row *r, const char *op, json_t *m, struct worker *w,
	     const struct row_rules *rules, struct err *e)
{
	const char *event = json_string_value(json_object_get(m, "event"));
	copy(r->role, sizeof(r->role), m, "role");
	copy(r->index, sizeof(r->index), m, "index");
	copy(r->dtype, sizeof(r->dtype), m, "dtype");
	copy(r->device, sizeof(r->device), m, "device");
	copy(r->note, sizeof(r->note), m, "note");
	if (event && !strcmp(event, "tensor")) {
		int rc = fill_tensor(r, op, m, w, rules, e);
		if (rc)
			return rc;
	} else if (event && !strcmp(event, "value")) {
		fill_value(r, m);
	} else {
		bool mismatch = event && !strcmp(event, "mismatch");
		copy(r->why, sizeof(r->why), m, "reason");
		r->verdict = mismatch ? VERDICT_WRONG : VERDICT_NOT_JUDGED;
		r->score = mismatch ? (double)INFINITY : 0;
	}
	spare(r, m);
	return 0;
}

int row_order(const void *a, const void *b)
{
	static const int rank[] = {
	    [VERDICT_WRONG] = 0, [VERDICT_NOT_JUDGED] = 1, [VERDICT_RIGHT] = 2};
	const struct replay_row *x = a, *y = b;
	if (x->verdict != y->verdict)
		return rank[x->verdict] - rank[y->verdict];
	if (x->verdict == VERDICT_WRONG && x->score != y->score)
		return x->score > y->score ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}
