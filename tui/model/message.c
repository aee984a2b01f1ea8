#include <stdarg.h>
#include <stdio.h>

#include "tui/model/top.h"

void top_say(struct top *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(t->message, sizeof(t->message), format, args);
	va_end(args);
}
