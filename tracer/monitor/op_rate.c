#include "tracer/monitor/monitor.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "symbolizer/ops/ops.h"
#include "symbolizer/target/maps.h"
#include "tracer/engine/engine.h"

struct op_rate {
	pid_t pid;
	uint64_t inode; /* of its libtorch */
	struct engine *engine;
};

static int torch_of(pid_t pid, char *path, uint64_t *inode, struct err *e)
{
	struct maps maps;
	struct libraries l;
	int r = maps_read(pid, &maps, e);
	if (r)
		return r;
	libraries_find(&maps, &l);
	*inode = l.torch ? l.torch->inode : 0;
	r = !l.torch ? -ENODATA : path ? maps_open_path(pid, l.torch, path, PATH_MAX, e) : 0;
	maps_free(&maps);
	return r;
}

static int find_place(const char *path, uint64_t *offset, struct err *e)
{
	struct elf_file *elf;
	int r = elf_file_open(path, &elf, e);
	if (r)
		return r;
	uint64_t at = elf_find_dynamic(elf, ops_dispatched, NULL);
	int64_t off = at ? elf_offset(elf, at) : -1;
	elf_file_close(elf);
	*offset = (uint64_t)off;
	return off > 0 ? 0
		       : err_set(e, -ENOTSUP,
				 "this PyTorch lacks the function at which they are counted");
}

static int begin(struct op_rate *r, struct err *e)
{
	char path[PATH_MAX];
	struct probe_site site = {.kind = SITE_DISPATCH};
	struct probe_file f = {.path = path, .sites = &site, .nsites = 1};
	int code = torch_of(r->pid, path, &r->inode, e);
	code = code ? code : find_place(path, &site.offset, e);
	code = code ? code : engine_bpf_open(1, &r->engine, e);
	if (code)
		return code;
	r->engine->count_dispatch(r->engine, 1);
	return r->engine->attach(r->engine, r->pid, 0, &f, e);
}

int op_rate_open(pid_t pid, struct op_rate **out, struct err *e)
{
	struct op_rate *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, -ENOMEM, "no memory");
	r->pid = pid;
	int code = begin(r, e);
	if (code)
		op_rate_close(r);
	else
		*out = r;
	return code;
}

void op_rate_close(struct op_rate *r)
{
	if (!r)
		return;
	if (r->engine)
		r->engine->close(r->engine);
	free(r);
}

int op_rate_read(struct op_rate *r, uint64_t *ops)
{
	struct engine_counters c;
	uint64_t inode;
	if (torch_of(r->pid, NULL, &inode, NULL) || inode != r->inode)
		return -ESTALE;
	r->engine->counters(r->engine, &c);
	*ops = c.dispatched;
	return 0;
}
