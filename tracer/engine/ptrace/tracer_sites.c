#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"

struct put_in {
	struct breakpoints *space;
	const struct maps *maps;
	const struct mapping *like; /* one of the mappings of the file */
	const char *path;
	int fd;
	uint16_t proc;
};

static bool has_numbers(const struct mapping *m, const struct stat *st)
{
	return m->inode == st->st_ino && m->dev_major == major(st->st_dev) &&
	       m->dev_minor == minor(st->st_dev);
}

/* A mapping of the file at `path`: by device and inode or, on file systems where those in maps
 * differ from stat's, by path. */
static const struct mapping *mapping_of(const struct maps *maps, pid_t pid, const char *path,
					const struct stat *st)
{
	char other[PATH_MAX];
	for (const struct mapping *m = NULL; (m = maps_next_exec(maps, m));)
		if (has_numbers(m, st))
			return m;
	for (const struct mapping *m = NULL; (m = maps_next_exec(maps, m));)
		if (!maps_open_path(pid, m, other, sizeof(other), NULL) && !strcmp(other, path))
			return m;
	return NULL;
}

static bool is_same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static int add_at(const struct put_in *w, uint64_t addr, const struct probe_site *site)
{
	const struct use use = {.kind = site->kind, .op = site->op, .proc = w->proc};
	uint8_t code[CODE_BYTES] = {0};
	if (pread(w->fd, code, sizeof(code), (off_t)site->offset) <= 0)
		return -EIO;
	return breakpoints_add(w->space, addr, code, &use);
}

/* Set it in every mapping that covers the site's file offset. */
static int add_site(const struct put_in *w, const struct probe_site *site)
{
	int r = 0;
	for (const struct mapping *m = NULL; !r && (m = maps_next_exec(w->maps, m));) {
		if (!is_same_file(m, w->like) || site->offset < m->offset ||
		    site->offset - m->offset >= m->end - m->start)
			continue;
		r = add_at(w, m->start + (site->offset - m->offset), site);
		/* An instruction that can neither be emulated nor moved: leave out the site. */
		r = r == -ENOTSUP ? 0 : r;
	}
	return r;
}

static int cannot_add(const struct put_in *w, const struct probe_site *site, int code,
		      struct err *e)
{
	pid_t pid = breakpoints_pid(w->space);
	if (code != -EBUSY)
		return err_set(e, code, "cannot put breakpoints into %s in process %d: %s",
			       w->like->path, pid, strerror(-code));
	err_set(e, code,
		"the code of process %d is not that of its file %s (at %#llx): somebody has put a "
		"breakpoint or a probe there",
		pid, w->like->path, (unsigned long long)site->offset);
	return err_hint(e, "end the debugger or the other ditrace; beside another ditrace only "
			   "--engine bpf works");
}

/* Exits first: an op whose entry is seen must have its exit probed. */
static int add_sites(const struct put_in *w, const struct probe_site *sites, size_t n,
		     struct err *e)
{
	static const uint32_t order[] = {SITE_EXIT, SITE_ENTRY, SITE_CODE_FREED, SITE_SCHEMA,
					 SITE_DISPATCH};
	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
		for (size_t i = 0; i < n; i++) {
			int r = sites[i].kind == order[k] ? add_site(w, &sites[i]) : 0;
			if (r)
				return cannot_add(w, &sites[i], r, e);
		}
	}
	return 0;
}

static int add_file(struct put_in *w, pid_t pid, const struct probe_site *sites, size_t n,
		    struct err *e)
{
	struct stat st;
	w->fd = regular_open(w->path);
	if (w->fd < 0)
		return err_set(e, w->fd, "cannot open %s: %s", w->path, strerror(-w->fd));
	if (fstat(w->fd, &st))
		return err_set(e, -errno, "cannot open %s: %s", w->path, strerror(errno));
	w->like = mapping_of(w->maps, pid, w->path, &st);
	if (!w->like)
		return err_set(e, -ENOENT, "process %d has not mapped %s", pid, w->path);
	return add_sites(w, sites, n, e);
}

int tracer_sites_attach(struct tracer *t, const struct request *q, const void *payload,
			struct err *e)
{
	struct tracee_process *p;
	const char *path = (const char *)payload;
	const struct probe_site *sites = (const void *)(path + q->path_len);
	if (q->path_len < 1 || q->path_len % 8 || path[q->path_len - 1] ||
	    q->len != q->path_len + (uint64_t)q->n * sizeof(*sites))
		return err_set(e, -EINVAL, "malformed request");
	int r = tracee_seize(t, q->pid, &p, e);
	if (r)
		return r;
	struct maps maps;
	r = maps_read(q->pid, &maps, e);
	if (r)
		return r;
	struct put_in w = {
	    .space = p->space, .maps = &maps, .path = path, .fd = -1, .proc = q->proc};
	p->told = p->probed = true;
	r = add_file(&w, q->pid, sites, q->n, e);
	if (w.fd >= 0)
		close(w.fd);
	maps_free(&maps);
	return r;
}
