/* Which functions of PyTorch are to do something else, and what: options of run and ditorch's
 * variables. Nothing is done here. */
#ifndef TRACER_INTERVENE_RULES_H
#define TRACER_INTERVENE_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tracer/oplists.h"

struct intervene_opts {
	bool fallback_all;
	const char *fallback; /* LIST; NULL: not asked for */
	const char *cast;     /* "torch.float16->torch.float32,...", "env": OP_DTYPE_CAST_DICT */
	const char *compare;  /* LIST or "all" */
	const char *sample;   /* "1/N"; NULL: every call */
	const char *ops;      /* LIST of functions to cast; NULL: all */
	const char *not_ops;  /* LIST that is left alone by all; NULL: none */
};

#define INTERVENE_OPTIONS(i)                                                                       \
	{0,                                                                                        \
	 "fallback",                                                                               \
	 OPTION_STRING,                                                                            \
	 &(i).fallback,                                                                            \
	 "LIST",                                                                                   \
	 "compute these functions on the CPU: 'torch.add,softmax'",                                \
	 NULL},                                                                                    \
	    {0,		  "fallback-all",                                                          \
	     OPTION_FLAG, &(i).fallback_all,                                                       \
	     NULL,	  "compute all functions on the CPU",                                      \
	     NULL},                                                                                \
	    {0,		"cast",		OPTION_STRING,                                             \
	     &(i).cast, "FROM->TO,...", "compute in other dtypes: 'torch.float16->torch.float32'", \
	     NULL},                                                                                \
	    {0,                                                                                    \
	     "compare",                                                                            \
	     OPTION_STRING,                                                                        \
	     &(i).compare,                                                                         \
	     "LIST|all",                                                                           \
	     "judge these functions against float64 on the CPU as they run",                       \
	     NULL},                                                                                \
	{                                                                                          \
		0, "sample", OPTION_STRING, &(i).sample, "1/N",                                    \
		    "compare: every N-th call of each function", NULL                              \
	}

enum intervene_feature {
	INTERVENE_FALLBACK,
	INTERVENE_CAST,
	INTERVENE_COMPARE,
	INTERVENE_FEATURES
};

/* "fallback", "cast", "compare". */
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
	json_t *casts; /* {"float16": "float32"}, NULL: none */
	char *cast_text;
	uint64_t sample; /* every so many calls are compared */
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

/* Whether the function of this name ("torch.Tensor.add", its last part "add") is to do that. */
bool intervene_rules_choose(const struct intervene_rules *r, enum intervene_feature f,
			    const char *name, const char *base);

void intervene_rules_free(struct intervene_rules *r);

#endif
