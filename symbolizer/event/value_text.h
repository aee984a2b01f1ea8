/* Values of an event as people and as programs read them. */
#ifndef SYMBOLIZER_EVENT_VALUE_TEXT_H
#define SYMBOLIZER_EVENT_VALUE_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

/* The shortest decimal that reads back as the same double, with ".0" for whole numbers, as Python's
 * repr: "1e-05", "0.1", "2.0"; "nan", "inf", "-inf". Returns out; 32 bytes are always enough. */
const char *value_float(char *out, size_t size, double f);

/* A value that is no tensor and holds none, as Python would show it: "1e-05", "True", "None",
 * "'sum'", "torch.float32", "[1, 2]", "(1+2j)", "not decoded: why"; a tensor inside a list is
 * "Tensor(2, 3)". Cut with "..." when it does not fit. Control characters are left as they are:
 * print it with text_print_safe. Returns out. */
const char *value_text(char *out, size_t size, const struct value *v);

/* "(2, 3)", "(5,)", "()": n numbers as a Python tuple. Returns out. */
const char *value_dims(char *out, size_t size, const int64_t *dims, unsigned n);

/* Whether `v` is a tensor or a list with one in it. */
bool value_has_tensor(const struct value *v);

#endif
