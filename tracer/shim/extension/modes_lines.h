/* What --compare knows of a function at a line of the program. All here is done with the GIL held.
 */
#ifndef TRACER_SHIM_EXTENSION_MODES_LINES_H
#define TRACER_SHIM_EXTENSION_MODES_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/shim/extension/modes_judge.h"
#include "tracer/shim/extension/python.h"

enum { LINE_RESULTS = 4 }; /* of a call, at most */

/* How far off a result was at most that was told. */
enum { LINE_NOTHING = -1, LINE_PLAIN_NUMBER = -2 };
struct told {
	int dtype; /* c10::ScalarType, or one of these */
	double bad;
};

struct line {
	object *plan, *at, *op; /* ours; op: the bytes of its name. NULL: nothing is known */
	bool whole;		/* is not to be compared in C */
	bool in_place;		/* writes its first argument */
	struct judge_by by;	/* for results of `dtype` */
	int dtype;
	double reach; /* judge_reach of a call whose arguments have the hash `of`; 0: of none */
	uint64_t of;
	struct told told[LINE_RESULTS];
	unsigned long calls, tensors; /* settled since they were asked for */
};

/* False: there is no memory. */
bool lines_ready(void);

/* Never NULL. It stays for as long as no other code runs, of Python or PyTorch. */
struct line *line_find(object *plan, object *at);

/* The first call at a line: whether others may be settled in C is found out. `l` is of line_find.
 */
void line_begin(struct line *l, object *plan, object *at);

/* A call was judged in full: how many numbers a sum in it may have (judge_reach) is known now. */
void line_learn_reach(object *plan, object *at, object *args, object *kwargs);

/* How many such numbers a call with these arguments may have, >= 1. */
double line_reach(const struct line *l, object *args, object *kwargs);

/* Nothing is known of any; not while this thread compares. */
void lines_forget(void);

/* settled_calls(): [(plan, at, calls, tensors)] of what was compared in C and not told, since it
 * was last asked for. */
object *modes_settled(object *self, object *unused);

#endif
