#include "tracer/shim/record/internal.h"

#include <string.h>

#include "symbolizer/plan/plan.h"
#include "tracer/engine/remote.h"

enum {
	WORDS = 48, /* searched; a RecordFunction is longer in all versions */
	NEAR = 12,  /* words after fn within which the inputs begin */
	IVALUE = 16,
	IS_SCHEMA = 1,	/* index of the variant's alternative, a byte */
	MOST = 1 << 16, /* values on the stack of a boxed call, whose last ones are the arguments */
};

static bool get(uint64_t addr, void *buf, size_t len)
{
	return addr >= 4096 && !remote_read(remote_new(), addr, buf, len);
}

/* A std::string is {text, length, ...} or, before the C++11 ABI, {text} with the length before the
 * text (symbolizer/plan/plan.h). A FunctionSchema begins with its name. */
static bool is_string(uint64_t addr, const char *name)
{
	uint64_t s[2], text = (uint64_t)(uintptr_t)name, length;
	if ((addr & 7) || !get(addr, s, sizeof(s)) || s[0] != text)
		return false;
	return s[1] == strlen(name) ||
	       (get(text - COW_LENGTH, &length, sizeof(length)) && length == strlen(name));
}

static bool are_values(uint64_t first, uint64_t n)
{
	uint64_t v[2];
	if (first & 7)
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (!get(first + i * IVALUE, v, sizeof(v)) || (uint32_t)v[1] >= IVALUE_TAGS)
			return false;
	return true;
}

static bool is_sequence(uint64_t v)
{
	return v == UINT64_MAX || v < 1ULL << 48;
}

static uint8_t find_fn(const uint64_t *rf, const char *name)
{
	for (uint8_t i = 1; i < WORDS; i++)
		if (is_string(rf[i], name))
			return i;
	return 0;
}

bool record_is_named(const struct record_layout *l, const uint64_t *rf, const char *name)
{
	uint64_t text = (uint64_t)(uintptr_t)name;
	if (l->fn)
		return rf[l->fn] == text;
	for (uint8_t i = 1; i < WORDS; i++)
		if (rf[i] == text && is_string((uint64_t)(uintptr_t)&rf[i], name))
			return true;
	return false;
}

/* The rest of the variant's storage has what was on the stack before: together with the index it
 * may look like the inputs of a call with one argument. */
static uint8_t find_inputs(const uint64_t *rf, uint8_t fn, uint64_t n)
{
	uint8_t found = 0;
	for (uint8_t i = fn + 3; i < fn + NEAR; i++)
		if (rf[i + 1] == n && is_sequence(rf[i - 1]) && (uint8_t)rf[i - 2] == IS_SCHEMA &&
		    are_values(rf[i], n)) {
			if (found)
				return 0;
			found = i;
		}
	return found;
}

static uint64_t empty_places(const struct record_layout *l, const uint64_t *rf)
{
	uint64_t empty = 0;
	for (uint8_t i = l->inputs + 2; i + 2 < WORDS; i++)
		if (!rf[i] && !rf[i + 1] && !rf[i + 2])
			empty |= 1ULL << i;
	return empty;
}

bool record_layout_start(struct record_layout *l, const uint64_t *rf, const char *name,
			 uint64_t ninputs)
{
	if (!l->inputs) {
		if (!ninputs)
			return true;
		uint8_t fn = find_fn(rf, name), inputs = fn ? find_inputs(rf, fn, ninputs) : 0;
		if (!inputs)
			return fn; /* a boxed call whose stack has more than the arguments, or two
				      places fit */
		*l = (struct record_layout){.fn = fn, .inputs = inputs, .seq = inputs - 1};
		l->empty = UINT64_MAX;
	}
	uint64_t n = rf[l->inputs + 1];
	if (!is_string(rf[l->fn], name) || n < ninputs || n > MOST || !is_sequence(rf[l->seq]) ||
	    !are_values(rf[l->inputs], n))
		return false;
	l->empty &= empty_places(l, rf);
	return !l->outputs || l->empty & 1ULL << l->outputs;
}

static bool is_vector(const uint64_t *v)
{
	return v[0] && v[0] <= v[1] && v[1] <= v[2] && !((v[1] - v[0]) % IVALUE) &&
	       are_values(v[0], (v[1] - v[0]) / IVALUE);
}

bool record_layout_end(struct record_layout *l, const uint64_t *rf)
{
	if (l->outputs)
		return !rf[l->outputs] || is_vector(&rf[l->outputs]);
	for (uint8_t i = l->inputs + 2; l->inputs && i + 2 < WORDS; i++)
		if (l->empty & 1ULL << i && is_vector(&rf[i])) {
			l->outputs = i;
			break;
		}
	return true;
}
