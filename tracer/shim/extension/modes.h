/* What the files of the extension share. */
#ifndef TRACER_SHIM_EXTENSION_MODES_H
#define TRACER_SHIM_EXTENSION_MODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay/numbers/numbers.h"
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

/* Call a function of modes/ (NULL before look_up()); a new reference, or NULL without an error. */
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
 * that base. look_up(push, pop), METH_VARARGS: look up the objects of Python that are used.
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

/* modes_keys.c: PyTorch (1.13.1 and 2.13.0) asks a TorchDispatchMode with the keys of conjugates,
 * negatives and tensors of zeros excluded. An operator that is called there and computes with such
 * views of its own (linalg_pinv of complex numbers) takes them for the tensors that they are views
 * of, and gives other numbers than without the mode. Within a mode of the program's own it does so
 * anyway, and gives the right ones beneath this one. */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_keys_ready(void);

/* Include them in this thread: those that were excluded, for modes_keys_exclude, which preserves
 * Python's error. */
unsigned modes_keys_include(void);
void modes_keys_exclude(unsigned included);

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

/* Arguments and results of calls: nests of tensors, substitutes, numbers; and the features that
 * work on them. */

/* modes_pytree.c: nests of tuples, lists and dicts, as calls take and return them. */

/* The tensors of a call in order, with repetitions; borrowed from the call. */
struct tensors {
	object **list;
	size_t n, room;
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool nest_ready(void);

/* Whether it is a tensor, of any subclass. */
bool nest_is_tensor(object *o);

/* Call fn(leaf, context) for every leaf (borrowed) until one returns false. torch.Size is a leaf.
 * False: one did, or Python's error is set. */
bool nest_each(object *x, bool (*fn)(object *leaf, void *context), void *context);

/* Add the tensors of x to *out. False: no memory. Free with tensors_drop. */
bool nest_tensors(object *x, struct tensors *out);
void tensors_drop(struct tensors *t);

/* tensors_in(*nests), METH_VARARGS: a list. */
object *modes_tensors_in(object *self, object *nests);

/* Whether it consists only of tensors, numbers, strings and None, in tuples, lists and plain dicts.
 */
bool nest_is_known(object *x);

/* A nest of the same structure and types, with fn(leaf, context), a new reference, in place of
 * every leaf; a dict of a type other than dict and OrderedDict is a leaf. A new reference; NULL:
 * Python's error is set. */
object *nest_rebuilt(object *x, object *(*fn)(object *leaf, void *context), void *context);

/* modes_substitutes.c: tensors that stand in for those of one call. */

struct stand_pair {
	object *x;    /* the program's; borrowed from the call */
	object *copy; /* owned */
	long version; /* of the copy when it was made; or STAND_UNVERSIONED */
};
enum { STAND_UNVERSIONED = -1 };

/* Zero-initialise; set `made`, `other` and `context`. */
struct stand {
	struct stand_pair *pairs;
	size_t n, room;
	/* Makes a copy of a tensor, a new reference; NULL without an error: use the tensor itself.
	 */
	object *(*made)(object *tensor, void *context);
	/* The same for any other leaf, but NULL only with an error. May be NULL: all are kept. */
	object *(*other)(object *leaf, void *context);
	void *context;
};

/* The nest with all tensors replaced, each copied once. A new reference; NULL: Python's error is
 * set. */
object *stand_for(struct stand *s, object *nest);

/* The program's tensor that a copy stands for; borrowed, or NULL. */
object *stand_original(const struct stand *s, object *copy);

/* Whether a result may be returned to the program. False: Unchanged is raised, since it refers to
 * the memory of a copy. */
bool stand_check(const struct stand *s, object *result);

/* Write what the call has changed in the copies into the program's tensors, all or nothing. False:
 * Unchanged or another error is set. */
bool stand_write_back(const struct stand *s, object *plan, object *args, object *kwargs);

/* Drop the copies and free the table. */
void stand_drop(struct stand *s);

/* modes_substitutes.c: a call computed with copies in place of its tensors, for --fallback and
 * --cast.
 */

/* Zero-initialise; free with copies_drop. */
struct copies {
	object *plan, *call, *args, *kwargs, *at; /* the program's call; borrowed */
	struct tensors tensors;			  /* of its arguments */
	struct stand stand;
	object *new_args, *new_kwargs, *result; /* owned */
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_copies_ready(void);

/* Fill *c from the arguments (plan, call, args, kwargs, at). False: an error is set, Unchanged if
 * `feature` does not apply to the function. */
bool copies_take(struct copies *c, object *args, object *feature);

/* copies_make: replace the arguments by what c->stand makes of them. copies_call: call with these.
 * False: an error is set. */
bool copies_make(struct copies *c);
bool copies_call(struct copies *c);

/* The dtype of a result by promotion from the program's arguments, or (of_new) from the replaced
 * ones: promoted() of modes/. A new reference; NULL with an error. */
object *copies_promoted(const struct copies *c, bool of_new);

/* Have function(plan, at, rows, given, result) of modes/ report the call; ignores its errors. */
void copies_tell(const struct copies *c, object *function, object *rows, object *given);

/* copies_forget frees the replaced arguments and the result, copies_drop everything. */
void copies_forget(struct copies *c);
void copies_drop(struct copies *c);

/* tensor.to(dtype), a new reference; whether it is on the CPU; whether it has that dtype. */
object *copies_to(object *tensor, object *dtype);
bool copies_is_on_cpu(object *tensor);
bool copies_is_dtype(object *tensor, object *dtype);

/* modes_choice.c: which calls a table has already; calls are the same if function, place, shapes,
 * dtypes, devices and plain values are. */

enum { SEEN_SLOTS = 8192 };

struct seen {
	uint64_t slots[SEEN_SLOTS];
	unsigned n;
};

/* Whether a call is new; one that looks new here is decided by is_new (class Seen of modes/).
 * Errors count as no. */
bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs);

/* A hash of the types, shapes, dtypes, devices and plain values among a call's arguments. */
uint64_t seen_hash(object *args, object *kwargs);

/* Forget all calls. Call it first. */
void seen_forget(struct seen *s);

/* --budget selects the calls to compare, so that comparing takes no more than a
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

/* modes_dlpack.c: the elements of a Python tensor, by DLPack (dlpack.h, version 0, which
 * torch._C._to_dlpack provides in all versions). */

/* Elements in packed row-major order in memory of this process. */
struct numbers {
	object *tensor, *capsule; /* owners of the memory */
	const void *data;
	int dtype; /* c10::ScalarType */
	int ndim;
	const int64_t *shape;
	int64_t n;
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool numbers_ready(void);

/* Whether a tensor has elements and no memory for them, so that to read them would end the program:
 * a ZeroTensor, which stands for zeros in gradients, or one whose storage was resized to nothing,
 * as FSDP does with parameters. */
bool numbers_lack_memory(object *tensor);

/* Fill *out from a tensor on any device, copying only one that is elsewhere or not packed. False:
 * Python's error is set. Free with numbers_drop. */
bool numbers_of(object *tensor, struct numbers *out);
void numbers_drop(struct numbers *n);

/* modes_cast.c: --cast, calls computed in another dtype with their results cast back. */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_cast_ready(void);

/* cast(plan, call, args, kwargs, at) (METH_VARARGS): the result as the unchanged call would return
 * it; raises Unchanged where that is impossible. */
object *modes_cast(object *self, object *args);

/* modes_compare.c: --compare for calls that are right at first sight, as most are: the reference is
 * computed on float64 copies, compared, and only counted. All others go to compare_call() of
 * modes/. */

/* Fetch what is needed from modes/, and forget all lines. False, with Python's error set where that
 * is known: a name is missing. */
bool modes_compare_ready(void);

/* compare(plan, call, args, kwargs, at) (METH_VARARGS): returns what the call returns. */
object *modes_compare(object *self, object *args);

/* modes_fallback.c: --fallback, calls computed on the CPU with their results moved to the device.
 */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_fallback_ready(void);

/* fallback(plan, call, args, kwargs, at) (METH_VARARGS): the result as the unchanged call would
 * return it; raises Unchanged where that is impossible. */
object *modes_fallback(object *self, object *args);

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

/* modes_threads.c: threads that were running when the modes were installed, and those not started
 * by Python; and those that end with the mode on their stacks. */

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
