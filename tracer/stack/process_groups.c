#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/event/names.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "symbolizer/torch/layout.h"
#include "tracer/stack/hang.h"
#include "tracer/stack/internal.h"

enum {
	FILES = 4,
	TENSORS_MAX = 64,
};

struct group_reader {
	const struct mem *mem;
	struct rtti *rtti;
	struct elf_file *files[FILES];
	struct layout_facts facts;
	bool only_collectives; /* were numbered in the group that is being read */
};

static const uint8_t *code_of(void *arg, const char *name, size_t *len)
{
	const struct group_reader *g = arg;
	for (unsigned i = 0; i < FILES; i++) {
		uint64_t size = 0,
			 at = g->files[i] ? elf_find_dynamic(g->files[i], name, &size) : 0;
		if (!at || !size)
			continue;
		*len = size;
		return elf_bytes(g->files[i], at, size);
	}
	return NULL;
}

static int32_t returned_word(struct group_reader *g, const char *function)
{
	size_t len = 0;
	const uint8_t *code = code_of(g, function, &len);
	return member_returned(code, len);
}

static bool field_read(const struct torch_object *o, int32_t at, void *out, size_t size)
{
	if (at < 0 || (size_t)at + size > o->n * 8)
		return false;
	memcpy(out, (const uint8_t *)o->word + at, size);
	return true;
}

/* Whether three words are a std::vector of pointers, some 0 if `gaps`, the others to objects of the
 * class; *n: how many words. */
static bool vector_read(struct group_reader *g, const uint64_t v[3], const char *class, bool gaps,
			uint64_t *items, size_t *n)
{
	uint64_t size = v[1] - v[0];
	bool any = false;
	if (!v[0] || v[0] % 8 || v[1] <= v[0] || v[2] < v[1] || size % 8 ||
	    size > TENSORS_MAX * 8 || mem_read(g->mem, v[0], items, size))
		return false;
	*n = size / 8;
	for (size_t i = 0; i < *n; i++) {
		if (!items[i] && gaps)
			continue;
		if (!torch_object_is_a(g->rtti, items[i], class))
			return false;
		any = true;
	}
	return any;
}

/* "float32 [4, 1024]"; false if any of it is not known. */
static bool tensor_text(struct group_reader *g, uint64_t impl, char *out, size_t size)
{
	enum { DIMS = 32 };
	const struct layout_facts *f = &g->facts;
	uint8_t bytes[WIN_MAX];
	uint64_t ndim;
	int64_t dims[DIMS];
	uint16_t dtype;
	char shape[160];
	if (f->sizes < 0 || f->sizes_data < 0 || f->dtype < 0 || f->sizes + 8 > WIN_MAX ||
	    f->sizes_data + 8 > WIN_MAX || f->dtype + 2 > WIN_MAX ||
	    mem_read(g->mem, impl, bytes, sizeof(bytes)) || layout_custom(&f->custom_shape, bytes))
		return false;
	memcpy(&ndim, bytes + f->sizes, sizeof(ndim));
	memcpy(&dtype, bytes + f->dtype, sizeof(dtype));
	uint64_t at = impl + (uint64_t)f->sizes_data;
	if (ndim > layout_inline_dims(f))
		memcpy(&at, bytes + f->sizes_data, sizeof(at));
	if (ndim > DIMS || (ndim && mem_read(g->mem, at, dims, ndim * sizeof(*dims))) ||
	    !names_dtype(dtype))
		return false;
	value_dims(shape, sizeof(shape), dims, (uint32_t)ndim);
	snprintf(out, size, "%s %s", names_dtype(dtype), shape);
	return true;
}

/* The tensors of a work: of its class's own members, behind those of AsyncWork, the first vector of
 * tensors. */
static void work_tensors(struct group_reader *g, const struct torch_object *o, char *out,
			 size_t size)
{
	uint64_t items[TENSORS_MAX];
	char first[200];
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i + 3 <= o->n && !n; i++)
		if (!vector_read(g, &o->word[i], "N3c1010TensorImplE", false, items, &n))
			n = 0;
	if (!n || !tensor_text(g, items[0], first, sizeof(first)))
		return;
	snprintf(out, size, n > 1 ? "%s and %zu more" : "%s", first, n - 1);
}

/* "N4c10d12_GLOBAL__N_118AsyncAllreduceWorkE": the function that made it. */
static bool work_kind(const char *class, char *out, size_t size)
{
	static const char *const known[][2] = {
	    {"AllreduceCoalesced", "all_reduce_coalesced"},
	    {"SparseAllreduce", "all_reduce"},
	    {"Allreduce", "all_reduce"},
	    {"Broadcast", "broadcast"},
	    {"ReduceScatter", "reduce_scatter"},
	    {"Reduce", "reduce"},
	    {"AllgatherCoalesced", "all_gather_coalesced"},
	    {"Allgather", "all_gather"},
	    {"Gather", "gather"},
	    {"Scatter", "scatter"},
	    {"Alltoall", "all_to_all"},
	    {"Barrier", "barrier"},
	};
	const char *at = strstr(class, "Async");
	for (size_t i = 0; at && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(at + 5, known[i][0], strlen(known[i][0])) != 0)
			continue;
		snprintf(out, size, "%s", known[i][1]);
		return true;
	}
	return false;
}

/* From 2.x on a work has a number, but sends are numbered with it, which not all ranks call: it is
 * used only where there were none, so that as many were numbered as have tags. Otherwise a single
 * work is the last that was called if it has the last tag. */
static uint64_t work_number(struct group_reader *g, const struct torch_object *o,
			    const struct hang_group *group, size_t nworks)
{
	int32_t at = returned_word(g, "_ZNK4c10d16ProcessGroupGloo9AsyncWork17getSequencenumberEv");
	uint64_t number;
	if (g->only_collectives && field_read(o, at, &number, sizeof(number)))
		return number;
	for (size_t i = 0; nworks == 1 && group->counted && i < 2 * o->n; i++)
		if (((const uint32_t *)o->word)[i] == group->count - 1)
			return group->count;
	return 0;
}

static int compare_calls(const void *a, const void *b)
{
	const struct hang_call *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static int read_works(struct group_reader *g, const uint64_t *works, size_t n,
		      struct hang_group *out)
{
	struct torch_object o;
	size_t some = 0;
	out->calls = calloc(n + 1, sizeof(*out->calls));
	if (!out->calls)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		some += works[i] != 0;
	for (size_t i = 0; i < n; i++) {
		struct hang_call *c = &out->calls[out->ncalls];
		if (!works[i] || !torch_object_read(g->mem, g->rtti, works[i], &o) ||
		    !work_kind(o.class->name, c->kind, sizeof(c->kind)))
			continue;
		work_tensors(g, &o, c->tensors, sizeof(c->tensors));
		c->number = work_number(g, &o, out, some);
		out->ncalls++;
	}
	qsort(out->calls, out->ncalls, sizeof(*out->calls), compare_calls);
	return 0;
}

static int read_gloo(struct group_reader *g, const struct torch_object *o, struct hang_group *out)
{
	uint64_t works[TENSORS_MAX];
	uint32_t count;
	uint64_t numbered;
	size_t n;
	int32_t at = returned_word(g, "_ZN4c10d16ProcessGroupGloo25getSequenceNumberForGroupEv");
	out->counted =
	    field_read(o, (g->files[0] ? process_group_counter(g->files[0]) : MEMBER_NOT_KNOWN),
		       &count, sizeof(count));
	out->count = out->counted ? count : 0;
	g->only_collectives =
	    out->counted && field_read(o, at, &numbered, sizeof(numbered)) && numbered == count;
	for (size_t i = 0; i + 3 <= o->n; i++)
		if (vector_read(g, &o->word[i], "N4c10d16ProcessGroupGloo9AsyncWorkE", true, works,
				&n))
			return read_works(g, works, n, out);
	return 0;
}

/* "N4c10d16ProcessGroupNCCLE" */
static bool backend_name(const char *class, char *out, size_t size)
{
	static const char prefix[] = "ProcessGroup";
	const char *at = strstr(class, prefix);
	size_t n = 0;
	if (!at)
		return false;
	for (at += sizeof(prefix) - 1; isalpha((unsigned char)at[n]); n++)
		;
	if (n < 2 || n >= size || at[n - 1] != 'E')
		return false;
	for (size_t i = 0; i + 1 < n; i++)
		out[i] = (char)tolower((unsigned char)at[i]);
	out[n - 1] = '\0';
	return true;
}

static void read_other(struct group_reader *g, const struct torch_object *o, struct hang_group *out)
{
	char function[256];
	const char *class = o->class->name;
	size_t n = strlen(class);
	if (n < 3 || class[0] != 'N' || class[n - 1] != 'E')
		return;
	snprintf(function, sizeof(function), "_Z%.*s25getSequenceNumberForGroupEv", (int)n - 1,
		 class);
	out->counted = field_read(o, returned_word(g, function), &out->count, sizeof(out->count));
}

static int read_backend(struct group_reader *g, const struct torch_object *o,
			struct hang_group *out)
{
	if (!backend_name(o->class->name, out->backend, sizeof(out->backend)))
		out->backend[0] = '\0';
	if (rtti_is_a(o->class, "N4c10d16ProcessGroupGlooE"))
		return read_gloo(g, o, out);
	read_other(g, o, out);
	return 0;
}

static int copy_group(struct hang_rank *r, const struct python_group *p, struct hang_group **out)
{
	struct hang_group *all = reallocarray(r->groups, r->ngroups + 1, sizeof(*all));
	int32_t *ranks = malloc((p->n + 1) * sizeof(*ranks));
	r->groups = all ? all : r->groups;
	if (!all || !ranks) {
		free(ranks);
		return -ENOMEM;
	}
	*out = &all[r->ngroups++];
	**out = (struct hang_group){.ranks = ranks, .nranks = p->n};
	memcpy(ranks, p->ranks, p->n * sizeof(*ranks));
	snprintf((*out)->name, sizeof((*out)->name), "%s", p->name);
	return 0;
}

static int read_group(struct group_reader *g, const struct python_group *p, struct hang_rank *out)
{
	enum { BACKENDS = 8 };
	struct torch_object o, *backend = malloc(sizeof(*backend));
	struct hang_group *group;
	uint64_t at[BACKENDS];
	int r = backend ? 0 : -ENOMEM;
	if (!r && torch_object_read(g->mem, g->rtti, p->object, &o) &&
	    rtti_is_a(o.class, "N4c10d12ProcessGroupE")) {
		size_t n = process_group_backends(g->mem, g->rtti, &o, at, BACKENDS);
		if (!n) {
			r = copy_group(out, p, &group);
			r = r ? r : read_backend(g, &o, group);
		}
		for (size_t i = 0; i < n && !r; i++) {
			if (!torch_object_read(g->mem, g->rtti, at[i], backend))
				continue;
			r = copy_group(out, p, &group);
			r = r ? r : read_backend(g, backend, group);
		}
	}
	free(backend);
	return r;
}

static int open_files(struct group_reader *g, pid_t pid)
{
	struct maps maps;
	struct libraries l;
	struct err e = {0};
	int r = maps_read(pid, &maps, NULL);
	if (r)
		return r;
	libraries_find(&maps, &l);
	const struct mapping *m[FILES] = {l.torch, l.c10, l.torch_python};
	for (const struct mapping *x = NULL; (x = maps_next_exec(&maps, x));)
		if (!m[3] && !strncmp(mapping_name(x), "libtorch_cuda.", 14))
			m[3] = x;
	for (unsigned i = 0; i < FILES; i++) {
		int fd = m[i] ? maps_open(pid, m[i], &e) : -1;
		if (fd >= 0 && elf_file_open_fd(fd, m[i]->path, &g->files[i], &e))
			g->files[i] = NULL;
		if (fd >= 0)
			close(fd);
	}
	maps_free(&maps);
	const struct code_source src = {code_of, g};
	accessors_read(&src, &g->facts);
	return g->files[0] ? 0 : -ENOENT;
}

static bool is_whole(const struct python_group *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->ranks[i] != (int32_t)i)
			return false;
	return p->n;
}

/* Where no environment tells: two ints side by side in the group of all are the rank and the size,
 * if all that can be say the same. They come early in the object; behind them are other numbers. */
static void find_rank(struct group_reader *g, const struct python_group *p, struct hang_rank *out)
{
	struct torch_object o;
	int32_t found = -1;
	unsigned n = 0;
	if (!is_whole(p) || p->n < 2 || !torch_object_read(g->mem, g->rtti, p->object, &o))
		return;
	const int32_t *half = (const int32_t *)o.word;
	for (size_t i = 4; i + 1 < 2 * o.n; i++) {
		if (half[i + 1] != (int32_t)p->n || half[i] < 0 || half[i] >= (int32_t)p->n)
			continue;
		n += !n || half[i] != found;
		found = half[i];
	}
	if (n == 1) {
		out->rank = found;
		out->world_size = (int32_t)p->n;
	}
}

int process_groups_read(pid_t pid, const struct mem *m, struct py_runtime *py,
			struct hang_rank *out)
{
	struct group_reader g = {.mem = m};
	struct python_group *groups;
	int n = python_groups(py, &groups);
	if (n <= 0)
		return n ? n : -ENOENT;
	g.rtti = rtti_new(m);
	int r = g.rtti ? open_files(&g, pid) : -ENOMEM;
	for (int i = 0; i < n && !r; i++) {
		if (out->rank < 0 && i == 0)
			find_rank(&g, &groups[i], out);
		r = read_group(&g, &groups[i], out);
	}
	for (unsigned i = 0; i < FILES; i++)
		elf_file_close(g.files[i]);
	rtti_free(g.rtti);
	python_groups_free(groups, (size_t)n);
	return r;
}
