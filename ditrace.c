#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/commands.h"
#include "base/err.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "perf/collectives/collectives.h"
#include "tui/model/top.h"
#include "tui/screen/screen.h"

static const char version[] = "ditrace 0.1.0\n";

static bool asks_for_help(int argc, char **argv)
{
	return argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
}

/* Of two traces, or of two captured runs. */
static int cmd_diff_either(int argc, char **argv)
{
	if (asks_for_help(argc, argv)) {
		cmd_trace_diff(argc, argv);
		if (!options_described())
			putchar('\n');
		return cmd_diff(argc, argv);
	}
	return cmd_trace_diff_is_meant(argc, argv) ? cmd_trace_diff(argc, argv)
						   : cmd_diff(argc, argv);
}

/* What engines and samplers have open; each processor and each process traced adds some. */
enum { TRACING = 64 };

enum task { TRACE, READ, JUDGE, LOOK, TASKS };

static const char *const tasks[TASKS] = {[TRACE] = "trace a program",
					 [READ] = "read what was recorded",
					 [JUDGE] = "change and judge numbers",
					 [LOOK] = "look at a process, and help"};

static const struct command_entry {
	const char *name, *about;
	int (*run)(int argc, char **argv);
	enum task task;
	unsigned files; /* that it may need to have open */
} commands[] = {
    {"run", "start a program under trace", cmd_run, TRACE, TRACING},
    {"attach", "trace a running process; Ctrl-C detaches and it runs on", cmd_attach, TRACE,
     TRACING},
    {"record", "samples of every thread: Python, native code, op", cmd_record, TRACE, TRACING},
    {"top", "the live view of a process or a trace file", cmd_top, TRACE, TRACING},
    {"report", "where the time went, by op and source line", cmd_report, READ, 0},
    {"annotate", "the source, with what each line took", cmd_annotate, READ, 0},
    {"script", "the events as text or JSON lines", cmd_script, READ, 0},
    {"export", "a page for a browser; for Perfetto, speedscope, SQLite, CSV", cmd_export, READ, 0},
    {"diff", "two traces: what got slower; two captured runs: where they part", cmd_diff_either,
     READ, 0},
    {"merge", "the traces of several hosts in one folder, their clocks aligned", cmd_merge, READ,
     0},
    {"replay", "run captured ops again: are they right, and how fast", cmd_replay, JUDGE, 0},
    {"ctl", "what ditrace's library does in a process, and taking it out", cmd_ctl, JUDGE, TRACING},
    {"stack", "what every thread of a running process does at this moment", cmd_stack, LOOK,
     TRACING},
    {"watch", "wait until a training hangs, and write the stacks of all its ranks", cmd_watch, LOOK,
     TRACING},
    {"monitor", "what a running process uses of the machine, over time", cmd_monitor, LOOK,
     TRACING},
    {"doctor", "check whether tracing will work, and say what to fix", cmd_doctor, LOOK, TRACING},
};

enum { NCOMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void usage(FILE *f)
{
	fputs("usage: ditrace COMMAND [OPTIONS]\n"
	      "       ditrace                  on a terminal: the processes that run PyTorch\n",
	      f);
	for (int task = 0; task < TASKS; task++) {
		fprintf(f, "\n%s:\n", tasks[task]);
		for (int i = 0; i < NCOMMANDS; i++)
			if ((int)commands[i].task == task)
				fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].about);
	}
	fputs("\nexamples:\n"
	      "  ditrace run -- python3 train.py        then: ditrace report\n"
	      "  ditrace attach $(pgrep -f train.py)    Ctrl-C detaches\n"
	      "\nditrace COMMAND --help has the options of one, ditrace --version the version.\n",
	      f);
}

static const struct command_entry *command_find(const char *name)
{
	for (int i = 0; i < NCOMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static int no_command(const char *name)
{
	struct err e = {0};
	struct suggestions near = {.word = name};
	char found[256];
	for (int i = 0; i < NCOMMANDS; i++)
		suggestions_add(&near, commands[i].name);
	near.n = near.n ? 1 : 0;
	err_set(&e, -EINVAL, "there is no command \"%s\"", name);
	if (suggestions_list(&near, found, sizeof(found)))
		err_hint(&e, "did you mean: ditrace %s?", found);
	else
		err_hint(&e, "ditrace --help lists them");
	err_print(&e);
	return EXIT_USAGE;
}

struct completion {
	int n;
	char **words; /* behind the command; the last one is completed */
};

/* The processes that run PyTorch. */
static void complete_pid(const char *begun)
{
	struct processes all = {0};
	if (processes_look(&all))
		return;
	for (size_t i = 0; i < all.n; i++) {
		char pid[16];
		snprintf(pid, sizeof(pid), "%d", all.list[i].pid);
		if (!all.list[i].torch || strncmp(pid, begun, strlen(begun)) != 0)
			continue;
		printf("%s\t", pid);
		text_print_safe(stdout, all.list[i].command);
		putchar('\n');
	}
	processes_free(&all);
}

static void complete(const struct command *c, void *arg)
{
	const struct completion *x = arg;
	if (complete_words(c, x->n, x->words, stdout))
		complete_pid(x->words[x->n - 1]);
}

static int command_help(const struct command_entry *c)
{
	char name[16], help[] = "--help";
	snprintf(name, sizeof(name), "%s", c->name);
	return c->run(2, (char *[]){name, help, NULL});
}

/* ditrace --complete WORD...: the last word of a command line, for the shells (completion/). */
static int complete_line(int n, char **words)
{
	struct completion x = {.n = n - 1, .words = words + 1};
	const struct command_entry *c = n > 1 ? command_find(words[0]) : NULL;
	if (c) {
		options_describe(complete, &x);
		return command_help(c);
	}
	for (int i = 0; n == 1 && i < NCOMMANDS; i++)
		if (!strncmp(commands[i].name, words[0], strlen(words[0])))
			printf("%s\t%s\n", commands[i].name, commands[i].about);
	if (n == 1 && words[0][0] == '-')
		puts("--help\tthe commands\n--version\tthe version");
	return EXIT_GOOD;
}

/* ditrace help [COMMAND] */
static int help_of(const char *name)
{
	const struct command_entry *c = name ? command_find(name) : NULL;
	if (name)
		return c ? command_help(c) : no_command(name);
	usage(stdout);
	return EXIT_GOOD;
}

static int run_command(int (*run)(int argc, char **argv), unsigned files, int argc, char **argv)
{
	struct err e = {0};
	bus_guard(NULL);
	trace_clocks_by(collectives_align);
	file_limit_raise();
	if (file_limit_check(files, &e)) {
		err_print(&e);
		return EXIT_FAILED;
	}
	int status = run(argc, argv);
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
	if (name && (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")))
		return help_of(argc > 2 ? argv[2] : NULL);
	if (name && !strcmp(name, "--version")) {
		fputs(version, stdout);
		return 0;
	}
	if (name && !strcmp(name, "--complete"))
		return complete_line(argc - 2, argv + 2);
	const struct command_entry *c = name ? command_find(name) : NULL;
	if (c)
		return run_command(c->run, c->files, argc - 1, argv + 1);
	if (!name && !screen_check(NULL))
		return run_command(cmd_processes, TRACING, argc, argv);
	if (!name) {
		usage(stderr);
		return 2;
	}
	return no_command(name);
}
