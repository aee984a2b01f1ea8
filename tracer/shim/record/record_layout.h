/* Where an at::RecordFunction keeps what (ATen/record_function.h): fn_ (a variant of std::string
 * and a reference to the FunctionSchema), sequence_nr_ and inputs_ stand in this order since 1.12,
 * other members come between and behind. Found on the first one, checked on the next. */
#ifndef TRACER_SHIM_RECORD_RECORD_LAYOUT_H
#define TRACER_SHIM_RECORD_RECORD_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* All in words from the start; 0: not known yet. */
struct record_layout {
	uint8_t fn;	/* address of the schema, or of the name's text */
	uint8_t inputs; /* c10::ArrayRef<const c10::IValue>: address, length */
	uint8_t seq;
	uint8_t outputs; /* std::vector<c10::IValue>: begin, end, end of storage */
	uint64_t
	    empty; /* while looking for the outputs: bit n: words n to n + 2 were 0 at a start */
};

/* Learn from, or check with, the record of an operator that starts: its name as
 * RecordFunction::name gives it, and RecordFunction::num_inputs. False: it is not what it must be.
 */
bool record_layout_start(struct record_layout *l, const uint64_t *rf, const char *name,
			 uint64_t ninputs);

/* The same when it ends without an exception. */
bool record_layout_end(struct record_layout *l, const uint64_t *rf);

/* Whether rf's name is a text of its own: no operator of the dispatcher. */
static inline bool record_is_named(const struct record_layout *l, const uint64_t *rf,
				   const char *name)
{
	return rf[l->fn] == (uint64_t)(uintptr_t)name;
}

#endif
