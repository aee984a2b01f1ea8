#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tracer/trace_loop.h"

static int finish(struct trace_loop *l, int failed, bool keep_going, struct err *e)
{
	pid_t refused = keep_going ? 0 : session_refused(l->session);
	trace_samples_finish(l->samples);
	trace_loop_tell_end(l);
	if (failed) {
		err_print(e);
		spawn_end_refused(refused);
	} else if (session_total(l->session) == 0) {
		if (!session_missed(l->session))
			fprintf(
			    stderr,
			    "ditrace: no process of this program loaded PyTorch; nothing was traced\n"
			    "  hint: check that it runs the Python that has torch: ditrace doctor\n");
	} else {
		*e = (struct err){0};
		failed = session_finish(l->session, e);
		if (e->code)
			err_print(e);
	}
	int said = session_status(l->session);
	session_close(l->session);
	follow_free(l->follow);
	int r = trace_loop_wait(l);
	trace_loop_tell_end(l);
	bool names_refused = intervene_beside_close(l->change);
	if (r)
		return EXIT_FAILED;
	if (refused || names_refused)
		return EXIT_USAGE;
	int status = spawn_exit_status(l->status);
	return said == EXIT_FOUND ? said : failed && !status ? EXIT_FAILED : status ? status : said;
}

static int run(struct session_opts *o, struct intervene_opts *change, char **argv,
	       const struct spawn_caller *caller)
{
	struct err e = {0};
	struct trace_loop l = {.is_child = true};
	int status;
	intervene_choose_inside(change, o, 0);
	bool traces = intervene_traces(o), changes = intervene_run_wanted(change, o, traces);
	trace_default_output(o);
	if (check_options(o, change, changes, &e)) {
		err_print(&e);
		return EXIT_USAGE;
	}
	if (changes && !traces && o->for_ns) {
		err_set(&e, -EINVAL,
			"--for is of tracing, and functions are changed until the program ends");
		err_hint(&e, "leave it out, or change them in a running program: ditrace attach "
			     "--for 10s PID");
		err_print(&e);
		return EXIT_USAGE;
	}
	if (changes && !traces)
		return intervene_run(change, o, argv, caller);
	int r = changes ? intervene_beside_open(change, o, 0, &l.change, &e) : 0;
	status = r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	r = r ? r : start_program(&l, o, argv, caller, &status, &e);
	if (r) {
		err_print(&e);
		trace_samples_finish(l.samples);
		session_close(l.session);
		follow_free(l.follow);
		intervene_beside_close(l.change);
		return status;
	}
	r = trace_loop_run(&l, &e);
	return finish(&l, r, change->keep_going, &e);
}

int cmd_run(int argc, char **argv)
{
	struct session_opts o = {.depth = SESSION_ALL_LEVELS};
	struct intervene_opts change = {0};
	bool eager = false;
	const char *name = NULL;
	const struct option_def options[] = {
	    TRACE_OPTIONS(o),
	    CAPTURE_OPTIONS(o.capture),
	    STATS_OPTIONS(o.measure),
	    INTERVENE_OPTIONS(change),
	    LIMIT_OPTIONS(o),
	    {0, "eager", OPTION_FLAG, &eager, NULL, "turn torch.compile off in the program", NULL},
	    {0, "keep-going", OPTION_FLAG, &change.keep_going, NULL,
	     "let the program run though it has no op or function of a given name", NULL},
	    {0, "user", OPTION_STRING, &name, "NAME",
	     "start the program as this user; ditrace itself stays root", NULL},
	    {0}};
	const struct command command = {
	    .name = "run",
	    .operands = "[--] PROGRAM [ARGUMENT...]",
	    .about =
		"Start a program under trace: every op of every process of it that loads PyTorch.",
	    .options = options,
	    .notes = "The program's own input and output are left alone; the summary goes to "
		     "standard error.",
	    .stop_at_operand = true,
	    .min_operands = 1,
	    .max_operands = -1,
	};
	struct err e = {0};
	struct spawn_caller caller;
	struct spawn_user user = {0};
	int status;
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (eager) /* torch/_dynamo/eval_frame.py, 2.0 to 2.13 */
		setenv("TORCHDYNAMO_DISABLE", "1", 1);
	spawn_caller_save(&caller);
	signal(SIGCHLD, SIG_DFL); /* if the caller ignores SIGCHLD, the exit status would be lost */
	if (name)
		caller.user = o.user = &user;
	if (name && spawn_user_find(name, &user, &e)) {
		err_print(&e);
		status = EXIT_USAGE;
	} else {
		status = run(&o, &change, &argv[first], &caller);
	}
	spawn_user_free(&user);
	return status;
}
