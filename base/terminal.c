#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"

int terminal_color, terminal_pager;

const char *const terminal_colors[] = {"auto", "always", "never", NULL};
const char *const terminal_pagers[] = {"auto", "never", NULL};

struct terminal terminal_of(FILE *f)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
	struct winsize ws = {0};
	struct terminal t = {0};
	t.color = terminal_color == TERMINAL_ALWAYS;
	if (!isatty(fileno(f)))
		return t;
	if (ioctl(fileno(f), TIOCGWINSZ, &ws) == 0) {
		t.width = ws.ws_col;
		t.height = ws.ws_row;
	}
	if (terminal_color == TERMINAL_AUTO)
		t.color = !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
	return t;
}

bool progress_is_due(struct read_progress *p)
{
	enum { EACH = 1024 };
	return ++p->items % EACH == 0;
}

void progress_show(struct read_progress *p, const char *path, double share)
{
	const uint64_t wait_ns = 200000000;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now - p->shown_ns < wait_ns || !isatty(STDERR_FILENO))
		return;
	fputs("\r\x1b[Kditrace: ", stderr);
	text_print_safe(stderr, text_base_name(path));
	fprintf(stderr, ": %.0f %% read", 100 * share);
	fflush(stderr);
	p->shown_ns = now;
	p->is_shown = true;
}

void progress_hide(struct read_progress *p)
{
	if (p->is_shown)
		fputs("\r\x1b[K", stderr);
	p->is_shown = false;
}

static pid_t pager;

static const char *chosen(void)
{
	const char *name = getenv("PAGER");
	if (!name)
		return access("/usr/bin/less", X_OK) && access("/bin/less", X_OK) ? "" : "less";
	return strcmp(name, "cat") ? name : "";
}

int pager_start(void)
{
	const char *name = chosen();
	int ends[2];
	if (terminal_pager != TERMINAL_AUTO || !isatty(STDOUT_FILENO) || !name[0] || pipe(ends))
		return 0;
	fflush(stdout);
	pager = fork();
	if (pager == 0) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		setenv("LESS", "FRX", 0);
		execl("/bin/sh", "sh", "-c", name, (char *)NULL);
		_exit(127);
	}
	if (pager > 0) {
		dup2(ends[1], STDOUT_FILENO);
		signal(SIGINT, SIG_IGN); /* the pager decides: it has the terminal */
	}
	close(ends[0]);
	close(ends[1]);
	return pager > 0;
}

void pager_wait(void)
{
	if (pager <= 0)
		return;
	fclose(stdout);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	pager = 0;
}

enum { STATUS_EVERY_NS = 500000000 };

void status_line_open(struct status_line *l)
{
	l->on = isatty(STDERR_FILENO) == 1;
	l->begun_ns = clock_ns(CLOCK_MONOTONIC);
}

bool status_line_due(struct status_line *l)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!l->on || now < l->next_ns)
		return false;
	l->next_ns = now + STATUS_EVERY_NS;
	return true;
}

void status_line_show(struct status_line *l, const char *what, uint64_t n, uint64_t bytes,
		      uint64_t lost)
{
	char count[40], size[32], gone[32];
	uint64_t s = (clock_ns(CLOCK_MONOTONIC) - l->begun_ns) / 1000000000;
	fprintf(stderr, "\r\033[K%" PRIu64 ":%02" PRIu64 "  %s  %s  %s lost", s / 60, s % 60,
		text_counted(count, sizeof(count), n, what), text_bytes(size, sizeof(size), bytes),
		text_count(gone, sizeof(gone), lost));
	fflush(stderr);
	l->shown = true;
}

void status_line_clear(struct status_line *l)
{
	if (!l->shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	l->shown = false;
}
