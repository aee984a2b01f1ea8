/* Why a value cannot be written or measured. */
#ifndef REPLAY_CAPTURE_REFUSAL_H
#define REPLAY_CAPTURE_REFUSAL_H

enum refusal {
	REFUSED_NOT,
	REFUSED_UNKNOWN,     /* a fact of the tensor is not known */
	REFUSED_STRANGE,     /* facts of the tensor that contradict each other */
	REFUSED_DEVICE,	     /* its memory is on a device */
	REFUSED_LAYOUT,	     /* it is not strided: sparse, nested, mkldnn */
	REFUSED_NO_MEMORY,   /* it has elements and no memory */
	REFUSED_NOT_DECODED, /* the value could not be decoded */
	REFUSED_LAZY,	     /* the memory may hold the conjugate or negative of the values */
	REFUSED_GENERATOR,   /* a random number generator, whose state is not known */
	REFUSED_TEXT,	     /* a string that is not UTF-8, which Python cannot have */
	REFUSAL_COUNT,
};

/* A few words for a summary, "memory on a device". Static. */
const char *refusal_text(enum refusal r);

#endif
