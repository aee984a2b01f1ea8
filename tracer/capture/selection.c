#define PCRE2_CODE_UNIT_WIDTH 8
#include "tracer/capture/capture.h"

#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "tracer/capture/internal.h"

/* Lists of ops. */

struct oplist_item {
	char *text;
	pcre2_code *re;
};

enum { NAME_SIZE = 256 };

static int add_item(const char *name, const char *s, size_t len, struct oplist *out, struct err *e)
{
	int code;
	PCRE2_SIZE at;

	if (array_grow(&out->items, &out->room, out->n + 1, sizeof(*out->items)))
		return err_set(e, -ENOMEM, "%s: out of memory", name);
	struct oplist_item *i = &out->items[out->n];
	i->text = strndup(s, len);
	if (!i->text)
		return err_set(e, -ENOMEM, "%s: out of memory", name);
	out->n++;
	i->re = pcre2_compile((PCRE2_SPTR)i->text, len, 0, &code, &at, NULL);
	if (i->re)
		return 0;
	PCRE2_UCHAR why[160];
	pcre2_get_error_message(code, why, sizeof(why));
	err_set(e, -EINVAL, "%s: item %zu, \"%s\", is not a regular expression: %s", name, out->n,
		i->text, (char *)why);
	err_hint(e, "names of operators, or expressions that give the whole name, with commas "
		    "between: torch.Tensor.add,torch.nn.functional.*");
	return -EINVAL;
}

int oplist_compile(const char *name, const char *text, struct oplist *out, struct err *e)
{
	*out = (struct oplist){0};
	int rc = oplist_append(name, text, out, e);
	if (rc)
		oplist_free(out);
	return rc;
}

static void drop_item(struct oplist *l, size_t i)
{
	free(l->items[i].text);
	pcre2_code_free(l->items[i].re);
	memmove(&l->items[i], &l->items[i + 1], (--l->n - i) * sizeof(l->items[i]));
}

int oplist_append(const char *name, const char *text, struct oplist *l, struct err *e)
{
	size_t n = l->n;
	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		int rc = add_item(name, s, len, l, e);
		while (rc && l->n > n)
			drop_item(l, l->n - 1);
		s += len;
		if (rc || !*s)
			return rc;
	}
}

static bool has_item(const struct oplist *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->items[i].text, text))
			return true;
	return false;
}

void oplist_subtract(struct oplist *l, const struct oplist *gone)
{
	for (size_t i = l->n; i-- > 0;)
		if (has_item(gone, l->items[i].text))
			drop_item(l, i);
}

const char *oplist_item(const struct oplist *l, size_t i)
{
	return i < l->n ? l->items[i].text : NULL;
}

char *oplist_text(const struct oplist *l)
{
	size_t size = 1;
	for (size_t i = 0; i < l->n; i++)
		size += strlen(l->items[i].text) + 1;
	char *text = calloc(1, size), *end = text;
	for (size_t i = 0; text && i < l->n; i++)
		end += sprintf(end, "%s%s", i ? "," : "", l->items[i].text);
	return text;
}

/* Whether re.findall(re, name) includes the whole of `name`: as the first match, or as the second
 * after an empty one. */
static bool finds_whole(const struct oplist_item *item, const char *name)
{
	pcre2_match_data *m = pcre2_match_data_create_from_pattern(item->re, NULL);
	size_t len = strlen(name);
	uint32_t groups = 0;
	bool found = false;

	pcre2_pattern_info(item->re, PCRE2_INFO_CAPTURECOUNT, &groups);
	for (int round = 0; m && groups < 2 && !found && round < 2; round++) {
		int rc = pcre2_match(item->re, (PCRE2_SPTR)name, len, 0,
				     round ? PCRE2_NOTEMPTY_ATSTART : 0, m, NULL);
		const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m);
		if (rc <= 0)
			break;
		found = rc > (int)groups && at[2 * groups] == 0 && at[2 * groups + 1] == len;
		if (at[0] != 0 || at[1] != 0)
			break;
	}
	pcre2_match_data_free(m);
	return found;
}

/* "torch.Tensor.add", without characters that only expressions have. */
static bool is_name(const char *text)
{
	static const char chars[] =
	    "._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return opnames_is_ditorch(text) && !text[strspn(text, chars)];
}

/* Methods of Tensor take `self`, functions of torch.nn `input`. */
static bool is_method(const struct op_desc *op)
{
	return op->nargs && !strcmp(op->args[0].name, "self");
}

static bool item_matches(const struct oplist_item *i, const struct op_desc *op)
{
	char name[NAME_SIZE], method[NAME_SIZE + 16];

	if (is_name(i->text) && opnames_match(i->text, op))
		return true;
	if (!opnames_python(op, name, sizeof(name)))
		return false;
	if (!strcmp(name, i->text) || finds_whole(i, name))
		return true;
	if (!opnames_is_ditorch(name) || !is_method(op))
		return false;
	snprintf(method, sizeof(method), "torch.Tensor.%s", strrchr(name, '.') + 1);
	return opnames_match(method, op) && finds_whole(i, method);
}

bool oplist_match(const struct oplist *l, const struct op_desc *op)
{
	for (size_t i = 0; i < l->n; i++)
		if (item_matches(&l->items[i], op))
			return true;
	return false;
}

bool oplist_has_name(const struct oplist *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(name, l->items[i].text) || finds_whole(&l->items[i], name))
			return true;
	return false;
}

void oplist_free(struct oplist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].text);
		pcre2_code_free(l->items[i].re);
	}
	free(l->items);
	*l = (struct oplist){0};
}

/* Selections. */

struct selection_op {
	bool known, wanted; /* by the lists, if `known` */
	uint64_t calls;	    /* calls seen */
	uint64_t left;	    /* of these, those in nth */
};

static int read_list(const char *name, struct oplist *out, struct err *e)
{
	const char *text = getenv(name);
	return text ? oplist_compile(name, text, out, e) : 0;
}

const struct selection_variables selection_capture = {"OP_CAPTURE_LIST", "OP_CAPTURE_DISABLE_LIST"};
const struct selection_variables selection_overflow = {"OP_OVERFLOW_CHECK_LIST",
						       "OP_OVERFLOW_CHECK_DISABLE_LIST"};

int selection_environment(struct selection_policy *p, const struct selection_variables *v,
			  struct err *e)
{
	int rc = read_list(v->only, &p->only, e);
	return rc ? rc : read_list(v->disabled, &p->disabled, e);
}

void selection_policy_free(struct selection_policy *p)
{
	ranges_free(&p->nth);
	ranges_free(&p->steps);
	filter_free(&p->step_op);
	oplist_free(&p->only);
	oplist_free(&p->disabled);
}

bool selection_wants_op(const struct selection_policy *p, const struct op_desc *op)
{
	if (p->disabled.n && oplist_match(&p->disabled, op))
		return false;
	return !p->only.n || oplist_match(&p->only, op);
}

uint64_t selection_see(struct selection *s, const struct op_event *ev)
{
	if (s->policy->step_op.n)
		s->steps.op = &s->policy->step_op;
	return steps_see(&s->steps, ev);
}

static struct selection_op *op_of(struct selection *s, const struct op_desc *op)
{
	bool is_new;
	int64_t id = intern(&s->names, op->name, (uint32_t)strlen(op->name), &is_new);
	if (id < 0)
		return NULL;
	size_t known = s->room;
	if (array_grow(&s->ops, &s->room, (size_t)id + 1, sizeof(*s->ops)))
		return NULL;
	memset(s->ops + known, 0, (s->room - known) * sizeof(*s->ops));
	struct selection_op *o = &s->ops[id];
	if (!o->known) {
		o->known = true;
		o->wanted = selection_wants_op(s->policy, op);
	}
	return o;
}

static bool is_simple(const struct ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (i && r->list[i].first <= r->list[i - 1].last)
			return false;
	return r->n <= PICK_RANGES;
}

bool selection_pick(const struct selection_policy *p, struct pick *out)
{
	if ((!p->nth.n && p->every < 2) || p->every > UINT32_MAX || p->steps.n ||
	    !is_simple(&p->nth))
		return false;
	*out = (struct pick){.n = (uint32_t)p->nth.n, .every = (uint32_t)p->every};
	for (size_t i = 0; i < p->nth.n; i++) {
		out->first[i] = p->nth.list[i].first;
		out->last[i] = p->nth.list[i].last;
	}
	return true;
}

static bool counted(const struct selection_policy *p, struct selection_op *o,
		    struct call_count count)
{
	struct pick pick;
	if (count.how == CALL_PICKED)
		return true;
	if (count.how == CALL_NUMBERED)
		return count.number && selection_pick(p, &pick) && pick_takes(&pick, count.number);
	if (!ranges_have(&p->nth, ++o->calls))
		return false;
	return p->every < 2 || o->left++ % p->every == 0;
}

bool selection_is_spent(const struct selection *s)
{
	return s->policy->max_calls && *s->chosen >= s->policy->max_calls;
}

enum selection_answer selection_choose(struct selection *s, const struct op_event *ev,
				       struct call_count count)
{
	const struct selection_policy *p = s->policy;
	uint64_t step = s->steps.done + 1;

	if (ev->op->kind != OP_DISPATCHED)
		return SELECTION_NO;
	if (selection_is_spent(s) || ranges_over(&p->steps, step))
		return SELECTION_OVER;
	struct selection_op *o = op_of(s, ev->op);
	if (!o || !o->wanted || !ranges_have(&p->steps, step) || !counted(p, o, count))
		return SELECTION_NO;
	++*s->chosen;
	return SELECTION_YES;
}

void selection_give_back(struct selection *s)
{
	--*s->chosen;
}

void selection_free(struct selection *s)
{
	intern_free(&s->names);
	free(s->ops);
	s->ops = NULL;
	s->room = 0;
}

int selections_read(struct selections *s, const struct capture_opts *o,
		    const struct selection_variables *v, struct err *e)
{
	struct selection_policy *p = &s->policy;
	p->every = o->every;
	p->max_calls = o->max_calls;
	int r = o->nth ? ranges_parse("--nth", o->nth, &p->nth, e) : 0;
	if (!r && o->steps)
		r = ranges_parse("--step", o->steps, &p->steps, e);
	if (!r && o->step_op)
		r = filter_compile("--step-op", o->step_op, &p->step_op, e);
	return r ? r : selection_environment(p, v, e);
}

bool selections_restrict(const struct selections *s)
{
	const struct selection_policy *p = &s->policy;
	return p->nth.n || p->steps.n || p->every > 1 || p->max_calls || p->only.n || p->disabled.n;
}

static struct selection_process *selections_find(struct selections *s, pid_t pid)
{
	for (unsigned i = 0; i < SELECTIONS_MAX; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

struct selection *selections_of(struct selections *s, pid_t pid)
{
	struct selection_process *p = selections_find(s, pid);
	if (p)
		return &p->selection;
	p = selections_find(s, 0);
	if (!p)
		return NULL;
	p->pid = pid;
	p->selection.policy = &s->policy;
	p->selection.chosen = &s->chosen;
	return &p->selection;
}

void selections_forget(struct selections *s, pid_t pid)
{
	struct selection_process *p = selections_find(s, pid);
	if (!p)
		return;
	selection_free(&p->selection);
	*p = (struct selection_process){0};
}

void selections_free(struct selections *s)
{
	for (unsigned i = 0; i < SELECTIONS_MAX; i++)
		selection_free(&s->processes[i].selection);
	selection_policy_free(&s->policy);
}
