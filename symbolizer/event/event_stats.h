/* Statistics of the tensors of one call: of events that were measured, a part of the event. */
#ifndef SYMBOLIZER_EVENT_EVENT_STATS_H
#define SYMBOLIZER_EVENT_EVENT_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/event/event.h"

/* What can be said of the numbers in a tensor without keeping them. The elements of a complex
 * tensor count by their absolute value, and are NaN when one of the two parts is; those of a
 * quantized one by the integers that are stored. */
struct stats {
	uint64_t count; /* elements */
	uint64_t nan, pos_inf, neg_inf, zeros;
	double min, max; /* of all that are not NaN; NaN when there is none */
	/* Of the finite elements; NaN when there are too few of them (one for mean and l2, two for
	 * std). std is the sample's (n - 1), as Tensor.std(). l2 is the root of the sum of squares;
	 * 0 for an empty tensor. */
	double mean, std, l2;
	/* Integers and bool: min and max to the last digit (uint64 as its two's complement), which
	 * a double does not hold beyond 2^53. */
	bool is_int, is_unsigned;
	int64_t min_int, max_int;
	bool is_numeric; /* false: the dtype has no numbers that are known (bits8, int4), and only
			    count and hash say something */
	uint64_t hash; /* XXH3_64bits of the elements in row-major order, without what lies between
			  them: equal for equal elements whatever the strides */
};

/* Which of the event's tensors: the `tensor`-th, depth first, of an argument or a result. */
struct tensor_place {
	bool is_result;
	uint16_t value;
	uint32_t tensor;
};

struct tensor_stats {
	struct tensor_place place;
	const char *why; /* NULL: measured; else why it could not be, in a few words */
	struct stats stats;
};

/* Arguments as they were when the op began, results as they were when it ended. */
struct event_stats {
	const struct tensor_stats *rows; /* by place, each at most once */
	uint32_t n;
};

/* Below, at or above 0 as `a` comes before `b`: arguments before results, then by value, then by
 * tensor. */
int tensor_place_compare(const struct tensor_place *a, const struct tensor_place *b);

typedef void event_tensor_fn(const struct tensor *t, const struct tensor_place *place, void *arg);

/* Call `fn` for each tensor among the arguments of `ev`, or among its results. */
void event_each_tensor(const struct op_event *ev, bool of_results, event_tensor_fn *fn, void *arg);

/* What was measured of the tensor at `place`; NULL: nothing. To be asked for places in their order,
 * with *next 0 at first: it is where the search goes on. */
const struct tensor_stats *event_stats_next(const struct event_stats *s,
					    const struct tensor_place *place, uint32_t *next);

/* Elements that are NaN or infinite, in all results that were measured. */
uint64_t event_stats_bad_results(const struct event_stats *s);

/* Whether the results of `op` are what was in memory before: aten::empty and its like, resize_,
 * set_. By their names in PyTorch's native_functions.yaml. */
bool op_gives_no_numbers(const struct op_desc *op);

/* Whether results are views of arguments: other elements of memory that was there, into which
 * nothing was put. Asked of the call, since aten::to and others give a view or a copy. */
bool event_gave_view(const struct op_event *ev);

#endif
