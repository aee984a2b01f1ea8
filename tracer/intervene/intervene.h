/* Interventions: changing what functions of PyTorch do in a program. The library in the process
 * (tracer/shim/extension, tracer/shim/modes) asks here what to do with each function, and reports
 * what it did. Prints on standard error. */
#ifndef TRACER_INTERVENE_INTERVENE_H
#define TRACER_INTERVENE_INTERVENE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/options.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/capture.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/proc/spawn.h"

/* The rules of interventions: which functions of PyTorch to change, and how, from the options of
 * run and attach and from ditorch's variables. */

/* intervene_apply.c: --apply OP:FEATURE[:CONDITION] does to one function what ditorch's
 * apply_feature does, for the calls that meet a condition. */

struct intervene_apply {
	struct oplist ops; /* one function, or several separated by commas */
	char *feature;	   /* a name of intervene_names */
	struct when *when; /* NULL: every call */
};

/* Parse `text`; ditorch's names of features (cast_dtype, autocompare) are accepted, too. 0; -EINVAL
 * with *e. Call intervene_apply_free in either case. */
int intervene_apply_read(const char *text, struct intervene_apply *out, struct err *e);
void intervene_apply_free(struct intervene_apply *a);

/* Whether it applies `feature` to the function `name` ("torch.Tensor.add"; `base`: its last part,
 * "add"). */
bool intervene_apply_is_of(const struct intervene_apply *a, const char *feature, const char *name,
			   const char *base);

/* Whether the condition holds for a call with these arguments (intervene_facts); WHEN_UNKNOWN when
 * they are not described well enough. */
enum when_result intervene_apply_holds(const struct intervene_apply *a, const char *name,
				       const json_t *args);

struct intervene_opts {
	bool fallback_all;
	const char *fallback; /* LIST; NULL: not asked for */
	const char *cast;     /* "torch.float16->torch.float32,...", "env": OP_DTYPE_CAST_DICT */
	const char *compare;  /* LIST or "all" */
	bool overflow;
	const char *first_nan; /* "" or "hold"; NULL: not asked for, or not from inside */
	const char *capture;   /* folder to save calls in, "": here; NULL: not asked for */
	const char *level;     /* "torch" or "aten"; NULL: torch */
	uint64_t every;	       /* compare every so many calls; 0: every call */
	const char *sample;    /* the same as it was written before, "1/N" */
	const char *budget;    /* "10%"; NULL: none */
	const char *ops;       /* LIST for cast, overflow and capture; NULL: all */
	bool keep_going;       /* programs without a function of a given name run on, unchanged */
	struct option_strings apply;   /* OP:FEATURE[:CONDITION] each */
	const char *not_ops;	       /* LIST that is left alone by all; NULL: none */
	uint64_t max_calls, max_bytes; /* of captures; 0: not given */
	const char *nth;	       /* calls to capture, ranges_parse; NULL: all */
	uint64_t pick;		       /* of these, each so-many-th; 0: all */
};

#define INTERVENE_OPTIONS(i)                                                                         \
	{0,	      "fallback",                                                                    \
	 OPTION_LIST, &(i).fallback,                                                                 \
	 "LIST",      "compute these functions on the CPU: 'torch.add,softmax'",                     \
	 NULL},                                                                                      \
	    {0,		  "fallback-all",                                                            \
	     OPTION_FLAG, &(i).fallback_all,                                                         \
	     NULL,	  "compute all functions on the CPU",                                        \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "apply",                                                                                \
	     OPTION_STRINGS,                                                                         \
	     &(i).apply,                                                                             \
	     "OP:FEATURE:EXPR",                                                                      \
	     "as ditorch's apply_feature: fallback, op_capture, ... where EXPR holds",               \
	     NULL},                                                                                  \
	    {0,		"cast",		OPTION_LIST,                                                 \
	     &(i).cast, "FROM->TO,...", "compute in other dtypes: 'torch.float16->torch.float32'",   \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "compare",                                                                              \
	     OPTION_LIST,                                                                            \
	     &(i).compare,                                                                           \
	     "LIST|all",                                                                             \
	     "judge these functions against float64 on the CPU as they run",                         \
	     (const char *const[]){"all", NULL}},                                                    \
	    {0,		  "budget", OPTION_STRING,                                                   \
	     &(i).budget, "10%",    "compare so many calls that it takes this share of the time",    \
	     NULL},                                                                                  \
	    {0,		  "overflow",                                                                \
	     OPTION_FLAG, &(i).overflow,                                                             \
	     NULL,	  "print minimum, mean, NaN count and more of what functions take and give", \
	     NULL},                                                                                  \
	{                                                                                            \
		0, "level", OPTION_STRING, &(i).level, "torch|aten",                                 \
		    "meet calls at PyTorch's functions, or at the dispatcher's operators",           \
		    (const char *const[])                                                            \
		{                                                                                    \
			"torch", "aten", NULL                                                        \
		}                                                                                    \
	}

/* In nesting order: if a call has several, the first is the innermost. */
enum intervene_feature {
	INTERVENE_TIME,
	INTERVENE_FALLBACK,
	INTERVENE_CAST,
	INTERVENE_COMPARE,
	INTERVENE_OVERFLOW,
	INTERVENE_CAPTURE,
	INTERVENE_PRINT,
	INTERVENE_FIRST_NAN, /* alone, and not changed by ctl */
	INTERVENE_FEATURES
};

/* "time", "fallback", "cast", "compare", "overflow", "capture", "print", "first-nan". */
extern const char *const intervene_names[INTERVENE_FEATURES];

struct intervene_rule {
	bool on;
	bool used;		/* is or was on */
	struct oplist listed;	/* from the command line or ctl; empty: all */
	struct oplist removed;	/* by ctl */
	struct oplist only;	/* OP_FALLBACK_LIST and the like; empty: all */
	struct oplist disabled; /* OP_FALLBACK_DISABLE_LIST and the like */
};

struct intervene_rules {
	struct intervene_rule rule[INTERVENE_FEATURES];
	struct oplist not_ops;
	struct intervene_apply *apply;
	size_t napply;
	bool is_aten;	  /* names are those of operators: "aten::add.Tensor" */
	json_t *op_casts; /* LINEAR_OP_DTYPE_CAST_DICT: {"LINEAR": {"casts": {..}, "text": ..}} */
	json_t *names; /* functions of the process, {"torch": ["add", ..], ..}; NULL: not known */
	bool keep_going;
	json_t *casts; /* {"float16": "float32"}, NULL: none */
	char *cast_text;
	bool holds;	    /* --first-nan leaves the process stopped */
	bool stacks;	    /* OP_TOOLS_PRINT_STACK */
	uint64_t sample;    /* compare every so many calls */
	double budget;	    /* share of the time for comparing, up to 1; 0: unlimited */
	uint64_t captures;  /* limit on captures of wrong calls per function and line */
	uint64_t max_calls; /* limit on calls saved, right or wrong, in each process; 0: none */
	uint64_t max_bytes; /* of all captures */
	struct ranges nth;  /* calls of each function that are captured; empty: all */
	uint64_t pick;	    /* of these, the first and each so-many-th after it; 0: all */
	const char *folder; /* for the captures; "": the current one */
};

/* Whether any intervention is asked for. */
bool intervene_wanted(const struct intervene_opts *o);

/* Read options and environment. An item of a LIST on the command line is a name as in ditorch, its
 * last part ("add" for both torch.add and torch.Tensor.add), or a regular expression for either.
 * Items of a variable are read as ditorch does (capture.h), and used if the command line has no
 * list; those of DISABLE variables always are. 0, or -EINVAL with *e; call intervene_rules_free in
 * either case. `o` must outlive `r`. */
int intervene_rules_read(const struct intervene_opts *o, struct intervene_rules *r, struct err *e);

/* Set the casts from now on, in the syntax of --cast. 0, or -errno with *e and nothing changed. */
int intervene_rules_cast(struct intervene_rules *r, const char *text, struct err *e);

/* Set the share of the time for comparing from now on: "10%". 0, or -EINVAL with *e and nothing
 * changed. */
int intervene_rules_budget(struct intervene_rules *r, const char *text, struct err *e);

/* Whether feature `f` is on for the function `name` ("torch.Tensor.add"; `base`: its last part,
 * "add"). */
bool intervene_rules_choose(const struct intervene_rules *r, enum intervene_feature f,
			    const char *name, const char *base);

/* The dtypes of the variable named after this function, {"casts": {..}, "text": ..}, borrowed;
 * NULL: none. */
json_t *intervene_rules_op_casts(const struct intervene_rules *r, const char *base);

/* Whether --apply has feature `f` for the function, for all calls or with a condition. --not-ops
 * and both variables take precedence, as in ditorch's apply_feature. */
enum intervene_applied { APPLIED_NOT, APPLIED_WHEN, APPLIED_ALWAYS };
enum intervene_applied intervene_rules_apply(const struct intervene_rules *r,
					     enum intervene_feature f, const char *name,
					     const char *base);

/* Full names in lists and --apply, ["flash_attn.flash_attn_func", "torch.add"], a new reference:
 * those that no mode intercepts are wrapped in their modules. Empty at the level of operators. */
json_t *intervene_rules_functions(const struct intervene_rules *r);

/* Whether a condition for the feature holds for these arguments (intervene_facts): WHEN_TRUE if any
 * of several does. */
enum when_result intervene_rules_hold(const struct intervene_rules *r, const char *feature,
				      const char *name, const char *base, const json_t *args);

void intervene_rules_free(struct intervene_rules *r);

/* What carries them out. */

struct intervene;

/* Write the library's file, listen, and set the environment of what this process starts, as `user`
 * (NULL: its own). `rules` must outlive *out; orders of ditrace ctl change them. 0 and *out, or
 * -errno with *e. */
int intervene_open(struct intervene_rules *rules, const struct spawn_user *user,
		   struct intervene **out, struct err *e);

/* The same for a running process that has a libtorch: the library is injected (injector.h). */
int intervene_enter(struct intervene_rules *rules, pid_t pid, struct intervene **out,
		    struct err *e);

/* Have all programs compute unchanged from now on, and wait up to two seconds until they do. */
void intervene_leave(struct intervene *v);

/* Before this process stops itself (`away`), and when it goes on: programs compute unchanged in
 * between. The messages of calls that are being changed just then have been handled. */
void intervene_set_away(struct intervene *v, bool away);

/* Handle messages for `ms` milliseconds, and print what is reported. */
void intervene_step(struct intervene *v, int ms);

/* When functions began to be changed, in ns of CLOCK_MONOTONIC; 0: they are not yet. */
uint64_t intervene_began(const struct intervene *v);

/* Whether --first-nan has found what it looked for, and all of it was told; or intervene_refused.
 */
bool intervene_is_over(const struct intervene *v);

/* Whether a process does not have a function that an option names: that was told, and
 * intervene_open has it ended by SIGTERM unless the rules say to keep going. */
bool intervene_refused(const struct intervene *v);

/* After intervene_finish: what --first-nan has to say by the exit status, EXIT_GOOD without it. */
int intervene_status(const struct intervene *v);

/* Handle the remaining messages, and print the summary, or that nothing was done. */
void intervene_finish(struct intervene *v);

/* Free `v`; programs that are still connected compute unchanged from now on. */
void intervene_close(struct intervene *v);

/* intervene_ctl.c: changing the rules while they are in force. ditrace ctl connects to the ditrace
 * that intervenes, by the socket that the target has from it. */

/* Apply an order given as words: "fallback" "add" "torch.add", "compare" "off", "cast" "all",
 * "cast" "torch.float16->torch.float32", "status". Returns 1 when the rules have changed, 0 when
 * not; -EINVAL or -ENOMEM with *e, the rules unchanged. */
int intervene_ctl(struct intervene_rules *r, const char *const *words, size_t n, struct err *e);

/* Whether r->names has all functions that the options name, as far as that can be said: 0, or
 * -EINVAL with *e. */
int intervene_names_check(const struct intervene_rules *r, struct err *e);

/* The rules in force, {"fallback": "torch.add,gelu", "compare": "off", ...}. NULL without memory.
 */
json_t *intervene_ctl_status(const struct intervene_rules *r);

/* A further key: a string on threads that run ops, see intervene_totals_threads. */
#define CTL_THREADS "threads"

/* Send `n` words to the ditrace that intervenes in process `pid`. 0 and *out, the rules then in
 * force with CTL_THREADS if there are any; -ENOENT when there is none; -EINVAL when it refuses,
 * with its message; -errno. */
int intervene_ctl_send(pid_t pid, char *const *words, size_t n, json_t **out, struct err *e);

/* Whether a ditrace intervenes in the process with that state, or will when it imports PyTorch. */
bool intervene_ctl_is_there(const struct shim_state *s);

#endif
