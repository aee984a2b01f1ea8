#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
