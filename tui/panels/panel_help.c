#include "tui/model/top.h"

static const char *const keys[] = {
    "Up Down PgUp PgDn Home End  j k ^F ^B G   move; the wheel and clicks, too",
    "Enter                 details of the row; again, q or Esc: back to the table",
    "Left Right            of wide details: the columns beside",
    "< >  F6               sort by the column beside; a click on its name, too",
    "S T N M P D O H W     sort by the column of that letter; N: Calls/s, H: Shapes",
    "R                     the other way round",
    "g                     group by op and line, op, line, module, thread, shapes",
    "t  F5                 modules as a tree; then Enter, Left, Right fold and unfold",
    "/  F4                 show only rows with a text in op or line; Esc: all again",
    "i                     figures of the last 2 seconds, or of all (cumulative)",
    "p  Space              pause: what comes meanwhile is read when it goes on",
    "r                     begin to count anew",
    "+ -                   of a file: twice as fast, half; 0: as fast as possible",
    "a d                   of a process: attach again, detach (it runs on)",
    "s                     what all threads of the process do now; s: look again",
    "c                     capture the next call that the row is of, with gradients",
    "C f                   compare the row's op live, send it to the CPU",
    "e                     of a process: save the trace so far to a file",
    "u                     undo the last C or f, a waiting c, what e or c wrote",
    "?  h  F1              this help",
    "q  F10                quit; a process that is traced runs on",
    NULL,
};

static const char *const words[] = {
    "Self%     time in the op itself, of the time in which the threads were observed",
    "Total%    with the ops that it called; a call inside another of the same row counts once",
    "Calls/s   of the time shown at the top right",
    "P99       99 of 100 calls were as short, to about 3 %",
    "Dev%      of the time in which GPUs did something: what it launched (not by shapes)",
    "Shapes    of the last call's tensors (117 columns and more); sorted by their elements",
    "b  r      of the backward: at the line of the forward op, or of Python code there; recomputed",
    "in ops    of the time in which the threads were observed, from op to op; then, in no op:",
    "Python    they ran Python or what it called that is no op, or were ready to",
    "waits     they slept (both by looks, 25 a second; a file has none: Python/waits)",
    "other     threads without Python ran; no Python: they ran or slept",
    "not in..  these: all else, where ops are left out of the trace, or were not seen",
    "probes    how much slower they make the threads, in CPU time; 34+%: at least",
    NULL,
};

int panel_help(struct top *t)
{
	struct lines *l = &t->lines;
	lines_reset(l);
	lines_add(l, STYLE_BOLD, "Keys");
	for (int i = 0; keys[i]; i++)
		lines_add(l, STYLE_PLAIN, "  %s", keys[i]);
	lines_add(l, STYLE_PLAIN, "%s", "");
	lines_add(l, STYLE_BOLD, "Figures");
	for (int i = 0; words[i]; i++)
		lines_add(l, STYLE_PLAIN, "  %s", words[i]);
	return l->failed;
}
