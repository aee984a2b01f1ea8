/* Which functions of PyTorch are to do something else, and what: options of run and ditorch's
 * variables. Nothing is done here. */
#ifndef TRACER_INTERVENE_INTERVENE_RULES_H
#define TRACER_INTERVENE_INTERVENE_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/oplists.h"

/* --apply OP:FEATURE[:CONDITION]: what ditorch's apply_feature does to one function, for the calls
 * for which a condition holds. */

struct intervene_apply {
	struct oplist ops; /* one function, or several with commas between */
	char *feature;	   /* a name of intervene_names */
	struct when *when; /* NULL: every call */
};

/* Read `text`; ditorch's names of features (cast_dtype, autocompare) are taken, too. 0; -EINVAL
 * with *e. intervene_apply_free in either case. */
int intervene_apply_read(const char *text, struct intervene_apply *out, struct err *e);
void intervene_apply_free(struct intervene_apply *a);

/* Whether it is about the function of this name ("torch.Tensor.add", its last part "add"). */
bool intervene_apply_is_of(const struct intervene_apply *a, const char *feature, const char *name,
			   const char *base);

/* Whether the condition holds for a call with these arguments (intervene_facts); WHEN_UNKNOWN when
 * they tell too little. */
enum when_result intervene_apply_holds(const struct intervene_apply *a, const char *name,
				       const json_t *args);

struct intervene_opts {
	bool fallback_all;
	const char *fallback; /* LIST; NULL: not asked for */
	const char *cast;     /* "torch.float16->torch.float32,...", "env": OP_DTYPE_CAST_DICT */
	const char *compare;  /* LIST or "all" */
	bool overflow;
	const char *capture;	       /* folder to save calls in, "": here; NULL: not asked for */
	const char *level;	       /* "torch" or "aten"; NULL: torch */
	const char *sample;	       /* "1/N"; NULL: every call */
	const char *budget;	       /* "10%"; NULL: none */
	const char *ops;	       /* LIST for cast, overflow and capture; NULL: all */
	struct option_strings apply;   /* OP:FEATURE[:CONDITION] each */
	const char *not_ops;	       /* LIST that is left alone by all; NULL: none */
	uint64_t max_calls, max_bytes; /* of captures; 0: not given */
};

#define INTERVENE_OPTIONS(i)                                                                         \
	{0,                                                                                          \
	 "fallback",                                                                                 \
	 OPTION_STRING,                                                                              \
	 &(i).fallback,                                                                              \
	 "LIST",                                                                                     \
	 "compute these functions on the CPU: 'torch.add,softmax'",                                  \
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
	    {0,		"cast",		OPTION_STRING,                                               \
	     &(i).cast, "FROM->TO,...", "compute in other dtypes: 'torch.float16->torch.float32'",   \
	     NULL},                                                                                  \
	    {0,                                                                                      \
	     "compare",                                                                              \
	     OPTION_STRING,                                                                          \
	     &(i).compare,                                                                           \
	     "LIST|all",                                                                             \
	     "judge these functions against float64 on the CPU as they run",                         \
	     NULL},                                                                                  \
	    {0,		  "budget", OPTION_STRING,                                                   \
	     &(i).budget, "10%",    "compare so many calls that it takes this share of the time",    \
	     NULL},                                                                                  \
	    {0,		  "overflow",                                                                \
	     OPTION_FLAG, &(i).overflow,                                                             \
	     NULL,	  "print minimum, mean, NaN count and more of what functions take and give", \
	     NULL},                                                                                  \
	{                                                                                            \
		0, "level", OPTION_STRING, &(i).level, "torch|aten",                                 \
		    "meet calls at PyTorch's functions, or at the dispatcher's operators", NULL      \
	}

/* In the order in which they lie around a call that has several: the first is the innermost. */
enum intervene_feature {
	INTERVENE_TIME,
	INTERVENE_FALLBACK,
	INTERVENE_CAST,
	INTERVENE_COMPARE,
	INTERVENE_OVERFLOW,
	INTERVENE_CAPTURE,
	INTERVENE_PRINT,
	INTERVENE_FEATURES
};

/* "time", "fallback", "cast", "compare", "overflow", "capture", "print". */
extern const char *const intervene_names[INTERVENE_FEATURES];

struct intervene_rule {
	bool on;
	bool used;		/* is on or was */
	struct oplist listed;	/* on the command line, or by ctl; empty: all */
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
	json_t *casts;	  /* {"float16": "float32"}, NULL: none */
	char *cast_text;
	bool stacks;	    /* OP_TOOLS_PRINT_STACK */
	uint64_t sample;    /* every so many calls are compared */
	double budget;	    /* share of the time that comparing may take, up to 1; 0: any */
	uint64_t captures;  /* of wrong calls, at most so many of each function at a line */
	uint64_t max_calls; /* to be saved in each process whether right or wrong; 0: any number */
	uint64_t max_bytes; /* of all captures */
	const char *folder; /* in which those are; "": the current one */
};

/* Is anything of it asked for? */
bool intervene_wanted(const struct intervene_opts *o);

/* Read options and environment. An item of a LIST of the command line is a name as ditorch's, the
 * last part of one ("add", which is torch.add as well as torch.Tensor.add), or a regular expression
 * for either; those of a variable are read as ditorch reads them (oplist.h), and count where the
 * command line has no list; the DISABLE ones always. 0, or -EINVAL with *e; intervene_rules_free in
 * either case. `o` must outlive it. */
int intervene_rules_read(const struct intervene_opts *o, struct intervene_rules *r, struct err *e);

/* Cast by this text from now on, as --cast takes it. 0, or -errno with *e and all as it was. */
int intervene_rules_cast(struct intervene_rules *r, const char *text, struct err *e);

/* Compare for this share of the time from now on: "10%". 0, or -EINVAL with *e and all as it was.
 */
int intervene_rules_budget(struct intervene_rules *r, const char *text, struct err *e);

/* Whether the function of this name ("torch.Tensor.add", its last part "add") is to do that. */
bool intervene_rules_choose(const struct intervene_rules *r, enum intervene_feature f,
			    const char *name, const char *base);

/* The dtypes of a variable of this function's own, {"casts": {..}, "text": ..}, NULL: there is
 * none.
 */
json_t *intervene_rules_op_casts(const struct intervene_rules *r, const char *base);

/* Whether it is to do that by --apply, for all calls or under a condition. --not-ops and both
 * variables come first, as in ditorch's apply_feature. */
enum intervene_applied { APPLIED_NOT, APPLIED_WHEN, APPLIED_ALWAYS };
enum intervene_applied intervene_rules_apply(const struct intervene_rules *r,
					     enum intervene_feature f, const char *name,
					     const char *base);

/* Names that lists and --apply give in full, ["flash_attn.flash_attn_func", "torch.add"]: what no
 * mode meets of them is wrapped where its module has it. None at the level of operators. */
json_t *intervene_rules_functions(const struct intervene_rules *r);

/* Whether a condition holds for these arguments (intervene_facts.h): WHEN_TRUE for one of several.
 */
enum when_result intervene_rules_hold(const struct intervene_rules *r, const char *feature,
				      const char *name, const char *base, const json_t *args);

void intervene_rules_free(struct intervene_rules *r);

#endif
