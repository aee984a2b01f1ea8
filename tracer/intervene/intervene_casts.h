/* Which dtypes --cast and ditorch's variables may name. */
#ifndef TRACER_INTERVENE_INTERVENE_CASTS_H
#define TRACER_INTERVENE_INTERVENE_CASTS_H

#include <jansson.h>

#include "base/err.h"

/* Add "FROM->TO,..." to `out`, an object: the names of PyTorch's dtypes, without "torch.". `option`
 * is where the text comes from, for messages. -EINVAL: a dtype is none, or the results of such a
 * cast could not be told from others; -ENOMEM. */
int intervene_casts_read(const char *option, const char *text, json_t *out, struct err *e);

#endif
