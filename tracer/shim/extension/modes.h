/* What the files of this folder share. */
#ifndef TRACER_SHIM_EXTENSION_MODES_H
#define TRACER_SHIM_EXTENSION_MODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay/numbers/verdict.h"
#include "tracer/shim/extension/modes_args.h"
#include "tracer/shim/extension/python.h"

/* What a function of PyTorch is asked to do when the mode is on: looked up, and passed on unless
 * something is to be done about it. */

/* Nothing is changed any more: ditrace is gone, or the connection to it. */
extern _Atomic bool modes_out;

/* Put the functions for modes/ into that dict: made, ready, is_out, end, enter, leave,
 * is_busy, pause_busy, resume_busy, refresh, is_inside, count, counts, forget, watch, statistics,
 * and those of modes_judge.h, modes_change.h, modes_fallback.h, modes_cast.h and modes_threads.h.
 */
bool modes_call_fill(object *module);

/* Give a name of `module` a new reference, which is taken. */
bool modes_set(object *module, const char *name, object *value);

/* count((feature, name, reason or None)): one call more, told from time to time. */
object *modes_count(object *self, object *key);

/* Is that object, which may be of any kind, a mode of ours? */
bool modes_is_mode(const object *o);

/* Something was counted elsewhere: tell it all, if it is time to. */
void modes_counted(void);

/* This thread is at work for ditrace: functions that it calls are passed on. */
extern __thread int modes_busy;

/* Calls that are changed: each feature that a function has a plan for, the program's own call where
 * one cannot. The features themselves are functions (plan, call, args, kwargs, at) of modes/, of
 * modes_fallback.c or modes_cast.c, which raise Unchanged for a call that they leave alone. */

/* Take what is needed from the names of modes/. False: one is missing. */
bool modes_change_ready(object *module);

/* Call func(*args, **kwargs) as `plan`, a Plan of modes/, wants it; kwargs is a dict. A new
 * reference, or NULL with what the program's own call has raised. */
object *modes_change(object *plan, object *func, object *args, object *kwargs);

/* changed(plan, func, args, kwargs), and place(): (file, line, function) of the innermost frame
 * that is the program's own, or None. Both METH_VARARGS. */
object *modes_changed(object *self, object *args);
object *modes_place(object *self, object *args);

/* call_number(), METH_NOARGS: ditorch's forward_id of the call that this thread is changing, 0:
 * none. All calls that are looked at for a change count, from 1 on in the order in which they
 * begin. */
object *modes_call_number(object *self, object *unused);

/* Wrap the error of the program's own call, so that the call is not made again (Raised). */
void modes_raised(void);

/* Raise Unchanged. Returns NULL. */
object *modes_unchanged(const char *reason);

/* Count a call: what a feature (its name) has done, or with a reason, not done; None: no reason.
 * Keeps Python's error. */
void modes_tally(object *feature, object *plan, object *reason);

/* The name of modes/ that was there at modes_change_ready; borrowed, or NULL without an error. */
object *modes_name(const char *name);

/* Names of modes/, borrowed, or texts, kept for as long as the process runs, and where they go.
 * False: one is not there. */
struct modes_wanted {
	object **place;
	const char *name;
};
bool modes_names(const struct modes_wanted *w, size_t n);
bool modes_texts(const struct modes_wanted *w, size_t n);

/* --budget: which calls are compared, so that comparing takes no more than a share of the time. */

/* Whether the call of this thread is to be compared, with the GIL: `what` stands for its function
 * as long as the settings are the same. Those whose turn it is are, as long as what it is expected
 * to take is left; all where there is no budget. */
bool budget_takes(object *what);

/* The number of tracer/shim/shim.h that this thread's call has, which was taken last; set it
 * after calls of the program's own. */
uint64_t budget_number(void);
void budget_set_number(uint64_t number);

/* Comparing the forward of that call took so many nanoseconds. */
void budget_spent(uint64_t number, uint64_t ns);

/* The same for modes/: takes(what), number_taken(), spend(number, is_backward, nanoseconds). */
object *modes_takes(object *self, object *what);
object *modes_budget_number(object *self, object *unused);
object *modes_spend(object *self, object *args);

/* backward_comes(number), backward_came(number, whether it was judged). */
object *modes_comes(object *self, object *number);
object *modes_came(object *self, object *args);

/* budget(share): 0.0 for no budget, else above 0 to 1. Forgets whose turn it is. */
object *modes_budget(object *self, object *share);

/* spent(): (nanoseconds spent in all, nanoseconds since the first call), as floats. */
object *modes_spent(object *self, object *unused);

/* Nothing was spent so far. */
void budget_forget(void);

/* What --compare needs of the numbers of tensors, in C; the verdicts are replay's
 * (replay/numbers/verdict.h). */

/* What results of an op are judged by. */
struct judge_by {
	struct tolerance tolerance; /* tolerance_of the op and the dtype of the result */
	bool exact;		    /* only equal ones are right */
	double reach;		    /* as judge_reach gives it, >= 1 */
};

/* Whether a float64 reference on its own says that a result is right (verdict_is_sure). False: it
 * cannot be told. *worst: how many units of
 * rounding the worst element is off without any allowance. */
bool judge_is_sure(const struct judge_by *by, const struct numbers *actual,
		   const struct numbers *reference, bool *sure, double *worst);

/* The least reach (struct verdict_input) of all that this thread has judged since it asked last; 1
 * where something was not right, 0 where nothing was judged. */
double judge_reach(void);

/* Have two the same dtype, shape and elements, NaN equal to NaN? */
bool judge_is_equal(const struct numbers *a, const struct numbers *b);

/* Each takes a tuple of arguments, as METH_VARARGS has it.
 *
 * judged(op, actual, reference, cpu or None, allowance or None, exact, reach, scale): a tuple of
 * the verdict (0 right, 1 wrong, 2 not judged) and of how bad it is at the worst element. A row of
 *   replay's (replay/row.h) would have the same.
 * surely_right(op, actual, reference, exact): a tuple of whether the reference alone says that it
 * is right (verdict_is_sure) and of how many units of rounding the worst element is off without any
 * allowance; None where neither can be told.
 * perturbed(t, seed, u, part): t, a packed float64 tensor, with each element moved by a random
 * share between u/2 and u of itself, up or down; part: every second one, by chance. probed(out,
 * reference, moved...): what the elements of `reference` do when the inputs move, into `out`, a
 * packed float64 tensor of that shape; a float: how many inputs act on an element. The last of
 * `moved` had half of them moved (class Probe of replay/runner). extent(t): the root mean square of
 * the finite elements of a float64 tensor, and its largest magnitude but for NaN. */
object *modes_judged(object *self, object *args);
object *modes_surely_right(object *self, object *args);
object *modes_perturbed(object *self, object *args);
object *modes_probed(object *self, object *args);
object *modes_extent(object *self, object *t);

/* What --compare knows of a function at a line of the program. All here is done with the GIL held.
 */

enum { LINE_RESULTS = 4 }; /* of a call, at most */

/* How far off a result was at most that was told. */
enum { LINE_NOTHING = -1, LINE_PLAIN_NUMBER = -2 };
struct told {
	int dtype; /* c10::ScalarType, or one of these */
	double bad;
};

struct line {
	object *plan, *at, *op; /* ours; op: the bytes of its name. NULL: nothing is known */
	bool whole;		/* is not to be compared in C */
	bool in_place;		/* writes its first argument */
	struct judge_by by;	/* for results of `dtype` */
	int dtype;
	double reach; /* judge_reach of a call whose arguments have the hash `of`; 0: of none */
	uint64_t of;
	struct told told[LINE_RESULTS];
	unsigned long calls, tensors; /* settled since they were asked for */
};

/* False: there is no memory. */
bool lines_ready(void);

/* Never NULL. It stays for as long as no other code runs, of Python or PyTorch. */
struct line *line_find(object *plan, object *at);

/* The first call at a line: whether others may be settled in C is found out. `l` is of line_find.
 */
void line_begin(struct line *l, object *plan, object *at);

/* A call was judged in full: how many numbers a sum in it may have (judge_reach) is known now. */
void line_learn_reach(object *plan, object *at, object *args, object *kwargs);

/* How many such numbers a call with these arguments may have, >= 1. */
double line_reach(const struct line *l, object *args, object *kwargs);

/* Nothing is known of any; not while this thread compares. */
void lines_forget(void);

/* settled_calls(): [(plan, at, calls, tensors)] of what was compared in C and not told, since it
 * was last asked for. */
object *modes_settled(object *self, object *unused);

/* statistics(tensor): inf_or_nan, min, max, mean, std, norm, nan, inf, -inf, zeros and hash as
 * texts (perf/events/internal.h), a list; None without memory. Raises what a tensor without
 * numbers raises.
 */
object *modes_measure(object *self, object *tensor);

/* Threads of the program that end with the mode on them. */

/* Look up what is needed; `torch`: libtorch_cpu of dlopen. */
void modes_thread_end_find(void *torch);

/* This thread, which is not the main one, has the mode on it: when it ends, its stacks of modes are
 * left without it. PyTorch would take the GIL to give it back, where whoever waits for the end of
 * the thread may hold that. */
void modes_thread_end_watch(void);

/* Threads that run when the modes come in, and those that nothing of Python has started. */

/* From now on `enter` is called at ops of threads that run Python, every now and then on each, with
 * the GIL held. False: the mode is not on this thread. */
void modes_threads_start(bool (*enter)(void));
void modes_threads_stop(void);

/* threads(): how many threads have run ops, as (those that the mode was on when they were asked
 * last, those that Python does not know, those that have only modes of PyTorch's own). All 0 where
 * modes_threads_start was not called. */
object *modes_threads(object *self, object *unused);

/* no_more_threads(): Python is about to end, and no thread may wait for the GIL. */
object *modes_threads_end(object *self, object *unused);

/* None has, so far. */
void modes_threads_forget(void);

#endif
