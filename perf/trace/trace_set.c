/* One trace file, or all of a folder, read as one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "perf/trace/internal.h"

struct member {
	struct trace_set *set;
	struct trace_source source;
	struct trace_reader *reader; /* NULL: it could not be opened */
	struct trace_order *order;   /* NULL: as recorded */
	struct trace_item item;	     /* the next one, if `has` */
	bool has, ended;
	int end_code;
	struct err end;
	struct trace_stats stats;
	bool has_stats;
};

struct trace_set {
	struct trace_set_opts opts;
	struct member *members;
	size_t n, room;
	struct member *given; /* whose item was returned last; NULL: none */
	/* A tree whose leaves are the members: at each node the one below it that is due first, by
	 * index + 1; 0: none. The root is first[1]. */
	size_t *first, leaves;
	struct trace_clock *clocks;
	size_t nclocks, told; /* told: how many of them, but the first, were returned */
};

static int tap_item(void *arg, const struct trace_item *item)
{
	struct member *m = arg;
	struct trace_item seen = *item;
	int r = trace_source_finish(&m->source, &seen);
	return r ? r : m->set->opts.tap(m->set->opts.tap_arg, &seen);
}

/* Read the next item of a member, if there is one now. 0 or -ENOMEM. */
static int advance(struct member *m)
{
	struct err e = {0};
	m->has = false;
	if (m->ended)
		return 0;
	int n = m->order ? trace_order_next(m->order, &m->item, &e)
			 : trace_read_next(m->reader, &m->item, &e);
	if (n == -EAGAIN && m->set->opts.follow)
		return 0;
	if (n <= 0) {
		m->ended = true;
		m->end_code = n;
		m->end = e;
		return 0;
	}
	m->has = true;
	/* With a tap its processes are known already. */
	return m->item.type == TRACE_PROCESS && m->set->opts.tap && m->order
		   ? 0
		   : trace_source_finish(&m->source, &m->item);
}

/* When an item is due; items without a time at once. */
static uint64_t due_ns(const struct member *m)
{
	const struct op_event *ev = &m->item.event;
	if (m->item.type == TRACE_SAMPLE)
		return m->item.sample.time_ns;
	if (m->item.type != TRACE_EVENT)
		return 0;
	return m->order || !ev->end_ns ? ev->start_ns : ev->end_ns;
}

static size_t due_first(const struct trace_set *s, size_t a, size_t b)
{
	if (!a || !b)
		return a ? a : b;
	return due_ns(&s->members[b - 1]) < due_ns(&s->members[a - 1]) ? b : a;
}

/* Read a member's next item, and find again which is due first. 0 or -ENOMEM. */
static int advance_in_tree(struct trace_set *s, struct member *m)
{
	size_t i = (size_t)(m - s->members), k = s->leaves + i;
	int r = advance(m);
	s->first[k] = m->has ? i + 1 : 0;
	while (k /= 2)
		s->first[k] = due_first(s, s->first[2 * k], s->first[2 * k + 1]);
	return r;
}

static int make_tree(struct trace_set *s)
{
	for (s->leaves = 1; s->leaves < s->n;)
		s->leaves *= 2;
	s->first = calloc(2 * s->leaves, sizeof(*s->first));
	return s->first ? 0 : -ENOMEM;
}

static struct member *first_due(struct trace_set *s)
{
	return s->first[1] ? &s->members[s->first[1] - 1] : NULL;
}

/* Of a file that is still being written there may be more now. */
static int advance_all(struct trace_set *s)
{
	int r = s->given ? advance_in_tree(s, s->given) : 0;
	for (size_t i = 0; i < s->n && !r && s->opts.follow; i++)
		if (&s->members[i] != s->given && !s->members[i].has)
			r = advance_in_tree(s, &s->members[i]);
	return r;
}

/* The sum of what the members have told so far. */
static struct trace_stats stats_of_all(const struct trace_set *s)
{
	struct trace_stats all = {.seen_permille = TRACE_SEEN_UNKNOWN};
	for (size_t i = 0; i < s->n; i++) {
		const struct member *m = &s->members[i];
		if (!m->has_stats)
			continue;
		all.probe_ns += m->stats.probe_ns;
		all.cpu_ns += m->stats.cpu_ns;
		all.probe_is_least |= m->stats.probe_is_least;
		all.lean += m->stats.lean;
		all.no_blocks += m->stats.no_blocks;
		if (m->stats.turns && (!all.turns || m->stats.slowdown > all.slowdown)) {
			all.turns = m->stats.turns;
			all.slowdown = m->stats.slowdown;
			all.slowdown_error = m->stats.slowdown_error;
		}
		if (m->stats.turns_ops > all.turns_ops)
			all.turns_ops = m->stats.turns_ops;
		if (m->stats.seen_permille < all.seen_permille)
			all.seen_permille = m->stats.seen_permille;
		if (m->stats.wall_ns > all.wall_ns)
			all.wall_ns = m->stats.wall_ns;
	}
	return all;
}

/* How reading all ended: the first fault, else that some are still being written. */
static int end_of_all(const struct trace_set *s, struct err *e)
{
	const struct member *worst = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct member *m = &s->members[i];
		if (!m->ended)
			return -EAGAIN;
		if (m->end_code && (!worst || worst->end_code == -EAGAIN))
			worst = m;
	}
	if (worst && e)
		*e = worst->end;
	return worst ? worst->end_code : 0;
}

static int next_of_one(struct member *m, struct trace_item *item, struct err *e)
{
	int n =
	    m->order ? trace_order_next(m->order, item, e) : trace_read_next(m->reader, item, e);
	bool tapped = m->order && m->set->opts.tap;
	if (n <= 0 || (tapped && item->type == TRACE_PROCESS))
		return n;
	int r = trace_source_finish(&m->source, item);
	return r ? err_set(e, r, "no memory to read a trace") : n;
}

int trace_set_next(struct trace_set *s, struct trace_item *item, struct err *e)
{
	if (s->n == 1)
		return next_of_one(s->members, item, e);
	if (s->told + 1 < s->nclocks) {
		*item = (struct trace_item){.type = TRACE_CLOCK, .clock = &s->clocks[++s->told]};
		return 1;
	}
	int r = advance_all(s);
	if (r)
		return err_set(e, r, "no memory to read a trace");
	s->given = first_due(s);
	if (!s->given)
		return end_of_all(s, e);
	*item = s->given->item;
	if (item->type != TRACE_STATS)
		return 1;
	s->given->stats = item->stats;
	s->given->has_stats = true;
	item->stats = stats_of_all(s);
	return 1;
}

void trace_set_no_values(struct trace_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i].reader)
			trace_reader_no_values(s->members[i].reader);
}

void trace_set_values_of(struct trace_set *s, bool (*fn)(const struct op_desc *op))
{
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i].reader)
			trace_reader_values_of(s->members[i].reader, fn);
}

const struct trace_clock *trace_set_clock(const struct trace_set *s, size_t i)
{
	return i + 1 < s->nclocks ? &s->clocks[i + 1] : NULL;
}

static uint64_t origin_of(const struct member *m)
{
	uint64_t ns = trace_reader_origin(m->reader);
	trace_source_time(&m->source, &ns);
	return ns;
}

/* The member that began first; NULL: none could be opened. */
static const struct member *first_begun(const struct trace_set *s)
{
	const struct member *first = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct member *m = &s->members[i];
		if (m->reader && (!first || origin_of(m) < origin_of(first)))
			first = m;
	}
	return first;
}

uint64_t trace_set_origin(const struct trace_set *s)
{
	const struct member *m = first_begun(s);
	return m ? origin_of(m) : UINT64_MAX;
}

uint64_t trace_set_begun(const struct trace_set *s)
{
	const struct member *m = first_begun(s);
	return m ? trace_reader_begun(m->reader) : UINT64_MAX;
}

double trace_set_share(const struct trace_set *s)
{
	double sum = 0;
	for (size_t i = 0; i < s->n; i++)
		sum += s->members[i].reader ? trace_reader_share(s->members[i].reader) : 1;
	return sum / (double)s->n;
}

void trace_set_close(struct trace_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		trace_order_free(s->members[i].order);
		trace_reader_close(s->members[i].reader);
		free(s->members[i].source.processes);
	}
	free(s->clocks);
	free(s->first);
	free(s->members);
	free(s);
}

/* A member that cannot be read has ended; *code is that of the first of these. */
static int add_member(struct trace_set *s, const char *path, int *code, struct err *e)
{
	struct err why = {0};
	if (array_grow(&s->members, &s->room, s->n + 1, sizeof(*s->members)))
		return err_set(e, -ENOMEM, "no memory to read %s", path);
	struct member *m = &s->members[s->n];
	*m = (struct member){.source.number = s->n};
	s->n++;
	int r = trace_reader_open(path, &m->reader, &why);
	m->ended = r;
	m->end_code = r;
	m->end = why;
	if (r && !*code) {
		*code = r;
		*e = why;
	}
	return 0;
}

static int is_trace_name(const struct dirent *d)
{
	static const char end[] = ".data";
	size_t n = strlen(d->d_name);
	return n >= sizeof(end) && !strcmp(d->d_name + n - (sizeof(end) - 1), end);
}

/* Only regular files are opened: a FIFO would block. */
static bool is_trace_file(const char *path)
{
	char magic[sizeof(TRACE_MAGIC) - 1];
	struct stat st;
	FILE *f = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL : fopen(path, "re");
	bool is = f && fread(magic, sizeof(magic), 1, f) == 1 &&
		  !memcmp(magic, TRACE_MAGIC, sizeof(magic));
	if (f)
		fclose(f);
	return is;
}

bool trace_query_can_read(const char *path)
{
	struct dirent **names;
	char file[4096];
	bool is = is_trace_file(path);
	int n = is ? -1 : scandir(path, &names, is_trace_name, NULL);
	if (n < 0)
		return is;
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		is = is || is_trace_file(file);
		free(names[i]);
	}
	free(names);
	return is;
}

static int add_folder(struct trace_set *s, const char *path, int *code, struct err *e)
{
	struct dirent **names;
	char file[4096];
	int r = 0, n = scandir(path, &names, is_trace_name, versionsort);
	if (n < 0) {
		r = err_set(e, -errno, "cannot read %s: %s", path, strerror(errno));
		err_hint(e, "look at the permissions: ls -ld %s", path);
		return r;
	}
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		r = r ? r : add_member(s, file, code, e);
		free(names[i]);
	}
	free(names);
	if (n)
		return r;
	err_set(e, -ENOENT, "the folder %s holds no trace, no file *.data", path);
	return err_hint(e, "record one with: ditrace run -o %s -- torchrun train.py", path);
}

static int find_clocks(struct trace_set *s)
{
	struct clock_source *files = calloc(s->n, sizeof(*files));
	size_t n = 0, nclocks = 0;
	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		const struct member *m = &s->members[i];
		if (m->reader)
			files[n++] = (struct clock_source){
			    .path = trace_reader_path(m->reader),
			    .host = m->source.host,
			    .id = trace_reader_clock(m->reader),
			    .rank = m->source.nprocesses ? m->source.processes[0].rank.rank : -1,
			    .origin_ns = trace_reader_origin(m->reader),
			    .begun_ns = trace_reader_begun(m->reader)};
	}
	int r = trace_clocks_find(files, n, &s->clocks, &nclocks);
	s->nclocks = s->clocks ? nclocks : 0;
	for (size_t i = 0, k = 0; i < s->n && s->clocks; i++)
		if (s->members[i].reader)
			s->members[i].source.clock = &s->clocks[files[k++].clock];
	free(files);
	return r;
}

/* The first record of a file in a folder is of its process, and has no time. */
static int begin_members(struct trace_set *s, struct err *e)
{
	int r = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = &s->members[i];
		m->set = s;
		m->source.nfiles = s->n;
		if (!m->reader)
			continue;
		trace_reader_number_ids(m->reader, (uint32_t)i, (uint32_t)s->n);
		if (s->opts.by_start) {
			m->order = trace_order_new(m->reader, s->opts.follow);
			r = m->order ? r : -ENOMEM;
			if (m->order && s->opts.tap)
				trace_order_tap(m->order, tap_item, m);
		}
	}
	r = r ? r : make_tree(s);
	for (size_t i = 0; i < s->n && !r && s->n > 1; i++)
		r = advance_in_tree(s, &s->members[i]);
	if (!r && s->n > 1)
		r = find_clocks(s);
	return r ? err_set(e, r, "no memory to put the events in order") : 0;
}

int trace_set_open(const char *path, const struct trace_set_opts *opts, struct trace_set **out,
		   struct err *e)
{
	struct stat st;
	struct err why = {0};
	int code = 0;
	struct trace_set *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory to read %s", path);
	s->opts = *opts;
	bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
	int r = folder ? add_folder(s, path, &code, &why) : add_member(s, path, &code, &why);
	bool any = false;
	for (size_t i = 0; i < s->n; i++)
		any |= s->members[i].reader != NULL;
	r = r ? r : any ? 0 : code;
	if (r && e)
		*e = why;
	r = r ? r : begin_members(s, e);
	if (r)
		trace_set_close(s);
	else
		*out = s;
	return r;
}
