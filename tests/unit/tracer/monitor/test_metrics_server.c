#include "tests/unit/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tracer/monitor/monitor.h"

static int write_text(void *arg, FILE *f)
{
	return fputs(arg, f) < 0 ? -EIO : 0;
}

static void places_are_checked(void **state)
{
	(void)state;
	static const char *const good[] = {
	    "0", "9101", "localhost:9101", "0.0.0.0:1", "[::1]:9101", "[::]:65535", "node7.lan:80"};
	static const char *const bad[] = {"",	      ":9101", "65536", "-1",	   "host",  "host:",
					  "::1:9101", "[::1]", "1:2:3", "[]:9101", "9101 ", "0x10"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(metrics_server_check(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};
		if (metrics_server_check(bad[i], &e) != -EINVAL)
			fail_msg("taken for a place: %s", bad[i]);
		assert_true(e.hint[0]);
	}
}

static int connect_to(const struct metrics_server *s)
{
	int port, fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(sscanf(metrics_server_url(s), "http://127.0.0.1:%d/metrics", &port), 1);
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* What comes until the connection ends, while the server is called. */
static const char *ask(struct metrics_server *s, const char *line)
{
	static char answer[4096];
	size_t len = 0;
	ssize_t n;
	int fd = connect_to(s);
	assert_int_equal(write(fd, line, strlen(line)), strlen(line));
	do {
		metrics_server_turn(s);
		n = recv(fd, answer + len, sizeof(answer) - 1 - len, MSG_DONTWAIT);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	close(fd);
	answer[len] = '\0';
	return answer;
}

static void it_answers(void **state)
{
	(void)state;
	struct metrics_server *s, *other;
	struct err e = {0};
	char text[] = "mine 1\n# EOF\n", port[64];
	assert_int_equal(metrics_server_open("0", write_text, text, &s, &e), 0);
	const char *answer = ask(s, "GET /metrics HTTP/1.0\r\n\r\n");
	assert_memory_equal(answer, "HTTP/1.1 200 OK\r\n", 17);
	assert_non_null(strstr(answer,
			       "\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
			       "charset=utf-8\r\n"));
	assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\nmine 1\n# EOF\n");
	answer = ask(s, "HEAD /metrics HTTP/1.0\r\n\r\n");
	assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
	assert_memory_equal(ask(s, "GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 404 ", 13);
	assert_memory_equal(ask(s, "POST /metrics HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
			    "HTTP/1.1 405 ", 13);
	assert_memory_equal(ask(s, "no HTTP\r\n\r\n"), "HTTP/1.", 7);
	snprintf(port, sizeof(port), "%s", strrchr(metrics_server_url(s), ':') + 1);
	*strchr(port, '/') = '\0';
	assert_int_equal(metrics_server_open(port, write_text, text, &other, &e), -EADDRINUSE);
	assert_non_null(strstr(e.what, port));
	assert_non_null(strstr(e.hint, "another port"));
	metrics_server_close(s);
}

static void other_places_are_refused(void **state)
{
	(void)state;
	struct metrics_server *s;
	struct err e = {0};
	assert_int_equal(metrics_server_open("192.0.2.1:0", write_text, NULL, &s, &e),
			 -EADDRNOTAVAIL);
	assert_non_null(strstr(e.hint, "address"));
	assert_int_equal(metrics_server_open("no-such-host.invalid:0", write_text, NULL, &s, &e),
			 -ENOENT);
	assert_non_null(strstr(e.what, "no-such-host.invalid"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(places_are_checked),
	    cmocka_unit_test(it_answers),
	    cmocka_unit_test(other_places_are_refused),
	};
	return unit_run(tests, NULL, NULL);
}
