/* The jumps at the ops of a process that has the library, in libc10, and in libraries that come
 * when the process has long been traced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "base/text.h"
#include "symbolizer/code/return_sites.h"
#include "tracer/engine/shim/internal.h"
#include "tracer/engine/shim/jumps.h"

/* The function for a site of that kind (enum site_kind). */
static uint64_t handler_of(const struct shim_jumps *h, uint16_t kind)
{
	switch (kind) {
	case SITE_ENTRY:
		return h->entry;
	case SITE_EXIT:
		return h->exit;
	case SITE_ANNOUNCED:
		return h->announced;
	case SITE_MEMORY:
		return h->memory;
	default:
		return h->step;
	}
}

/* The address of a site in the process; 0: it has no window. */
static uint64_t address_of(const struct probe_file *f, const struct probe_site *s)
{
	uint64_t at = s->len ? elf_address(f->elf, s->offset) : 0;
	return at ? at + f->bias : 0;
}

static bool is_node(const struct engine_shim *m, const struct probe_site *s)
{
	return (m->plans[s->op].flags & (PLAN_BACKWARD | PLAN_MARK)) == PLAN_BACKWARD;
}

/* False for a site that gets no jump. */
static bool make_site(const struct engine_shim *m, const struct inside *i,
		      const struct probe_file *f, const struct probe_site *s, struct jump_site *out)
{
	uint64_t at = address_of(f, s);
	const uint8_t *code =
	    at && s->len <= JUMP_WINDOW_MAX ? elf_bytes(f->elf, at - f->bias, s->len) : NULL;
	if (!code || (s->kind == SITE_ANNOUNCED && is_node(m, s)))
		return false;
	*out = (struct jump_site){
	    .addr = at,
	    .handler = handler_of(&i->jumps, s->kind),
	    .number = s->op,
	    .len = s->len,
	    .relative = s->relative,
	    /* no other jump is of use without the former; the latter are not observed instead */
	    .first = s->kind == SITE_DISPATCH || s->op == i->share->op[SHIM_CALL],
	    .skips_red_zone = s->kind == SITE_EXIT,
	};
	memcpy(out->bytes, code, s->len);
	return true;
}

/* Make a site of another library than libtorch_cpu, which is at `bias`. False: it is no place for a
 * jump. */
static bool make_far_site(const struct shim_jumps *h, const struct elf_file *f, uint64_t bias,
			  const struct probe_site *s, struct jump_site *out)
{
	uint64_t at = s->len && s->len <= JUMP_WINDOW_MAX ? elf_address(f, s->offset) : 0;
	const uint8_t *code = at ? elf_bytes(f, at, s->len) : NULL;
	if (!code)
		return false;
	*out = (struct jump_site){
	    .addr = at + bias,
	    .handler = handler_of(h, s->kind),
	    .number = s->op,
	    .len = s->len,
	    .relative = s->relative,
	    .skips_red_zone = s->kind == SITE_EXIT,
	};
	memcpy(out->bytes, code, s->len);
	return true;
}

static bool reaches_all(const struct jump_pool *p, const struct jump_site *site, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		if (!jump_pool_reaches(p, &site[k]))
			return false;
	return true;
}

static const struct jump_pool *reaching(const struct inside *i, const struct jump_site *site,
					uint32_t n)
{
	if (reaches_all(&i->jumps.pool, site, n))
		return &i->jumps.pool;
	for (unsigned k = 0; k < i->nnear; k++)
		if (reaches_all(&i->near[k], site, n))
			return &i->near[k];
	return NULL;
}

/* What of a device's memory is freed is told where it is allocated; for the CPU's there are two
 * functions. */
static void note_memory(const struct engine_shim *m, struct inside *i,
			const struct probe_site *const *of, uint32_t n)
{
	unsigned written = 0;
	for (uint32_t k = 0; k < n; k++)
		if (jumps_state(m->jumps, k) == JUMP_WRITTEN)
			written |= 1U << of[k]->op;
	const unsigned cpu = 1U << SHIM_MEMORY_NEW | 1U << SHIM_MEMORY_DELETE;
	i->share->memory = (written & cpu) == cpu || written & 1U << SHIM_MEMORY_REPORT;
	i->no_memory = (written & cpu) != cpu;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* List the nodes that need not be observed. The engine must announce each. */
static void list_nodes(const struct engine_shim *m, struct inside *i)
{
	struct shim_share *s = i->share;
	bool engine = s->jumped[s->op[SHIM_ENGINE]];
	for (size_t k = 0; k < i->file.nsites; k++) {
		const struct probe_site *x = &i->file.sites[k];
		bool enters = x->kind == SITE_ENTRY || x->kind == SITE_ANNOUNCED;
		if (!x->len || !enters || !is_node(m, x))
			continue;
		s->jumped[x->op] &= engine;
		if (engine && s->nnodes < SHIM_NODES &&
		    (s->jumped[x->op] || x->kind == SITE_ANNOUNCED))
			s->node[s->nnodes++] = address_of(&i->file, x);
	}
	qsort(s->node, s->nnodes, sizeof(s->node[0]), by_address);
	s->engine_from = engine ? i->file.engine_main + i->file.bias : 0;
	s->engine_to = s->engine_from + i->file.engine_main_size;
}

/* What has not all of its jumps records nothing. */
static void note_ops(const struct engine_shim *m, struct inside *i,
		     const struct probe_site *const *of, uint32_t n)
{
	uint8_t *jumped = i->share->jumped;
	for (uint32_t k = 0; k < n; k++)
		if (of[k]->kind == SITE_ENTRY)
			jumped[of[k]->op] = 1;
	for (uint32_t k = 0; k < n; k++)
		if (jumps_state(m->jumps, k) != JUMP_WRITTEN &&
		    (of[k]->kind == SITE_ENTRY || of[k]->kind == SITE_EXIT))
			jumped[of[k]->op] = 0;
}

/* What has become of the sites. */
static void note_written(const struct engine_shim *m, struct inside *i,
			 const struct probe_site *const *of, uint32_t n)
{
	struct shim_share *s = i->share;
	bool dispatch = false;
	note_ops(m, i, of, n);
	for (uint32_t k = 0; k < n; k++)
		dispatch |= jumps_state(m->jumps, k) == JUMP_WRITTEN &&
			    of[k]->kind == SITE_DISPATCH && of[k]->op == SHIM_STEP_DISPATCH;
	for (uint32_t k = 0; k < n; k++)
		if (of[k]->kind == SITE_DISPATCH && of[k]->op == SHIM_STEP_PROFILER &&
		    jumps_state(m->jumps, k) == JUMP_WRITTEN)
			s->activities.wanted = dispatch ? m->devices : SHIM_DEVICES_NO;
	if (!dispatch)
		memset(s->jumped, 0, sizeof(s->jumped));
	list_nodes(m, i);
	s->jumps = dispatch;
}

static void say_foreign(struct engine_shim *m, pid_t pid, uint32_t n)
{
	char places[40];
	if (!n || m->engine.trouble.code)
		return;
	err_set(&m->engine.trouble, -EBUSY,
		"another tool has changed the code of process %d in %s; ops there are observed "
		"instead, which costs more, or missing",
		pid, text_counted(places, sizeof(places), n, "place"));
	err_hint(&m->engine.trouble,
		 "end what has probes or breakpoints in it, or use --engine bpf");
}

static void say_no_room(struct engine_shim *m, pid_t pid, uint32_t none, uint32_t n)
{
	if (!none || m->engine.trouble.code)
		return;
	err_set(&m->engine.trouble, -ENOSPC,
		"too little memory is free within 2 GiB of libtorch_cpu for %u of %u jumps into "
		"process %d; ops there are observed instead, which may cost twice as much",
		none, n, pid);
}

/* Those that tell what is done with memory, in libc10. */
static void write_memory(struct engine_shim *m, struct inside *i)
{
	const struct probe_file *f = &i->file;
	struct jump_site site[SHIM_MEMORIES];
	const struct probe_site *of[SHIM_MEMORIES];
	struct jumps_done done = {0};
	uint32_t n = 0;
	for (unsigned k = 0; k < SHIM_MEMORIES; k++)
		if (make_far_site(&i->jumps, f->c10, f->c10_bias, &f->memory[k], &site[n]))
			of[n++] = &f->memory[k];
	const struct jump_pool *pool = n ? reaching(i, site, n) : NULL;
	if (!pool || jumps_add(m->jumps, i->pid, pool, site, n, &done, NULL))
		n = 0;
	note_memory(m, i, of, n);
	say_foreign(m, i->pid, done.foreign);
}

/* The sites to be written, and of what they are. */
struct chosen {
	struct jump_site *site;
	const struct probe_site **of;
	uint32_t n;
};

static void choose(const struct engine_shim *m, const struct inside *i, const struct probe_file *f,
		   struct chosen *c)
{
	for (size_t k = 0; f->elf && k < f->nsites; k++)
		if (make_site(m, i, f, &f->sites[k], &c->site[c->n]))
			c->of[c->n++] = &f->sites[k];
}

/* What lacks one of its jumps, in either library, records nothing. */
static void forget(const struct inside *i, const struct chosen *c)
{
	for (uint32_t k = 0; k < c->n; k++)
		i->share->jumped[c->of[k]->op] = 0;
}

/* Other libraries have a pool of their own where that of libtorch_cpu is too far. Returns for how
 * many there is no room. */
static uint32_t write_beside(struct engine_shim *m, struct inside *i, const struct chosen *c)
{
	struct jumps_done done = {0};
	const uint32_t call = i->share->op[SHIM_CALL];
	const bool lacks_call = !i->share->jumped[call];
	const struct jump_pool *pool = c->n ? reaching(i, c->site, c->n) : NULL;
	if (!pool || jumps_add(m->jumps, i->pid, pool, c->site, c->n, &done, NULL)) {
		forget(i, c);
		return c->n;
	}
	note_ops(m, i, c->of, c->n);
	if (lacks_call)
		i->share->jumped[call] = 0;
	say_foreign(m, i->pid, done.foreign);
	return done.no_room;
}

/* Choose those of the library number k beside; with the others where the pool reaches them. */
static void choose_beside(const struct engine_shim *m, const struct inside *i, unsigned k,
			  struct chosen *c, struct chosen *beside)
{
	choose(m, i, &i->beside[k], beside);
	if (beside->site != c->site + c->n || !reaches_all(&i->jumps.pool, beside->site, beside->n))
		return;
	c->n += beside->n;
	beside->n = 0;
}

static int write_jumps(struct engine_shim *m, struct inside *i, struct chosen *c, struct err *e)
{
	struct jumps_done done = {0};
	struct chosen beside[SHIM_BESIDE];
	choose(m, i, &i->file, c);
	uint32_t all = c->n;
	for (unsigned k = 0; k < i->nbeside; k++) {
		beside[k] = (struct chosen){c->site + all, c->of + all, 0};
		choose_beside(m, i, k, c, &beside[k]);
		all = beside[k].n ? all + beside[k].n : c->n;
	}
	int r = c->n ? jumps_add(m->jumps, i->pid, &i->jumps.pool, c->site, c->n, &done, e) : 0;
	if (r || !c->n)
		return r;
	note_written(m, i, c->of, c->n);
	say_foreign(m, i->pid, done.foreign);
	for (unsigned k = 0; k < i->nbeside; k++)
		done.no_room += write_beside(m, i, &beside[k]);
	say_no_room(m, i->pid, done.no_room, all);
	return 0;
}

static int no_memory(struct err *e, const struct jumps *helper)
{
	if (!helper)
		return err_set(e, -ECHILD, "the process that writes jumps could not be started");
	err_set(e, -ENOTSUP, "no memory is free within 2 GiB of libtorch_cpu");
	return err_hint(e, "before other libraries are mapped there is: start it with ditrace run");
}

int shim_jumps_write(struct engine_shim *m, struct inside *i, struct err *e)
{
	size_t most = i->file.elf ? i->file.nsites : 0;
	for (unsigned k = 0; most && k < i->nbeside; k++)
		most += i->beside[k].nsites;
	if (!most)
		return 0;
	if (!m->jumps || !i->jumps.pool.n)
		return no_memory(e, m->jumps);
	struct chosen c = {malloc(most * sizeof(*c.site)),
			   malloc(most * sizeof(const struct probe_site *)), 0};
	/* First, as there may be room for few. */
	if (i->file.memory)
		write_memory(m, i);
	int r = c.site && c.of ? write_jumps(m, i, &c, e) : err_set(e, -ENOMEM, "no memory");
	free(c.of);
	free(c.site);
	return r;
}

/* Have the library map memory there, and wait for it, up to a limit. */
static void ask_for_memory(struct inside *i, uint64_t low, uint64_t high)
{
	enum { PATIENCE_MS = 10 * SHIM_LOOK_MS, TURN_MS = 2 };
	const struct timespec turn = {.tv_nsec = TURN_MS * 1000 * 1000};
	struct shim_near *near = &i->share->near;
	near->low = low;
	near->high = high;
	const uint32_t number = ++near->asked;
	for (int ms = 0; near->told != number && ms < PATIENCE_MS; ms += TURN_MS)
		nanosleep(&turn, NULL);
	if (near->told != number)
		return;
	const uint64_t n = near->n;
	i->nnear = n < SHIM_NEAR ? (unsigned)n : SHIM_NEAR;
	memcpy(i->near, near->pool, i->nnear * sizeof(*i->near));
}

static int write_late(struct engine_shim *m, struct inside *i, const struct jump_site *site,
		      uint32_t n, struct err *e)
{
	struct jumps_done done;
	const uint64_t low = site[0].addr, high = site[n - 1].addr + site[n - 1].len;
	const struct jump_pool *pool = reaching(i, site, n);
	if (!pool)
		ask_for_memory(i, low < high ? low : high, low < high ? high : low);
	pool = pool ? pool : reaching(i, site, n);
	if (!pool)
		return -ENOSPC;
	int r = jumps_add(m->jumps, i->pid, pool, site, n, &done, e);
	return r ? r : done.written == n ? 0 : done.no_room ? -ENOSPC : -EBUSY;
}

int shim_jumps_late(struct engine_shim *m, struct inside *i, const struct probe_file *file,
		    struct err *e)
{
	struct jump_site site[1 + EXITS_MAX];
	if (!m->jumps || !i->jumps.pool.n)
		return -ECHILD;
	if (!file->nsites || file->nsites > 1 + EXITS_MAX)
		return -ENOTSUP;
	for (uint32_t n = 0; n < file->nsites; n++)
		if (!make_far_site(&i->jumps, file->elf, file->bias, &file->sites[n], &site[n]))
			return -ENOTSUP;
	int r = write_late(m, i, site, (uint32_t)file->nsites, e);
	if (!r)
		i->share->jumped[file->sites[0].op] = 1;
	return r;
}
