/* The JSON beside a capture: what op_tools/save_op_args.py of ditorch writes. Part of capture. */
#ifndef REPLAY_CAPTURE_CAPTURE_JSON_H
#define REPLAY_CAPTURE_CAPTURE_JSON_H

#include "replay/capture/pth.h"

/* Of the call that a file belongs to; NULL: not known. */
struct capture_about {
	const struct py_frame *where; /* the line of the program that made the call */
	const char *node;	      /* of gradients: the backward node, "AddmmBackward0" */
	const char *python, *changed; /* the interpreter, as in replay/capture/interpreter.h */
	bool no_addresses; /* the data_ptr of tensors is none of the program's: it has no member */
};

/* `about` the call, beside what is in the file.
 *
 * {"args": [...], "kwargs": {...} when there are any, "op": name} with an indentation of four, as
 * json.dump(indent=4) writes it: tensors are objects of device, dtype, numel, shape (the text of a
 * tuple), stride, requires_grad, layout and data_ptr, lists are lists, all else is its str(). What
 * of a tensor is not known has no member. Ours alone are "file", "line" and "function" of the call,
 * "node", "python", "python_changed", and "of" (struct pth_content). NULL without memory; free()
 * it. */
char *capture_json(const struct pth_content *c, const struct capture_about *about);

#endif
