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

void top_ask(struct top *t, enum top_question question, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(t->question, sizeof(t->question), format, args);
	va_end(args);
	t->asks = question;
}

void top_jump(struct top *t, uint32_t id)
{
	view_set_filter(t->view, "");
	t->chosen = id;
	t->sticks = true;
	t->detail = id;
}
