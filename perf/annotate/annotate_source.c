#include "perf/annotate/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "symbolizer/target/target_files.h"

enum {
	BYTES_MAX = 16 << 20,
	/* A recorded text of that many bytes may have been cut, before a character of up to 4
	 * (py_frame_text). */
	TEXT_CUT = 200 - 3,
};

/* Python ends lines at \n, \r\n and \r. */
static int split_lines(struct source *s)
{
	size_t n = 1;
	for (const char *p = s->bytes; *p; p++)
		n += *p == '\n' || *p == '\r';
	s->lines = malloc(n * sizeof(*s->lines));
	if (!s->lines)
		return -ENOMEM;
	for (char *p = s->bytes; *p;) {
		s->lines[s->n++] = p;
		p += strcspn(p, "\r\n");
		bool both = p[0] == '\r' && p[1] == '\n';
		if (*p)
			*p++ = '\0';
		p += both;
	}
	return 0;
}

/* Bytes that are no character were recorded as '?'. */
static bool is_same_byte(char now, char recorded)
{
	return now == recorded || (recorded == '?' && (unsigned char)now >= 0x80);
}

static bool is_same_text(const char *now, const char *recorded)
{
	size_t i = 0;
	now += strspn(now, " \t\f");
	while (recorded[i] && is_same_byte(now[i], recorded[i]))
		i++;
	return !recorded[i] && (i >= TEXT_CUT || !now[i + strspn(now + i, " \t\f")]);
}

/* Whether the recorded lines are there, one of them at least. */
static bool has_lines(const struct source *s, const struct annotate_file *file)
{
	bool any = false;
	for (size_t i = 0; i < file->n; i++) {
		const struct annotate_line *l = &file->lines[i];
		if (!l->line || !l->text)
			continue;
		any = true;
		if ((size_t)l->line > s->n || !is_same_text(s->lines[l->line - 1], l->text))
			return false;
	}
	return any;
}

static uint64_t changed_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

int source_read(struct source *s, const struct annotate_file *file, uint64_t begun_ns)
{
	struct stat st = {0};
	*s = (struct source){.why = "the file cannot be read now"};
	int fd = file->path[0] == '<' ? -1 : regular_open(file->path);
	if (fd < 0)
		return 0;
	bool known = !fstat(fd, &st);
	s->bytes = io_text(fd, BYTES_MAX);
	close(fd);
	if (!s->bytes || split_lines(s))
		return -ENOMEM;
	s->why = !known || changed_ns(&st) > begun_ns
		     ? "the file was written since; the lines with figures are the recorded ones"
		     : NULL;
	if (has_lines(s, file))
		return 0;
	free(s->lines);
	s->lines = NULL;
	s->why = "the file has changed since";
	return 0;
}

void source_free(struct source *s)
{
	free(s->lines);
	free(s->bytes);
	*s = (struct source){0};
}
