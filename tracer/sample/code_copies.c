/* Code objects, put together from the records of them. */
#include "tracer/sample/internal.h"

#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decoder.h"

/* More of them miss their ends only if they were freed as they were sent. */
enum { BEGUN_MOST = 256, REGIONS_OF_RECORD = 4 };

struct code_copy {
	pid_t pid;
	uint64_t code, print;
	bool whole;
	uint8_t *records; /* one after the other */
	size_t len, room;
};

static void copies_drop(struct code_copies *c, size_t i)
{
	free(c->copy[i].records);
	c->n--;
	memmove(&c->copy[i], &c->copy[i + 1], (c->n - i) * sizeof(*c->copy));
}

static struct code_copy *copies_find(const struct code_copies *c, const struct hit *h)
{
	for (size_t i = c->n; i--;) {
		struct code_copy *copy = &c->copy[i];
		if (!copy->whole && copy->pid == (pid_t)h->tid && copy->code == h->sp &&
		    copy->print == h->seq)
			return copy;
	}
	return NULL;
}

static bool is_first(const struct hit *h)
{
	struct py_region r;
	return items_regions(h, &r, 1) && r.addr == h->sp;
}

static void drop_oldest_begun(struct code_copies *c)
{
	size_t begun = 0, first = c->n;
	for (size_t i = c->n; i--;) {
		if (c->copy[i].whole)
			continue;
		begun++;
		first = i;
	}
	if (begun > BEGUN_MOST)
		copies_drop(c, first);
}

/* Begin anew: the last one that had the address may have been freed before its end was sent. Those
 * that are whole stay in the order in which they were at their addresses. */
static struct code_copy *begin_copy(struct code_copies *c, const struct hit *h)
{
	struct code_copy *last = copies_find(c, h);
	if (last)
		copies_drop(c, (size_t)(last - c->copy));
	drop_oldest_begun(c);
	if (array_grow(&c->copy, &c->room, c->n + 1, sizeof(*c->copy)))
		return NULL;
	c->copy[c->n] = (struct code_copy){.pid = (pid_t)h->tid, .code = h->sp, .print = h->seq};
	return &c->copy[c->n++];
}

void code_copies_add(struct code_copies *c, const struct hit *h)
{
	struct code_copy *copy = is_first(h) ? begin_copy(c, h) : copies_find(c, h);
	if (!copy)
		return;
	if (array_grow(&copy->records, &copy->room, copy->len + h->size, 1)) {
		copies_drop(c, (size_t)(copy - c->copy));
		return;
	}
	memcpy(copy->records + copy->len, h, h->size);
	copy->len += h->size;
	copy->whole = !(h->flags & HIT_MORE);
}

static void copy_learn(const struct code_copy *copy, struct py_runtime *rt)
{
	struct py_region *r = NULL;
	size_t n = 0, room = 0;
	for (size_t at = 0; at < copy->len;) {
		const struct hit *h = (const struct hit *)(copy->records + at);
		if (array_grow(&r, &room, n + REGIONS_OF_RECORD, sizeof(*r)))
			break;
		n += items_regions(h, r + n, REGIONS_OF_RECORD);
		at += h->size;
	}
	py_code_learn(rt, copy->code, copy->print, r, (unsigned)n);
	free(r);
}

void code_copies_learn(struct code_copies *c, pid_t pid, struct py_runtime *rt)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++) {
		const struct code_copy *copy = &c->copy[i];
		if (copy->pid != pid || (rt && !copy->whole)) {
			c->copy[n++] = *copy;
			continue;
		}
		if (rt)
			copy_learn(copy, rt);
		free(copy->records);
	}
	c->n = n;
}

void code_copies_free(struct code_copies *c)
{
	while (c->n)
		copies_drop(c, c->n - 1);
	free(c->copy);
	*c = (struct code_copies){0};
}
