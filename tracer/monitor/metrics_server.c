/* HTTP, by libmicrohttpd. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "tracer/monitor/monitor.h"

#define OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metrics_server {
	struct MHD_Daemon *daemon;
	metrics_server_fn *fn;
	void *arg;
	char *text; /* NULL: none yet */
	size_t size;
	uint64_t made_ns;
	char url[NI_MAXHOST + NI_MAXSERV + 32];
};

struct place {
	char host[NI_MAXHOST];
	char port[8];
};

static int parse(const char *where, struct place *out, struct err *e)
{
	const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
	size_t len = colon ? (size_t)(colon - where) : 0;
	bool brackets = len > 2 && where[0] == '[' && where[len - 1] == ']';
	uint64_t n = 0;
	int r = !text_number(port, &n) || n > UINT16_MAX || (colon && !len) ||
			len - 2 * brackets >= sizeof(out->host) ||
			(!brackets && strcspn(where, "[]:") < len)
		    ? -EINVAL
		    : 0;
	if (r) {
		err_set(e, r, "--prometheus %s: not a port, nor HOST:PORT", where);
		return err_hint(e,
				"--prometheus 9101, or 0.0.0.0:9101 for all that reach this host");
	}
	snprintf(out->port, sizeof(out->port), "%" PRIu64, n);
	snprintf(out->host, sizeof(out->host), "%.*s", (int)(len ? len - 2 * brackets : 9),
		 len ? where + brackets : "127.0.0.1");
	return 0;
}

int metrics_server_check(const char *where, struct err *e)
{
	struct place p;
	return parse(where, &p, e);
}

static int bind_to(const struct addrinfo *a)
{
	const int on = 1;
	int fd =
	    socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, SOMAXCONN))
		return fd;
	int r = -errno;
	close(fd);
	return r;
}

static int no_place(const struct place *p, int r, struct err *e)
{
	err_set(e, r, "cannot listen on %s, port %s: %s", p->host, p->port, strerror(-r));
	if (r == -EADDRINUSE)
		return err_hint(e,
				"name another port, or 0 for any that is free; who has it: "
				"ss -ltnp sport = :%s",
				p->port);
	if (r == -EADDRNOTAVAIL)
		return err_hint(e, "name an address of this host: ip address");
	return err_hint(e, "name a port of 1024 or more, as others are root's");
}

/* A socket that listens, or -errno. */
static int listen_at(const struct place *p, struct err *e)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *all;
	int fd = -EADDRNOTAVAIL, r = getaddrinfo(p->host, p->port, &hints, &all);
	if (r) {
		err_set(e, -ENOENT, "--prometheus: no host %s: %s", p->host, gai_strerror(r));
		return err_hint(e, "name an address of this host, such as 0.0.0.0: all of them");
	}
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
		fd = bind_to(a);
	freeaddrinfo(all);
	return fd < 0 ? no_place(p, fd, e) : fd;
}

static void find_url(struct metrics_server *s, int fd, const struct place *p)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);
	char host[NI_MAXHOST], port[NI_MAXSERV];
	if (getsockname(fd, (struct sockaddr *)&at, &size) ||
	    getnameinfo((struct sockaddr *)&at, size, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(host, sizeof(host), "%s", p->host);
		snprintf(port, sizeof(port), "%s", p->port);
	}
	bool v6 = strchr(host, ':');
	snprintf(s->url, sizeof(s->url), "http://%s%s%s:%s/metrics", v6 ? "[" : "", host,
		 v6 ? "]" : "", port);
}

/* Who asks more often has the same text: what is asked for by many must not hold up tracing. */
static int refresh(struct metrics_server *s)
{
	enum { FRESH_NS = 100000000 };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	char *text = NULL;
	size_t size = 0;
	if (s->text && now - s->made_ns < FRESH_NS)
		return 0;
	FILE *f = open_memstream(&text, &size);
	int r = f ? s->fn(s->arg, f) : -errno;
	if (f && fclose(f) && !r)
		r = -errno;
	if (r) {
		free(text);
		return r;
	}
	free(s->text);
	s->text = text;
	s->size = size;
	s->made_ns = now;
	return 0;
}

static enum MHD_Result respond(struct MHD_Connection *c, unsigned status, const char *type,
			       const char *text, size_t size)
{
	struct MHD_Response *r =
	    MHD_create_response_from_buffer(size, (void *)text, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	enum MHD_Result done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *text)
{
	return respond(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	struct metrics_server *s = arg;
	(void)version, (void)data, (void)size, (void)state;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (strcmp(url, "/metrics"))
		return say(c, MHD_HTTP_NOT_FOUND, "ditrace: see /metrics\n");
	if (refresh(s))
		return say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
	return respond(c, MHD_HTTP_OK, OPENMETRICS, s->text, s->size);
}

int metrics_server_open(const char *where, metrics_server_fn *text, void *arg,
			struct metrics_server **out, struct err *e)
{
	enum { CONNECTIONS = 32, TIMEOUT_S = 10, EACH_BYTES = 16 << 10 };
	struct place p;
	int r = parse(where, &p, e);
	int fd = r ? r : listen_at(&p, e);
	if (fd < 0)
		return fd;
	struct metrics_server *s = calloc(1, sizeof(*s));
	if (s) {
		*s = (struct metrics_server){.fn = text, .arg = arg};
		find_url(s, fd, &p);
		/* With epoll, as descriptors may be too large for select(2). */
		s->daemon = MHD_start_daemon(
		    MHD_USE_EPOLL, 0, NULL, NULL, answer, s, MHD_OPTION_LISTEN_SOCKET, fd,
		    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
		    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
		    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)EACH_BYTES, MHD_OPTION_END);
	}
	if (!s || !s->daemon) {
		free(s);
		close(fd);
		return err_set(e, -ENOMEM, "cannot serve %s: no memory", where);
	}
	*out = s;
	return 0;
}

const char *metrics_server_url(const struct metrics_server *s)
{
	return s->url;
}

void metrics_server_turn(struct metrics_server *s)
{
	MHD_run(s->daemon);
}

void metrics_server_close(struct metrics_server *s)
{
	if (!s)
		return;
	MHD_stop_daemon(s->daemon);
	free(s->text);
	free(s);
}
