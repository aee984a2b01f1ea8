/* The JSON beside a capture: what op_tools/save_op_args.py of ditorch writes. Part of capture. */
#ifndef REPLAY_CAPTURE_JSON_H
#define REPLAY_CAPTURE_JSON_H

#include "replay/pth.h"

/* `where` is the line of the program that made the call, NULL when it is not known.
 *
 * {"args": [...], "kwargs": {...} when there are any, "op": name} with an indentation of four, as
 * json.dump(indent=4) writes it: tensors are objects of device, dtype, numel, shape (the text of a
 * tuple), stride, requires_grad, layout and data_ptr, lists are lists, all else is its str(). What
 * of a tensor is not known has no member. Ours alone are "file", "line" and "function" of `where`,
 * and "of" (struct pth_content). NULL without memory; free() it. */
char *capture_json(const struct pth_content *c, const struct py_frame *where);

#endif
