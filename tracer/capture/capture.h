/* Captures while tracing: chooses calls, and writes their tensors while the thread is stopped at
 * the op. Prints the lines that the command shows. */
#ifndef TRACER_CAPTURE_CAPTURE_H
#define TRACER_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/map.h"
#include "base/options.h"
#include "replay/capture/capture_files.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/when/when.h"
#include "tracer/observe/observer.h"

/* Which calls are captured: counts, steps and lists. Independent of tracing. */

/* Lists of operators in environment variables (OP_CAPTURE_LIST), read as ditorch reads them. */

struct oplist_item;

/* A list as is_opname_match (op_tools/utils.py of ditorch) takes it: comma-separated items, each a
 * name, or a regular expression for which re.findall returns the whole name. So ".*" matches all,
 * "torch.Tensor.add" or "torch.*add" matches add, "add" alone matches nothing. If an expression has
 * one group, the group must match the whole name; with more than one it never matches. The regular
 * expressions are PCRE2's, which agree with Python's in all common syntax.
 *
 * ditorch's name depends on how Python made the call, which the dispatcher does not know. So an
 * item matches an op if it is the op's name (opnames_match), or if as an expression it matches the
 * name that ditrace shows (opnames_python) or "torch.Tensor.X" for the same X. Zero-initialise. */
struct oplist {
	struct oplist_item *items;
	size_t n, room;
};

/* Returns 0; -EINVAL if an item is not a regular expression (ditorch fails there, too); -ENOMEM.
 * `name` is the variable's, for messages. Free with oplist_free. */
int oplist_compile(const char *name, const char *text, struct oplist *out, struct err *e);

/* Append the items of `text`; on failure the list is unchanged. */
int oplist_append(const char *name, const char *text, struct oplist *l, struct err *e);

/* Remove the items that are spelled like an item of `gone`. */
void oplist_subtract(struct oplist *l, const struct oplist *gone);

/* The text of the i-th item; NULL past the last. */
const char *oplist_item(const struct oplist *l, size_t i);

/* The items, comma-separated, "" for none; free() it. NULL without memory. */
char *oplist_text(const struct oplist *l);

bool oplist_match(const struct oplist *l, const struct op_desc *op);

/* The same if Python's name is known, as in ditorch: an item is `name`, or matches all of it. */
bool oplist_has_name(const struct oplist *l, const char *name);

void oplist_free(struct oplist *l);

/* What is chosen. */

/* What the user asked for; the same for all processes. Zero-initialised: every call. */
struct selection_policy {
	struct ranges nth; /* --nth: calls, counted from 1 for each op */
	uint64_t every;	   /* --every K: of the calls in nth, the first and every K-th after it, for
			      each op; 0 and 1: all */
	uint64_t max_calls;	/* --max-calls N: over all processes; 0: no limit */
	struct ranges steps;	/* --step A-B */
	struct filter step_op;	/* --step-op; empty: the optimizer's step */
	struct oplist only;	/* OP_CAPTURE_LIST and the like; empty: all */
	struct oplist disabled; /* OP_CAPTURE_DISABLE_LIST and the like */
};

/* ditorch's list variables for one of its tools. */
struct selection_variables {
	const char *only, *disabled;
};

extern const struct selection_variables selection_capture;  /* OP_CAPTURE_LIST */
extern const struct selection_variables selection_overflow; /* OP_OVERFLOW_CHECK_LIST */

/* Read the lists from the environment (getenv). A variable that is set but empty is a list that
 * matches nothing, as in ditorch. Returns 0, -EINVAL with *e, or -ENOMEM. */
int selection_environment(struct selection_policy *p, const struct selection_variables *v,
			  struct err *e);

/* Free everything the policy owns. */
void selection_policy_free(struct selection_policy *p);

/* Selection in one process. Zero-initialise, and set the two pointers, which must outlive it. */
struct selection {
	const struct selection_policy *policy;
	uint64_t *chosen; /* calls chosen so far, in all processes */

	struct steps steps;
	struct intern names;	  /* of ops: those that only one process has are not numbered */
	struct selection_op *ops; /* by index of the name */
	size_t room;
};

enum selection_answer {
	SELECTION_NO,
	SELECTION_YES,
	SELECTION_OVER, /* neither this call nor a later one: max_calls or the end of steps is
			   reached */
};

/* Count steps: call for every event at its start, in order of start. Returns the step that the
 * event belongs to. */
uint64_t selection_see(struct selection *s, const struct op_event *ev);

enum { CALL_NOT_COUNTED, CALL_PICKED, CALL_NUMBERED };

/* The engine's count of a call (selection_pick). */
struct call_count {
	int how;	 /* CALL_NOT_COUNTED: to be counted here; CALL_PICKED: in nth and every */
	uint64_t number; /* CALL_NUMBERED: its number, from 1 */
};

/* Whether to capture this call of a dispatched op. Ask once for each call that passes the other
 * filters (--ops, --when), after selection_see: nth and every count these calls, within the chosen
 * steps. SELECTION_NO without memory, and for backward nodes: their gradients belong to the call of
 * their forward op. */
enum selection_answer selection_choose(struct selection *s, const struct op_event *ev,
				       struct call_count count);

/* The call that selection_choose has just chosen is not captured after all: max_calls leaves room
 * for another. */
void selection_give_back(struct selection *s);

/* Whether max_calls is reached. */
bool selection_is_spent(const struct selection *s);

/* nth and every, for an engine that counts. False if only selection_choose can do it: no such
 * options, steps are counted as well, or the ranges are too many or overlap. */
bool selection_pick(const struct selection_policy *p, struct pick *out);

/* Whether the lists include this op. Used to leave ops out of the probe plan. */
bool selection_wants_op(const struct selection_policy *p, const struct op_desc *op);

void selection_free(struct selection *s);

/* Captures of the calls chosen. */

struct capture_opts {
	const char *dir;	   /* --capture=DIR, "" for the current one; NULL: no capture */
	const char *nth, *steps;   /* ranges_parse; NULL: all */
	const char *step_op;	   /* filter_compile; NULL: the optimizer's step */
	uint64_t every, max_calls; /* see struct selection_policy */
	uint64_t max_bytes;	   /* 0: no limit */
	bool collectives; /* of these alone, which takes the engine shim, and has no gradients */
};

/* Whether a list as of --ops chooses collectives of torch.distributed alone. */
bool capture_is_of_collectives(const char *ops);

#define CAPTURE_OPTIONS(c)                                                                         \
	{0,	   "capture", OPTION_DEFAULTED,                                                    \
	 &(c).dir, "DIR",     "save inputs, outputs and gradients below DIR (here)",               \
	 NULL},                                                                                    \
	    {0,	       "nth",	  OPTION_LIST,                                                     \
	     &(c).nth, "3,10-20", "capture: these calls of each op, counted from 1",               \
	     NULL},                                                                                \
	    {0,		 "every", OPTION_POSITIVE,                                                 \
	     &(c).every, "K",	  "capture, compare: every K-th call of each op",                  \
	     NULL},                                                                                \
	    {0,	  "max-calls", OPTION_POSITIVE, &(c).max_calls, "N", "capture: at most N calls",   \
	     NULL},                                                                                \
	    {0,		  "max-bytes",                                                             \
	     OPTION_SIZE, &(c).max_bytes,                                                          \
	     "2G",	  "capture: at most so many bytes of files",                               \
	     NULL},                                                                                \
	    {0,		 "step", OPTION_LIST,                                                      \
	     &(c).steps, "A-B",	 "capture: in these training steps, counted from 1",               \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "capture: a step ends with OP, not with the optimizer's step", NULL            \
	}

/* Create the observer that captures. Reads the options, and OP_CAPTURE_LIST and
 * OP_CAPTURE_DISABLE_LIST of the environment. `when` (may be NULL) and `o` must outlive it. Without
 * `with_grads` a call is complete at its exit. `log` gets a line for each saved file. 0, -EINVAL
 * with *e, or -ENOMEM. */
int capture_open(const struct capture_opts *o, const struct when *when, bool with_grads, FILE *log,
		 struct observer **out, struct err *e);

/* Statistics while tracing (--stats, --first-nan): tensors of chosen calls are measured while the
 * thread is stopped, arguments at the entry of the op and results at its exit. */

/* --first-nan: the first op with a NaN or an infinity in a result while all its inputs are finite.
 */

struct first_nan;

/* `dir`: folder for the capture (root of struct capture_files). `log` gets what is found. With
 * `hold` the process is left stopped. NULL without memory. */
struct first_nan *first_nan_new(const char *dir, bool hold, FILE *log);

/* Reads the registers of a stopped thread (struct engine). Without it no native stack is shown. */
typedef int first_nan_registers_fn(void *arg, pid_t tid, uint64_t *out);
void first_nan_registers(struct first_nan *f, first_nan_registers_fn *fn, void *arg);

/* Judge a call that has ended, by its statistics, while its thread is stopped. `before` reads its
 * arguments as they were at the entry, as far as they could be kept, `now` as they are. The first
 * finding is printed and saved; later calls are ignored. */
void first_nan_judge(struct first_nan *f, struct target *t, const struct op_event *ev,
		     const struct source *before, const struct source *now);

/* The id of the event that was found; 0: none. */
uint64_t first_nan_found(const struct first_nan *f);

/* Whether nothing was found, but not all could be measured. */
bool first_nan_unsure(const struct first_nan *f);

/* Print what was found, or that nothing was, and what could not be judged. */
void first_nan_summary(const struct first_nan *f, FILE *out);

void first_nan_free(struct first_nan *f);

struct stats_opts {
	bool stats;	       /* --stats */
	const char *first_nan; /* --first-nan: "" or "hold"; NULL: not asked for */
};

#define STATS_OPTIONS(m)                                                                           \
	{0,	     "stats", OPTION_FLAG,                                                         \
	 &(m).stats, NULL,    "record minimum, mean, NaN count and more of every tensor",          \
	 NULL},                                                                                    \
	{                                                                                          \
		0, "first-nan", OPTION_DEFAULTED, &(m).first_nan, "hold",                          \
		    "stop at the first op that makes a NaN or infinity of finite inputs",          \
		    (const char *const[])                                                          \
		{                                                                                  \
			"hold", NULL                                                               \
		}                                                                                  \
	}

/* Create the observer for --stats and --first-nan, at least one of which is given. Reads
 * OP_OVERFLOW_CHECK_LIST and OP_OVERFLOW_CHECK_DISABLE_LIST of the environment. `selection` has the
 * options that choose calls, and the folder for the capture of --first-nan; it, `o` and `when` (may
 * be NULL) must outlive *out. `log` gets what --first-nan finds. 0, -EINVAL with *e, or -ENOMEM. */
int stats_collector_open(const struct stats_opts *o, const struct capture_opts *selection,
			 const struct when *when, FILE *log, struct observer **out, struct err *e);

#endif
