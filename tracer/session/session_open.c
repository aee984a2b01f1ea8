#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"
#include "tracer/capture/capture.h"
#include "tracer/device/launches.h"
#include "tracer/engine/engine.h"
#include "tracer/monitor/monitor.h"
#include "tracer/session/internal.h"

static int open_filters(struct session *s, struct err *e)
{
	int r = 0;
	if (s->o->ops)
		r = filter_compile("--ops", s->o->ops, &s->ops_filter, e);
	if (!r && s->o->not_ops)
		r = filter_compile("--not-ops", s->o->not_ops, &s->not_filter, e);
	if (!r && s->o->when)
		r = when_compile("--when", s->o->when, &s->when, e);
	return r;
}

/* The options that leave ops out of the recording, as on a command line; "": none do. */
static void chosen_text(const struct session_opts *o, char *out, size_t size)
{
	const char *const of[][2] = {
	    {"--ops", o->ops}, {"--not-ops", o->not_ops}, {"--when", o->when}};
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (of[i][1] && len < size)
			len +=
			    (size_t)snprintf(out + len, size - len, " %s %s", of[i][0], of[i][1]);
	if (o->depth != SESSION_ALL_LEVELS && len < size)
		len += (size_t)snprintf(out + len, size - len, " --depth %" PRIu64, o->depth);
	if (o->phase && len < size)
		snprintf(out + len, size - len, " --phase %s",
			 o->phase == SESSION_FORWARD ? "forward" : "backward");
	if (out[0])
		memmove(out, out + 1, strlen(out));
}

/* Append to the list. `o` may be NULL: out of memory. */
static int append_observer(struct session *s, struct observer *o, struct err *e)
{
	struct observer **at = &s->observers;
	if (!o)
		return err_set(e, -ENOMEM, "no memory");
	while (*at)
		at = &(*at)->next;
	*at = o;
	s->needs |= o->needs;
	if (!s->stops)
		s->stops = o->stops;
	return 0;
}

/* Observers see events and print summaries in this order. */
static int open_observers(struct session *s, struct err *e)
{
	const struct session_opts *o = s->o;
	bool measures = o->measure.stats || o->measure.first_nan;
	struct observer *new;
	int r = 0;
	chosen_text(o, s->chosen, sizeof(s->chosen));
	if (o->output)
		r = append_observer(
		    s, observer_of_file(o->output, s->chosen, o->one_file, o->quiet), e);
	if (!r && o->print)
		r = append_observer(s, observer_of_print(), e);
	if (!r && o->capture.dir) {
		if (o->ops && strstr(o->ops, "c10d::") && !o->capture.collectives)
			fputs("ditrace: collectives are not saved together with other ops: "
			      "choose them alone, --ops c10d::...\n",
			      stderr);
		r = capture_open(&o->capture, s->when, o->phase != SESSION_FORWARD, stderr, &new,
				 e);
		r = r ? r : append_observer(s, new, e);
	}
	if (!r && !o->quiet)
		r = append_observer(s, observer_of_sums(!s->chosen[0], o->ops), e);
	if (!r && measures && !o->quiet)
		r = append_observer(s, observer_of_overflow(), e);
	if (!r && measures) {
		r = stats_collector_open(&o->measure, &o->capture, s->when, stderr, &new, e);
		r = r ? r : append_observer(s, new, e);
	}
	if (!r && o->prometheus) {
		new = observer_of_metrics(o->prometheus, s->chosen, e);
		r = new ? append_observer(s, new, e) : e->code;
	}
	return r;
}

/* Whether the engine bpf could pick the calls that are to stop, and which. */
static bool is_pickable(const struct session *s, struct pick *out)
{
	const struct observer *o = OBSERVERS_FIRST(s, pick);
	return o && s->o->engine != ENGINE_PTRACE && o->pick(o, out);
}

/* Whether that engine would do. */
static bool shim_would_do(const struct session *s)
{
	/* With the shim, the library makes the thread that records a call wait. */
	bool can = !s->stops || !(s->needs & (OBSERVER_REGISTERS | OBSERVER_NODES));
	return can && (s->o->engine == ENGINE_SHIM || s->o->engine == ENGINE_AUTO);
}

/* What the engine shim would not let others do. */
static const char *not_shim(const struct session_opts *o)
{
	return o->shared ? "beside shim no other ditrace could trace, as for a capture" : NULL;
}

bool session_expects_shim(const struct session *s)
{
	return shim_would_do(s) && (s->o->engine == ENGINE_SHIM || !not_shim(s->o));
}

static int check_engine(const struct session *s, struct err *e)
{
	struct pick pick;
	const struct session_opts *o = s->o;
	if (!s->stops || o->engine == ENGINE_PTRACE || o->engine == ENGINE_AUTO || shim_would_do(s))
		return 0;
	if (o->engine == ENGINE_SHIM) {
		err_set(e, -EINVAL,
			"--engine shim cannot do %s: it is told of no registers, which native "
			"stacks begin with",
			s->stops);
		return err_hint(e, "leave --engine out: %s takes the engine ptrace", s->stops);
	}
	if (o->engine == ENGINE_BPF && is_pickable(s, &pick))
		return 0;
	err_set(e, -EINVAL, "%s needs threads that stand still, and --engine bpf stops none",
		s->stops);
	if (OBSERVERS_FIRST(s, pick))
		return err_hint(e, "leave --engine out; bpf can with --nth or --every, and without "
				   "--when and --step");
	return err_hint(e, "leave --engine out: %s takes the engine ptrace", s->stops);
}

/* A boxed call counts together with the op's other calls, which the engine counts. */
static struct call_count count_of(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	const struct proc *p = session_proc(s, ev->pid);
	for (uint32_t i = 0; p && i < s->ops->n; i++) {
		const struct op_probe *o = &s->ops->ops[i];
		if (o->role != ROLE_CALL || strcmp(o->desc.name, ev->op->name))
			continue;
		if (&o->desc == ev->op)
			return (struct call_count){CALL_PICKED, 0};
		uint16_t proc = (uint16_t)(p - s->procs);
		return (struct call_count){CALL_NUMBERED,
					   s->engine->count_call(s->engine, proc, i)};
	}
	return (struct call_count){CALL_NOT_COUNTED, 0};
}

const char *session_needs_each(const struct session *s)
{
	return s->stops ? s->stops : s->when ? "--when" : s->o->count ? "--count" : NULL;
}

/* Open an engine that stops threads. */
static int open_stopping(struct session *s, const struct engine_wanted *w, struct err *e)
{
	struct pick pick;
	struct err why = {0};
	if (is_pickable(s, &pick)) {
		int r = engine_both_open(w, &pick, &s->engine, &why);
		if (!r) {
			OBSERVERS_CALL(s, picked, count_of, s);
			s->is_note_of_start = s->o->engine == ENGINE_AUTO;
			if (s->is_note_of_start)
				err_set(&s->engine_note, -ENOTSUP,
					"the engine is bpf, as it can pick the calls that %s stops",
					s->stops);
			return 0;
		}
		if (s->o->engine == ENGINE_BPF) {
			*e = why;
			return r;
		}
	}
	int r = engine_ptrace_open(w, &s->engine, e);
	s->is_note_of_start = !r && s->o->engine == ENGINE_AUTO;
	if (s->is_note_of_start)
		err_set(&s->engine_note, -ENOTSUP,
			"the engine is ptrace, since %s needs threads that stand still", s->stops);
	return r;
}

/* What the engine shim alone sees is wanted. */
static int not_seen_here(const struct session *s, const char *option, const char *what,
			 struct err *e)
{
	err_set(e, -ENOTSUP, "%s: the engine %s does not see %s", option, s->engine->name, what);
	if (!s->engine_note.code && !s->stops)
		return err_hint(e, "use --engine shim");
	return err_hint(e, "only the engine shim does, which is not in use here: leave %s out",
			option);
}

static int open_engine(struct session *s, struct err *e)
{
	enum engine_choice choice = (enum engine_choice)s->o->engine;
	const struct engine_wanted wanted = {
	    .choice = s->o->turns && choice == ENGINE_AUTO ? ENGINE_SHIM : choice,
	    .nplans = PLANS_MAX,
	    .interesting = process_has_all_torch,
	    .pid = s->o->attach,
	    .user = s->o->user,
	    .stops = s->stops,
	    .not_shim = not_shim(s->o),
	    .may_sum = !session_needs_each(s),
	    .waits = s->o->no_loss,
	    .no_devices = s->o->no_devices,
	    .devices = s->o->devices,
	    .buffer = s->o->buffer,
	};
	int r = s->stops && !shim_would_do(s)
		    ? open_stopping(s, &wanted, e)
		    : engine_open(&wanted, &s->engine, &s->engine_note, e);
	if (!r && s->o->capture.dir && s->o->capture.collectives && !s->engine->observes)
		r = not_seen_here(s, "--capture", "collectives", e);
	if (!r && s->o->memory && !s->engine->activities)
		r = not_seen_here(s, "--memory", "what is done with memory", e);
	if (!r && s->o->native_stack && !s->engine->add_rows)
		r = not_seen_here(s, "--native-stack", "the native stacks of ops", e);
	/* The first choice here. */
	if (!r && s->o->shared && !strcmp(s->engine->name, "bpf"))
		s->engine_note = (struct err){0};
	if (!r && choice == ENGINE_AUTO && s->engine->observes && s->o->attach &&
	    !s->engine_note.code) {
		s->is_note_of_start = true;
		err_set(&s->engine_note, -ENOTSUP,
			"engine shim: loads a library into process %d; --engine bpf does not",
			s->o->attach);
	}
	for (struct observer *o = s->observers; o && !r; o = o->next)
		r = o->begin ? o->begin(o, s->engine, e) : 0;
	return r;
}

/* What a process has mapped is reached by the kernel's links to it, too, with that right. */
static int check_files(struct err *e)
{
	struct err why = {0};
	int r = target_files_check(&why);
	if (!r || caps_has(caps_effective("/proc"), CAPS_CHECKPOINT_RESTORE))
		return 0;
	*e = why;
	return r;
}

int session_open(const struct session_opts *o, struct session **out, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	s->o = o;
	s->start_ns = session_now();
	int r = o->depth ? 0 : err_set(e, -EINVAL, "--depth 0 would record nothing");
	if (r)
		err_hint(e, "--depth 1 records the outermost ops, those that Python called");
	r = r ? r : open_filters(s, e);
	r = r ? r : open_observers(s, e);
	r = r ? r : check_engine(s, e);
	r = r ? r : check_files(e);
	if (!r && o->pid)
		session_preload(s, o->pid);
	if (!r)
		r = open_engine(s, e);
	if (!r && (session_begin_decoding(s) || session_begin_devices(s)))
		r = err_set(e, -ENOMEM, "no memory");
	if (r) {
		session_close(s);
		return r;
	}
	*out = s;
	return 0;
}

static void close_observers(struct observer *o)
{
	while (o) {
		struct observer *next = o->next;
		o->close(o);
		o = next;
	}
}

void session_close(struct session *s)
{
	if (!s)
		return;
	close_observers(s->observers);
	session_end_preload(s);
	if (s->engine)
		s->engine->close(s->engine);
	decoder_free(s->decoder);
	launches_free(s->launches);
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		target_close(s->procs[i].target);
		free(s->procs[i].kernels);
	}
	op_table_free(s->ops);
	free(s->sites);
	free(s->kernels);
	for (size_t i = 0; i < s->ntargets; i++)
		session_free_target_info(&s->targets[i]);
	free(s->targets);
	filter_free(&s->ops_filter);
	filter_free(&s->not_filter);
	when_free(s->when);
	free(s);
}
