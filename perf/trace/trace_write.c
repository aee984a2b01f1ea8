/* Which file of a trace a record goes to: there is one, or a folder with one for each process. */
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
	NOT_OPEN = -1,
	FAILED = -2,
};

/* A process of a folder. Its file is opened for its first event or sample: a launcher has none. */
struct written {
	struct trace_process process;
	struct trace_target target; /* strings are copies; comm NULL: none yet */
	int file;		    /* index, NOT_OPEN or FAILED */
};

struct build {
	char *file;
	uint8_t id[64];
	size_t len;
};

struct trace_writer {
	char *path;
	bool is_folder, one_file, kept_old;
	struct trace_file **files; /* files[0] alone, if it is no folder */
	size_t n, room;
	struct written *processes;
	size_t nprocesses, processes_room;
	struct map by_pid;
	/* For files that are opened later. */
	char *chosen; /* NULL: none */
	struct sampling sampling;
	bool is_sampling;
	struct build *builds;
	size_t nbuilds, builds_room;
	uint64_t lost, samples_lost, lost_ns;
};

static void keep_first(int *r, int code)
{
	if (!*r)
		*r = code;
}

static int copy_target(struct trace_target *to, const struct trace_target *t)
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

static void free_target(struct trace_target *t)
{
	free((char *)t->comm);
	free((char *)t->argv);
	free((char *)t->torch_version);
	free((char *)t->python_version);
	free((char *)t->engine);
	free((char *)t->torch_dir);
	*t = (struct trace_target){0};
}

/* The process `pid`, added if it is new; NULL if out of memory. */
static struct written *written_of(struct trace_writer *w, int32_t pid)
{
	int64_t at = map_get(&w->by_pid, (uint32_t)pid);
	if (at >= 0)
		return &w->processes[at];
	if (array_grow(&w->processes, &w->processes_room, w->nprocesses + 1,
		       sizeof(*w->processes)) ||
	    map_put(&w->by_pid, (uint32_t)pid, (uint32_t)w->nprocesses))
		return NULL;
	struct written *p = &w->processes[w->nprocesses++];
	*p = (struct written){.process = {.pid = pid,
					  .rank = {.rank = -1,
						   .world_size = -1,
						   .local_rank = -1,
						   .node = -1,
						   .restarts = -1}},
			      .file = NOT_OPEN};
	return p;
}

/* The latest file of a rank's own process; NULL: it has none. */
static struct written *process_of_rank(const struct trace_writer *w, int32_t rank)
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
static int begin_file(struct trace_writer *w, const struct written *p, struct trace_file *f)
{
	int r = trace_file_process(f, &p->process);
	if (p->target.comm)
		keep_first(&r, trace_file_target(f, &p->target));
	if (w->chosen)
		keep_first(&r, trace_file_chosen(f, w->chosen));
	if (w->is_sampling)
		keep_first(&r, trace_file_sampling(f, &w->sampling));
	for (size_t i = 0; i < w->nbuilds; i++)
		keep_first(
		    &r, trace_file_build(f, w->builds[i].file, w->builds[i].id, w->builds[i].len));
	return r;
}

static int open_file_of(struct trace_writer *w, struct written *p)
{
	struct err e = {0};
	struct trace_file *f;
	if (w->n == FILES_MAX) {
		p->file = FILES_MAX - 1;
		keep_first(&e.code, trace_file_process(w->files[p->file], &p->process));
		return e.code;
	}
	p->file = FAILED;
	if (array_grow(&w->files, &w->room, w->n + 1, sizeof(struct trace_file *)))
		return -ENOMEM;
	int r = open_named(w, &p->process, &f, &e);
	if (r)
		return r;
	p->file = (int)w->n;
	w->files[w->n++] = f;
	r = begin_file(w, p, f);
	if (w->lost)
		keep_first(&r, trace_file_lost(f, w->lost_ns, w->lost));
	if (w->samples_lost)
		keep_first(&r, trace_file_samples_lost(f, w->lost_ns, w->samples_lost));
	w->lost = w->samples_lost = 0;
	return r;
}

/* A worker's records go to the file of its rank. */
static int join_rank(struct trace_writer *w, struct written *p)
{
	struct written *own = p->process.worker ? process_of_rank(w, p->process.rank.rank) : NULL;
	int r = own && own->file == NOT_OPEN ? open_file_of(w, own) : 0;
	if (!own || own->file < 0)
		return r ? r : open_file_of(w, p);
	p->file = own->file;
	keep_first(&r, trace_file_process(w->files[p->file], &p->process));
	if (p->target.comm)
		keep_first(&r, trace_file_target(w->files[p->file], &p->target));
	return r;
}

/* The file for what process `pid` did; NULL with *r, which is 0 if its failure has been told. */
static struct trace_file *file_of(struct trace_writer *w, int32_t pid, int *r)
{
	*r = 0;
	if (!w->is_folder)
		return w->files[0];
	struct written *p = written_of(w, pid);
	if (!p) {
		*r = -ENOMEM;
		return NULL;
	}
	if (p->file == NOT_OPEN)
		*r = join_rank(w, p);
	return p->file >= 0 ? w->files[p->file] : NULL;
}

int trace_write_event(struct trace_writer *w, const struct op_event *ev)
{
	int r;
	struct trace_file *f = file_of(w, ev->pid, &r);
	if (f)
		keep_first(&r, trace_file_event(f, ev));
	return r;
}

int trace_write_sum(struct trace_writer *w, const struct op_sum *sum)
{
	int r;
	struct trace_file *f = file_of(w, sum->of.pid, &r);
	if (f)
		keep_first(&r, trace_file_sum(f, sum));
	return r;
}

int trace_write_done(struct trace_writer *w, const struct work_done *d)
{
	int r;
	struct trace_file *f = file_of(w, d->pid, &r);
	if (f)
		keep_first(&r, trace_file_done(f, d));
	return r;
}

int trace_write_activity(struct trace_writer *w, const struct activity *a)
{
	int r;
	struct trace_file *f = file_of(w, a->of.pid, &r);
	if (f)
		keep_first(&r, trace_file_activity(f, a));
	return r;
}

int trace_write_memory(struct trace_writer *w, const struct memory_event *m)
{
	int r;
	struct trace_file *f = file_of(w, m->of.pid, &r);
	if (f)
		keep_first(&r, trace_file_memory(f, m));
	return r;
}

int trace_write_memory_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns, uint64_t count)
{
	int r;
	struct trace_file *f = file_of(w, pid, &r);
	if (f)
		keep_first(&r, trace_file_memory_lost(f, time_ns, count));
	return r;
}

int trace_write_activities_lost(struct trace_writer *w, int32_t pid, uint64_t time_ns,
				uint64_t count)
{
	int r;
	struct trace_file *f = file_of(w, pid, &r);
	if (f)
		keep_first(&r, trace_file_activities_lost(f, time_ns, count));
	return r;
}

int trace_write_sample(struct trace_writer *w, const struct sample *s)
{
	int r;
	struct trace_file *f = file_of(w, s->pid, &r);
	if (f)
		keep_first(&r, trace_file_sample(f, s));
	return r;
}

int trace_write_thread(struct trace_writer *w, int32_t pid, int32_t tid, const char *name)
{
	int r;
	struct trace_file *f = file_of(w, pid, &r);
	if (f)
		keep_first(&r, trace_file_thread(f, pid, tid, name));
	return r;
}

/* Of which process they were is not known: they are in one of the files. */
int trace_write_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	if (w->n)
		return trace_file_lost(w->files[0], time_ns, count);
	w->lost += count;
	w->lost_ns = time_ns;
	return 0;
}

int trace_write_samples_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	if (w->n)
		return trace_file_samples_lost(w->files[0], time_ns, count);
	w->samples_lost += count;
	w->lost_ns = time_ns;
	return 0;
}

int trace_write_sampling(struct trace_writer *w, const struct sampling *s)
{
	int r = 0;
	w->sampling = *s;
	w->is_sampling = true;
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_sampling(w->files[i], s));
	return r;
}

static int keep_build(struct trace_writer *w, const char *file, const void *id, size_t len)
{
	struct build b = {.len = len < sizeof(b.id) ? len : sizeof(b.id)};
	if (array_grow(&w->builds, &w->builds_room, w->nbuilds + 1, sizeof(*w->builds)))
		return -ENOMEM;
	b.file = strdup(file);
	if (!b.file)
		return -ENOMEM;
	memcpy(b.id, id, b.len);
	w->builds[w->nbuilds++] = b;
	return 0;
}

int trace_write_build(struct trace_writer *w, const char *file, const void *id, size_t len)
{
	int r = w->one_file ? 0 : keep_build(w, file, id, len);
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_build(w->files[i], file, id, len));
	return r;
}

int trace_write_chosen(struct trace_writer *w, const char *options)
{
	int r = 0;
	free(w->chosen);
	w->chosen = strdup(options);
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_chosen(w->files[i], options));
	return w->chosen ? r : -ENOMEM;
}

int trace_write_target(struct trace_writer *w, const struct trace_target *t)
{
	struct written *p = w->one_file ? NULL : written_of(w, t->pid);
	if (!p && !w->one_file)
		return -ENOMEM;
	int r = p ? copy_target(&p->target, t) : 0;
	struct trace_file *f = !w->is_folder  ? w->files[0]
			       : p->file >= 0 ? w->files[p->file]
					      : NULL;
	if (f)
		keep_first(&r, trace_file_target(f, t));
	return r;
}

/* What the file holds so far, if it holds any events, is of processes without a rank: that it is
 * named after the first of them is all that can be said in a name. */
static int become_folder(struct trace_writer *w)
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
		w->processes[i].file = NOT_OPEN;
	return r;
}

int trace_write_process(struct trace_writer *w, const struct trace_process *p)
{
	if (w->one_file)
		return trace_file_process(w->files[0], p);
	struct written *known = written_of(w, p->pid);
	if (!known)
		return -ENOMEM;
	free_target(&known->target);
	known->process = *p;
	known->file = w->is_folder ? NOT_OPEN : 0;
	if (w->is_folder)
		return 0;
	if (p->rank.world_size <= 1)
		return trace_file_process(w->files[0], p);
	known->file = NOT_OPEN;
	int r = become_folder(w);
	if (!r)
		return 0;
	w->one_file = true; /* it cannot be: go on with the file */
	return trace_file_process(w->files[0], p);
}

void trace_writer_one_file(struct trace_writer *w)
{
	w->one_file = !w->is_folder;
}

/* What is of all processes together: a file gets its part by its events. */
int trace_write_stats(struct trace_writer *w, const struct trace_stats *s)
{
	uint64_t all = 0;
	int r = 0;
	for (size_t i = 0; i < w->n; i++)
		all += trace_file_events(w->files[i]);
	for (size_t i = 0; i < w->n; i++) {
		struct trace_stats part = *s;
		double share = all ? (double)trace_file_events(w->files[i]) / (double)all : 1;
		part.probe_ns = (uint64_t)((double)s->probe_ns * share);
		part.probe_most_ns = (uint64_t)((double)s->probe_most_ns * share);
		part.cpu_ns = (uint64_t)((double)s->cpu_ns * share);
		part.lean = (uint64_t)((double)s->lean * share);
		keep_first(&r, trace_file_stats(w->files[i], &part));
	}
	return r;
}

void trace_writer_forget(struct trace_writer *w)
{
	for (size_t i = 0; i < w->n; i++)
		trace_file_forget(w->files[i]);
}

int trace_writer_flush(struct trace_writer *w)
{
	int r = w->n || !w->nprocesses ? 0 : open_file_of(w, &w->processes[0]);
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_flush(w->files[i]));
	return r;
}

int trace_writer_tick(struct trace_writer *w, uint64_t now_ns)
{
	int r = 0;
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_tick(w->files[i], now_ns));
	return r;
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < w->n; i++)
		bytes += trace_file_bytes(w->files[i]);
	return bytes;
}

size_t trace_writer_files(const struct trace_writer *w)
{
	return w->is_folder ? w->n : 0;
}

bool trace_writer_kept_old(const struct trace_writer *w)
{
	return w->kept_old || (!w->is_folder && trace_file_kept_old(w->files[0]));
}

static void free_writer(struct trace_writer *w)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		free_target(&w->processes[i].target);
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

int trace_writer_close(struct trace_writer *w, bool clean)
{
	int r = 0;
	if (!w)
		return 0;
	for (size_t i = 0; i < w->n; i++)
		keep_first(&r, trace_file_close(w->files[i], clean));
	free_writer(w);
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
		free_writer(w);
	else
		*out = w;
	return r;
}
