/* How the arguments and results of an op's `call` are passed, and so what to read at its probes:
 * System V ABI for AMD64 1.0, 3.2.3 (registers), and Itanium C++ ABI, 2.2 and 3.1 (classes with a
 * non-trivial copy or destructor go by reference and return through a hidden pointer). */
#ifndef SYMBOLIZER_OPS_ABI_H
#define SYMBOLIZER_OPS_ABI_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/return_sites.h"
#include "symbolizer/ops/cxxparams.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"

enum abi_how {
	ABI_UNKNOWN, /* not decoded: abi_value.why */
	ABI_TENSOR,  /* READ_TENSOR or READ_OPT_TENSOR */
	ABI_TENSORS, /* READ_TENSORS, READ_VECTOR, READ_ILIST */
	ABI_WORD,    /* bytes of a word, by `base`; with has_flag: std or c10 optional within it */
	ABI_WORDS,   /* optional over two words: `read` the value, `flag_read` the flag */
	ABI_BYTES,   /* memory of the value, by `base`; with has_flag an optional */
	ABI_ARRAY,   /* READ_ARRAY of `base` */
	ABI_STRING,
	ABI_BOOLS,   /* std::array<bool, count> in a word */
	ABI_LIST,    /* READ_LIST: IValues that are tensors or none */
	ABI_IVALUES, /* boxed: taken from the values on the stack */
};

enum { ABI_NO_READ = 0xff };

/* How one argument or result comes out of the items of a hit. */
struct abi_value {
	uint8_t how;	   /* enum abi_how */
	uint8_t base;	   /* enum cxx_base */
	uint8_t read;	   /* index of the read, ABI_NO_READ */
	uint8_t flag_read; /* ABI_WORDS */
	bool has_flag;	   /* optional */
	bool std_optional; /* value first, flag behind it (std::optional); else c10::optional: flag
			      first */
	uint8_t count;	   /* ABI_BOOLS */
	const char *why;   /* ABI_UNKNOWN; static */
};

struct op_abi {
	uint16_t nargs, nresults;
	bool late;			  /* the plan is for an entry probe at func_facts.late */
	struct abi_value *args, *results; /* in the arena */
};

/* Plan the reads of one op. `f` is its C++ signature, `s` its schema (same arguments in the same
 * order), `facts` what is known of its code. Fills `plan` and `out`, whose arrays lie in `a`.
 * Returns 0; -ENOMEM; -EPROTO when signature and schema do not fit each other (then nothing of the
 * op's values may be shown). */
int abi_plan(const struct cxx_function *f, const struct schema *s, const struct func_facts *facts,
	     struct arena *a, struct op_plan *plan, struct op_abi *out);

#endif
