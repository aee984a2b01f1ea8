#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/proc/spawn.h"

struct jumps {
	int sock;
	pid_t helper;
	uint8_t *state; /* of the sites of the last jumps_add, in its order */
	uint32_t n;
};

int jumps_open(struct jumps **out)
{
	struct jumps *j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->helper = helper_start(jumps_serve, NULL, &j->sock);
	if (j->helper < 0) {
		int r = j->helper;
		free(j);
		return r;
	}
	*out = j;
	return 0;
}

pid_t jumps_helper(const struct jumps *j)
{
	return j->helper;
}

/* The sites by ascending address. */
struct sorted {
	struct jump_site *site;
	uint32_t *was; /* its place in the caller's array */
};

static int by_address(const void *a, const void *b, void *sites)
{
	const struct jump_site *s = sites;
	uint64_t x = s[*(const uint32_t *)a].addr, y = s[*(const uint32_t *)b].addr;
	return x < y ? -1 : x > y;
}

static int sort(const struct jump_site *sites, uint32_t n, struct sorted *out)
{
	*out = (struct sorted){calloc(n, sizeof(*out->site)), calloc(n, sizeof(*out->was))};
	if (!out->site || !out->was)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		out->was[i] = i;
	qsort_r(out->was, n, sizeof(*out->was), by_address, (void *)sites);
	for (uint32_t i = 0; i < n; i++)
		out->site[i] = sites[out->was[i]];
	return 0;
}

static bool part_is_sound(const struct jump_part *p)
{
	enum { MOST = 64 << 20, PAGE = 4096 };
	return p->addr && p->len > JUMP_POOL_HEAD && p->len <= MOST && !(p->addr % PAGE) &&
	       !(p->len % PAGE) && p->addr < INT64_MAX - MOST;
}

static bool site_is_sound(const struct jump_site *s)
{
	return s->len >= ARCH_JUMP_LEN && s->len <= JUMP_WINDOW_MAX && s->handler &&
	       s->number <= INT32_MAX && s->addr < UINT64_C(1) << 56;
}

static int check_pool(const struct jump_pool *p, struct err *e)
{
	for (uint64_t i = 0; i < p->n && i < JUMP_PARTS; i++)
		if (!part_is_sound(&p->part[i]))
			return err_set(e, -EINVAL, "no memory for jumps at %#lx, %lu bytes",
				       (unsigned long)p->part[i].addr,
				       (unsigned long)p->part[i].len);
	return p->n && p->n <= JUMP_PARTS ? 0 : err_set(e, -EINVAL, "no memory for jumps");
}

static int check(const struct jump_pool *p, const struct sorted *s, uint32_t n, struct err *e)
{
	int r = check_pool(p, e);
	if (r)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		const struct jump_site *a = &s->site[i];
		if (!site_is_sound(a) || (i && a[-1].addr + a[-1].len > a->addr))
			return err_set(e, -EINVAL, "no jump fits %u bytes at %#lx", a->len,
				       (unsigned long)a->addr);
	}
	return 0;
}

static bool receive(const struct jumps *j, void *buf, size_t n)
{
	return helper_answer(j->sock, j->helper, buf, n);
}

static void keep_states(struct jumps *j, uint8_t *state, uint32_t n, struct jumps_done *done)
{
	uint32_t count[JUMP_NO_ROOM + 1] = {0};
	free(j->state);
	j->state = state;
	j->n = n;
	for (uint32_t i = 0; i < n; i++)
		count[state[i]]++;
	done->written = count[JUMP_WRITTEN];
	done->foreign = count[JUMP_FOREIGN];
	done->busy = count[JUMP_BUSY];
	done->split = count[JUMP_SPLIT];
	done->no_room = count[JUMP_NO_ROOM];
}

/* What is known of one jumps_add. */
struct asking {
	struct sorted sites;
	uint32_t n;
	uint8_t *sent, *state; /* in the order that was sent, in the caller's */
};

static void asking_free(struct asking *a)
{
	free(a->sites.site);
	free(a->sites.was);
	free(a->sent);
	free(a->state);
}

static int asking_begin(struct asking *a, const struct jump_site *sites, uint32_t n)
{
	*a = (struct asking){.n = n, .sent = malloc(n), .state = malloc(n)};
	return a->sent && a->state ? sort(sites, n, &a->sites) : -ENOMEM;
}

static int ask(struct jumps *j, pid_t pid, const struct jump_pool *pool, struct asking *x,
	       struct jumps_done *done, struct err *e)
{
	const struct jump_request q = {.pid = pid, .n = x->n, .pool = *pool};
	struct jump_answer a;
	if (!helper_send(j->sock, &q, sizeof(q)) ||
	    !helper_send(j->sock, x->sites.site, x->n * sizeof(*x->sites.site)) ||
	    !receive(j, &a, sizeof(a)) || (!a.result && !receive(j, x->sent, x->n)))
		return err_set(e, -ECHILD, "the process that writes jumps has ended");
	done->stood_ns = a.stood_ns;
	if (a.result && e)
		*e = a.e;
	for (uint32_t i = 0; i < x->n && !a.result; i++)
		x->state[x->sites.was[i]] = x->sent[i] <= JUMP_NO_ROOM ? x->sent[i] : JUMP_NONE;
	return a.result;
}

int jumps_add(struct jumps *j, pid_t pid, const struct jump_pool *pool,
	      const struct jump_site *sites, uint32_t n, struct jumps_done *done, struct err *e)
{
	struct asking a;
	*done = (struct jumps_done){0};
	if (!n)
		return 0;
	int r = asking_begin(&a, sites, n);
	r = r ? err_set(e, r, "no memory") : check(pool, &a.sites, n, e);
	r = r ? r : ask(j, pid, pool, &a, done, e);
	if (!r) {
		keep_states(j, a.state, n, done);
		a.state = NULL;
	}
	asking_free(&a);
	return r;
}

enum jump_state jumps_state(const struct jumps *j, uint32_t i)
{
	return i < j->n ? (enum jump_state)j->state[i] : JUMP_NONE;
}

int jumps_remove(struct jumps *j, pid_t pid)
{
	const struct jump_request q = {.remove = true, .pid = pid};
	struct jump_answer a;
	if (!helper_send(j->sock, &q, sizeof(q)) || !receive(j, &a, sizeof(a)))
		return -ECHILD;
	return a.result;
}

bool jumps_alive(const struct jumps *j)
{
	char c;
	ssize_t n = recv(j->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void jumps_close(struct jumps *j)
{
	if (!j)
		return;
	shutdown(j->sock, SHUT_RDWR); /* a child that has not called exec yet may have it, too */
	close(j->sock);
	kill(j->helper, SIGCONT); /* somebody may have stopped it */
	while (waitpid(j->helper, NULL, 0) < 0 && errno == EINTR)
		;
	free(j->state);
	free(j);
}
