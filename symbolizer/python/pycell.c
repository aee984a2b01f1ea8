#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/python/internal.h"

enum {
	MAX_CELLS = 1 << 14,
	MAX_TEXT = 1 << 20,
	MAX_COMPARED = 16 << 20,
	MAX_NAME = 4096 + 64,
	LISTED = 3, /* numbers in a name; more: the first ones and the last */
};

size_t py_cell_file(const char *name)
{
	const char *in = NULL;

	for (const char *p = strstr(name, "/In["); p; p = strstr(p + 1, "/In["))
		in = p;
	if (!in || in == name || in[4] == ']')
		return 0;
	in += 4;
	in += strspn(in, "0123456789,.");
	return strcmp(in, "]") == 0 ? (size_t)(strrchr(name, '/') - name) : 0;
}

/* InteractiveShell._instance, as IPython's get_ipython() finds it: IPython/core/getipython.py,
 * traitlets/config/configurable.py. */
static int find_shell(const struct py_runtime *rt, uint64_t *shell)
{
	uint64_t dict, type;
	int rc = py_module_get(rt, "IPython.core.interactiveshell", "InteractiveShell", &type);

	if (!rc)
		rc = py_type_dict(rt, type, &dict);
	return rc ? rc : py_dict_get(rt, dict, "_instance", shell);
}

/* The number of the last cell with this file name: IPython/core/compilerop.py,
 * CachingCompiler.cache. */
static int64_t last_number(const struct py_runtime *rt, uint64_t shell, const char *file)
{
	uint64_t compiler, map, number;
	int rc = py_attribute_get(rt, shell, "compile", &compiler);

	if (!rc)
		rc = py_attribute_get(rt, compiler, "_filename_map", &map);
	if (!rc)
		rc = py_dict_get(rt, map, file, &number);
	return rc ? rc : py_read_int(rt, number);
}

/* The texts of all cells by number: `In`, IPython/core/history.py, store_inputs. */
static ssize_t read_cells(const struct py_runtime *rt, uint64_t shell, uint64_t **cells)
{
	uint64_t names, list, items;
	ssize_t n;
	int rc = py_attribute_get(rt, shell, "_user_ns", &names);

	if (rc == -ENOENT) /* before IPython 9 */
		rc = py_attribute_get(rt, shell, "user_ns", &names);
	if (!rc)
		rc = py_dict_get(rt, names, "In", &list);
	n = rc ? rc : py_sequence(rt, list, MAX_CELLS, &items);
	if (n <= 0)
		return n;
	*cells = calloc((size_t)n, sizeof(**cells));
	rc = *cells ? mem_read(rt->mem, items, *cells, (size_t)n * sizeof(**cells)) : -ENOMEM;
	return rc ? rc : n;
}

static bool is_text(const struct py_runtime *rt, uint64_t str, const char *want)
{
	char *text = NULL;
	bool is = py_read_text(rt, str, MAX_TEXT, &text) >= 0 && strcmp(text, want) == 0;

	free(text);
	return is;
}

/* The text of a file in linecache as `In` has it; NULL if there is none. */
static char *cell_text(const struct py_runtime *rt, const char *file)
{
	char *text = NULL;
	ssize_t n = py_linecache_text(rt, file, MAX_TEXT, &text);

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	return text;
}

/* Whether a str can have `bytes` bytes of UTF-8, by its number of characters. */
static bool may_have(const struct py_runtime *rt, uint64_t str, size_t bytes)
{
	uint64_t n;

	return !py_read_word(rt, str + rt->layout.obj.str_length, &n) && n <= bytes &&
	       bytes <= 4 * n;
}

/* The numbers of the cells up to `last` with this text, as "3,5"; false when `last` is not one. */
static bool list_numbers(const struct py_runtime *rt, const uint64_t *cells, size_t last,
			 const char *text, char *out, size_t size)
{
	size_t bytes = strlen(text), listed = 0, compared = 0;
	int len = 0;

	for (size_t i = 1; i < last && listed < LISTED; i++) {
		if (!may_have(rt, cells[i], bytes))
			continue;
		compared += bytes;
		if (compared > MAX_COMPARED)
			return false;
		if (!is_text(rt, cells[i], text))
			continue;
		if (listed++ < LISTED - 1)
			len += snprintf(out + len, size - (size_t)len, "%zu,", i);
	}
	snprintf(out + len, size - (size_t)len, listed > LISTED - 1 ? "...,%zu" : "%zu", last);
	return is_text(rt, cells[last], text);
}

/* The numbers of a file's cells into out. 0; -ENOENT when it is no cell; -errno when that is not
 * known, or -ERANGE when the number is not certain. */
static int find_numbers(const struct py_runtime *rt, const char *file, char *out, size_t size)
{
	uint64_t shell, *cells = NULL;
	char *text = NULL;
	int rc = find_shell(rt, &shell);
	int64_t last = rc ? rc : last_number(rt, shell, file);

	if (last < 0)
		return (int)last;
	rc = -ERANGE;
	text = cell_text(rt, file);
	/* With history off, the number is that of the cell to come. */
	if (text && read_cells(rt, shell, &cells) > last &&
	    list_numbers(rt, cells, (size_t)last, text, out, size))
		rc = 0;
	free(text);
	free(cells);
	return rc;
}

/* The number in a name "<ipython-input-3-1f0e3dad9990>" (IPython/core/compilerop.py, code_name)
 * alone, whichever other cells have the same text. */
static void number_in_name(const char *file, char *numbers)
{
	static const char begin[] = "<ipython-input-";
	const char *comma = strrchr(numbers, ',');

	if (strncmp(file, begin, sizeof(begin) - 1) == 0 && comma)
		memmove(numbers, comma + 1, strlen(comma));
}

/* sys.modules, by what changes when a module is imported, so that a program without IPython is not
 * searched for it with each file. */
static struct py_word modules_now(const struct py_runtime *rt)
{
	struct py_dict d = {0};
	uint64_t interp, modules;

	if (py_read_word(rt, rt->layout.walk.interp_head_addr, &interp) ||
	    py_read_word(rt, interp + rt->layout.modules, &modules) ||
	    (py_dict_open(rt, modules, &d) && !d.n))
		return (struct py_word){0};
	return (struct py_word){d.entries, d.n};
}

static bool has_ipython(struct py_runtime *rt)
{
	struct py_word now = modules_now(rt), *none = &rt->cells.modules;
	uint64_t shell;

	if (now.at && now.at == none->at && now.is == none->is)
		return false;
	if (find_shell(rt, &shell) != -ENOENT)
		return true;
	*none = now;
	return false;
}

static int find_patiently(struct py_runtime *rt, const char *file, char *out, size_t size)
{
	int rc = -EAGAIN;

	for (int i = 0; i < PY_TRIES && rc == -EAGAIN; i++)
		rc = find_numbers(rt, file, out, size);
	return rc;
}

static const char *cell_name(struct py_runtime *rt, const char *file)
{
	char numbers[64], name[MAX_NAME];
	const char *interned;
	int rc;

	if (!has_ipython(rt) || map_get(&rt->cells.others, (uintptr_t)file) >= 0)
		return file;
	rc = find_patiently(rt, file, numbers, sizeof(numbers));
	if (rc == -ENOENT)
		map_put(&rt->cells.others, (uintptr_t)file, 0);
	if (rc)
		return file;
	number_in_name(file, numbers);
	snprintf(name, sizeof(name), "%s/In[%s]", file, numbers);
	interned = py_intern_string(rt->codes, name);
	return interned ? interned : file;
}

const char *py_cell_name(struct py_runtime *rt, const char *file)
{
	const struct mem *mem = rt->mem;
	const char *name;

	rt->mem = rt->live; /* a read that begins in a copy ends with it */
	name = cell_name(rt, file);
	rt->mem = mem;
	return name;
}
