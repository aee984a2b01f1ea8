/* Which calls are captured: counts, steps and lists. No tracing in it. */
#ifndef TRACER_CAPTURE_SELECTION_H
#define TRACER_CAPTURE_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intern.h"
#include "base/ranges.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/plan/plan.h"
#include "tracer/capture/oplists.h"

/* What the user asked for; the same for all processes. Zero-initialised: every call. */
struct selection_policy {
	struct ranges nth;	/* --nth: calls of an op, counted from 1 for each op by itself */
	uint64_t every;		/* --every K: of the calls that nth leaves the first, and each K-th
				   after it, for each op by itself; 0 and 1: all */
	uint64_t max_calls;	/* --max-calls N: in all processes together; 0: no limit */
	struct ranges steps;	/* --steps A-B */
	struct filter step_op;	/* --step-op; empty: the optimizer's step */
	struct oplist only;	/* OP_CAPTURE_LIST and the like; empty: all */
	struct oplist disabled; /* OP_CAPTURE_DISABLE_LIST and the like */
};

/* ditorch's variables of lists for one of its tools. */
struct selection_variables {
	const char *only, *disabled;
};

extern const struct selection_variables selection_capture;  /* OP_CAPTURE_LIST */
extern const struct selection_variables selection_overflow; /* OP_OVERFLOW_CHECK_LIST */

/* Read the lists from the environment (getenv). A variable that is set and empty is a list that
 * nothing matches, as in ditorch. Returns 0, -EINVAL with *e, or -ENOMEM. */
int selection_environment(struct selection_policy *p, const struct selection_variables *v,
			  struct err *e);

/* Give back all that the policy owns. */
void selection_policy_free(struct selection_policy *p);

/* One process. Zero-initialise and set the two pointers, which must outlive it. */
struct selection {
	const struct selection_policy *policy;
	uint64_t *chosen; /* calls chosen so far, in all processes */

	struct steps steps;
	struct intern names;	  /* of ops: those of a process alone have no number */
	struct selection_op *ops; /* by number of the name */
	size_t room;
};

enum selection_answer {
	SELECTION_NO,
	SELECTION_YES,
	SELECTION_OVER, /* no, and no later call either: max_calls are chosen, the steps are over */
};

/* Every event, in the order in which they start, when it starts: keeps count of the steps. Returns
 * the step that it belongs to. */
uint64_t selection_see(struct selection *s, const struct op_event *ev);

enum { CALL_NOT_COUNTED, CALL_PICKED, CALL_NUMBERED };

/* What the engine says of a call (selection_pick). */
struct call_count {
	int how; /* CALL_NOT_COUNTED: it is to be counted here; CALL_PICKED: it is one of nth
		    and every */
	uint64_t number; /* CALL_NUMBERED: which one it is, from 1 on */
};

/* Is this call of a dispatched op to be captured? Asked once a call, after selection_see, for calls
 * that the other filters (--ops, --when) leave: those, in the chosen steps, are what nth and every
 * count. Without memory the answer is no. Backward nodes: no, their gradients belong to the call of
 * their forward op. */
enum selection_answer selection_choose(struct selection *s, const struct op_event *ev,
				       struct call_count count);

/* The call that selection_choose has just said yes to is not captured after all: another one may be
 * in its place, as far as max_calls go. */
void selection_give_back(struct selection *s);

/* Whether max_calls are chosen. */
bool selection_is_spent(const struct selection *s);

/* nth and every, for an engine that counts. False when only selection_choose can do it: there are
 * no such options, steps are counted, too, or the ranges are too many or overlap. */
bool selection_pick(const struct selection_policy *p, struct pick *out);

/* Do the lists leave this op? To leave ops out of the probe plan. */
bool selection_wants_op(const struct selection_policy *p, const struct op_desc *op);

void selection_free(struct selection *s);

#endif
