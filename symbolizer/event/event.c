#define _GNU_SOURCE
#include "symbolizer/event/event.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"

const char *const op_phase_names[PHASES] = {"forward", "backward", "recompute", "compile"};

const struct group_desc *group_desc_copy(struct arena *a, const char *name, const int32_t *ranks,
					 size_t n)
{
	struct group_desc *d = arena_alloc(a, sizeof(*d));
	int32_t *kept = arena_alloc(a, n * sizeof(*kept) + 1);
	const char *text = arena_strndup(a, name, strlen(name));
	if (!d || !kept || !text)
		return NULL;
	*d = (struct group_desc){text, memcpy(kept, ranks, n * sizeof(*kept)), (uint32_t)n};
	return d;
}

const struct py_stack py_stack_left_out = {.truncated = true, .left_out = true};
const char py_stack_left_out_text[] = "(stack left out)";

static bool is_of_file(const struct py_frame *f, const char *end)
{
	size_t len = strlen(f->file), n = strlen(end);
	return f->is_torch && len > n && !strcmp(f->file + len - n, end);
}

bool py_frame_is_checkpoint(const struct py_frame *f)
{
	return is_of_file(f, "/torch/utils/checkpoint.py");
}

bool py_frame_runs_backward(const struct py_frame *f)
{
	if (is_of_file(f, "/torch/autograd/graph.py"))
		return !strcmp(f->function, "_engine_run_backward");
	return is_of_file(f, "/torch/autograd/__init__.py") &&
	       (!strcmp(f->function, "backward") || !strcmp(f->function, "grad"));
}

enum op_mark op_mark(const struct op_desc *op)
{
	static const char prefix[] = "profiler::_record_function_";
	const size_t n = sizeof(prefix) - 1;
	if (op->name[0] != prefix[0] || strncmp(op->name, prefix, n) != 0)
		return MARK_NONE;
	return !strncmp(op->name + n, "enter", 5)  ? MARK_ENTER
	       : !strncmp(op->name + n, "exit", 4) ? MARK_EXIT
						   : MARK_NONE;
}

const char mark_block_text[] = "a block of record_function at ";

bool event_mark_block(const struct op_event *ev, char out[MARK_BLOCK_MAX])
{
	const bool enters = op_mark(ev->op) == MARK_ENTER;
	const struct value *v = enters ? ev->results : ev->args;
	if (!(enters ? ev->nresults : ev->nargs))
		return false;
	if (v->kind == VALUE_TENSOR && v->tensor->impl) {
		snprintf(out, MARK_BLOCK_MAX, "0x%" PRIx64, v->tensor->impl);
		return true;
	}
	if (v->kind != VALUE_NOT_DECODED || !v->str ||
	    strncmp(v->str, mark_block_text, sizeof(mark_block_text) - 1) != 0)
		return false;
	snprintf(out, MARK_BLOCK_MAX, "%s", v->str);
	return true;
}

bool op_accumulates(const char *name)
{
	static const char accumulates[] = "AccumulateGrad";
	size_t n = strlen(name), len = sizeof(accumulates) - 1;
	return n >= len && !strcmp(name + n - len, accumulates);
}

const char *op_text(const char *op)
{
	return op_accumulates(op) ? "gradient accumulation" : op;
}

bool event_is_compilation(const struct op_event *ev)
{
	static const char prefix[] = "dynamo::compile_";
	return ev->phase == PHASE_COMPILE && ev->op &&
	       !strncmp(ev->op->name, prefix, sizeof(prefix) - 1);
}

/* Whether it is of that function, whatever class or function is around it. */
static bool frame_is(const struct py_frame *f, const char *file, const char *function)
{
	const char *dot = strrchr(f->function, '.');
	return is_of_file(f, file) && !strcmp(dot ? dot + 1 : f->function, function);
}

bool py_stack_compiles(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *f = s->frames[i];
		if (frame_is(f, "/torch/_dynamo/convert_frame.py", "_compile") ||
		    frame_is(f, "/torch/_dynamo/backends/common.py", "_wrapped_bw_compiler") ||
		    (i && frame_is(f, "/torch/_functorch/_aot_autograd/runtime_wrappers.py",
				   "get_or_compile")))
			return true;
		if (s->truncated && is_of_file(f, "/torch/_dynamo/symbolic_convert.py") &&
		    strcmp(f->function, "<module>") != 0)
			return true;
	}
	return false;
}

bool py_stack_is_in_backward(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++) {
		const struct py_frame *f = s->frames[i];
		if (is_of_file(f, "/torch/autograd/function.py") &&
		    !strcmp(f->function, "BackwardCFunction.apply"))
			return true;
		if (i == 0 && frame_is(f, "/torch/autograd/graph.py", "_engine_run_backward"))
			return true;
	}
	return false;
}

enum op_phase py_stack_backward_phase(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++) {
		if (py_frame_is_checkpoint(s->frames[i]))
			return PHASE_RECOMPUTE;
		if (is_of_file(s->frames[i], "/torch/autograd/__init__.py") ||
		    is_of_file(s->frames[i], "/torch/autograd/graph.py"))
			break;
	}
	return PHASE_BACKWARD;
}

bool py_stack_lies_within(const struct py_stack *stack, const struct py_stack *outer)
{
	if (stack->depth < outer->depth)
		return false;
	for (uint16_t i = 1; i <= outer->depth; i++)
		if (stack->frames[stack->depth - i] != outer->frames[outer->depth - i])
			return false;
	return true;
}

/* Of a code object that was gone before it could be read: it may be the user's own. */
static bool is_unknown(const struct py_frame *f)
{
	return f->line == 0 && !strcmp(f->file, "?") && !strcmp(f->function, "?");
}

const struct py_frame *py_stack_where(const struct py_stack *s)
{
	if (!s || s->depth == 0)
		return NULL;
	for (uint16_t i = 0; i < s->depth; i++)
		if (is_unknown(s->frames[i]) || (!s->frames[i]->is_torch && s->frames[i]->line > 0))
			return s->frames[i];
	return s->frames[0];
}

struct stats_walk {
	event_tensor_fn *fn;
	void *arg;
	struct tensor_place place;
};

static void walk_value(struct stats_walk *w, const struct value *v, int depth)
{
	if (v->kind == VALUE_TENSOR) {
		w->fn(v->tensor, &w->place, w->arg);
		w->place.tensor++;
	}
	for (uint32_t i = 0; v->kind == VALUE_LIST && depth < VALUE_DEPTH_MAX && i < v->count; i++)
		walk_value(w, &v->items[i], depth + 1);
}

void event_each_tensor(const struct op_event *ev, bool of_results, event_tensor_fn *fn, void *arg)
{
	struct stats_walk w = {.fn = fn, .arg = arg, .place.is_result = of_results};
	const struct value *v = of_results ? ev->results : ev->args;
	uint16_t n = of_results ? ev->nresults : ev->nargs;
	for (uint16_t i = 0; i < n; i++) {
		w.place.value = i;
		w.place.tensor = 0;
		walk_value(&w, &v[i], 0);
	}
}

int tensor_place_compare(const struct tensor_place *a, const struct tensor_place *b)
{
	if (a->is_result != b->is_result)
		return a->is_result ? 1 : -1;
	if (a->value != b->value)
		return a->value < b->value ? -1 : 1;
	return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

const struct tensor_stats *event_stats_next(const struct event_stats *s,
					    const struct tensor_place *place, uint32_t *next)
{
	while (*next < s->n && tensor_place_compare(&s->rows[*next].place, place) < 0)
		++*next;
	if (*next == s->n || tensor_place_compare(&s->rows[*next].place, place))
		return NULL;
	return &s->rows[(*next)++];
}

/* The name of an op without its namespace, and its length without the overload. */
static const char *base_of(const struct op_desc *op, size_t *n)
{
	const char *base = strstr(op->name, "::");
	base = base ? base + 2 : op->name;
	*n = strcspn(base, ".");
	return base;
}

/* Whether only the op's own backward reads that result: log_alpha of CTC losses, and what attention
 * gives besides its output, of which parts may be memory as it was (the same in replay/runner). */
static bool is_private(const struct op_desc *op, unsigned result)
{
	size_t n;
	const char *base = base_of(op, &n);
	return result && op->kind == OP_DISPATCHED && !memmem(base, n, "backward", 8) &&
	       (memmem(base, n, "ctc_loss", 8) || memmem(base, n, "product_attention", 17) ||
		memmem(base, n, "flash_attention", 15));
}

uint64_t event_bad_results(const struct op_event *ev)
{
	const struct event_stats *s = ev->stats;
	uint64_t bad = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct stats *x = &s->rows[i].stats;
		const struct tensor_place *p = &s->rows[i].place;
		if (p->is_result && !s->rows[i].why && !is_private(ev->op, p->value))
			bad += x->nan + x->pos_inf + x->neg_inf;
	}
	return bad;
}

bool op_gives_no_numbers(const struct op_desc *op)
{
	static const char *const starts[] = {"resize", "_resize", "set_.", "set_data"};
	size_t n;
	const char *base = base_of(op, &n);
	if (memmem(base, n, "empty", 5))
		return true;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(base, starts[i], strlen(starts[i])))
			return true;
	return false;
}

struct storages {
	uint64_t of_args[32];
	unsigned n;
	bool shared;
};

static void add_storage(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct storages *s = arg;
	(void)place;
	if (s->n < sizeof(s->of_args) / sizeof(s->of_args[0]))
		s->of_args[s->n++] = t->storage;
}

static void look_for_storage(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct storages *s = arg;
	(void)place;
	for (unsigned i = 0; i < s->n; i++)
		s->shared |= s->of_args[i] == t->storage;
}

bool event_gave_view(const struct op_event *ev)
{
	struct storages s = {0};
	if (!(ev->op->flags & OP_VIEW))
		return false;
	event_each_tensor(ev, false, add_storage, &s);
	event_each_tensor(ev, true, look_for_storage, &s);
	return s.shared;
}

static const struct op_desc none = {.name = "(in no op)", .schema = ""},
			    unknown = {.name = "(op not known)", .schema = ""};

static const struct op_desc *op_of(const struct sample *s)
{
	if (s->op)
		return s->op;
	return s->native && !s->native->truncated ? &none : &unknown;
}

const struct op_desc *activity_op(const struct activity *a)
{
	return a->of.op ? a->of.op : a->launch == LAUNCH_IN_NO_OP ? &none : &unknown;
}

const char *sample_op_name(const struct sample *s)
{
	return op_of(s)->name;
}

bool sample_is_own(const struct sample *s)
{
	static const char own[] = "libditrace_";
	static const char *const runtime[] = {"[kernel]", "[vdso", "libc.so", "libc-",
					      "libpthread"};
	for (unsigned i = 0; s->native && i < s->native->depth; i++) {
		const char *name = text_base_name(s->native->frames[i]->file);
		bool is_runtime = false;
		if (!strncmp(name, own, sizeof(own) - 1))
			return true;
		for (unsigned k = 0; k < sizeof(runtime) / sizeof(runtime[0]); k++)
			is_runtime |= !strncmp(name, runtime[k], strlen(runtime[k]));
		if (!is_runtime)
			break;
	}
	return false;
}

bool native_file_is_python(const char *file)
{
	const char *name = text_base_name(file);
	return !strncmp(name, "libpython", 9) ||
	       (!strncmp(name, "python", 6) && !strstr(name, ".so"));
}

void sample_as_event(const struct sample *s, struct op_event *out)
{
	static const struct py_frame moved = {.file = "", .function = "(not read: it moved on)"};
	static const struct py_stack unread = {.depth = 1, .truncated = true, .frames = {&moved}};
	const struct py_stack *stack = s->mismatched ? &unread : s->python;
	*out = (struct op_event){.start_ns = s->time_ns,
				 .end_ns = s->time_ns + s->weight,
				 .op = op_of(s),
				 .stack = stack,
				 .where_stack = stack,
				 .native = s->native,
				 .pid = s->pid,
				 .tid = s->tid,
				 .rank1 = s->rank1,
				 .phase = s->phase};
}

void sample_anon_file(int32_t pid, char *out, size_t size)
{
	static char boot[9]; /* random(4) */
	int fd = *boot ? -1 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, boot, sizeof(boot) - 1) != sizeof(boot) - 1)
			boot[0] = '-';
		close(fd);
	}
	snprintf(out, size, "[anon %" PRId32 " %s]", pid, boot);
}
