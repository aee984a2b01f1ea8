/* The signals that end tracing, or have it stand still. */
#define _GNU_SOURCE
#include "tracer/trace_loop.h"

#include <signal.h>
#include <stdio.h>

#include "base/system.h"

static volatile sig_atomic_t stop;

static volatile sig_atomic_t child;

static volatile sig_atomic_t halts;

static void on_signal(int sig)
{
	if (!child)
		stop = 1;
	else if (sig != SIGINT)
		kill((pid_t)child, sig);
}

static volatile _Atomic uint64_t continued_ns;

static void on_stop(int sig)
{
	(void)sig;
	halts = 1;
}

/* Of an engine's helper, which had this process go on for a moment though it had been stopped by
 * SIGSTOP. Who has continued it since that was seen wants it to go on. */
static void on_halt(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	if (info->si_code == SI_QUEUE &&
	    (uint64_t)(uintptr_t)info->si_value.sival_ptr > continued_ns)
		halts = 1;
}

static void on_continue(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	if (info->si_code == SI_QUEUE)
		return; /* that helper */
	continued_ns = clock_ns(CLOCK_MONOTONIC);
	halts = 0;
}

void trace_loop_child_ended(void)
{
	child = 0;
}

void trace_loop_signals(struct trace_loop *l)
{
	struct sigaction a = {.sa_handler = on_signal};
	const struct sigaction s = {.sa_handler = on_stop};
	const struct sigaction h = {.sa_sigaction = on_halt, .sa_flags = SA_SIGINFO};
	const struct sigaction c = {.sa_sigaction = on_continue, .sa_flags = SA_SIGINFO};
	struct sigaction was;
	child = l->is_child ? l->pid : 0;
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (sigaction(SIGTSTP, NULL, &was) || was.sa_handler == SIG_IGN)
		return;
	sigaction(SIGTSTP, &s, NULL);
	sigaction(ENGINE_HALTS, &h, NULL);
	sigaction(SIGCONT, &c, NULL);
}

bool trace_loop_halts(void)
{
	return halts;
}

/* SIGSTOP, since SIGTSTP does nothing in an orphaned process group. */
void trace_loop_halt(const char *missed)
{
	uint64_t since = clock_ns(CLOCK_MONOTONIC);
	fflush(NULL);
	if (!halts)
		return; /* continued already */
	raise(SIGSTOP);
	halts = 0;
	fprintf(stderr, "ditrace: goes on after %.1f s in which it was stopped: %s\n",
		(double)(clock_ns(CLOCK_MONOTONIC) - since) / 1e9, missed);
	fflush(stderr);
}

bool trace_loop_stopped(void)
{
	return stop;
}
