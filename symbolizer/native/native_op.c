#define _GNU_SOURCE
#include "symbolizer/native/native_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/ops/schema.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"

enum { NAME_MOST = 256 };

struct native_op_name {
	struct native_op_name *next;
	const char *owner, *name;
};

/* The part of `name` between `prefix` and `suffix` into out; false when they do not match or the
 * part contains a scope. */
static bool name_between(const char *name, const char *prefix, const char *suffix, char *out)
{
	size_t p = strlen(prefix), s = strlen(suffix), n = name ? strlen(name) : 0;
	if (n <= p + s || n - p - s >= NAME_MOST || strncmp(name, prefix, p) ||
	    strcmp(name + n - s, suffix))
		return false;
	memcpy(out, name + p, n - p - s);
	out[n - p - s] = '\0';
	return !strchr(out, ':');
}

bool native_op_is(const char *name, size_t len, const char *owner)
{
	static const char aten[] = "aten::";
	size_t n = strlen(owner);
	if (len > sizeof(aten) - 1 && !memcmp(name, aten, sizeof(aten) - 1)) {
		name += sizeof(aten) - 1;
		len -= sizeof(aten) - 1;
	}
	for (size_t i = 0; i < n && n == len; i++)
		if ((name[i] == '.' ? '_' : name[i]) != owner[i])
			return false;
	return n == len;
}

struct search {
	const char *owner;
	char found[NAME_MOST];
	bool several;
};

static int schema_consider(const char *text, size_t len, void *arg)
{
	struct search *q = arg;
	const char *open = memchr(text, '(', len);
	size_t n = open ? (size_t)(open - text) : 0;
	char name[NAME_MOST];
	if (!n || n >= NAME_MOST - 8 || !native_op_is(text, n, q->owner))
		return 0;
	snprintf(name, sizeof(name), "%s%.*s", strncmp(text, "aten::", 6) ? "aten::" : "", (int)n,
		 text);
	q->several |= q->found[0] && strcmp(q->found, name);
	memcpy(q->found, name, sizeof(name));
	return q->several;
}

static void open_library(struct native_ops *o, pid_t pid, const struct maps *maps)
{
	struct libraries l;
	libraries_find(maps, &l);
	int fd = o->opened || !l.torch ? -1 : maps_open(pid, l.torch, NULL);
	o->opened = true;
	if (fd < 0)
		return;
	if (elf_file_open_fd(fd, l.torch->path, &o->elf, NULL))
		o->elf = NULL;
	close(fd);
}

/* A struct name without "_" can have no overload, so it is the schema's name. */
static void op_look_up(struct native_ops *o, const char *owner, char *out)
{
	struct search q = {.owner = owner};
	uint64_t at;
	size_t size;
	const uint8_t *text = o->elf ? elf_section(o->elf, ".rodata", &at, &size) : NULL;
	if (text)
		schema_scan((const char *)text, size, schema_consider, &q);
	if (q.found[0] && !q.several)
		snprintf(out, NAME_MOST + 16, "%s", q.found);
	else
		snprintf(out, NAME_MOST + 16, "%s%s",
			 strchr(owner, '_') ? "at::_ops::" : "aten::", owner);
	if (o->elf)
		elf_file_drop(o->elf);
}

static const char *op_name_of(struct native_ops *o, pid_t pid, const struct maps *maps,
			      const char *owner)
{
	char name[NAME_MOST + 16];
	struct native_op_name *x = o->names;
	while (x && strcmp(x->owner, owner))
		x = x->next;
	if (x)
		return x->name;
	open_library(o, pid, maps);
	op_look_up(o, owner, name);
	x = arena_alloc(&o->arena, sizeof(*x));
	if (!x)
		return NULL;
	x->owner = arena_strndup(&o->arena, owner, strlen(owner));
	x->name = arena_strndup(&o->arena, name, strlen(name));
	x->next = x->owner && x->name ? o->names : NULL;
	if (x->owner && x->name)
		o->names = x;
	return x->name;
}

/* The node whose apply it is, named as in traces: of generated ones the class alone; NULL: none. */
static const char *node_of(struct native_ops *o, const char *function)
{
	char owner[NAME_MOST], name[NAME_MOST + sizeof("torch::autograd::")];
	if (name_between(function, "torch::autograd::generated::", "::apply", owner))
		return arena_strndup(&o->arena, owner, strlen(owner));
	if (!name_between(function, "torch::autograd::", "::apply", owner))
		return NULL;
	snprintf(name, sizeof(name), "torch::autograd::%s", owner);
	return arena_strndup(&o->arena, name, strlen(name));
}

struct in_op native_op_find(struct native_ops *o, pid_t pid, const struct maps *maps,
			    const struct native_frame *frames, unsigned n)
{
	struct in_op in = {0};
	char owner[NAME_MOST];
	for (unsigned i = 0; i < n; i++) {
		const char *name = frames[i].name;
		if (!in.op && !in.node &&
		    (name_between(name, "at::_ops::", "::call", owner) ||
		     name_between(name, "at::_ops::", "::redispatch", owner))) {
			in.op = op_name_of(o, pid, maps, owner);
			in.entry = frames[i].start;
		}
		if (!in.node)
			in.node = node_of(o, name);
		in.backward |= name && !strcmp(name, "torch::autograd::Engine::evaluate_function");
	}
	in.backward |= in.node != NULL;
	return in;
}

void native_ops_free(struct native_ops *o)
{
	elf_file_close(o->elf);
	arena_free(&o->arena);
	*o = (struct native_ops){0};
}
