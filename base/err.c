#include "base/err.h"

#include <stdio.h>

#include "base/text.h"

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (!e)
		return code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	e->hint[0] = '\0';
	e->code = code;
	return code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	if (!e)
		return 0;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return e->code;
}

void err_print(const struct err *e)
{
	fputs("ditrace: ", stderr);
	text_print_safe(stderr, e->what);
	fputc('\n', stderr);
	if (!e->hint[0])
		return;
	fputs("  hint: ", stderr);
	text_print_safe(stderr, e->hint);
	fputc('\n', stderr);
}
