/* The captures of a run: real inputs, outputs and gradients of op calls, in ditorch's folders and
 * formats. */
#ifndef REPLAY_CAPTURE_CAPTURE_FILES_H
#define REPLAY_CAPTURE_CAPTURE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

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

/* Put the arguments of the operator's call `ev` into `out`, whose kwargs are empty, as Python would
 * pass them to the function of its name. By the schema keyword-only ones are keywords. Left out, as
 * a program leaves them out, are keywords that have their default and the last positional ones that
 * have theirs: the dispatcher's operator takes more arguments than the Python function
 * (aten::layer_norm has cudnn_enable), and those have their default then. An operator without a
 * schema has positional arguments only. `out` refers to `ev` and to what is in `a`. Returns 0 or
 * -ENOMEM. */
int pth_choose_input(const struct op_event *ev, struct arena *a, struct pth_content *out);

/* Of the call that a file belongs to; NULL: not known. */
struct capture_about {
	const struct py_frame *where; /* the line of the program that made the call */
	const char *node;	      /* of gradients: the backward node, "AddmmBackward0" */
	const char *python, *changed; /* the interpreter: struct interpreter */
	bool no_addresses; /* the data_ptr of tensors is none of the program's: it has no member */
};

/* The Python interpreter of a process, by the path that would start it again: what sys.executable
 * is there. In a virtual environment that is a link whose folder decides which packages there are,
 * so the file that runs (/proc/PID/exe) does not do. */

struct interpreter {
	char path[PATH_MAX]; /* absolute, as the process sees it; "" when it is not known */
	char
	    changed[40]; /* when that file, or link, last changed: st_ctim, "SECONDS.NANOSECONDS" */
	/* Of which process this is; kept so that the next question about it is cheap. */
	pid_t pid;
	dev_t dev;
	ino_t ino;
};

/* Find that of process `pid`, a number as /proc here has it, into `out` (zero-initialised, or of a
 * process asked for before). As Modules/getpath.py of CPython finds sys.executable: by argv[0], the
 * PATH and the current folder, taken only when it leads to the very file that runs; else that file.
 * What is not called python or pypy is none: a program with Python built in may do anything. */
void interpreter_of(pid_t pid, struct interpreter *out);

/* Is there still that file, executable, of this user or of root, not changed since? `changed` as
 * above. The time of a change cannot be chosen by whoever makes a file, so that a capture from
 * elsewhere names no program that came with it. */
bool interpreter_is_there(const char *path, const char *changed);

enum { CAPTURE_NAME_SIZE = 256 };

/* The files of one call, named as ditorch names them. */
enum capture_part {
	CAPTURE_INPUT,	      /* from the args of the op's event, at its entry */
	CAPTURE_OUTPUT,	      /* from the results of the op's event, at its exit */
	CAPTURE_GRAD_INPUTS,  /* from the results of the event of the backward node, at its exit */
	CAPTURE_GRAD_OUTPUTS, /* from the args of the event of the backward node, at its entry */
};

/* Which call: keep it from the entry of a forward op until its gradients are written. */
struct capture_call {
	uint64_t id;	/* of the forward event: ditorch's forward_id */
	int64_t time_s; /* when it began, seconds since 1970 */
	int32_t pid;
	char op[CAPTURE_NAME_SIZE]; /* the name for Python, "torch.add" (opnames_callable) */
	/* Of grad_inputs: see struct pth_content; not owned. NULL: they are those of the edges of
	 * the op's own backward node, in their order, as ditorch has them. */
	const char *const *of;
};

/* Where the captures go and what was done. Zero-initialise, then set `root` and `max_bytes`. For
 * one thread. */
struct capture_files {
	const char *root;   /* folder in which op_tools_results lies, "." for the current one */
	uint64_t max_bytes; /* of all files together, 0: no limit */

	uint64_t files, bytes;		 /* .pth files written; bytes of these and their .json */
	uint64_t refused[REFUSAL_COUNT]; /* files not written, by reason */
	unsigned limits;		 /* PTH_* of all files written, or-ed */
	struct interpreter python;	 /* of the process that was captured last */
	int64_t realtime_offset_ns;	 /* CLOCK_REALTIME - CLOCK_MONOTONIC, 0: not yet asked */
};

struct capture_saved {
	char path[4096]; /* of the .pth file; the .json is beside it */
	uint64_t bytes;	 /* of both */
	unsigned limits; /* PTH_* */
};

/* The call that the forward event `ev` is: its id, pid and op, and when it began by start_ns. False
 * when it has no name that fits. */
bool capture_call_of(struct capture_files *c, const struct op_event *ev, struct capture_call *out);

/* Write one file of `call` and the .json beside it:
 * ROOT/op_tools_results/op_capture_results/OP/PID/ID/Y-m-d-H-M-S/PART.pth, in local time. `ev` is
 * the event that the part is read from, see enum capture_part; it is the event of the op or of the
 * backward node at that moment. In OP, what a file name cannot have ('/', control characters, a dot
 * at the start) is '_'. `saved` may be NULL.
 *
 * Returns 0; -ENOTSUP when a value cannot be written, which is counted in c->refused; -EOVERFLOW
 * when max_bytes would be exceeded; else the -errno of the file system or of the source. After
 * -ENOTSUP, and after a failure of the source, other calls can still be captured, see
 * capture_is_over. The target is not touched but by the source's read. */
int capture_write(struct capture_files *c, const struct capture_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src, struct capture_saved *saved,
		  struct err *e);

/* The same of values that are no event's: into PART.pth of the folder .../OP/PID/ABOVE/ID/TIME;
 * `above` is "" or "autocompare/", as ditorch's comparison has it, and `part` may be in a folder,
 * "device/input". Fills the name and identifier of `content` and the interpreter of `about`. */
int capture_write_content(struct capture_files *c, const struct capture_call *call,
			  const char *above, const char *part, struct pth_content *content,
			  struct capture_about *about, const struct source *src,
			  struct capture_saved *saved, struct err *e);

/* Does this failure of capture_write mean that no other file can be written either: the limit is
 * reached, the disk is full, the folder is not writable? */
bool capture_is_over(int rc);

#endif
