#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/bus.h"
#include "base/commands.h"
#include "base/err.h"
#include "base/file_limit.h"
#include "base/options.h"

static const char version[] = "ditrace 0.1.0\n";

/* Of two traces, or of two captured runs. */
static int cmd_diff_either(int argc, char **argv)
{
	return cmd_trace_diff_is_meant(argc, argv) ? cmd_trace_diff(argc, argv)
						   : cmd_diff(argc, argv);
}

/* What engines and samplers have open; each processor and each process traced adds some. */
enum { TRACING = 64 };

static const struct {
	const char *name, *about;
	int (*run)(int argc, char **argv);
	unsigned files; /* that it may need to have open */
} commands[] = {
    {"run", "start a program under trace", cmd_run, TRACING},
    {"attach", "trace a running process; Ctrl-C detaches and it runs on", cmd_attach, TRACING},
    {"record", "samples of what every thread does: Python, native code, op", cmd_record, TRACING},
    {"report", "table of ops by source line from a trace file", cmd_report, 0},
    {"top", "the live view of a process or a trace file", cmd_top, TRACING},
    {"script", "the events of a trace file as text or JSON lines", cmd_script, 0},
    {"export", "a trace file in another format", cmd_export, 0},
    {"replay", "run captured ops again: are they right, and how fast", cmd_replay, 0},
    {"diff", "two traces: what got slower; two captured runs: where do they part", cmd_diff_either,
     0},
    {"stack", "what every thread of a running process does at this moment", cmd_stack, TRACING},
    {"monitor", "what a running process uses of the machine, over time", cmd_monitor, TRACING},
    {"ctl", "what ditrace's library does in a process, and taking it out", cmd_ctl, TRACING},
    {"doctor", "check whether tracing will work, and say what to fix", cmd_doctor, TRACING},
};

enum { NCOMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void usage(FILE *f)
{
	fputs("usage: ditrace COMMAND [OPTIONS]\n\n", f);
	for (int i = 0; i < NCOMMANDS; i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].about);
	fputs("\nditrace COMMAND --help tells more of one.\n", f);
}

static int run_command(int i, int argc, char **argv)
{
	struct err e = {0};
	bus_guard(NULL);
	file_limit_raise();
	if (file_limit_check(commands[i].files, &e)) {
		err_print(&e);
		return EXIT_FAILED;
	}
	int status = commands[i].run(argc, argv);
	if (bus_read_zeros())
		fputs("ditrace: a file became shorter while it was read: what it had is missing "
		      "here\n"
		      "  hint: run it again once nothing writes to the program's files\n",
		      stderr);
	return status;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	setlocale(LC_CTYPE, "");
	if (name && (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))) {
		usage(stdout);
		return 0;
	}
	if (name && !strcmp(name, "--version")) {
		fputs(version, stdout);
		return 0;
	}
	for (int i = 0; name && i < NCOMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return run_command(i, argc - 1, argv + 1);
	if (!name) {
		usage(stderr);
		return 2;
	}
	struct err e = {0};
	err_set(&e, -EINVAL, "there is no command \"%s\"", name);
	err_hint(&e, "ditrace help lists them");
	err_print(&e);
	return 2;
}
