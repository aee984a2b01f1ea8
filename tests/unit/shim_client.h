/* The shim's side of the socket, for tests of the engine. */
#ifndef TESTS_UNIT_SHIM_CLIENT_H
#define TESTS_UNIT_SHIM_CLIENT_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracer/engine/engine.h"
#include "tracer/engine/shim/shim_share.h"

/* Connect to the engine opened last; -1 on failure. */
static inline int shim_dial(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strncpy(a.sun_path, getenv(SHIM_SOCKET), sizeof(a.sun_path) - 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	close(fd);
	return -1;
}

static inline struct shim_hello shim_greeting(void)
{
	return (struct shim_hello){.version = SHIM_VERSION, .bytes = sizeof(struct shim_share)};
}

/* Argument of follow: counts processes that came (FOLLOW_MAP) and went. */
struct shim_seen {
	struct engine *engine;
	unsigned came, went;
};

/* Trace every new process, as process 0. */
static inline void shim_on_follow(const struct follow_event *ev, void *arg)
{
	static const struct probe_site sites[SHIM_OPS] = {{.op = 0, .kind = SITE_OBSERVED},
							  {.op = 1, .kind = SITE_OBSERVED},
							  {.op = 2, .kind = SITE_OBSERVED},
							  {.op = 3, .kind = SITE_OBSERVED}};
	const struct probe_file file = {.path = "", .sites = sites, .nsites = SHIM_OPS};
	struct shim_seen *seen = arg;
	struct err e = {0};
	seen->came += ev->kind == FOLLOW_MAP;
	seen->went += ev->kind == FOLLOW_EXIT;
	if (ev->kind == FOLLOW_MAP && seen->engine->attach(seen->engine, ev->pid, 0, &file, &e))
		abort();
}

/* Open the engine for processes started from now on. */
static inline int shim_open(struct engine **out)
{
	const struct engine_wanted w = {.choice = ENGINE_SHIM, .nplans = SHIM_OPS, .may_sum = true};
	struct err e = {0};
	return engine_shim_open(&w, out, &e);
}

/* The descriptor that came with the answer, or -1. */
static inline int shim_receive(int fd)
{
	struct shim_answer answer;
	struct iovec iov = {&answer, sizeof(answer)};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	int memory;
	if (recvmsg(fd, &m, MSG_DONTWAIT) != sizeof(answer) || answer.code || !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(memory));
	return memory;
}

/* Map the memory and close the descriptor; NULL on failure. */
static inline struct shim_share *shim_map(int memory)
{
	void *at = mmap(NULL, sizeof(struct shim_share), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, memory, 0);
	close(memory);
	return at == MAP_FAILED ? NULL : at;
}

/* The complete handshake. */
static inline struct shim_share *shim_join(struct shim_seen *seen, int *fd)
{
	const struct shim_hello hello = shim_greeting();
	*fd = shim_dial();
	if (*fd < 0 || send(*fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return NULL;
	seen->engine->follow(seen->engine, shim_on_follow, seen);
	return shim_map(shim_receive(*fd));
}

/* Disconnect; the engine then releases the process. */
static inline void shim_part(struct shim_seen *seen, int fd, struct shim_share *s,
			     engine_hit_fn *fn, void *arg)
{
	enum { ROUNDS = 4 };
	close(fd);
	if (s)
		munmap(s, sizeof(*s));
	for (unsigned i = 0; i < ROUNDS; i++) {
		seen->engine->follow(seen->engine, shim_on_follow, seen);
		seen->engine->consume(seen->engine, fn, arg);
	}
}

#endif
