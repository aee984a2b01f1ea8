/* Lines of the target's Python source files, for showing them beside a frame. */
#ifndef SYMBOLIZER_PYTHON_PYSOURCE_H
#define SYMBOLIZER_PYTHON_PYSOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct py_sources;

/* Files as process `pid` sees them: absolute names below its root directory (symbolic links too),
 * relative ones from the working directory it has now. Both directories are held open, so texts can
 * be read after the process has ended. NULL without memory. */
struct py_sources *py_sources_new(pid_t pid);
void py_sources_free(struct py_sources *s); /* NULL is allowed */

/* Line `line` (from 1) of `file` without indentation and trailing space, NUL-terminated into out,
 * cut at a whole character at size - 1 bytes; bytes that are not UTF-8 become '?'. What the file
 * holds now is what is shown: a file that was changed since the program read it gives a text that
 * does not fit. Keeps at most 64 files and 16 MiB. Returns the length, 0 for an empty line, or
 * -ENOENT when there is no such line or the file cannot be read ("<string>" and the like). */
ssize_t py_sources_line(struct py_sources *s, const char *file, int32_t line, char *out,
			size_t size);

#endif
