/* The captures of a run: real inputs, outputs and gradients of op calls, in ditorch's folders and
 * formats. */
#ifndef REPLAY_CAPTURE_CAPTURE_FILES_H
#define REPLAY_CAPTURE_CAPTURE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"

/* Where the bytes of tensors come from, and what the event does not say about a tensor. */

/* Why a value cannot be written or measured. */

enum refusal {
	REFUSED_NOT,
	REFUSED_UNKNOWN,     /* some of the tensor's metadata is unknown */
	REFUSED_WRAPPED,     /* its class has the numbers elsewhere, as those of torch.func */
	REFUSED_STRANGE,     /* the tensor's metadata is contradictory */
	REFUSED_DEVICE,	     /* its memory is on a device */
	REFUSED_LAYOUT,	     /* it is not strided: sparse, nested, mkldnn */
	REFUSED_NO_MEMORY,   /* it has elements but no memory */
	REFUSED_NOT_DECODED, /* the value could not be decoded */
	REFUSED_LAZY,	     /* the memory may hold the conjugate or negative of the values */
	REFUSED_GENERATOR,   /* a random number generator, whose state is not known */
	REFUSED_TEXT,	     /* a string that is not UTF-8, which Python cannot have */
	REFUSAL_COUNT,
};

/* A few words for a summary, "memory on a device". Static. */
const char *refusal_text(enum refusal r);

struct tensor;

/* Zero-initialised: nothing further is known. */
struct source_tensor {
	bool has_storage_bytes;
	uint64_t storage_bytes; /* size of the whole storage */
	bool is_parameter;	/* a torch.nn.Parameter */
	bool conj, neg;	  /* Tensor.is_conj(), Tensor.is_neg(): the memory holds the conjugate, the
			     negative, of the values */
	bool may_be_lazy; /* whether it has one of these bits is unknown */
};

struct source {
	void *ctx;
	/* Copy all `n` bytes at `address` of the target to `to`. Returns 0 or -errno. */
	int (*read)(void *ctx, uint64_t address, void *to, size_t n);
	/* Report what else is known about `t`; `out` is zero-initialised. Called once or more for
	 * each tensor. NULL: nothing is known about any. */
	void (*more)(void *ctx, const struct tensor *t, struct source_tensor *out);
	bool devices; /* read() can also read device memory */
};

/* Which bytes of memory belong to a tensor. */

struct extent {
	uint64_t base;	/* address of the first byte of the storage; 0 for a tensor without elements
			   or on the meta device */
	uint64_t bytes; /* from there through the last byte of an element */
	unsigned itemsize;
	bool is_meta;
};

/* The extent of `t`, or why it has none. `devices`: device memory counts, too. Checks all metadata:
 * shape and numel agree, strides and offset are not negative, nothing overflows. */
enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out);

/* Copies of tensors with their bytes, taken at different times to be written together. */

struct kept_tensor;

/* Zero-initialise. */
struct kept {
	struct arena arena;
	struct kept_tensor *last;
	size_t bytes; /* of memory copied */
};

/* Copy `t`, and the bytes from its storage's first to its own last, as `src` has them now. *out is
 * the copy, which lives as long as `k`. 0; -ENOTSUP if there are no bytes to read (extent_of);
 * -EFBIG for more than `max` bytes; -EEXIST if it overlaps a kept tensor that had other bytes
 * there; -ENOMEM; the -errno of src->read. */
int kept_add(struct kept *k, const struct tensor *t, const struct source *src, size_t max,
	     struct tensor **out);

/* A source that reads the tensors of `k`, which must outlive it, and nothing else. */
struct source kept_source(struct kept *k);

void kept_free(struct kept *k);

/* Copies of tensors' bytes at one time, because they may be overwritten later. */

struct snapshot_range {
	uint64_t address;
	size_t n, at; /* size, and offset in `bytes` */
};

/* Zero-initialise. */
struct snapshot {
	struct snapshot_range *ranges;
	size_t nranges, ranges_room;
	unsigned char *bytes;
	size_t len, room;
	struct source live;
};

/* Copy the bytes between the first and the last element of `t`, unless `s` has them already. 0;
 * -EFBIG if all copies together would exceed `max` bytes, or if they are far larger than the
 * elements; -ENOTSUP if it has no readable bytes (extent_of); -ENOMEM; the -errno of src->read. */
int snapshot_add(struct snapshot *s, const struct tensor *t, const struct source *src, size_t max);

/* A source that reads the copies, and from `live` what was not copied. `s` must outlive it. */
struct source snapshot_source(struct snapshot *s, const struct source *live);

/* Drop the copies; some memory is kept for reuse. */
void snapshot_clear(struct snapshot *s);

void snapshot_free(struct snapshot *s);

/* The files. */

/* What torch.load needs to open a file; several may apply. */
enum {
	/* Holds a float, a complex number, a torch.device, or a dtype as a value other than
	 * complex32, complex64, complex128, float16, float32, float64, int8 ... int64. 1.13 loads
	 * such files, even its own, only with weights_only=False (_weights_only_unpickler.py of
	 * 1.13.1). */
	PTH_FULL_LOAD_1_13 = 1 << 0,
	/* Holds a memory format, which weights_only rejects in every version: needs
	 * weights_only=False, or torch.serialization.add_safe_globals([(torch.channels_last,
	 * "torch.channels_last")]). torch.save of these versions cannot write one at all. */
	PTH_FULL_LOAD = 1 << 1,
	/* Has a tensor that 1.13 lacks or cannot load: float8, float4, uint16 ..., complex32, or
	 * one with the conjugate or negative bit. */
	PTH_NOT_1_13 = 1 << 2,
	/* Has quantized tensors: they keep dtype, shape and bytes, and int_repr() returns their
	 * integers, but without scale and zero point, printing or computing with them fails. */
	PTH_NO_QUANTIZER = 1 << 3,
};

/* Describe each of `limits` in words, comma-separated, in `out`; "" for none. Returns out. */
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
	bool args_in_one; /* args is a 1-tuple of the tuple of the nargs values */
	const struct pth_keyword *kwargs;
	unsigned nkwargs;
	/* If not NULL, saved in the dict as "of", a tuple of strings: the argument of the call that
	 * each of args belongs to, "0" or "1[2]" by position, "weight" by keyword. */
	const char *const *of;
};

/* Set `out`, whose kwargs are empty, to the arguments of the operator call `ev` as Python would
 * pass them to the function of its name. Keyword-only arguments, of the schema or of that function,
 * become keywords. As in a program, keywords and trailing positional arguments that have their
 * default are left out: the dispatcher's operator takes more arguments than the Python function
 * (aten::layer_norm has cudnn_enable), and those then have their default. Without a schema all
 * arguments are positional.
 * `out` refers to `ev` and to memory of `a`. Returns 0 or -ENOMEM. */
int pth_choose_input(const struct op_event *ev, struct arena *a, struct pth_content *out);

/* Of a captured collective: how the calls of the ranks are matched. */
struct capture_collective {
	const char *kind;      /* "allreduce": static, as struct collective has it */
	const char *reduce_op; /* "SUM"; NULL: none, or not known */
	int64_t root;	       /* a rank of the group; -1: none */
	uint64_t group;	       /* address */
	const char *name;      /* of the group, the same on all its ranks; NULL: not known */
	int32_t *ranks;	       /* of the group, among all; NULL: not known */
	size_t nranks;
	int32_t rank, size; /* of the process in the group; -1: not known */
	uint64_t number;    /* in the group, from 1, the same on all ranks; 0: not known */
};

/* To which dtype autocast casts what is on a type of device, "cuda" and "float16". */
struct capture_autocast {
	const char *device, *dtype;
};

/* About the call that a file belongs to; NULL: unknown. */
struct capture_about {
	const struct capture_autocast *autocast; /* NULL: unknown; else where it was on: */
	size_t nautocast;
	const struct capture_collective *collective; /* NULL: it is none */
	const struct py_frame *where; /* the line of the program that made the call */
	const char *node;	      /* of gradients: the backward node, "AddmmBackward0" */
	const char *python, *changed; /* the interpreter: struct interpreter */
	bool no_addresses;	      /* data_ptr is no address of the program: omit it */
};

/* The Python interpreter of a process: the path that starts it again, its sys.executable. In a
 * virtual environment this is a symbolic link whose folder decides which packages are found, so the
 * running file (/proc/PID/exe) would not do. */

struct interpreter {
	char path[PATH_MAX]; /* absolute, as the process sees it; "": unknown */
	char
	    changed[40]; /* when that file, or link, last changed: st_ctim, "SECONDS.NANOSECONDS" */
	/* Identify the process, so that asking again for the same one is cheap. */
	pid_t pid;
	dev_t dev;
	ino_t ino;
};

/* Find the interpreter of process `pid`, a number as in /proc here. `out` is zero-initialised or
 * has an earlier result. As Modules/getpath.py of CPython finds sys.executable: argv[0], by the
 * PATH and the current folder, if that leads to the very file that is running; else that file. Only
 * python* and pypy* count: a program that embeds Python may do anything when started. */
void interpreter_of(pid_t pid, struct interpreter *out);

/* Whether that file is still there, executable, owned by this user or by root, and unchanged since
 * (`changed` as above). The time of a change cannot be chosen by whoever makes a file, so a capture
 * from elsewhere cannot name a program that came with it. */
bool interpreter_is_there(const char *path, const char *changed);

enum { CAPTURE_NAME_SIZE = 256 };

/* The files of a call, named as in ditorch. */
enum capture_part {
	CAPTURE_INPUT,	      /* from the args of the op's event, at its entry */
	CAPTURE_OUTPUT,	      /* from the results of the op's event, at its exit */
	CAPTURE_GRAD_INPUTS,  /* from the results of the event of the backward node, at its exit */
	CAPTURE_GRAD_OUTPUTS, /* from the args of the event of the backward node, at its entry */
};

/* Identifies a call; keep it from the entry of a forward op until its gradients are written. */
struct capture_call {
	uint64_t id;	/* of the forward event: ditorch's forward_id */
	int64_t time_s; /* when it began, seconds since 1970 */
	int32_t pid;
	char op[CAPTURE_NAME_SIZE]; /* Python name, "torch.add" (opnames_callable) */
	char place[24]; /* folder below the root for captures of this process, "rank0"; "": none */
	/* For grad_inputs: `of` of struct pth_content, not owned. NULL: they belong to the edges of
	 * the op's own backward node, in their order, as in ditorch. */
	const char *const *of;
};

/* Where captures are written, and totals. Zero-initialise, then set `root` and `max_bytes`. Not
 * thread-safe. */
struct capture_files {
	const char *root;   /* folder for op_tools_results, "." for the current one */
	uint64_t max_bytes; /* of all files together, 0: no limit */

	uint64_t files, bytes;		 /* .pth files written; bytes of these and their .json */
	uint64_t refused[REFUSAL_COUNT]; /* files not written, by reason */
	unsigned limits;		 /* PTH_* of all files written, or-ed */
	struct interpreter python;	 /* of the last process captured */
	int64_t realtime_offset_ns;	 /* CLOCK_REALTIME - CLOCK_MONOTONIC, 0: not measured yet */
};

struct capture_saved {
	char path[4096]; /* of the .pth file; the .json is beside it */
	uint64_t bytes;	 /* of both */
	unsigned limits; /* PTH_* */
};

/* Fill `out` from the forward event `ev`: id, pid, op, and time from start_ns. False if the op's
 * name does not fit. */
bool capture_call_of(struct capture_files *c, const struct op_event *ev, struct capture_call *out);

/* Write one file of `call`, and the .json beside it:
 * ROOT/PLACE/op_tools_results/op_capture_results/OP/PID/ID/Y-m-d-H-M-S/PART.pth, in local time. The
 * part is read from `ev` (see enum capture_part), the event of the op or of the backward node as it
 * is at that moment. Characters of OP that a file name cannot have ('/', control characters, a
 * leading dot) become '_'. `saved` may be NULL.
 *
 * Returns 0; -ENOTSUP for a value that cannot be written, counted in c->refused; -EOVERFLOW if
 * max_bytes would be exceeded; else the -errno of the file system or of the source. After -ENOTSUP,
 * and after a failure of the source, other calls can still be captured, see capture_is_over. The
 * target is only touched by the source's read. */
int capture_write(struct capture_files *c, const struct capture_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src, struct capture_saved *saved,
		  struct err *e);

/* The same for values without an event: writes PART.pth in the folder .../OP/PID/ABOVE/ID/TIME.
 * `above` is "" or "autocompare/", as in ditorch's comparison; `part` may include a folder,
 * "device/input". Fills in the name and identifier of `content` and the interpreter of `about`. */
int capture_write_content(struct capture_files *c, const struct capture_call *call,
			  const char *above, const char *part, struct pth_content *content,
			  struct capture_about *about, const struct source *src,
			  struct capture_saved *saved, struct err *e);

/* Whether this failure of capture_write means that no other file can be written either: limit
 * reached, disk full, folder not writable. */
bool capture_is_over(int rc);

#endif
