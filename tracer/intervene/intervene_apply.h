/* --apply OP:FEATURE[:CONDITION]: what ditorch's apply_feature does to one function, for the calls
 * for which a condition holds. */
#ifndef TRACER_INTERVENE_INTERVENE_APPLY_H
#define TRACER_INTERVENE_INTERVENE_APPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/oplists.h"

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

#endif
