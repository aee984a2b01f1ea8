/* Captured calls: found, run again in a Python process, and judged. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "replay/numbers/numbers.h"
#include "symbolizer/event/event.h"

/* Finding captures: folders with an input.pth, in ditorch's layout. */

/* One captured call. Strings are owned by the list. */
struct capture_place {
	char *dir;
	char *op;	/* from input.pth.json or the folder; "" if unknown */
	char *file;	/* source file of the call, from input.pth.json; NULL: unknown */
	char *function; /* NULL: unknown */
	char *python, *python_changed; /* its interpreter, see replay/capture/capture_files.h; both
					  NULL: unknown */
	int64_t line;		       /* 0: unknown */
	int64_t pid, id;	       /* from the path OP/PID/ID/TIME; -1: unknown */
	int32_t rank; /* from a folder "rank0" or "rank0.1" above op_tools_results; -1: none */
	char *start;  /* all of the path above that folder, and its number behind the dot; NULL */
	struct capture_of_collective *collective; /* NULL: it is none */
};

/* What the JSON of a collective says: see struct capture_collective. */
struct capture_of_collective {
	char *kind, *group; /* group: NULL: not known */
	char *reduce_op;    /* NULL: none, or not known */
	int64_t root;	    /* -1: none */
	int64_t rank, size; /* in the group; -1: not known */
	int64_t number;	    /* 0: not known */
	int64_t *ranks;	    /* `nranks`, of the group among all; NULL: not known */
	size_t nranks;
};

/* Zero-initialise; free with capture_places_free. */
struct capture_places {
	struct capture_place *list;
	size_t n, size;
};

/* Append every folder in the tree `root` (itself included) that holds an input.pth, sorted by
 * process and id. Only `root` itself may be a symbolic link. 0; -ENOENT if there is none; -errno of
 * a folder that cannot be read. */
int capture_find(const char *root, struct capture_places *out, struct err *e);

/* How a call is called where people read it: its op, of a collective also its number, its group and
 * the rank: "torch.ops.c10d.allreduce_.default #12 of group 0, rank 1". Returns out. */
const char *capture_place_name(char *out, size_t size, const struct capture_place *p);

/* Drop the places whose `keep` is false; the others keep their order. */
void capture_places_choose(struct capture_places *p, const bool *keep);

void capture_places_free(struct capture_places *p);

/* A captured call as an op event, from the runner's description (replay/runner/describe.py). */

/* The message is {"schema": "aten::add.Tensor(...) -> Tensor", "args": [...]}, or {"name": ...,
 * "names": [...], "args": [...]} for a function that is no operator, where names may be "".
 * Arguments are null, true, false, integers, strings, lists, and objects of one member: "tensor",
 * "float" and "complex" (as text), "dtype", "layout", "memory_format", "device", "other" (a type
 * that conditions cannot use).
 *
 * Fills `out` with op, args, where_stack, and id and pid of `p`; all it points to is allocated in
 * `a`, except p->file and p->function, which must stay. data_ptr of tensors is unknown, there are
 * no results, and the op's id is 0. 0, -EPROTO for a malformed message, or -ENOMEM. */
int described_event(json_t *message, const struct capture_place *p, struct arena *a,
		    struct op_event *out);

/* The arguments alone, allocated in `a`. A "tensor" may have a "piece": its data is piece number N
 * of the bytes that came with the message, from its start, and its address is described_piece(N).
 * 0, -EPROTO or -ENOMEM. */
int described_values(json_t *list, struct arena *a, struct value **out, size_t *n);

enum { DESCRIBED_PIECE_BITS = 44 }; /* no piece has more than 2^44 bytes */

static inline uint64_t described_piece(int64_t number)
{
	return ((uint64_t)number + 1) << DESCRIBED_PIECE_BITS;
}

/* --sandbox: the Pythons that run captured ops, kept from the rest of the machine by bubblewrap. */

/* Zero-initialised: none. */
struct sandbox {
	char **argv; /* what comes before the program and its arguments, NULL-terminated */
	size_t n, size;
	bool failed;
};

/* The words by which `bwrap` (bwrap(1)) starts a program that can write to no file and reach no
 * network and no other process: everything is read-only, /tmp and /run are empty and its own, of
 * devices there are those that ops run on. The current folder and the `n` folders are seen under
 * their names wherever they are, and so is the virtual environment of `python`. 0 or -ENOMEM;
 * sandbox_free. */
int sandbox_make(struct sandbox *s, const char *bwrap, const char *python, char *const *folders,
		 size_t n);

/* The same with the bwrap of the PATH. -ENOENT with a hint if there is none. */
int sandbox_open(struct sandbox *s, const char *python, char *const *folders, size_t n,
		 struct err *e);

void sandbox_free(struct sandbox *s);

/* A Python process that runs captured ops (replay/runner). Messages are lines of JSON over pipes,
 * tensors are in shared memory. */

struct worker {
	pid_t pid;		      /* 0: none */
	int requests, replies, arena; /* file descriptors; poll replies */
	char *text;		      /* received part of a line */
	size_t len, size;
	void *map;
	size_t mapped;
};

enum { WORKER_LINE_MAX = 256 << 20 }; /* bytes of a message that is not complete yet */

struct worker_how {
	const char *python;  /* the interpreter */
	char *const *before; /* words that start it, as struct sandbox has them; NULL: none */
	unsigned threads;    /* compute threads */
	unsigned runners;    /* how many share the memory that is free, at least 1 */
};

/* Start the runner. Its first message is "hello"; its standard output goes to our standard error.
 * 0, or -errno with *e; the worker then holds no resources. */
int worker_start(struct worker *w, const struct worker_how *how, struct err *e);

/* A descriptor of memory for tensors: it can grow and, being sealed (fcntl(2)), not shrink, so that
 * neither side's mapping of it ever raises SIGBUS. -1 with errno. */
int worker_arena(void);

/* Send a request; takes over the reference. 0; -EPIPE if the worker has died; -ENOMEM if the
 * request cannot be encoded, or is NULL, as json_pack returns for text that is not UTF-8. */
int worker_send(struct worker *w, json_t *request);

/* Receive a message once w->replies is readable: 1 with *out (json_decref it); 0: not complete yet;
 * -EPIPE: the worker has ended; -EPROTO: not JSON; -EMSGSIZE: longer than any message. */
int worker_receive(struct worker *w, json_t **out);

/* As worker_receive, from what was received already; never blocks. */
int worker_next(struct worker *w, json_t **out);

/* Map the shared memory at its present size: once for each message with tensors, before the first
 * worker_memory. Pointers from earlier mappings become invalid. 0 or -errno. */
int worker_map(struct worker *w);

/* `size` bytes at `offset` of the shared memory, valid until the message is answered; NULL if out
 * of range. */
const void *worker_memory(const struct worker *w, size_t offset, size_t size);

/* End the worker, running or not, and free everything. With `why` it has ended or is ending by
 * itself: `why` gets the cause, "signal 11 (Segmentation fault)" or "exit status 1", and stays as
 * it is if the worker had to be killed. */
void worker_stop(struct worker *w, char *why, size_t size);

/* A judged tensor (or value) of a captured call: a row of the tables of replay and diff. */

struct replay_row {
	size_t place;	 /* index of the capture in its list */
	size_t number;	 /* of the row, in order of arrival */
	char role[16];	 /* "output", "grad"; of diff also "input", "grad_output" */
	char index[64];	 /* "0", or "1,0" if nested; of a gradient its argument; "" for the only one
			  */
	char dtype[24];	 /* "float32"; "" if not a tensor */
	char device[24]; /* where it was computed; "" if unknown */
	enum verdict verdict;
	double score; /* see verdict_judge; sorts rows */
	char why[512];
	char note[256]; /* a remark, or "" */
	bool has_figures;
	bool allclose, equal;
	double cosine, max_abs, max_rel, ulp, atol, rtol;
	bool has_cpu;	   /* the CPU in the same dtype was computed, too */
	bool cpu_emulated; /* computed in float32 and rounded: no such kernel on this CPU */
	double cpu_max_abs, cpu_ulp;
	/* The figures of the verdict, in its units. */
	double worst, rms, mean, along, cpu_worst, cpu_rms, cpu_mean, cpu_along, reach;
};

struct rows {
	struct replay_row *list;
	size_t n, size;
};

struct row_rules {
	bool by_allclose; /* ditorch's tolerances decide */
	unsigned threads; /* for a comparison; 0: all */
};

/* Append a zeroed row; NULL without memory. Owned by `rows`; valid until the next rows_add. */
struct replay_row *rows_add(struct rows *rows);
void rows_free(struct rows *rows);

/* Fill a row from a runner's message about a tensor, a value, a mismatch or something not judged;
 * tensors are in the memory of `w`. 0, -EPROTO for a malformed message, or -errno of the
 * comparison. */
int row_fill(struct replay_row *r, const char *op, json_t *message, struct worker *w,
	     const struct row_rules *rules, struct err *e);

/* Worst first: wrong, not judged, right; then by score, place and number. For qsort. */
int row_order(const void *a, const void *b);

/* Durations of captured ops when run again: ditorch's table and CSV, and a summary. */

struct times {
	size_t place; /* index of the capture in its list */
	char device[24];
	uint64_t *forward, *backward; /* ns, in order of the runs */
	size_t nforward, nbackward;
	char *texts[4]; /* input, output, grad_inputs, grad_outputs in ditorch's format; or NULL */
	char *why_no_backward;
};

struct times_list {
	struct times *list;
	size_t n, size;
};

/* Append the runner's message. 0 or -ENOMEM. */
int times_add(struct times_list *l, size_t place, json_t *message);
void times_free(struct times_list *l);

/* ditorch's table: a row for each run. */
int times_print_runs(FILE *f, const struct times_list *l, const struct capture_places *p);

/* A row for each op call: the first run, then min, median and p99 of the others. */
int times_print_summary(FILE *f, const struct times_list *l, const struct capture_places *p,
			int width, bool color);

/* A row for each run, in the CSV format of op_time_measure_hook.py; `head`: with a header line. */
void times_csv_rows(FILE *f, const struct times_list *l, const struct capture_places *p, bool head);

/* Create the file for them (file_replace_stream), at ditorch's path below the current directory:
 * op_tools_results/op_time_measure_result/op_elasped_info_pidPID_Y-m-d-H-M-S.csv. Its name goes
 * into `path`. NULL with *e. */
FILE *times_open_csv(char *path, size_t size, struct err *e);

/* times_open_csv and times_csv_rows. 0 or -errno with *e. */
int times_write_csv(const struct times_list *l, const struct capture_places *p, char *path,
		    size_t size, struct err *e);

#endif
