/* Callbacks on at::RecordFunction (ATen/record_function.h): what at::addGlobalCallback takes, in
 * 1.12 to 2.13, is {start, end, sampling probability, scopes, inputs, outputs, ids} by value, 40
 * bytes. It returns a handle that at::removeCallback takes. */
#ifndef TRACER_SHIM_RECORD_CALLBACK_H
#define TRACER_SHIM_RECORD_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#define RECORD_ADD "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define RECORD_REMOVE "_ZN2at14removeCallbackEm"

enum { RECORD_FUNCTION, RECORD_BACKWARD, RECORD_SCOPES = 10 };

/* std::unique_ptr<ObserverContext> start(const RecordFunction &): returned through memory. */
typedef void **record_start_fn(void **context, const uint64_t *rf);
typedef void record_end_fn(const uint64_t *rf, void *context);

struct record_callback {
	record_start_fn *start;
	record_end_fn *end; /* NULL: none */
	double probability;
	bool scopes[RECORD_SCOPES];
	bool inputs, outputs, ids;
};

#endif
