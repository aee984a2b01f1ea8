/* What the files of the extension share. */
#ifndef TRACER_SHIM_EXTENSION_MODES_H
#define TRACER_SHIM_EXTENSION_MODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay/numbers/numbers.h"
#include "tracer/shim/extension/modes_args.h"
#include "tracer/shim/extension/python.h"

/* modes_state.c: what the others know and count together. */

/* Interventions have ended: ditrace, or the connection to it, is gone. */
extern _Atomic bool modes_out;

/* The mode is made: threads may enter it. */
extern _Atomic bool modes_ready;

/* Nonzero while this thread works for ditrace: functions that it calls are passed on. */
extern __thread int modes_busy;

/* This thread works for ditrace from here to modes_work_ends, which gets what modes_work_begins
 * returned: what it computes is none of the program's (own_work). */
bool modes_work_begins(void);
void modes_work_ends(bool was);

/* func(*args, **kwargs), the program's own call, made amid such work. */
object *modes_own_call(object *func, object *args, object *kwargs);

/* Call a function of modes/ (NULL before ready()); a new reference, or NULL without an error. */
object *modes_ask(object *f, object *arg);

/* Names of modes/, as "module.name", or strings to intern, and where to store the new references,
 * in place of those that are there (NULL: none). Interned strings live as long as the process.
 * False with Python's error set: one is missing. */
struct modes_wanted {
	object **place;
	const char *name;
};
bool modes_names(const struct modes_wanted *w, size_t n);
bool modes_texts(const struct modes_wanted *w, size_t n);

/* Begin with no counts: false without memory. Look up what reports them: false with Python's error
 * set. Forget them: the next ones are reported at once. */
bool modes_counts_begin(void);
bool modes_counts_ready(void);
void modes_counts_forget(void);

/* count((feature, name, reason or None)): count one call; reports all counts from time to time.
 * counts(): {(feature, name, reason): calls}, since they were forgotten. */
object *modes_count(object *self, object *key);
object *modes_counts(object *self, object *unused);

/* Something was counted elsewhere: report the counts if they are due. */
void modes_counted(void);

/* That object, of which there are two at most, is a mode of ours; whether one, of any kind, is. */
void modes_is_ours(const object *mode);
bool modes_is_mode(const object *o);

/* modes_call.c: the mode. PyTorch calls it for each function; the function's plan is looked up, and
 * the call passed on unless something is to be changed. */

/* Before the rest: forget what a ditrace before has left. False: Python's error is set. */
bool modes_call_begin(void);

/* made(base, is_aten, types.MethodType), METH_VARARGS: the mode, an instance of a new class with
 * that base. ready(push, pop), METH_VARARGS: look up the objects of Python that are used.
 * watch(fd), METH_O: map struct modes_control, which ditrace writes; False if the memory is
 * another. */
object *modes_made(object *self, object *args);
object *modes_look_up(object *self, object *args);
object *modes_watch(object *self, object *number);

/* METH_NOARGS: refresh(): take over the present rules. is_inside(): the calls of the mode that are
 * open. is_busy(): whether calls of this thread are to be passed on for now. */
object *modes_refresh(object *self, object *unused);
object *modes_is_inside(object *self, object *unused);
object *modes_is_busy(object *self, object *unused);

/* modes_functions.c */

/* Put the functions of the library that modes/ calls into that dict. False: Python's error is set.
 */
bool modes_functions_fill(object *module);

/* Set a name of `module`; steals the reference to `value`. False: it is NULL, or an error. */
bool modes_set(object *module, const char *name, object *value);

/* modes_change.c: applies to a call each feature in its function's plan; where one cannot, the
 * program's own call is made. A feature is a function (plan, call, args, kwargs, at) of modes/,
 * modes_fallback.c, modes_cast.c or modes_compare.c, which raises Unchanged for a call that it
 * leaves alone. */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_change_ready(void);

/* Call func(*args, **kwargs) as `plan`, a Plan of modes/, says; kwargs is a dict. A new reference,
 * or NULL with what the program's own call raised. */
object *modes_change(object *plan, object *func, object *args, object *kwargs);

/* changed(plan, func, args, kwargs): modes_change. place(): (file, line, function) of the innermost
 * frame of the program's own code, or None. Both METH_VARARGS. */
object *modes_changed(object *self, object *args);
object *modes_place(object *self, object *args);

/* call_number(), METH_NOARGS: ditorch's forward_id of the call that this thread is changing; 0:
 * none. Calls considered for a change are numbered from 1 in the order in which they begin. */
object *modes_call_number(object *self, object *unused);

/* Wrap the error set by the program's own call (Raised), so that the call is not repeated. */
void modes_raised(void);

/* Raise Unchanged. Returns NULL. */
object *modes_unchanged(const char *reason);

/* Count a call that a feature (its name) has changed, or, with a reason other than None, left
 * alone. Preserves Python's error. */
void modes_tally(object *feature, object *plan, object *reason);

/* modes_budget.c: --budget selects the calls to compare, so that comparing takes no more than a
 * share of the time. */

/* Whether to compare this thread's call (budget_decide). `what` identifies its function until the
 * settings change. Always true without a budget. With the GIL. */
bool budget_takes(object *what);

/* The number (budget_decide) of the call that this thread took last; restore it after calls of the
 * program's own. */
uint64_t budget_number(void);
void budget_set_number(uint64_t number);

/* Comparing the forward of that call took `ns` nanoseconds. */
void budget_spent(uint64_t number, uint64_t ns);

/* The same for modes/: takes(what), number_taken(), spend(number, is_backward, nanoseconds). */
object *modes_takes(object *self, object *what);
object *modes_budget_number(object *self, object *unused);
object *modes_spend(object *self, object *args);

/* backward_comes(number), backward_came(number, whether it was judged). */
object *modes_comes(object *self, object *number);
object *modes_came(object *self, object *args);

/* budget(share): set it, above 0 to 1, or 0.0 for no budget. Forgets all turns. */
object *modes_budget(object *self, object *share);

/* spent(): (nanoseconds spent in all, nanoseconds since the first call), as floats. */
object *modes_spent(object *self, object *unused);

/* Reset what spent() returns. */
void budget_forget(void);

/* modes_judge.c: what --compare computes on the elements of tensors; the verdicts are those of
 * replay (replay/numbers/numbers.h). */

/* The standard by which results of an op are judged. */
struct judge_by {
	struct tolerance tolerance; /* tolerance_of the op and the dtype of the result */
	bool exact;		    /* only equal results are right */
	double reach;		    /* see judge_reach; >= 1 */
};

/* *sure: whether a float64 reference on its own shows that a result is right (verdict_is_sure).
 * *worst: how many units of rounding the worst element is off, without any allowance. False: it
 * cannot be decided. */
bool judge_is_sure(const struct judge_by *by, const struct numbers *actual,
		   const struct numbers *reference, bool *sure, double *worst);

/* The least reach (struct verdict_input) of the results that this thread has judged since the last
 * call; 1 if one was not right, 0 if none was judged. */
double judge_reach(void);

/* Whether two have the same dtype, shape and elements, NaN being equal to NaN. */
bool judge_is_equal(const struct numbers *a, const struct numbers *b);

/* Functions for modes/; the arguments come as a tuple (METH_VARARGS).
 *
 * judged(op, actual, reference, cpu or None, allowance or None, exact, reach, scale, common): a
 * tuple of the verdict (0 right, 1 wrong, 2 not judged) and of how far off the worst element is, as
 *   in a row of replay's (replay/replay.h).
 * surely_right(op, actual, reference, exact): a tuple of judge_is_sure's *sure and *worst; None
 * where it cannot be decided.
 * perturbed(t, seed, u, part): t, a packed float64 tensor, with each element moved by a random
 * share between u/2 and u of itself, up or down; part: only half of them, chosen at random.
 * probed(out, reference, moved...): writes how far the elements of `reference` move with the inputs
 * into `out`, a packed float64 tensor of that shape; returns a float: how many inputs act on an
 * element. The last of `moved` had half of the inputs moved (class Probe of replay/runner).
 * extent(t): a tuple of the root mean square of the finite elements of a float64 tensor, and of its
 * largest magnitude, NaN aside. */
object *modes_judged(object *self, object *args);
object *modes_surely_right(object *self, object *args);
object *modes_perturbed(object *self, object *args);
object *modes_probed(object *self, object *args);
object *modes_extent(object *self, object *t);

/* What --compare has learned of a function at a line of the program. All with the GIL held. */

enum { LINE_RESULTS = 4 }; /* most results of a call */

/* The largest deviation of a result that was reported. */
enum { LINE_NOTHING = -1, LINE_PLAIN_NUMBER = -2 };
struct told {
	int dtype; /* c10::ScalarType, or one of these */
	double bad;
};

struct line {
	object *plan, *at, *op; /* owned; op: the bytes of its name. NULL: the slot is free */
	bool whole;		/* compare in modes/, not in C */
	bool in_place;		/* writes its first argument */
	struct judge_by by;	/* for results of `dtype` */
	int dtype;
	double reach; /* judge_reach of a call with the argument hash `of`; 0: not known */
	uint64_t of;
	struct told told[LINE_RESULTS];
	unsigned long calls, tensors; /* settled since modes_settled */
};

/* False: without memory. */
bool lines_ready(void);

/* The line's slot, free if it is new; never NULL. Valid until other code runs, of Python or
 * PyTorch. */
struct line *line_find(object *plan, object *at);

/* Fill the slot `l` of line_find at the first call of a line, and decide whether further calls may
 * be settled in C. */
void line_begin(struct line *l, object *plan, object *at);

/* After a call was judged in full: remember its judge_reach for calls with such arguments. */
void line_learn_reach(object *plan, object *at, object *args, object *kwargs);

/* The reach for a call with these arguments, >= 1. */
double line_reach(const struct line *l, object *args, object *kwargs);

/* Forget all lines; not while this thread compares. */
void lines_forget(void);

/* settled_calls(): [(plan, at, calls, tensors)] of what was compared in C and not reported by
 * itself, since the last call. */
object *modes_settled(object *self, object *unused);

/* statistics(tensor): inf_or_nan, min, max, mean, std, norm, nan, inf, -inf, zeros and hash as
 * texts (perf/events/print_event.h), a list; None without memory. Raises what a tensor without
 * numbers raises.
 */
object *modes_measure(object *self, object *tensor);

/* modes_threads.c: threads of the program that end with the mode on their stacks. */

/* Look up the needed functions; `torch`: dlopen handle of libtorch_cpu. */
void modes_thread_end_find(void *torch);

/* Called on a thread other than the main one that has the mode on: remove it from the thread's mode
 * stacks when it ends. PyTorch would take the GIL to drop its reference, and deadlock when the GIL
 * is held by whoever joins the thread. */
void modes_thread_end_watch(void);

/* Threads that were running when the modes were installed, and those not started by Python. */

/* From now on call `enter`, with the GIL held, at ops of threads that run Python, at intervals on
 * each. It returns whether the mode is on this thread now. */
void modes_threads_start(bool (*enter)(void));
void modes_threads_stop(void);

/* threads(): how many threads have run ops, as (those with the mode on when last asked, those that
 * Python does not know, those where it could not be put on). All 0 before modes_threads_start. */
object *modes_threads(object *self, object *unused);

/* no_more_threads(): Python is about to finalize, and no thread may wait for the GIL any more. */
object *modes_threads_end(object *self, object *unused);

/* Restart the counts. */
void modes_threads_forget(void);

#endif
