/* The files of a trace being written: one, or a folder with one for each process. */
#define _GNU_SOURCE
#include "perf/trace/trace_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "perf/trace/internal.h"

enum {
	FILES_MAX = 512, /* the last takes what remains */
	NAMES_MAX = 100, /* that are tried for a file */
};

int trace_target_copy(struct trace_target *to, const struct trace_target *t)
{
	const char *from[] = {t->comm,		 t->argv,   t->torch_version,
			      t->python_version, t->engine, t->torch_dir};
	const char **strings[] = {&to->comm,	       &to->argv,   &to->torch_version,
				  &to->python_version, &to->engine, &to->torch_dir};
	int r = 0;
	to->pid = t->pid;
	to->start_ns = t->start_ns;
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		free((char *)*strings[i]);
		*strings[i] = strdup(from[i] ? from[i] : "");
		r = *strings[i] ? r : -ENOMEM;
	}
	return r;
}

void trace_target_free(struct trace_target *t)
{
	free((char *)t->comm);
	free((char *)t->argv);
	free((char *)t->torch_version);
	free((char *)t->python_version);
	free((char *)t->engine);
	free((char *)t->torch_dir);
	*t = (struct trace_target){0};
}

struct trace_written *trace_writer_process(struct trace_writer *w, int32_t pid)
{
	int64_t at = map_get(&w->by_pid, (uint32_t)pid);
	if (at >= 0)
		return &w->processes[at];
	if (array_grow(&w->processes, &w->processes_room, w->nprocesses + 1,
		       sizeof(*w->processes)) ||
	    map_put(&w->by_pid, (uint32_t)pid, (uint32_t)w->nprocesses))
		return NULL;
	struct trace_written *p = &w->processes[w->nprocesses++];
	*p = (struct trace_written){.process = {.pid = pid,
						.rank = {.rank = -1,
							 .world_size = -1,
							 .local_rank = -1,
							 .node = -1,
							 .restarts = -1}},
				    .file = TRACE_NOT_OPEN};
	return p;
}

/* The latest file of a rank's own process; NULL: it has none. */
static struct trace_written *process_of_rank(const struct trace_writer *w, int32_t rank)
{
	for (size_t i = w->nprocesses; i-- > 0;)
		if (w->processes[i].process.rank.rank == rank && !w->processes[i].process.worker)
			return &w->processes[i];
	return NULL;
}

/* The `nth` choice of a name: of a rank that was started again, of a PID that came again, or that
 * another ditrace writes. */
static void name_file(const struct trace_writer *w, const struct trace_process *p, unsigned nth,
		      char *out, size_t size)
{
	int32_t rank = p->rank.rank;
	if (rank < 0 && nth)
		snprintf(out, size, "%s/pid-%d.%u.data", w->path, p->pid, nth);
	else if (rank < 0)
		snprintf(out, size, "%s/pid-%d.data", w->path, p->pid);
	else if (nth)
		snprintf(out, size, "%s/rank%d.%u.data", w->path, rank, nth);
	else
		snprintf(out, size, "%s/rank%d.data", w->path, rank);
}

static int open_named(struct trace_writer *w, const struct trace_process *p, struct trace_file **f,
		      struct err *e)
{
	char path[4096];
	unsigned nth = 0;
	int r = -EBUSY;
	for (size_t i = 0; i < w->nprocesses; i++)
		nth += w->processes[i].file >= 0 && !w->processes[i].process.worker &&
		       p->rank.rank >= 0 && w->processes[i].process.rank.rank == p->rank.rank;
	/* What has a name since the folder was opened is another ditrace's, also if that has ended.
	 */
	for (unsigned last = nth + NAMES_MAX; r == -EBUSY && nth < last; nth++) {
		name_file(w, p, nth, path, sizeof(path));
		r = nth + 1 < last && !access(path, F_OK) ? -EBUSY : trace_file_open(path, f, e);
	}
	return r;
}

/* What all files have. */
static int begin_file(struct trace_writer *w, const struct trace_written *p, struct trace_file *f)
{
	int r = trace_file_process(f, &p->process);
	if (p->target.comm)
		keep_first_error(&r, trace_file_target(f, &p->target));
	if (w->chosen)
		keep_first_error(&r, trace_file_chosen(f, w->chosen));
	if (w->is_sampling)
		keep_first_error(&r, trace_file_sampling(f, &w->sampling));
	for (size_t i = 0; i < w->nbuilds; i++)
		keep_first_error(
		    &r, trace_file_build(f, w->builds[i].file, w->builds[i].id, w->builds[i].len));
	return r;
}

int trace_writer_open_file(struct trace_writer *w, struct trace_written *p)
{
	struct err e = {0};
	struct trace_file *f;
	if (w->n == FILES_MAX) {
		p->file = FILES_MAX - 1;
		keep_first_error(&e.code, trace_file_process(w->files[p->file], &p->process));
		return e.code;
	}
	p->file = TRACE_FAILED;
	if (array_grow(&w->files, &w->room, w->n + 1, sizeof(struct trace_file *)))
		return -ENOMEM;
	int r = open_named(w, &p->process, &f, &e);
	if (r)
		return r;
	p->file = (int)w->n;
	w->files[w->n++] = f;
	r = begin_file(w, p, f);
	if (w->lost)
		keep_first_error(&r, trace_file_lost(f, w->lost_ns, w->lost));
	if (w->samples_lost)
		keep_first_error(&r, trace_file_samples_lost(f, w->lost_ns, w->samples_lost));
	w->lost = w->samples_lost = 0;
	return r;
}

/* A worker's records go to the file of its rank. */
static int join_rank(struct trace_writer *w, struct trace_written *p)
{
	struct trace_written *own =
	    p->process.worker ? process_of_rank(w, p->process.rank.rank) : NULL;
	int r = own && own->file == TRACE_NOT_OPEN ? trace_writer_open_file(w, own) : 0;
	if (!own || own->file < 0)
		return r ? r : trace_writer_open_file(w, p);
	p->file = own->file;
	keep_first_error(&r, trace_file_process(w->files[p->file], &p->process));
	if (p->target.comm)
		keep_first_error(&r, trace_file_target(w->files[p->file], &p->target));
	return r;
}

struct trace_file *trace_writer_file_of(struct trace_writer *w, int32_t pid, int *r)
{
	*r = 0;
	if (!w->is_folder)
		return w->files[0];
	struct trace_written *p = trace_writer_process(w, pid);
	if (!p) {
		*r = -ENOMEM;
		return NULL;
	}
	if (p->file == TRACE_NOT_OPEN)
		*r = join_rank(w, p);
	return p->file >= 0 ? w->files[p->file] : NULL;
}

/* What the file holds so far, if it holds any events, is of processes without a rank: that it is
 * named after the first of them is all that can be said in a name. */
int trace_writer_become_folder(struct trace_writer *w)
{
	char name[32];
	bool empty = !trace_file_events(w->files[0]);
	snprintf(name, sizeof(name), "pid-%d.data", w->processes[0].process.pid);
	int r = folder_replace_file(w->path, empty ? NULL : name);
	if (r)
		return r;
	w->is_folder = true;
	if (!empty)
		return 0;
	r = trace_file_close(w->files[0], false);
	w->n = 0;
	for (size_t i = 0; i < w->nprocesses; i++)
		w->processes[i].file = TRACE_NOT_OPEN;
	return r;
}

static bool is_folder_path(const char *path)
{
	struct stat st;
	size_t n = strlen(path);
	return (n && path[n - 1] == '/') || (!stat(path, &st) && S_ISDIR(st.st_mode));
}

/* A name as of name_file. */
static bool is_own_name(const char *name)
{
	size_t start = !strncmp(name, "rank", 4) || !strncmp(name, "pid-", 4) ? 4 : 0;
	return start && !strcmp(name + start + strspn(name + start, "0123456789."), "data");
}

static int open_folder(struct trace_writer *w, struct err *e)
{
	w->is_folder = true;
	for (size_t n = strlen(w->path); n > 1 && w->path[n - 1] == '/'; n--)
		w->path[n - 1] = '\0';
	int r = folders_make(w->path, e);
	return r ? r : folder_keep_old(w->path, is_own_name, &w->kept_old, e);
}

static int open_one(struct trace_writer *w, struct err *e)
{
	int r = array_grow(&w->files, &w->room, 1, sizeof(struct trace_file *));
	if (r)
		return err_set(e, r, "no memory to write %s", w->path);
	r = trace_file_open(w->path, &w->files[0], e);
	w->n = !r;
	return r;
}

void trace_writer_free(struct trace_writer *w)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		trace_target_free(&w->processes[i].target);
	for (size_t i = 0; i < w->nbuilds; i++)
		free(w->builds[i].file);
	free(w->processes);
	free(w->builds);
	free(w->chosen);
	free(w->files);
	free(w->path);
	map_free(&w->by_pid);
	free(w);
}

int trace_writer_open(const char *path, struct trace_writer **out, struct err *e)
{
	struct trace_writer *w = calloc(1, sizeof(*w));
	if (w)
		w->path = strdup(path);
	if (!w || !w->path) {
		free(w);
		return err_set(e, -ENOMEM, "no memory to write %s", path);
	}
	int r = is_folder_path(path) ? open_folder(w, e) : open_one(w, e);
	if (r)
		trace_writer_free(w);
	else
		*out = w;
	return r;
}
