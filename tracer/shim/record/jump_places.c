/* Where in a process nothing is mapped, as /proc/PID/maps (proc(5)) says. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"

/* A smaller place has hardly room for more than the head of a part. */
enum { PAGE = 4096, LEAST = 4 * PAGE, LINE = 512 };

struct places {
	uint64_t low, high;   /* of the library */
	uint64_t from, to;    /* within reach */
	uint64_t len;	      /* wanted */
	uint64_t end;	      /* of the last mapping; 0: there is nothing to be had behind it */
	uint64_t stack;	      /* what the main thread's stack may take, with room to spare */
	struct jump_pool out; /* the best ones */
};

static uint64_t place_distance(const struct places *p, const struct jump_part *a)
{
	return a->addr >= p->high ? a->addr - p->high : p->low - a->addr;
}

static bool place_is_better(const struct places *p, const struct jump_part *a,
			    const struct jump_part *b)
{
	return a->len != b->len ? a->len > b->len : place_distance(p, a) < place_distance(p, b);
}

static void places_add(struct places *p, const struct jump_part *a)
{
	struct jump_pool *out = &p->out;
	uint64_t at = 0;
	while (at < out->n && !place_is_better(p, a, &out->part[at]))
		at++;
	if (at == JUMP_PARTS)
		return;
	out->n += out->n < JUMP_PARTS;
	memmove(&out->part[at + 1], &out->part[at], (out->n - 1 - at) * sizeof(*a));
	out->part[at] = *a;
}

/* Nothing is mapped between these addresses: what of it is nearest to the library. */
static void places_gap(struct places *p, uint64_t from, uint64_t to)
{
	const bool above = from >= p->high;
	from = from > p->from ? from : p->from;
	to = to < p->to ? to : p->to;
	if (from >= to || to - from < LEAST)
		return;
	uint64_t len = to - from < p->len ? to - from : p->len;
	places_add(p, &(struct jump_part){above ? from : to - len, len});
}

/* The main thread's stack grows down to where the kernel maps libraries, which is further below it
 * than its limit (Linux, mm/util.c, mmap_base); and what malloc has from brk(2) grows up. */
static void places_line(struct places *p, const char *line)
{
	char *s;
	const uint64_t start = strtoull(line, &s, 16);
	const uint64_t end = *s == '-' ? strtoull(s + 1, &s, 16) : 0;
	const uint64_t room = strstr(s, "[stack]") ? p->stack : 0;
	if (p->end && start > p->end && start - p->end > room)
		places_gap(p, p->end, start - room);
	p->end = strstr(s, "[heap]") ? 0 : end;
}

/* Lines that are longer than `line` are those of files. */
static void places_read(struct places *p, int maps)
{
	char buf[PAGE], line[LINE];
	size_t len = 0;
	ssize_t n;
	while ((n = read(maps, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != '\n' && len < sizeof(line) - 1) {
				line[len++] = buf[i];
			} else if (buf[i] == '\n') {
				line[len] = 0;
				places_line(p, line);
				len = 0;
			}
		}
}

static uint64_t stack_room(void)
{
	const uint64_t spare = UINT64_C(1) << 30;
	struct rlimit l;
	return getrlimit(RLIMIT_STACK, &l) || l.rlim_cur >= RLIM_INFINITY - spare
		   ? UINT64_MAX
		   : l.rlim_cur + spare;
}

struct jump_pool jump_places(int maps, uint64_t low, uint64_t high, uint64_t len)
{
	const uint64_t reach = (UINT64_C(1) << 31) - PAGE;
	struct places p = {.low = low, .high = high, .len = len, .stack = stack_room()};
	p.from = high > reach ? high - reach : PAGE;
	p.to = low + reach;
	places_read(&p, maps);
	return p.out;
}
