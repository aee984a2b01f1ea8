#include <unistd.h>

#include "symbolizer/target/maps.h"
#include "tracer/session/internal.h"
#include "tracer/session/session.h"

static int open_files(pid_t pid, const struct libraries *l, struct ops_file *out, struct err *e)
{
	for (unsigned i = 0; i < OPS_FILES; i++) {
		const struct mapping *m = ops_mapping(l, i);
		int fd = m ? maps_open(pid, m, e) : 0;
		if (fd < 0)
			return fd;
		if (m)
			out[i] = (struct ops_file){fd, m->path};
	}
	return 0;
}

int load_ops(pid_t pid, const struct libraries *l, enum ops_kind kind, struct op_table **out,
	     struct err *e)
{
	struct ops_file files[OPS_FILES] = {0};
	int r = open_files(pid, l, files, e);
	if (!r)
		r = op_table_load(files, kind, out, e);
	for (unsigned i = 0; i < OPS_FILES; i++)
		if (files[i].path)
			close(files[i].fd);
	return r;
}

static int load(pid_t pid, const struct libraries *l, enum ops_kind kind, struct loaded_ops *out,
		struct err *e)
{
	out->inode = l->torch->inode;
	out->major = l->torch->dev_major;
	out->minor = l->torch->dev_minor;
	return load_ops(pid, l, kind, &out->table, e);
}

/* A failure is not reported here: session_load_ops tries again and reports it. */
static void *preload_main(void *arg)
{
	struct preload *p = arg;
	struct maps maps;
	struct libraries l;
	struct err why = {0};
	if (maps_read(p->pid, &maps, NULL))
		return NULL;
	libraries_find(&maps, &l);
	if (l.torch && load(p->pid, &l, p->kind, &p->ops, &why))
		p->ops.table = NULL;
	maps_free(&maps);
	return NULL;
}

void session_preload(struct session *s, pid_t pid)
{
	s->preload.pid = pid;
	s->preload.kind = session_expects_shim(s) ? OPS_JUMPS : OPS_PROBES;
	s->preload.running = !pthread_create(&s->preload.thread, NULL, preload_main, &s->preload);
}

static void wait_for_preload(struct session *s)
{
	if (s->preload.running)
		pthread_join(s->preload.thread, NULL);
	s->preload.running = false;
}

static bool is_of(const struct loaded_ops *ops, const struct mapping *m)
{
	return ops->table && m->inode == ops->inode && m->dev_major == ops->major &&
	       m->dev_minor == ops->minor;
}

bool session_has_ops_of(const struct session *s, const struct mapping *m)
{
	return is_of(&s->loaded, m);
}

int session_load_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e)
{
	const enum ops_kind kind = s->engine->observes ? OPS_JUMPS : OPS_PROBES;
	int r = 0;
	wait_for_preload(s);
	if (s->preload.kind == kind && is_of(&s->preload.ops, l->torch)) {
		s->loaded = s->preload.ops;
		s->preload.ops.table = NULL;
	} else {
		r = load(pid, l, kind, &s->loaded, e);
	}
	if (!r)
		s->ops = s->loaded.table;
	return r;
}

void session_end_preload(struct session *s)
{
	wait_for_preload(s);
	op_table_free(s->preload.ops.table);
}
