/* The files of export --to parquet: which tables there are, and where a process's rows go. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "perf/export/parquet/internal.h"

/* The first columns of all. */
#define OF_RUN                                                                                     \
	{"run", PARQUET_TIME},                                                                     \
	{                                                                                          \
		"pid", PARQUET_INT                                                                 \
	}
#define SPAN                                                                                       \
	{"time", PARQUET_TIME}, {"start_ns", PARQUET_INT},                                         \
	{                                                                                          \
		"ns", PARQUET_INT                                                                  \
	}

static const struct parquet_column event_columns[] = {OF_RUN,
						      {"id", PARQUET_INT},
						      {"parent", PARQUET_INT},
						      {"depth", PARQUET_INT},
						      {"tid", PARQUET_INT},
						      {"phase", PARQUET_TEXT},
						      {"op", PARQUET_TEXT},
						      SPAN,
						      {"self_ns", PARQUET_INT},
						      {"thrown", PARQUET_BOOL},
						      {"forward_id", PARQUET_INT},
						      {"stack", PARQUET_INT},
						      {"file", PARQUET_TEXT},
						      {"line", PARQUET_INT},
						      {"function", PARQUET_TEXT},
						      {"module", PARQUET_TEXT},
						      {"parameter", PARQUET_TEXT},
						      {"shapes", PARQUET_TEXT},
						      {"dtypes", PARQUET_TEXT},
						      {"devices", PARQUET_TEXT},
						      {0}};
static const struct parquet_column stack_columns[] = {OF_RUN,
						      {"stack", PARQUET_INT},
						      {"position", PARQUET_INT},
						      {"file", PARQUET_TEXT},
						      {"line", PARQUET_INT},
						      {"function", PARQUET_TEXT},
						      {"text", PARQUET_TEXT},
						      {"in_torch", PARQUET_BOOL},
						      {0}};
static const struct parquet_column op_columns[] = {OF_RUN,
						   {"op", PARQUET_TEXT},
						   {"phase", PARQUET_TEXT},
						   {"schema", PARQUET_TEXT},
						   {"calls", PARQUET_INT},
						   {"unfinished", PARQUET_INT},
						   {"summed", PARQUET_INT},
						   {"thrown", PARQUET_INT},
						   {"total_ns", PARQUET_INT},
						   {"self_ns", PARQUET_INT},
						   {"min_ns", PARQUET_INT},
						   {"max_ns", PARQUET_INT},
						   {0}};
static const struct parquet_column collective_columns[] = {OF_RUN,
							   {"id", PARQUET_INT},
							   {"tid", PARQUET_INT},
							   {"collective", PARQUET_TEXT},
							   SPAN,
							   {"group_number", PARQUET_INT},
							   {"group_size", PARQUET_INT},
							   {"group_name", PARQUET_TEXT},
							   {"number", PARQUET_INT},
							   {"bytes", PARQUET_INT},
							   {"dtype", PARQUET_TEXT},
							   {"reduce_op", PARQUET_TEXT},
							   {"root", PARQUET_INT},
							   {"async", PARQUET_BOOL},
							   {"file", PARQUET_TEXT},
							   {"line", PARQUET_INT},
							   {0}};
static const struct parquet_column step_columns[] = {OF_RUN,
						     {"step", PARQUET_INT},
						     SPAN,
						     {"forward_ns", PARQUET_INT},
						     {"backward_ns", PARQUET_INT},
						     {"optimizer_ns", PARQUET_INT},
						     {"data_ns", PARQUET_INT},
						     {"no_op_ns", PARQUET_INT},
						     {0}};

static const struct parquet_column memory_columns[] = {OF_RUN,
						       {"tid", PARQUET_INT},
						       {"time", PARQUET_TIME},
						       {"start_ns", PARQUET_INT},
						       {"device", PARQUET_TEXT},
						       {"address", PARQUET_INT},
						       {"bytes", PARQUET_INT},
						       {"freed", PARQUET_BOOL},
						       {"allocated", PARQUET_INT},
						       {"reserved", PARQUET_INT},
						       {"launch", PARQUET_TEXT},
						       {"event", PARQUET_INT},
						       {"op", PARQUET_TEXT},
						       {"phase", PARQUET_TEXT},
						       {"stack", PARQUET_INT},
						       {"file", PARQUET_TEXT},
						       {"line", PARQUET_INT},
						       {"function", PARQUET_TEXT},
						       {"module", PARQUET_TEXT},
						       {"parameter", PARQUET_TEXT},
						       {0}};

static const struct parquet_column block_columns[] = {OF_RUN,
						      {"tid", PARQUET_INT},
						      {"name", PARQUET_TEXT},
						      SPAN,
						      {"stack", PARQUET_INT},
						      {"file", PARQUET_TEXT},
						      {"line", PARQUET_INT},
						      {"function", PARQUET_TEXT},
						      {0}};

static const struct parquet_table tables[TABLES] = {
    [EVENTS] = {"events", event_columns}, [STACKS] = {"stacks", stack_columns},
    [OPS] = {"ops", op_columns},	  [COLLECTIVES] = {"collectives", collective_columns},
    [STEPS] = {"steps", step_columns},	  [MEMORY] = {"memory", memory_columns},
    [BLOCKS] = {"blocks", block_columns},
};

/* As Hive names what is not known: DuckDB and Spark read null. */
static const char unknown_part[] = "__HIVE_DEFAULT_PARTITION__";

/* As Hive escapes values in names of folders. */
static void host_text(char *out, size_t size, const char *host)
{
	size_t n = 0;
	for (const char *c = host; *c && n + 4 < size; c++) {
		bool plain = isalnum((unsigned char)*c) || *c == '-' || *c == '_' || *c == '.';
		n +=
		    (size_t)snprintf(out + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*c);
	}
	if (!n)
		snprintf(out, size, "%s", unknown_part);
}

/* "FOLDER/events/host=a/rank=0". 0 or -ENAMETOOLONG. */
static int part_folder(const struct parquet_set *s, const struct parquet_part_name *p,
		       enum parquet_of table, char *out, size_t size)
{
	char host[256], rank[32];
	host_text(host, sizeof(host), p->host);
	if (p->rank1)
		snprintf(rank, sizeof(rank), "%u", p->rank1 - 1);
	else
		snprintf(rank, sizeof(rank), "%s", unknown_part);
	int n =
	    snprintf(out, size, "%s/%s/host=%s/rank=%s", s->folder, tables[table].name, host, rank);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Named by when the recording began: another export of the trace replaces it, and those of others
 * stand beside it. */
static struct parquet_file *begin_file(struct parquet_set *s, const struct parquet_part_name *p,
				       enum parquet_of table)
{
	char folder[PATH_MAX], path[PATH_MAX + 64], when[32];
	time_t seconds = (time_t)(s->begun_ns / 1000000000);
	struct tm tm;
	if (part_folder(s, p, table, folder, sizeof(folder)))
		err_set(&s->failed, -ENAMETOOLONG, "%s: the path is too long", s->folder);
	if (s->failed.code || folders_make(folder, &s->failed))
		return NULL;
	strftime(when, sizeof(when), "%Y%m%dT%H%M%S", gmtime_r(&seconds, &tm));
	snprintf(path, sizeof(path), "%s/%s.%09u.parquet", folder, when,
		 (unsigned)(s->begun_ns % 1000000000));
	return parquet_file_open(s->out, path, &tables[table]);
}

/* Begin a row of a process. NULL: it has failed. */
struct parquet_file *parquet_row(struct parquet_set *s, enum parquet_of table, size_t process)
{
	const struct parquet_process *of = &s->processes[process];
	struct parquet_part *p = &s->parts[of->part];
	if (!p->files[table])
		p->files[table] = begin_file(s, &p->name, table);
	struct parquet_file *f = p->files[table];
	if (!f)
		return NULL;
	parquet_int(f, (int64_t)(s->begun_ns / 1000));
	parquet_int(f, of->pid);
	return f;
}

static int64_t part_of(struct parquet_set *s, uint32_t rank1, const char *host)
{
	struct parquet_part_name name = {.rank1 = rank1};
	snprintf(name.host, sizeof(name.host), "%s", host);
	for (size_t i = 0; i < s->nparts; i++)
		if (s->parts[i].name.rank1 == rank1 && !strcmp(s->parts[i].name.host, name.host))
			return (int64_t)i;
	if (array_grow(&s->parts, &s->parts_room, s->nparts + 1, sizeof(*s->parts)))
		return -ENOMEM;
	s->parts[s->nparts] = (struct parquet_part){.name = name};
	return (int64_t)s->nparts++;
}

/* A PID that comes again is another process's. */
int64_t parquet_process_new(struct parquet_set *s, int32_t pid, uint32_t rank1, const char *host)
{
	int64_t part = part_of(s, rank1, host);
	if (part < 0 ||
	    array_grow(&s->processes, &s->processes_room, s->nprocesses + 1, sizeof(*s->processes)))
		return -ENOMEM;
	s->processes[s->nprocesses] = (struct parquet_process){
	    .pid = pid, .rank1 = rank1, .part = (size_t)part, .from_ns = UINT64_MAX};
	return (int64_t)s->nprocesses++;
}

int64_t parquet_process_find(const struct parquet_set *s, int32_t pid, uint32_t rank1)
{
	for (size_t i = s->nprocesses; i-- > 0;)
		if (s->processes[i].pid == pid && s->processes[i].rank1 == rank1)
			return (int64_t)i;
	return -ENOENT;
}

/* What was made for files that did not come to be; folders with anything in them stay. */
void parquet_remove_folders(const struct parquet_set *s)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < s->nparts; i++)
		for (int t = 0; t < TABLES; t++) {
			int above = s->was_there ? 2 : 3; /* host=, the table, the folder itself */
			if (part_folder(s, &s->parts[i].name, (enum parquet_of)t, path,
					sizeof(path)))
				continue;
			for (char *slash = path; !rmdir(path) && above-- && slash;)
				if ((slash = strrchr(path, '/')))
					*slash = '\0';
		}
}

void parquet_set_free(struct parquet_set *s)
{
	free(s->parts);
	free(s->processes);
}
