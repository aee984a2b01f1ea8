#define _GNU_SOURCE
#include "tui/actions/actions.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"
#include "tracer/engine/engine.h"
#include "tracer/proc/spawn.h"
#include "tracer/stack/stack_snapshot.h"
#include "tui/model/top.h"

enum { OP_MAX = 256 };

/* Stacks of all threads of a process, taken by a child process: the screen stays responsive if that
 * is slow or a thread stays stopped, and ending the child releases all threads. */

/* Zero-initialise. */
struct stacks {
	pid_t child; /* takes the snapshot; 0: none running */
	int out;     /* file with its output while it runs */
	char *text;  /* last finished snapshot: output of ditrace stack, or why there is none; NULL:
			none yet */
};

static int stacks_print(pid_t pid, FILE *f)
{
	struct stack_snapshot_view v = {.pid = pid, .looks = 1, .native = true};
	struct err e = {0};
	int r = stack_reader_open(pid, true, &v.stack_reader, &e);
	if (!r)
		r = stack_reader_take(v.stack_reader, &v.look, &e);
	if (!r) {
		v.first_ns = v.look->at_ns;
		r = stack_snapshot_print(&v, f);
	}
	if (r)
		fprintf(f, "%s\n%s\n", e.what[0] ? e.what : strerror(-r), e.hint);
	return fclose(f) ? -EIO : r;
}

/* In the child: leave terminal and signals to the parent. */
static void stacks_child(pid_t pid, int out)
{
	static const int handled[] = {SIGINT, SIGTERM, SIGHUP,	SIGSEGV, SIGILL,
				      SIGFPE, SIGABRT, SIGQUIT, SIGWINCH};
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	setpgid(0, 0);
	for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		signal(handled[i], SIG_DFL);
	bus_guard(NULL);
	if (in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	FILE *f = fdopen(out, "w");
	_exit(!f || stacks_print(pid, f) ? 1 : 0);
}

/* Start a snapshot of `pid`, unless one is running. 0 or -errno. */
static int stacks_look(struct stacks *s, pid_t pid)
{
	if (s->child)
		return 0;
	s->out = memfd_create("stacks", MFD_CLOEXEC);
	s->child = s->out < 0 ? -1 : spawn_part(SIGKILL);
	if (s->child < 0) {
		int code = -errno;
		if (s->out >= 0)
			close(s->out);
		s->child = 0;
		return code;
	}
	if (!s->child)
		stacks_child(pid, s->out);
	return 0;
}

static bool stacks_child_ended(struct stacks *s, int options)
{
	int r;
	while ((r = waitpid(s->child, NULL, options)) < 0 && errno == EINTR)
		;
	return r != 0;
}

/* Whether a snapshot has finished since the last call; s->text is then new. */
static bool stacks_came(struct stacks *s)
{
	if (!s->child || !stacks_child_ended(s, WNOHANG))
		return false;
	free(s->text);
	s->text = io_text(s->out, SIZE_MAX);
	close(s->out);
	s->child = 0;
	return true;
}

/* Cancel a running snapshot, and free everything. */
static void stacks_close(struct stacks *s)
{
	if (s->child) {
		kill(s->child, SIGKILL);
		stacks_child_ended(s, 0);
		close(s->out);
	}
	free(s->text);
	*s = (struct stacks){0};
}

struct actions {
	struct stacks stacks;
	struct capture_next capture;
	struct change change;
	bool shows_change; /* the panel shows the changes instead of the stacks */
	struct {
		pid_t pid;
		enum intervene_feature feature;
		char name[OP_MAX];
	} asked; /* while TOP_ASKS_CHANGE */
};

struct actions *actions_new(void)
{
	return calloc(1, sizeof(struct actions));
}

void actions_free(struct actions *a)
{
	if (!a)
		return;
	stacks_close(&a->stacks);
	capture_next_close(&a->capture);
	change_close(&a->change);
	free(a);
}

const char *actions_text(const struct actions *a)
{
	return !a ? NULL : a->shows_change ? a->change.text : a->stacks.text;
}

/* The traced process; 0 if there is none, with a message. */
static pid_t process(struct top *t)
{
	pid_t pid = t->live ? live_process(t->live) : 0;
	if (!t->live)
		top_say(t, "this is a recorded file: no process is traced");
	else if (!pid)
		top_say(t, live_has_ended(t->live) ? "the process has ended"
						   : "no process has loaded PyTorch yet");
	return pid;
}

static void look_at_stacks(struct top *t)
{
	pid_t pid = process(t);
	if (!pid)
		return;
	int r = stacks_look(&t->acts->stacks, pid);
	if (r)
		top_say(t, "cannot look at process %d: %s", (int)pid, strerror(-r));
	else
		top_say(t, "looking at all threads of process %d", (int)pid);
}

static const struct grouping_row *chosen_row(struct top *t)
{
	size_t n;
	struct grouping_row *const *rows = view_all(t->view, view_group(t->view), &n);
	int64_t id = t->panel == TOP_DETAIL ? (int64_t)t->detail : t->chosen;
	return id >= 0 && (size_t)id < n ? rows[id] : NULL;
}

static const struct grouping_row *row_or_say(struct top *t)
{
	if (view_is_tree(t->view)) {
		top_say(t, "this row is of a module: g groups by op or line");
		return NULL;
	}
	const struct grouping_row *row = chosen_row(t);
	if (row && row->sum)
		return row;
	top_say(t, "no row is chosen");
	return NULL;
}

/* The op of the selected row, and in *inner whether its last call came from another op. False, with
 * a message, if the row is not of one op. */
static bool chosen_op(struct top *t, char *out, size_t size, bool *inner)
{
	struct op_event last;
	const struct grouping_row *row = row_or_say(t);
	enum grouping_by group = view_group(t->view);
	if (!row)
		return false;
	if (group != GROUPING_OP_LINE && group != GROUPING_OP && group != GROUPING_SHAPE) {
		top_say(t, "this row is of many ops: g groups by op");
		return false;
	}
	if (!capture_row_op(t, row, &last))
		return false;
	snprintf(out, size, "%s", last.op->name);
	*inner = last.depth > 0;
	return true;
}

/* The engine for a second tracer of the process; -1: none. Two tracers cannot both set breakpoints;
 * with ENGINE_SHIM, which is the first one's then, functions can be changed, but nothing captured.
 */
static int engine_beside(struct top *t)
{
	struct view_head h;
	view_head(t->view, &h);
	const char *engine = h.target ? h.target->engine : "";
	if (!live_is_tracing(t->live))
		return ENGINE_AUTO;
	if (!strcmp(engine, engine_names[ENGINE_PTRACE]))
		return -1;
	return strcmp(engine, engine_names[ENGINE_BPF]) ? ENGINE_SHIM : ENGINE_BPF;
}

static void capture(struct top *t)
{
	struct capture_what what;
	pid_t pid = process(t);
	const struct grouping_row *row = pid ? row_or_say(t) : NULL;
	int engine = row ? engine_beside(t) : -1;
	if (row && engine < 0)
		top_say(t, "the engine ptrace is tracing, and no other can: d detaches, then c");
	else if (row && engine == ENGINE_SHIM)
		top_say(t, "the engine shim is tracing, and no other can: d detaches, then c");
	else if (row && !capture_row(t, row, &what))
		capture_what_free(&what);
	else if (row)
		capture_next_begin(&t->acts->capture, t, pid, &what, engine);
}

static void undo(struct top *t)
{
	char path[UNDO_PATH];
	if (t->acts &&
	    (capture_next_stop(&t->acts->capture, t) || change_undo(&t->acts->change, t)))
		return;
	int r = undo_last(&t->undo, path, sizeof(path));
	if (r > 0)
		top_say(t, "removed %s", path);
	else if (r < 0)
		top_say(t, "cannot remove %s: %s", path, strerror(-r));
	else
		top_say(t, "there is nothing to undo");
}

static const struct grouping_row *row_of_call(struct top *t, uint64_t id)
{
	size_t n;
	struct grouping_row *const *rows = view_all(t->view, view_group(t->view), &n);
	for (size_t i = 0; i < n; i++)
		if (rows[i]->sum && rows[i]->last.size && rows[i]->last.id == id)
			return rows[i];
	return NULL;
}

/* The row of the op that the program called, and that called the selected row's op, in the last
 * call of each; NULL: not known. */
static const struct grouping_row *outer_row(struct top *t)
{
	const struct grouping_row *row = chosen_row(t);
	struct op_event ev;
	while (row && !player_decode(t->player, &row->last, &ev, NULL) &&
	       ev.op->kind == OP_DISPATCHED) {
		if (!ev.depth)
			return row;
		row = row_of_call(t, ev.parent);
	}
	return NULL;
}

static void say_inner(struct top *t, const char *op)
{
	const struct grouping_row *outer = outer_row(t);
	if (!outer) {
		top_say(t, "%s is called by another op: select the op that the program calls", op);
		return;
	}
	top_jump(t, outer->id);
	top_say(t, "%s is called by another op, %s: that is selected now", op, outer->sum->op);
}

/* "aten::add_.Tensor" is called as torch.Tensor.add_: its name here is "add_". */
static void change(struct top *t, enum intervene_feature feature)
{
	char op[OP_MAX];
	bool inner;
	pid_t pid = process(t);
	if (!pid || !chosen_op(t, op, sizeof(op), &inner))
		return;
	if (inner) {
		say_inner(t, op);
		return;
	}
	const char *name = strstr(op, "::");
	name = name ? name + 2 : op;
	op[(name - op) + (long)strcspn(name, ".")] = '\0';
	struct actions *a = t->acts;
	if (!change_can(&a->change, t, pid, engine_beside(t) >= 0, feature))
		return;
	a->asked.pid = pid;
	a->asked.feature = feature;
	snprintf(a->asked.name, sizeof(a->asked.name), "%s", name);
	top_ask(t, TOP_ASKS_CHANGE,
		feature == INTERVENE_COMPARE ? "compare each call of %s with the CPU? y/n"
					     : "compute %s on the CPU? y/n",
		name);
}

void actions_answer(struct top *t, bool yes)
{
	struct actions *a = t->acts;
	if (yes)
		change_add(&a->change, t, a->asked.pid, a->asked.feature, a->asked.name);
	else
		top_say(t, "nothing was changed");
}

bool actions_key(struct top *t, int key)
{
	switch (key) {
	case 's':
		look_at_stacks(t);
		return true;
	case 'c':
		capture(t);
		return true;
	case 'C':
		change(t, INTERVENE_COMPARE);
		return true;
	case 'f':
		change(t, INTERVENE_FALLBACK);
		return true;
	case 'u':
		undo(t);
		return true;
	default:
		return false;
	}
}

static void show(struct top *t, bool change)
{
	t->acts->shows_change = change;
	if (t->panel == TOP_TEXT)
		return;
	t->panel = TOP_TEXT;
	t->scroll = 0;
	t->left = 0;
}

void actions_tick(struct top *t)
{
	struct actions *a = t->acts;
	if (!a)
		return;
	capture_next_tick(&a->capture, t);
	if (change_tick(&a->change, t))
		show(t, true);
	if (!stacks_came(&a->stacks))
		return;
	t->message[0] = '\0';
	show(t, false);
}
