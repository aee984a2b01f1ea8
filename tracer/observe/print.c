#include <stdlib.h>

#include "perf/events/print_event.h"
#include "tracer/observe/observer.h"

struct print_observer {
	struct observer observer;
	struct event_printer *printer;
	bool closed_pipe;
};

static void print_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	struct print_observer *p = (struct print_observer *)o;
	(void)t;
	if (event_print(p->printer, ev) < 0)
		p->closed_pipe = true;
}

static void print_tick(struct observer *o, uint64_t now_ns)
{
	(void)now_ns;
	if (fflush(stdout))
		((struct print_observer *)o)->closed_pipe = true;
}

static bool print_is_over(const struct observer *o)
{
	return ((const struct print_observer *)o)->closed_pipe;
}

static void print_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	(void)o, (void)f, (void)r;
	fflush(stdout);
}

static void print_close(struct observer *o)
{
	event_printer_free(((struct print_observer *)o)->printer);
	free(o);
}

struct observer *observer_of_print(void)
{
	struct print_observer *p = malloc(sizeof(*p));
	struct event_printer *printer = event_printer_new(stdout);
	if (!p || !printer) {
		event_printer_free(printer);
		free(p);
		return NULL;
	}
	/* The program writes to stdout, too: write whole events at a time. */
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	*p = (struct print_observer){
	    .observer =
		{
		    .on_event = print_on_event,
		    .tick = print_tick,
		    .is_over = print_is_over,
		    .summary = print_summary,
		    .close = print_close,
		},
	    .printer = printer,
	};
	return &p->observer;
}
