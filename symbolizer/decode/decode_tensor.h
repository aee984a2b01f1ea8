/* A tensor from the item that an engine sent. Part of symbolizer/decode/decode_value.h. */
#ifndef SYMBOLIZER_DECODE_DECODE_TENSOR_H
#define SYMBOLIZER_DECODE_DECODE_TENSOR_H

#include "symbolizer/decode/decode_value.h"

/* `i` is an ITEM_TENSOR or ITEM_SNAPSHOT. A VALUE_TENSOR in d->arena, VALUE_NONE for an undefined
 * one, or VALUE_NOT_DECODED. Adds the tensor's grad_fn to d->nodes. */
struct value decode_tensor(struct decode *d, const struct item *i);

#endif
