/* Files as torch.save writes them: a zip with a pickle and the bytes of the storages. */
#ifndef REPLAY_CAPTURE_PTH_H
#define REPLAY_CAPTURE_PTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

/* Which torch.load opens a file. The same file may be limited in several ways. */
enum {
	/* Holds a float, a complex number, a torch.device, or a dtype as a value that is none of
	 * complex32, complex64, complex128, float16, float32, float64, int8 ... int64: 1.13 opens
	 * such files, its own too, with weights_only=False alone (_weights_only_unpickler.py of
	 * 1.13.1). */
	PTH_FULL_LOAD_1_13 = 1 << 0,
	/* Holds a memory format, which no version's weights_only knows: weights_only=False, or
	 * torch.serialization.add_safe_globals([(torch.channels_last, "torch.channels_last")]).
	 * torch.save of these versions cannot write one at all. */
	PTH_FULL_LOAD = 1 << 1,
	/* Has a tensor that 1.13 cannot have or load: float8, float4, uint16 ..., complex32, or one
	 * with the conjugate or negative bit. */
	PTH_NOT_1_13 = 1 << 2,
	/* Has quantized tensors: they keep dtype, shape and bytes, and int_repr() gives their
	 * integers, but they have no scale and zero point; printing or computing with them fails.
	 */
	PTH_NO_QUANTIZER = 1 << 3,
};

/* Each of `limits` as words for a person, comma-separated, into `out`; "" for none. Returns out. */
const char *pth_limits_text(char *out, size_t size, unsigned limits);

struct pth_keyword {
	const char *name;
	const struct value *value;
};

/* The dict {"name": str, "args": tuple, "kwargs": dict, "identifier": str} of ditorch's captures
 * (op_tools/save_op_args.py). Nothing is owned. Lists of the event become Python lists. */
struct pth_content {
	const char *name, *identifier; /* UTF-8 */
	const struct value *args;
	unsigned nargs;
	bool args_in_one; /* args is a tuple of one: the tuple of the nargs values */
	const struct pth_keyword *kwargs;
	unsigned nkwargs;
	/* Written as "of" into the dict, a tuple of strings, when it is not NULL: which argument of
	 * the call each of args belongs to, "0", "1[2]" by place or "weight" by keyword. */
	const char *const *of;
};

struct pth_result {
	uint64_t bytes;	      /* size of the file */
	unsigned limits;      /* PTH_* */
	enum refusal refusal; /* when pth_write returned -ENOTSUP */
	unsigned refused;     /* then the place in args, or from nargs on in kwargs */
};

/* Write `c` to `path`, which appears when it is whole. Every storage is written once whatever
 * number of tensors share it, from its first byte to the last that one of them reaches, or whole
 * when the source knows its size; tensors keep their offset and strides in it. Tensors of different
 * dtypes that share memory get storages of their own (torch.save refuses them). requires_grad is
 * False where it is not known. `max_bytes`: largest size of the file, 0 for no limit.
 *
 * Returns 0; -ENOTSUP when a value cannot be written (out->refusal); -EOVERFLOW when the file would
 * be larger than max_bytes; the -errno of the file system or of src->read. `out` may not be NULL.
 */
int pth_write(const char *path, const struct pth_content *c, const struct source *src,
	      uint64_t max_bytes, struct pth_result *out, struct err *e);

/* The arguments of an operator's call as Python would pass them to the function of its name. */

struct call_args {
	unsigned nargs;			  /* the first so many of the event are positional */
	const struct pth_keyword *kwargs; /* in the arena */
	unsigned nkwargs;
};

/* Sort the arguments of `ev` by the schema: keyword-only ones are keywords. Left out, as a program
 * leaves them out, are keywords that have their default and the last positional ones that have
 * theirs: the dispatcher's operator takes more arguments than the Python function (aten::layer_norm
 * has cudnn_enable), and those have their default then. An operator without a schema has positional
 * arguments only. Returns 0 or -ENOMEM. */
int call_args_sort(const struct op_event *ev, struct arena *a, struct call_args *out);

/* The arguments that the operator writes to, by their names, in the arena; none for one without a
 * schema. Returns 0 or -ENOMEM. */
int call_args_written(const struct op_event *ev, struct arena *a, const struct pth_keyword **out,
		      unsigned *n);

#endif
