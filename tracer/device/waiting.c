#include <stdlib.h>

#include "base/arena.h"
#include "tracer/device/internal.h"

static int compare_waiting(const void *a, const void *b)
{
	const struct waiting_launch *x = a, *y = b;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void waiting_compact(struct waiting *w)
{
	size_t n = 0;
	for (size_t i = w->first; i < w->n; i++)
		if (w->at[i].launch != NO_LAUNCH)
			w->at[n++] = w->at[i];
	w->first = 0;
	w->n = n;
}

static void waiting_sort(struct waiting *w)
{
	if (!w->unsorted)
		return;
	waiting_compact(w);
	qsort(w->at, w->n, sizeof(*w->at), compare_waiting);
	w->unsorted = false;
}

void waiting_trim(struct waiting *w)
{
	enum { FEW = 1024 };
	waiting_sort(w);
	while (w->first < w->n && w->at[w->first].launch == NO_LAUNCH)
		w->first++;
	if (w->first == w->n)
		w->first = w->n = 0;
	if (w->n > FEW && w->live < w->n / 2)
		waiting_compact(w);
}

bool waiting_add(struct waiting *w, uint64_t ns, uint32_t launch)
{
	if (array_grow(&w->at, &w->room, w->n + 1, sizeof(*w->at)))
		return false;
	w->unsorted |= w->n > w->first && w->at[w->n - 1].ns > ns;
	w->at[w->n++] = (struct waiting_launch){ns, launch};
	w->live++;
	return true;
}

size_t waiting_from(struct waiting *w, uint64_t ns)
{
	waiting_sort(w);
	return ns ? w->first +
			array_up_to(w->at + w->first, w->n - w->first, sizeof(*w->at), ns - 1)
		  : w->first;
}

uint32_t waiting_take(struct waiting *w, size_t i)
{
	uint32_t launch = w->at[i].launch;
	w->live -= launch != NO_LAUNCH;
	w->at[i].launch = NO_LAUNCH;
	return launch;
}

void waiting_drop(struct waiting *w, uint64_t ns, uint32_t launch)
{
	for (size_t i = waiting_from(w, ns); i < w->n && w->at[i].ns == ns; i++)
		if (w->at[i].launch == launch)
			waiting_take(w, i);
	waiting_trim(w);
}
