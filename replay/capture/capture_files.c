#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/system.h"
#include "replay/capture/internal.h"
#include "symbolizer/event/names.h"
#include "symbolizer/ops/filter.h"

static json_t *named(const char *prefix, const char *name)
{
	return name ? json_sprintf("%s%s", prefix, name) : NULL;
}

/* An unknown member (NULL) is left out. */
static void object_set(json_t *o, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(o, key, value);
}

static json_t *strides(const struct tensor_meta *m)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < m->ndim; i++)
		json_array_append_new(list, json_integer(m->stride[i]));
	return list;
}

static json_t *tensor(const struct tensor *t, bool addresses)
{
	const struct tensor_meta *m = &t->meta;
	char text[TENSOR_MAX_DIM * 22 + 8];
	json_t *o = json_object();

	if (!(m->unknown & TENSOR_NO_DEVICE))
		object_set(
		    o, "device",
		    json_string(names_device(text, sizeof(text), m->device_type, m->device_index)));
	if (!(m->unknown & TENSOR_NO_DTYPE))
		object_set(o, "dtype", named("", names_dtype(m->dtype)));
	if (!(m->unknown & TENSOR_NO_SHAPE)) {
		object_set(o, "numel", json_integer(m->numel));
		object_set(o, "shape",
			   json_string(value_dims(text, sizeof(text), m->shape, m->ndim)));
	}
	if (!(m->unknown & TENSOR_NO_STRIDE))
		object_set(o, "stride", strides(m));
	if (!(m->unknown & TENSOR_NO_REQUIRES_GRAD))
		object_set(o, "requires_grad", json_boolean(m->requires_grad));
	if (!(m->unknown & TENSOR_NO_LAYOUT))
		object_set(o, "layout", named("torch.", names_layout(m->layout)));
	if (addresses && !(m->unknown & TENSOR_NO_DATA_PTR))
		object_set(o, "data_ptr", json_integer((json_int_t)t->data_ptr));
	return o;
}

static json_t *value(const struct value *v, bool addresses);

static json_t *values(const struct value *v, unsigned n, bool addresses)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, value(&v[i], addresses));
	return list;
}

static json_t *value(const struct value *v, bool addresses)
{
	char text[512];
	if (v->kind == VALUE_TENSOR)
		return tensor(v->tensor, addresses);
	if (v->kind == VALUE_LIST)
		return values(v->items, v->count, addresses);
	if (v->kind == VALUE_STRING)
		return json_stringn(v->str, v->count);
	return json_string(value_text(text, sizeof(text), v));
}

static void add_place(json_t *o, const struct py_frame *where)
{
	if (!where)
		return;
	json_object_set_new(o, "file", json_string(where->file));
	json_object_set_new(o, "function", json_string(where->function));
	if (where->line)
		json_object_set_new(o, "line", json_integer(where->line));
}

/* What is not known is null. */
static json_t *known(bool is, int64_t n)
{
	return is ? json_integer(n) : json_null();
}

static void add_collective(json_t *o, const struct capture_collective *c)
{
	json_t *of = c ? json_object() : NULL, *ranks = c && c->ranks ? json_array() : NULL;
	if (!c)
		return;
	for (size_t i = 0; ranks && i < c->nranks; i++)
		json_array_append_new(ranks, json_integer(c->ranks[i]));
	json_object_set_new(of, "kind", json_string(c->kind));
	json_object_set_new(of, "group", c->name ? json_string(c->name) : json_null());
	json_object_set_new(of, "ranks", ranks ? ranks : json_null());
	json_object_set_new(of, "rank", known(c->rank >= 0, c->rank));
	json_object_set_new(of, "size", known(c->size >= 0, c->size));
	json_object_set_new(of, "number", known(c->number, (int64_t)c->number));
	json_object_set_new(of, "reduce_op",
			    c->reduce_op ? json_string(c->reduce_op) : json_null());
	json_object_set_new(of, "root", known(c->root >= 0, c->root));
	json_object_set_new(o, "collective", of);
}

static void add_autocast(json_t *o, const struct capture_about *about)
{
	json_t *on = about->autocast ? json_object() : NULL;
	for (size_t i = 0; i < about->nautocast; i++)
		object_set(on, about->autocast[i].device, json_string(about->autocast[i].dtype));
	if (on)
		json_object_set_new(o, "autocast", on);
}

static void add_text(json_t *o, const char *key, const char *text)
{
	if (text && *text)
		object_set(o, key, json_string(text));
}

/* The JSON file beside a .pth file, as op_tools/save_op_args.py of ditorch writes it with
 * json.dump(indent=4):
 * {"args": [...], "kwargs": {...} if there are any, "op": name}. A tensor is an object with device,
 * dtype, numel, shape (a tuple as text), stride, requires_grad, layout and data_ptr, less those
 * that are unknown; a list is a list; anything else is its str(). ditrace adds "file", "line" and
 * "function" of the call, "node", "python", "python_changed", "of" (struct pth_content),
 * "collective" (struct capture_collective) and, where it is known, "autocast": {type of device:
 * dtype} of the devices for which it was on. free() it; NULL without memory. */
static char *capture_json(const struct pth_content *c, const struct capture_about *about)
{
	bool addresses = !about->no_addresses;
	json_t *o = json_object(), *args = values(c->args, c->nargs, addresses);

	if (c->args_in_one) {
		json_t *one = json_array();
		json_array_append_new(one, args);
		args = one;
	}
	json_object_set_new(o, "args", args);
	if (c->nkwargs) {
		json_t *kwargs = json_object();
		for (unsigned i = 0; i < c->nkwargs; i++)
			json_object_set_new(kwargs, c->kwargs[i].name,
					    value(c->kwargs[i].value, addresses));
		json_object_set_new(o, "kwargs", kwargs);
	}
	if (c->of) {
		json_t *of = json_array();
		for (unsigned i = 0; i < c->nargs; i++)
			json_array_append_new(of, json_string(c->of[i]));
		json_object_set_new(o, "of", of);
	}
	json_object_set_new(o, "op", json_string(c->name));
	add_place(o, about->where);
	add_text(o, "node", about->node);
	add_autocast(o, about);
	add_collective(o, about->collective);
	add_text(o, "python", about->python);
	add_text(o, "python_changed", about->changed);
	char *text = json_dumps(o, JSON_INDENT(4) | JSON_ENSURE_ASCII);
	json_decref(o);
	return text;
}

enum { PATH_SIZE = sizeof(((struct capture_saved *)0)->path) };

static const char folder[] = "op_tools_results/op_capture_results";

static const char *const part_names[] = {
    [CAPTURE_INPUT] = "input",
    [CAPTURE_OUTPUT] = "output",
    [CAPTURE_GRAD_INPUTS] = "grad_inputs",
    [CAPTURE_GRAD_OUTPUTS] = "grad_outputs",
};

bool capture_call_of(struct capture_files *c, const struct op_event *ev, struct capture_call *out)
{
	if (!c->realtime_offset_ns)
		c->realtime_offset_ns =
		    (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	*out = (struct capture_call){.id = ev->id, .pid = ev->pid};
	out->time_s = ((int64_t)ev->start_ns + c->realtime_offset_ns) / 1000000000;
	return opnames_callable(ev->op, out->op, sizeof(out->op));
}

/* "161/2024-10-09-11-42-15/input" */
static void identify(const struct capture_call *call, const char *above, const char *part,
		     char *out, size_t size)
{
	time_t t = (time_t)call->time_s;
	struct tm tm;
	char when[64] = "";
	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d-%H-%M-%S", &tm);
	snprintf(out, size, "%s%llu/%s/%s", above, (unsigned long long)call->id, when, part);
}

/* The op as one component of a path. */
static void as_component(const char *op, char *out, size_t size)
{
	size_t i;
	for (i = 0; op[i] && i + 1 < size; i++)
		out[i] = op[i] == '/' || (unsigned char)op[i] < ' ' || op[i] == 0x7f ? '_' : op[i];
	out[i] = '\0';
	if (out[0] == '.')
		out[0] = '_';
}

/* Make the folders that lead to the file `path`. */
static int make_folders(const char *path, struct err *e)
{
	char dir[PATH_SIZE];
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return folders_make(dir, e);
}

static int write_json(const char *path, const char *text, struct err *e)
{
	char final[PATH_SIZE + 8];
	struct new_file f;
	snprintf(final, sizeof(final), "%s.json", path);
	int rc = new_file_open(&f, final, 0, e);
	if (rc)
		return rc;
	rc = new_file_end(&f, io_write_all(f.fd, text, strlen(text)));
	return rc ? err_set(e, rc, "cannot write %s: %s", final, strerror(-rc)) : 0;
}

const char *pth_limits_text(char *out, size_t size, unsigned limits)
{
	static const struct {
		unsigned limit;
		const char *text;
	} texts[] = {
	    {PTH_FULL_LOAD, "torch.load needs weights_only=False"},
	    {PTH_FULL_LOAD_1_13, "torch.load of 1.13 needs weights_only=False"},
	    {PTH_NOT_1_13, "torch 1.13 cannot load it"},
	    {PTH_NO_QUANTIZER, "quantized tensors are without scale and zero point"},
	};
	size_t len = 0;
	if (size)
		out[0] = '\0';
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!(limits & texts[i].limit) || len >= size)
			continue;
		int n = snprintf(out + len, size - len, "%s%s", len ? ", " : "", texts[i].text);
		len += n > 0 ? (size_t)n : 0;
	}
	return out;
}

int pth_write(const char *path, const struct pth_content *c, const struct source *src,
	      uint64_t max_bytes, struct pth_result *out, struct err *e)
{
	struct pth_description description = {0};
	struct pth_pickle pickle = {0};
	*out = (struct pth_result){0};
	int rc = pth_describe(c, src, &description, &out->refusal, e);
	if (!rc)
		rc = pth_pickle(c, &description, &pickle, e);
	if (!rc)
		rc = pth_archive(path, &pickle, &description, src, max_bytes, &out->bytes, e);
	out->limits = pickle.limits;
	pth_description_free(&description);
	pth_pickle_free(&pickle);
	return rc;
}

static int limit_reached(const struct capture_files *c, const char *path, struct err *e)
{
	err_set(e, -EOVERFLOW, "the limit of %llu bytes is reached: %s is not written",
		(unsigned long long)c->max_bytes, path);
	err_hint(e, "a larger --max-bytes, or fewer calls: --ops, --nth, --every, --max-calls");
	return -EOVERFLOW;
}

/* Create the folders only once the file cannot be opened without them: by then all values have been
 * checked, so a refused call leaves no empty folders. */
static int write_pth(const char *path, const struct pth_content *content, const struct source *src,
		     uint64_t max_bytes, struct pth_result *result, struct err *e)
{
	int rc = pth_write(path, content, src, max_bytes, result, e);
	if (rc != -ENOENT)
		return rc;
	rc = make_folders(path, e);
	return rc ? rc : pth_write(path, content, src, max_bytes, result, e);
}

/* Write both files, or neither as far as possible: the limit leaves room for the .json. */
static int write_files(struct capture_files *c, const struct pth_content *content,
		       const struct capture_about *about, const struct source *src,
		       struct capture_saved *saved, struct pth_result *result, struct err *e)
{
	char *json = capture_json(content, about);
	uint64_t left = c->max_bytes > c->bytes ? c->max_bytes - c->bytes : 0;
	int rc = json ? 0 : err_set(e, -ENOMEM, "out of memory");

	if (!rc && c->max_bytes && left <= strlen(json))
		rc = -EOVERFLOW;
	if (!rc)
		rc = write_pth(saved->path, content, src, c->max_bytes ? left - strlen(json) : 0,
			       result, e);
	if (!rc) {
		c->files++;
		c->bytes += result->bytes;
		c->limits |= result->limits;
		rc = write_json(saved->path, json, e);
	}
	if (!rc) {
		saved->bytes = result->bytes + strlen(json);
		c->bytes += strlen(json);
	}
	free(json);
	return rc == -EOVERFLOW && c->max_bytes ? limit_reached(c, saved->path, e) : rc;
}

int capture_write_content(struct capture_files *c, const struct capture_call *call,
			  const char *above, const char *part, struct pth_content *content,
			  struct capture_about *about, const struct source *src,
			  struct capture_saved *saved, struct err *e)
{
	char identifier[128], op[CAPTURE_NAME_SIZE];
	struct pth_result result = {0};

	*saved = (struct capture_saved){0};
	identify(call, above, part, identifier, sizeof(identifier));
	as_component(call->op, op, sizeof(op));
	int n = snprintf(saved->path, sizeof(saved->path), "%s%s%s%s%s/%s/%d/%s.pth", c->root,
			 c->root[0] ? "/" : "", call->place, call->place[0] ? "/" : "", folder, op,
			 call->pid, identifier);
	if (n < 0 || (size_t)n >= sizeof(saved->path))
		return err_set(e, -ENAMETOOLONG, "the name of the capture is too long: %s",
			       c->root);
	interpreter_of(call->pid, &c->python);
	about->python = c->python.path;
	about->changed = c->python.changed;
	content->name = call->op;
	content->identifier = identifier;
	int rc = write_files(c, content, about, src, saved, &result, e);
	if (result.refusal)
		c->refused[result.refusal]++;
	saved->limits = result.limits;
	return rc;
}

int capture_write(struct capture_files *c, const struct capture_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src, struct capture_saved *saved,
		  struct err *e)
{
	struct capture_saved own;
	struct arena a = {0};
	struct pth_content content = {.of = part == CAPTURE_GRAD_INPUTS ? call->of : NULL};
	struct capture_about about = {.where = py_stack_where(ev->where_stack),
				      .node = ev->op->kind == OP_BACKWARD ? ev->op->name : NULL};
	int rc = pth_choose(part, ev, &a, &content);

	if (rc)
		err_set(e, rc, "out of memory");
	else
		rc = capture_write_content(c, call, "", part_names[part], &content, &about, src,
					   saved ? saved : &own, e);
	arena_free(&a);
	return rc;
}

bool capture_is_over(int rc)
{
	switch (-rc) {
	case EOVERFLOW:
	case EDQUOT:
	case ENOSPC:
	case EROFS:
	case EACCES:
	case EPERM:
	case ENOTDIR:
	case ENAMETOOLONG:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EFBIG:
		return true;
	default:
		return false;
	}
}
