#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct terminal terminal_of(FILE *f)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
	struct winsize ws = {0};
	struct terminal t = {0};
	if (!isatty(fileno(f)))
		return t;
	if (ioctl(fileno(f), TIOCGWINSZ, &ws) == 0)
		t.width = ws.ws_col;
	t.color = !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
	return t;
}
