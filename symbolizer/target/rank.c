#define _GNU_SOURCE
#include "symbolizer/target/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"

enum { ENVIRON_MAX = 1 << 20 };

/* The value of the first variable of that name, as libc's getenv; NULL: none. */
static const char *value_of(const char *environ, size_t size, const char *name)
{
	size_t len = strlen(name);
	for (const char *s = environ, *end = environ + size; s < end;) {
		size_t n = strnlen(s, (size_t)(end - s));
		if (s + n == end)
			return NULL; /* cut */
		if (n > len && s[len] == '=' && !memcmp(s, name, len))
			return s + len + 1;
		s += n + 1;
	}
	return NULL;
}

static int32_t number_of(const char *environ, size_t size, const char *name)
{
	uint64_t n;
	const char *text = value_of(environ, size, name);
	return text && text_number(text, &n) && n < INT32_MAX ? (int32_t)n : -1;
}

void process_rank_parse(const char *environ, size_t size, struct process_rank *out)
{
	*out = (struct process_rank){
	    .rank = number_of(environ, size, "RANK"),
	    .world_size = number_of(environ, size, "WORLD_SIZE"),
	    .local_rank = number_of(environ, size, "LOCAL_RANK"),
	    .node = number_of(environ, size, "GROUP_RANK"),
	    .restarts = number_of(environ, size, "TORCHELASTIC_RESTART_COUNT"),
	};
	if (out->rank < 0 || out->rank >= out->world_size)
		out->rank = out->world_size = out->local_rank = out->node = out->restarts = -1;
}

/* The name of the host, if the process is not in a UTS namespace of its own, as in a container;
 * there the HOSTNAME that container engines set. */
static void find_host(pid_t pid, const char *environ, size_t size, char *out, size_t room)
{
	char path[64], theirs[64] = "", ours[64] = "";
	struct utsname u;
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", pid);
	ssize_t n = readlink(path, theirs, sizeof(theirs) - 1);
	ssize_t m = readlink("/proc/self/ns/uts", ours, sizeof(ours) - 1);
	const char *name = value_of(environ, size, "HOSTNAME");
	if (n > 0 && m > 0 && !strcmp(theirs, ours) && !uname(&u))
		name = u.nodename;
	snprintf(out, room, "%.63s", name ? name : "");
	text_drop_part(out);
}

void process_rank_read(pid_t pid, struct process_rank *out)
{
	char *environ = malloc(ENVIRON_MAX);
	ssize_t n = environ ? process_file(pid, "environ", environ, ENVIRON_MAX) : 0;
	size_t size = n > 0 ? (size_t)n : 0;
	process_rank_parse(environ, size, out);
	find_host(pid, environ, size, out->host, sizeof(out->host));
	free(environ);
}

bool process_rank_same(const struct process_rank *a, const struct process_rank *b)
{
	return a->rank >= 0 && a->rank == b->rank && a->world_size == b->world_size &&
	       a->local_rank == b->local_rank && a->node == b->node && a->restarts == b->restarts;
}
