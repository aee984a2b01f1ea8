#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void csv_quoted(FILE *f, const char *text)
{
	putc('"', f);
	for (const char *s = text; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(*s, f);
	}
	putc('"', f);
}

void csv_text(FILE *f, const char *text)
{
	size_t size = 4 * strlen(text) + 1;
	char small[1024], *safe = size <= sizeof(small) ? small : malloc(size);
	if (!safe)
		return;
	text_safe(safe, size, text);
	if (strpbrk(safe, ",\"") || safe[0] == ' ')
		csv_quoted(f, safe);
	else
		fputs(safe, f);
	if (safe != small)
		free(safe);
}
