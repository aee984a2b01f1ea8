#include "tracer/trace_loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/system.h"

enum { STRAYS = 64, LATER_NS = 200 * 1000 * 1000 };

struct strays {
	struct {
		pid_t pid;
		uint64_t due;
	} list[STRAYS];
	unsigned n;
	bool told;
};

void strays_see(struct strays **strays, struct session *session, pid_t pid)
{
	struct strays *s = *strays;
	if (!session_is_stray(session, pid))
		return;
	s = s ? s : calloc(1, sizeof(*s));
	*strays = s;
	if (!s || s->n == STRAYS)
		return;
	for (unsigned i = 0; i < s->n; i++)
		if (s->list[i].pid == pid)
			return;
	s->list[s->n].pid = pid;
	s->list[s->n++].due = clock_ns(CLOCK_MONOTONIC) + LATER_NS;
}

static void enter(struct strays *s, struct session *session, pid_t pid, struct err *e)
{
	struct err why = {0};
	if (!session_is_stray(session, pid))
		return;
	session_expect(session, pid);
	int r = session_add(session, pid, &why);
	if (r == -ESRCH || r == -ENODATA || e->code)
		return;
	if (r) {
		*e = why;
	} else if (!s->told) {
		s->told = true;
		err_set(e, -ENODATA,
			"process %d was started without ditrace's library, which is loaded into it "
			"now: first ops may be missing",
			pid);
		err_hint(e, "--engine bpf, as root, sees them");
	}
}

void strays_enter(struct strays *s, struct session *session, struct err *e)
{
	for (unsigned i = 0; s && i < s->n;) {
		pid_t pid = s->list[i].pid;
		if (clock_ns(CLOCK_MONOTONIC) < s->list[i].due) {
			i++;
			continue;
		}
		s->list[i] = s->list[--s->n];
		enter(s, session, pid, e);
	}
}

void strays_free(struct strays *s)
{
	free(s);
}
