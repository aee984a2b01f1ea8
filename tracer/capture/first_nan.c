#define _GNU_SOURCE
#include "tracer/capture/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "perf/events/print_event.h"
#include "replay/capture/capture_files.h"
#include "replay/numbers/numbers.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/event/names.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/python.h"

enum { LINE_MAX_LEN = 512 + WHERE_TEXT_MAX };

struct first_nan {
	bool hold;
	FILE *log;
	first_nan_registers_fn *registers;
	void *registers_arg;
	struct capture_files files;
	uint64_t found;		   /* id of the event; 0: none yet */
	char line[LINE_MAX_LEN];   /* what was found, for the summary */
	uint64_t passed_on;	   /* calls with NaN or infinity in results and inputs */
	char passed[LINE_MAX_LEN]; /* the first of these */
	uint64_t not_known;	   /* calls with NaN or infinity in results and unmeasured inputs */
	char unknown[LINE_MAX_LEN];
	uint64_t results;   /* results that could not be measured; not of the device meta */
	uint64_t elsewhere; /* of these: not in memory of the CPU, as far as is known */
};

struct first_nan *first_nan_new(const char *dir, bool hold, FILE *log)
{
	struct first_nan *f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->hold = hold;
	f->log = log;
	f->files.root = dir;
	return f;
}

void first_nan_registers(struct first_nan *f, first_nan_registers_fn *fn, void *arg)
{
	f->registers = fn;
	f->registers_arg = arg;
}

void first_nan_free(struct first_nan *f)
{
	free(f);
}

uint64_t first_nan_found(const struct first_nan *f)
{
	return f->found;
}

bool first_nan_unsure(const struct first_nan *f)
{
	return !f->found && (f->results || f->not_known);
}

static bool is_bad_number(const struct value *v)
{
	if (v->kind == VALUE_FLOAT || (v->kind == VALUE_SCALAR && v->scalar == VALUE_FLOAT))
		return !isfinite(v->f);
	if (v->kind == VALUE_COMPLEX)
		return !isfinite(v->c.re) || !isfinite(v->c.im);
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		if (is_bad_number(&v->items[i]))
			return true;
	return false;
}

enum inputs { FINITE, NOT_FINITE, NOT_KNOWN };

static enum inputs inputs_of(const struct op_event *ev)
{
	enum inputs in = FINITE;
	for (uint16_t i = 0; i < ev->nargs; i++)
		if (is_bad_number(&ev->args[i]))
			return NOT_FINITE;
	for (uint32_t i = 0; i < ev->stats->n; i++) {
		const struct tensor_stats *r = &ev->stats->rows[i];
		if (r->place.is_result)
			continue;
		if (r->why)
			in = NOT_KNOWN;
		else if (r->stats.nan || r->stats.pos_inf || r->stats.neg_inf)
			return NOT_FINITE;
	}
	return in;
}

static const char *describe(const struct op_event *ev, char *out, size_t size)
{
	char where[WHERE_TEXT_MAX];
	snprintf(out, size, "%s, %s %" PRIu64 ", at %s", op_text(ev->op->name),
		 ev->op->kind == OP_BACKWARD ? "backward id" : "id", ev->id,
		 event_where_text(where, sizeof(where), ev));
	return out;
}

static void note(uint64_t *n, char line[LINE_MAX_LEN], const struct op_event *ev)
{
	if (!(*n)++)
		describe(ev, line, LINE_MAX_LEN);
}

struct unmeasured {
	struct first_nan *f;
	const struct event_stats *stats;
	uint32_t next;
};

static void count_unmeasured(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct unmeasured *u = arg;
	const struct tensor_stats *row = event_stats_next(u->stats, place, &u->next);
	const char *device =
	    t->meta.unknown & TENSOR_NO_DEVICE ? NULL : names_device_type(t->meta.device_type);
	if (!row || !row->why || (device && !strcmp(device, "meta")))
		return;
	u->f->results++;
	u->f->elsewhere += !device || strcmp(device, "cpu") != 0;
}

/* Whether to report this call. Also counts calls whose inputs are unknown or not finite. */
static bool is_first(struct first_nan *f, const struct op_event *ev)
{
	struct unmeasured u = {.f = f, .stats = ev->stats};
	event_each_tensor(ev, true, count_unmeasured, &u);
	if (!event_bad_results(ev) || ev->op->kind == OP_FUNCTION || op_gives_no_numbers(ev->op) ||
	    event_gave_view(ev))
		return false;
	switch (inputs_of(ev)) {
	case NOT_FINITE:
		note(&f->passed_on, f->passed, ev);
		return false;
	case NOT_KNOWN:
		note(&f->not_known, f->unknown, ev);
		return false;
	default:
		return true;
	}
}

static void print_counts(FILE *f, const struct event_stats *s)
{
	uint64_t n[3] = {0};
	static const char *const names[] = {"NaN", "+inf", "-inf"};
	const char *between = "";
	char count[32];
	for (uint32_t i = 0; i < s->n; i++) {
		if (!s->rows[i].place.is_result || s->rows[i].why)
			continue;
		n[0] += s->rows[i].stats.nan;
		n[1] += s->rows[i].stats.pos_inf;
		n[2] += s->rows[i].stats.neg_inf;
	}
	for (unsigned i = 0; i < 3; i++) {
		if (!n[i])
			continue;
		fprintf(f, "%s%s %s", between, text_count(count, sizeof(count), n[i]), names[i]);
		between = ", ";
	}
}

static void print_stack(FILE *f, struct target *t, const char *title, const struct py_stack *s)
{
	if (!s)
		return;
	fprintf(f, "  %s, innermost first:\n", title);
	for (unsigned i = 0; i < s->depth; i++) {
		const struct py_frame *p = s->frames[i];
		if (t->py && !p->text)
			py_frame_text(t->py, p);
		fputs("    ", f);
		text_print_safe(f, p->file);
		fprintf(f, ":%" PRId32 " ", p->line);
		text_print_safe(f, p->function);
		if (p->text) {
			fputs(": ", f);
			text_print_safe(f, p->text);
		}
		putc('\n', f);
	}
	if (s->truncated)
		fputs("    and more\n", f);
}

static void print_native_stack(struct first_nan *f, struct target *t, pid_t tid)
{
	uint64_t regs[ARCH_REGS];
	const struct native_thread thread = {.tid = tid, .regs = regs, .mem = &t->mem};
	struct err e = {0};
	if (!f->registers)
		return;
	fputs("  Native stack, innermost first:\n", f->log);
	int r = f->registers(f->registers_arg, tid, regs);
	if (r)
		err_set(&e, r, "the registers cannot be read: %s", strerror(-r));
	else
		native_stack_print(f->log, "    ", t->pid, &thread, &e);
	if (!e.code)
		return;
	fputs("    ", f->log);
	text_print_safe(f->log, e.what);
	putc('\n', f->log);
}

static void print_found(struct first_nan *f, struct target *t, const struct op_event *ev)
{
	bool back = ev->phase == PHASE_BACKWARD;
	bool own = !back || ev->where_stack == ev->stack;
	fputs("ditrace: the first NaN or infinity: ", f->log);
	text_print_safe(f->log, op_text(ev->op->name));
	fputs(" gave ", f->log);
	print_counts(f->log, ev->stats);
	fputs(", and all that it was given is finite\n", f->log);
	print_stack(f->log, t, own ? "Python stack" : "Python stack of its forward op",
		    ev->where_stack);
	if (!own)
		print_stack(f->log, t, "Python stack of the backward", ev->stack);
	print_native_stack(f, t, ev->tid);
	struct event_printer *p = event_printer_new(f->log);
	if (p)
		event_print(p, ev);
	event_printer_free(p);
	fflush(f->log);
}

struct check {
	const struct op_event *ev;
	const struct source *src;
	uint32_t next;
	bool changed;
};

static void check_hash(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct check *c = arg;
	struct stats now;
	enum refusal refusal;
	const struct tensor_stats *then = event_stats_next(c->ev->stats, place, &c->next);
	c->changed |= !then || then->why || stats_tensor(t, c->src, &now, &refusal, NULL) ||
		      now.hash != then->stats.hash;
}

static void save(struct first_nan *f, const struct capture_call *call, enum capture_part part,
		 const struct op_event *ev, const struct source *src)
{
	struct capture_saved saved;
	struct err e = {0};
	if (capture_write(&f->files, call, part, ev, src, &saved, &e)) {
		fputs("ditrace: not saved: ", f->log);
		text_print_safe(f->log, e.what);
		putc('\n', f->log);
		return;
	}
	capture_log_saved(f->log, &saved);
}

static void save_all(struct first_nan *f, const struct op_event *ev, const struct source *before,
		     const struct source *now)
{
	struct capture_call call;
	struct check check = {.ev = ev, .src = before};
	bool back = ev->op->kind == OP_BACKWARD;
	if (!capture_call_of(&f->files, ev, &call)) {
		fputs("ditrace: not saved: the name of the op is too long\n", f->log);
		return;
	}
	event_each_tensor(ev, false, check_hash, &check);
	if (check.changed)
		fputs(
		    "ditrace: the inputs are not saved: the op has written over them, and they are "
		    "too large to be kept\n",
		    f->log);
	else
		save(f, &call, back ? CAPTURE_GRAD_OUTPUTS : CAPTURE_INPUT, ev, before);
	save(f, &call, back ? CAPTURE_GRAD_INPUTS : CAPTURE_OUTPUT, ev, now);
}

/* The thread cannot run on: it takes the signal before it leaves the kernel. */
static void stop(struct first_nan *f, const struct op_event *ev)
{
	if (syscall(SYS_tgkill, ev->pid, ev->tid, SIGSTOP)) {
		fprintf(f->log, "ditrace: cannot stop process %d: %s\n", ev->pid, strerror(errno));
		return;
	}
	fprintf(f->log,
		"ditrace: process %d is left stopped; thread %d stands at the end of this op\n"
		"  look at it: gdb -p %d\n"
		"  let it run on: kill -CONT %d\n",
		ev->pid, ev->tid, ev->pid, ev->pid);
}

void first_nan_judge(struct first_nan *f, struct target *t, const struct op_event *ev,
		     const struct source *before, const struct source *now)
{
	if (f->found || !ev->stats || ev->thrown || !ev->end_ns || !is_first(f, ev))
		return;
	f->found = ev->id;
	describe(ev, f->line, sizeof(f->line));
	print_found(f, t, ev);
	save_all(f, ev, before, now);
	if (f->hold)
		stop(f, ev);
}

static void print_line(FILE *out, const char *what, const char *line)
{
	fputs(what, out);
	text_print_safe(out, line);
	putc('\n', out);
}

void first_nan_summary(const struct first_nan *f, FILE *out)
{
	char n[32];
	if (f->found)
		print_line(out, "ditrace: the first NaN or infinity came from ", f->line);
	else
		fprintf(out, "ditrace: no op%s made a NaN or an infinity of finite inputs\n",
			first_nan_unsure(f) ? " of those that could be measured" : "");
	if (f->passed_on && !f->found) {
		fprintf(out, "  %s call%s gave such numbers and had been given some",
			text_count(n, sizeof(n), f->passed_on), f->passed_on == 1 ? "" : "s");
		print_line(out, "; the first: ", f->passed);
	}
	if (f->not_known) {
		fprintf(out, "  %s call%s gave such numbers, of inputs that could not be measured",
			text_count(n, sizeof(n), f->not_known), f->not_known == 1 ? "" : "s");
		print_line(out, "; the first: ", f->unknown);
	}
	if (f->results)
		fprintf(out, "  %s result%s could not be measured\n",
			text_count(n, sizeof(n), f->results), f->results == 1 ? "" : "s");
	if (f->elsewhere && !f->found)
		fputs("  hint: memory of a device is measured from inside of the process: add "
		      "--engine shim\n",
		      out);
}
