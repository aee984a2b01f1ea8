#include "replay/capture/refusal.h"

const char *refusal_text(enum refusal r)
{
	static const char *const texts[REFUSAL_COUNT] = {
	    [REFUSED_NOT] = "nothing",
	    [REFUSED_UNKNOWN] = "a tensor of which not all is known",
	    [REFUSED_STRANGE] = "a tensor whose shape, stride and storage contradict each other",
	    [REFUSED_DEVICE] = "memory on a device",
	    [REFUSED_LAYOUT] = "a layout that is not strided",
	    [REFUSED_NO_MEMORY] = "a tensor without memory",
	    [REFUSED_NOT_DECODED] = "a value that was not decoded",
	    [REFUSED_LAZY] = "a tensor that may be a lazy conjugate or negative",
	    [REFUSED_GENERATOR] = "a random number generator",
	    [REFUSED_TEXT] = "a string that is not UTF-8",
	};
	return texts[r < REFUSAL_COUNT ? r : REFUSED_UNKNOWN];
}
