/* The messages of the library in a process, and the answers. */
#define _GNU_SOURCE
#include "tracer/intervene/intervene.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "replay/replay.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/intervene/internal.h"

/* [[first, last], ..] */
static json_t *numbers_of(const struct ranges *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->n; i++) {
		uint64_t last = r->list[i].last < INT64_MAX ? r->list[i].last : INT64_MAX;
		json_array_append_new(
		    list, json_pack("[I, I]", (json_int_t)r->list[i].first, (json_int_t)last));
	}
	return list;
}

static json_t *settings(const struct intervene_rules *r)
{
	json_t *features = json_array();
	for (int i = 0; i < INTERVENE_FEATURES; i++)
		if (r->rule[i].on)
			json_array_append_new(features, json_string(intervene_names[i]));
	return json_pack("{so sO? ss? sI sI sI so sI sf ss sb sb so}", "features", features,
			 "casts", r->casts, "cast_text", r->cast_text, "sample",
			 (json_int_t)r->sample, "captures", (json_int_t)r->captures, "max_calls",
			 (json_int_t)r->max_calls, "nth", numbers_of(&r->nth), "pick",
			 (json_int_t)r->pick, "budget", r->budget, "level",
			 r->is_aten ? "aten" : "torch", "hold", r->holds, "stacks", r->stacks,
			 "functions", intervene_rules_functions(r));
}

static json_t *features_of(const struct intervene_rules *r, json_t *m)
{
	json_t *list = json_array(), *when = json_array();
	const char *name = json_text_of(m, "name"), *base = json_text_of(m, "base");
	for (int i = 0; i < INTERVENE_FEATURES; i++) {
		enum intervene_applied applied = intervene_rules_choose(r, i, name, base)
						     ? APPLIED_ALWAYS
						     : intervene_rules_apply(r, i, name, base);
		if (applied == APPLIED_NOT)
			continue;
		json_array_append_new(list, json_string(intervene_names[i]));
		if (applied == APPLIED_WHEN)
			json_array_append_new(when, json_string(intervene_names[i]));
	}
	return json_pack("{so so sO?}", "features", list, "when", when, "casts",
			 intervene_rules_op_casts(r, base));
}

/* Whether a condition holds for a call; null when that is not known. */
static json_t *does_hold(const struct intervene_rules *r, json_t *m)
{
	enum when_result w =
	    intervene_rules_hold(r, json_text_of(m, "feature"), json_text_of(m, "name"),
				 json_text_of(m, "base"), json_object_get(m, "args"));
	return json_pack("{so}", "holds",
			 w == WHEN_TRUE	   ? json_true()
			 : w == WHEN_FALSE ? json_false()
					   : json_null());
}

/* Handle a message of a call that is being judged. */
static int judge(struct intervene *v, struct intervene_peer *p, json_t *m, const char *event)
{
	if (!strcmp(event, "op"))
		return intervene_compare_op(&v->compare, &p->call, m);
	if (!strcmp(event, "judged"))
		return intervene_compare_end(&v->compare, &p->call);
	int r = intervene_compare_row(&v->compare, &p->call, m, &p->link);
	if (r || strcmp(event, "tensor") != 0)
		return r;
	return worker_send(&p->link, json_pack("{sb}", "go", 1));
}

static int save(struct intervene *v, struct intervene_peer *p, json_t *m)
{
	int r = intervene_save(&v->save, m, &p->link, p->pid, &p->save_failed);
	return r ? r
		 : worker_send(&p->link, json_pack("{sb sb}", "go", 1, "saved", !p->save_failed));
}

static bool is_judged(const char *event)
{
	static const char *const events[] = {"op", "tensor", "value", "mismatch", "skip", "judged"};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (!strcmp(event, events[i]))
			return true;
	return false;
}

static json_t *status_of(const struct intervene *v)
{
	struct intervene_totals all = {0};
	json_t *status = intervene_ctl_status(v->rules), *threads;
	for (unsigned i = 0; i < v->npeers; i++)
		intervene_totals_unseen(&all, NULL, v->peers[i]->threads);
	threads = intervene_totals_threads(&all);
	if (threads)
		json_object_set_new(status, CTL_THREADS, threads);
	intervene_totals_free(&all);
	return status;
}

/* Carry out an order of `ditrace ctl`. */
static json_t *obey(struct intervene *v, json_t *m)
{
	enum { WORDS = 4 };
	const char *words[WORDS];
	struct err e = {0};
	json_t *list = json_object_get(m, "words");
	size_t n = json_array_size(list);
	for (size_t i = 0; i < n && i < WORDS; i++)
		words[i] = json_text_at(list, i);
	int r = intervene_ctl(v->rules, words, n < WORDS ? n : WORDS, &e);
	if (r > 0)
		atomic_fetch_add(&v->control->generation, 1);
	json_t *status = status_of(v);
	return r < 0 ? json_pack("{ss ss so}", "error", e.what, "hint", e.hint, "status", status)
		     : json_pack("{so}", "status", status);
}

static void take_spent(struct intervene_peer *p, json_t *pair)
{
	p->spent_ns = json_number_value(json_array_get(pair, 0));
	p->passed_ns = json_number_value(json_array_get(pair, 1));
}

/* --first-nan is done: programs run on unmeasured. */
static void stop_looking(struct intervene *v)
{
	intervene_found_over(&v->found, v->rules->holds);
	v->rules->rule[INTERVENE_FIRST_NAN].on = false;
	atomic_fetch_add(&v->control->generation, 1);
}

/* A process has the modes. The first tells, at its import of PyTorch, what of the options it does
 * not have. */
static void know_names(struct intervene *v, const struct intervene_peer *p, json_t *names)
{
	struct err e = {0};
	bool first = !v->rules->names;
	v->began_ns = v->began_ns ? v->began_ns : clock_ns(CLOCK_MONOTONIC);
	json_decref(v->rules->names);
	v->rules->names = json_incref(names);
	if (!first || !intervene_names_check(v->rules, &e))
		return;
	err_print(&e);
	v->refused = true;
	if (!v->entered && !v->rules->keep_going)
		spawn_end_refused(p->pid);
}

bool intervene_handle(struct intervene *v, struct intervene_peer *p, json_t *m)
{
	const char *event = json_text_of(m, "event");
	if (!strcmp(event, "hello")) {
		v->greeted += !p->greeted;
		p->greeted = true;
		return !worker_send(&p->link, settings(v->rules));
	}
	if (!strcmp(event, "ctl"))
		return !worker_send(&p->link, obey(v, m));
	if (!strcmp(event, "settings"))
		return !worker_send(&p->link, settings(v->rules));
	if (!strcmp(event, "name"))
		return !worker_send(&p->link, features_of(v->rules, m));
	if (!strcmp(event, "facts"))
		return !worker_send(&p->link, does_hold(v->rules, m));
	if (!strcmp(event, "names")) {
		know_names(v, p, json_object_get(m, "names"));
		return true;
	}
	if (!strcmp(event, "compared"))
		return !intervene_compare_silent(&v->compare, json_object_get(m, "calls"));
	if (!strcmp(event, "timed"))
		return !intervene_times_add(&v->times, m);
	if (!strcmp(event, "save"))
		return !save(v, p, m);
	if (!strcmp(event, "found"))
		return !worker_send(
		    &p->link, json_pack("{sb}", "first", intervene_found_op(&v->found, m, p->pid)));
	if (!strcmp(event, "over") && v->found.pid == p->pid)
		stop_looking(v);
	else if (!strcmp(event, "passed"))
		intervene_found_passed(&v->found, m);
	else if (!strcmp(event, "tables"))
		intervene_tables_print(stderr, m, NULL);
	else if (!strcmp(event, "totals")) {
		json_decref(p->totals);
		p->totals = json_incref(json_object_get(m, "totals"));
		take_spent(p, json_object_get(m, "spent"));
		json_decref(p->unseen);
		p->unseen = json_incref(json_object_get(m, "unseen"));
		json_decref(p->threads);
		p->threads = json_incref(json_object_get(m, "threads"));
	} else
		return is_judged(event) && !judge(v, p, m, event);
	return true;
}
