/* What a program says of itself is printed as text, whatever it is, and none is waited for. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <sys/un.h>

#include "tracer/intervene/intervene.c"

static FILE *own;
static char *text;
static size_t len;

static void hear_all(void)
{
	own = stderr;
	stderr = open_memstream(&text, &len);
	assert_non_null(stderr);
}

/* Whether `wanted` was printed since, and no control character but ends of lines. */
static void heard(const char *wanted)
{
	fclose(stderr);
	stderr = own;
	bool has = strstr(text, wanted), safe = true;
	for (const char *s = text; *s; s++)
		safe &= *s == '\n' || (unsigned char)*s >= ' ';
	if (!has || !safe)
		fail_msg("%s", text);
	free(text);
}

static json_t *said(const char *json)
{
	json_t *m = json_loads(json, 0, NULL);
	assert_non_null(m);
	return m;
}

static void totals(void **state)
{
	static const struct intervene_rules rules;
	static const struct intervene_compare compare;
	struct intervene_totals t = {0};
	json_t *unseen = said("[[\"\\u001b[2Jcompiled function\", 2]]"),
	       *threads = said("[[\"\\u001b]0;x\\u0007\", 1]]");
	(void)state;
	intervene_totals_unseen(&t, unseen, threads);
	hear_all();
	intervene_totals_print(&t, &rules, &compare);
	heard("2 \\x1b[2Jcompiled functions");
	intervene_totals_free(&t);
	json_decref(unseen);
	json_decref(threads);
}

static void failures(void **state)
{
	struct intervene_compare c = {0};
	struct intervene_call call = {0};
	json_t *op = said("{\"name\": \"torch.add\", \"where\": [\"a.py\", 3, \"f\"], \"id\": 7}"),
	       *row = said(
		   "{\"event\": \"mismatch\", \"role\": \"output\", \"index\": \"\\u001b[1m\", "
		   "\"dtype\": \"\\u001b[2m\", \"device\": \"\\u001b[3m\"}");
	(void)state;
	hear_all();
	assert_int_equal(intervene_compare_op(&c, &call, op), 0);
	assert_int_equal(intervene_compare_row(&c, &call, row, NULL), 0);
	assert_int_equal(intervene_compare_end(&c, &call), 0);
	heard("forward_id: 7  \\x1b[2m, \\x1b[3m\n  result \\x1b[1m: ");
	intervene_compare_free(&c);
	json_decref(op);
	json_decref(row);
}

/* The texts of a backward that came with the forward are replaced. */
static void times(void **state)
{
	struct intervene_times t = {0};
	json_t *forward = said("{\"name\": \"f\", \"where\": \"\", \"id\": 1, \"forward\": [3], "
			       "\"grad_inputs\": \"early\"}"),
	       *backward = said("{\"name\": \"f\", \"where\": \"\", \"id\": 1, \"backward\": [4], "
				"\"grad_inputs\": \"late\"}");
	(void)state;
	assert_int_equal(intervene_times_add(&t, forward), 0);
	assert_int_equal(intervene_times_add(&t, backward), 0);
	assert_string_equal(t.calls.list[0].texts[2], "late");
	intervene_times_free(&t);
	json_decref(forward);
	json_decref(backward);
}

/* A tensor that no memory has room for. */
static void facts(void **state)
{
	struct arena a = {0};
	struct op_event ev;
	json_t *args =
	    said("[[\"self\", {\"tensor\": {\"shape\": [4294967296, 4294967296], \"dtype\": "
		 "\"int8\", \"device\": \"cpu\", \"layout\": \"strided\"}}]]");
	(void)state;
	assert_int_equal(intervene_facts("torch.add", args, &a, &ev), -EPROTO);
	arena_free(&a);
	json_decref(args);
}

/* A program that asks and asks, and reads no answer, is dropped; ditrace goes on. */
static void deaf(void **state)
{
	static const char question[] = "{\"event\": \"settings\"}\n";
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct shim_listener listener = {.sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct intervene_rules rules;
	struct intervene v = {.rules = &rules, .listener = &listener, .shared = worker_arena()};
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(a);
	(void)state;
	assert_int_equal(intervene_rules_read(&(struct intervene_opts){0}, &rules, NULL), 0);
	/* an address that the kernel chooses: unix(7), autobind */
	assert_int_equal(bind(listener.sock, (struct sockaddr *)&a, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(listener.sock, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(listen(listener.sock, 1), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&a, size), 0);
	intervene_step(&v, -1);
	assert_int_equal(v.npeers, 1);
	while (v.npeers) {
		while (send(client, question, sizeof(question) - 1, MSG_NOSIGNAL) > 0)
			;
		intervene_step(&v, -1);
	}
	intervene_rules_free(&rules);
	close(client);
	close(listener.sock);
	close(v.shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(totals), cmocka_unit_test(failures),
					   cmocka_unit_test(times), cmocka_unit_test(facts),
					   cmocka_unit_test(deaf)};
	return unit_run(tests, NULL, NULL);
}
