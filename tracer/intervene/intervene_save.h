/* Calls that the library inside (tracer/shim/modes/62_saved.py) has chosen are written as captures.
 */
#ifndef TRACER_INTERVENE_INTERVENE_SAVE_H
#define TRACER_INTERVENE_INTERVENE_SAVE_H

#include <jansson.h>
#include <sys/types.h>

#include "replay/capture/capture.h"
#include "replay/worker.h"

/* Zero-initialise, then set files.root and files.max_bytes. */
struct intervene_save {
	struct capture files;
	uint64_t calls;			 /* of which all files are there */
	struct err trouble;		 /* why no more can be written; code 0: more can */
	char refused[CAPTURE_NAME_SIZE]; /* the op of which that was said last */
};

/* One file of a call of process `pid`, whose tensors lie in the memory of `w`: {"op": name,
 * "above": folder, "part": name (capture_write_content), "id", "time": seconds since 1970, "where":
 * [file, line, function], "args" and "kwargs" ([name, value] each): values as described_values has
 * them, "in_one": the args are one tuple, "of": NULL or a name for each of args, "last": no other
 * file of this call comes, and for each piece N of memory "pN": {"offset": bytes}}. *failed, the
 * process's own, is then whether this file or one before it of the call is not saved. What was
 * saved or not, and why, is printed on standard error. 0, -EPROTO or -ENOMEM; a full disk is no
 * error. */
int intervene_save(struct intervene_save *s, json_t *m, struct worker *w, pid_t pid, bool *failed);

/* What was saved in all, on standard error; `most`: of each function at its line, 0: all. */
void intervene_save_print(const struct intervene_save *s, uint64_t most);

#endif
