/* Strings of what the modes in a process tell. */
#ifndef TRACER_INTERVENE_JSON_TEXT_H
#define TRACER_INTERVENE_JSON_TEXT_H

#include <jansson.h>

/* The string that `s` is; "" when it is none or NULL. It belongs to `s`. */
static inline const char *json_text(const json_t *s)
{
	return json_is_string(s) ? json_string_value(s) : "";
}

/* That of the member `key` of an object; of the element `i` of an array. */
static inline const char *json_text_of(const json_t *object, const char *key)
{
	return json_text(json_object_get(object, key));
}

static inline const char *json_text_at(const json_t *array, size_t i)
{
	return json_text(json_array_get(array, i));
}

#endif
