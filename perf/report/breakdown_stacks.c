/* What Python frames say of a thread: that it loads data, or is in the optimizer. */
#include <string.h>

#include "perf/report/internal.h"

static bool is_in(const struct py_frame *f, const char *path)
{
	return f->is_torch && f->file && strstr(f->file, path);
}

bool breakdown_passes(const struct py_stack *s, const char *path)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		if (is_in(s->frames[i], path))
			return true;
	return false;
}

static bool is_named(const struct py_frame *f, const char *method)
{
	const char *dot = f->function ? strrchr(f->function, '.') : NULL;
	return f->function && !strcmp(dot ? dot + 1 : f->function, method);
}

/* multiprocessing's thread of a queue: it moves tensors into shared memory. */
static bool feeds_queue(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		if (s->frames[i]->file &&
		    strstr(s->frames[i]->file, "/multiprocessing/queues.py") &&
		    is_named(s->frames[i], "_feed"))
			return true;
	return false;
}

bool breakdown_is_helper(const struct py_stack *s)
{
	return breakdown_passes(s, "torch/utils/data/_utils/pin_memory.py") || feeds_queue(s);
}

bool breakdown_is_worker(const struct py_stack *s)
{
	return breakdown_passes(s, "torch/utils/data/_utils/worker.py") || breakdown_is_helper(s);
}

bool breakdown_is_of_optimizer(const struct py_stack *s)
{
	const char *own = NULL;
	bool has_step = false;
	for (uint16_t i = 0; i < s->depth; i++) {
		const struct py_frame *f = s->frames[i];
		if (is_in(f, "torch/optim/") || is_in(f, "torch/nn/utils/clip_grad.py"))
			return !own || has_step;
		if (f->is_torch)
			continue;
		if (!f->file || (own && strcmp(own, f->file) != 0))
			return false;
		own = f->file;
		has_step |= is_named(f, "step");
	}
	return false;
}

const struct py_frame *breakdown_asks_for_data(const struct py_stack *s)
{
	const struct py_frame *asks = NULL;
	bool inside = false;
	for (uint16_t i = 0; s && i < s->depth; i++) {
		if (is_in(s->frames[i], "torch/utils/data/dataloader.py")) {
			inside = true;
			asks = s->frames[i];
		} else if (inside && !s->frames[i]->is_torch) {
			return s->frames[i];
		}
	}
	return asks;
}
