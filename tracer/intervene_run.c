#include "tracer/intervene_run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "tracer/intervene.h"
#include "tracer/trace_loop.h"

/* An option of tracing that was given; NULL: none. */
static const char *tracing_option(const struct session_opts *o)
{
	const struct {
		bool given;
		const char *name;
	} options[] = {
	    {strcmp(o->output, "ditrace.data") != 0, "-o"},
	    {o->print, "--print"},
	    {o->when, "--when"},
	    {o->depth != SESSION_ALL_LEVELS, "--depth"},
	    {o->phase, "--phase"},
	    {o->measure.stats, "--stats"},
	    {o->measure.first_nan, "--first-nan"},
	    {o->capture.dir, "--capture"},
	    {o->engine == ENGINE_BPF || o->engine == ENGINE_PTRACE, "--engine bpf or ptrace"},
	};
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].given)
			return options[i].name;
	return NULL;
}

static int check(const struct intervene_opts *change, const struct session_opts *o, struct err *e)
{
	const char *option = tracing_option(o);
	if (option) {
		err_set(e, -EINVAL,
			"%s does not go together with --fallback, --cast and --compare, which "
			"record nothing",
			option);
		return err_hint(e, "leave %s out, or trace in a run of its own", option);
	}
	if (o->ops && !change->cast) {
		err_set(e, -EINVAL,
			"--ops chooses for --cast; --fallback and --compare "
			"have lists of their own");
		return err_hint(e, "write --fallback '%s' or --compare '%s'", o->ops, o->ops);
	}
	return 0;
}

/* The command until its end. */
static int see_through(struct intervene *v, char **argv, const struct spawn_signals *signals,
		       struct err *e)
{
	enum { LOOK_MS = 20 };
	struct trace_loop l = {.is_child = true};
	struct spawn child;
	if (spawn_prepare(argv, signals, 0, &child, e))
		return EXIT_FAILED;
	l.pid = child.pid;
	trace_loop_signals(&l);
	int r = spawn_release(&child, argv, e);
	if (r)
		return spawn_failure_status(r);
	while (!l.gone) {
		intervene_step(v, LOOK_MS);
		trace_loop_look(&l);
	}
	intervene_finish(v);
	return spawn_exit_status(l.status);
}

int intervene_run(struct intervene_opts *change, const struct session_opts *o, char **argv,
		  const struct spawn_signals *signals)
{
	struct err e = {0};
	struct intervene_rules rules = {0};
	struct intervene *v = NULL;
	int status = EXIT_FAILED;
	static char
	    buffer[1 << 16]; /* a table is written at once, beside what the program writes */
	setvbuf(stderr, buffer, _IOFBF, sizeof(buffer));
	change->ops = o->ops;
	change->not_ops = o->not_ops;
	if (!check(change, o, &e) && !intervene_rules_read(change, &rules, &e) &&
	    !intervene_open(&rules, &v, &e))
		status = see_through(v, argv, signals, &e);
	if (e.code)
		err_print(&e);
	if (v)
		intervene_close(v);
	intervene_rules_free(&rules);
	return status;
}
