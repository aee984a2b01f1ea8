/* How captures become files, in the folder of the rank of their process. */
#define _GNU_SOURCE
#include "tracer/capture/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/event/names.h"
#include "symbolizer/target/process.h"

enum { NAMES_MAX = 100 };

/* The name that no process has before it: of a rank that was started again, or whose folder is of
 * an earlier run. */
static void name_place(const struct capture *c, struct capture_process *p)
{
	char path[4096];
	unsigned nth = 0;
	for (size_t i = 0; i < c->processes.n; i++)
		nth += !c->processes.all[i].worker && c->processes.all[i].rank == p->rank;
	for (unsigned last = nth + NAMES_MAX; nth < last; nth++) {
		if (nth)
			snprintf(p->place, sizeof(p->place), "rank%d.%u", p->rank, nth);
		else
			snprintf(p->place, sizeof(p->place), "rank%d", p->rank);
		snprintf(path, sizeof(path), "%s/%s", c->files.root, p->place);
		if (access(path, F_OK))
			return;
	}
}

static const struct capture_process *process_of_rank(const struct capture *c, int32_t rank)
{
	for (size_t i = c->processes.n; i-- > 0;)
		if (c->processes.all[i].rank == rank && !c->processes.all[i].worker)
			return &c->processes.all[i];
	return NULL;
}

void capture_places_add(struct capture *c, const struct trace_process *told)
{
	struct capture_processes *all = &c->processes;
	struct capture_process p = {
	    .pid = told->pid, .rank = told->rank.rank, .worker = told->worker};
	for (size_t i = all->n; i-- > 0 && p.rank < 0;) /* it turned out to be no rank */
		if (all->all[i].pid == p.pid)
			memmove(&all->all[i], &all->all[i + 1], (--all->n - i) * sizeof(*all->all));
	const struct capture_process *of = p.worker ? process_of_rank(c, p.rank) : NULL;
	if (p.rank < 0 || array_grow(&all->all, &all->room, all->n + 1, sizeof(*all->all)))
		return;
	if (of)
		memcpy(p.place, of->place, sizeof(p.place));
	else
		name_place(c, &p);
	all->all[all->n++] = p;
}

void capture_place_of(const struct capture *c, pid_t pid, char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = c->processes.n; i-- > 0;)
		if (c->processes.all[i].pid == pid) {
			snprintf(out, size, "%s", c->processes.all[i].place);
			return;
		}
}

static int read_target(void *ctx, uint64_t address, void *to, size_t n)
{
	const struct capture_source *c = ctx;
	return mem_read(&c->target->mem, address, to, n);
}

static bool read_keys(const struct capture_source *c, const struct tensor *t, uint64_t *keys)
{
	const struct tensor_layout *l = &c->target->layout;
	return !(l->unknown & LAYOUT_KEY_SET) && t->impl &&
	       !mem_read_u64(&c->target->mem, t->impl + l->key_set, keys);
}

static bool is_integral(const struct tensor *t)
{
	const char *dtype = t->meta.unknown & TENSOR_NO_DTYPE ? NULL : names_dtype(t->meta.dtype);
	return dtype && (strstr(dtype, "int") || !strcmp(dtype, "bool"));
}

/* For builds whose code does not reveal the bits: a tensor with a dispatch key that no integer
 * tensor has had may have one of the two. */
static bool may_be_lazy(const struct capture_source *c, const struct tensor *t)
{
	uint64_t keys;
	bool known = read_keys(c, t, &keys);
	if (is_integral(t)) {
		c->keys->keys |= known ? keys : 0;
		return false;
	}
	return !known || (keys & ~c->keys->keys) != 0;
}

/* Bit number `bit` of the TensorImpl at `impl`. */
static bool read_bit(const struct capture_source *c, uint64_t impl, int32_t bit, bool *out)
{
	uint8_t byte;
	if (bit < 0 || mem_read(&c->target->mem, impl + (uint32_t)bit / 8, &byte, 1))
		return false;
	*out = byte >> bit % 8 & 1;
	return true;
}

/* torch.save of 1.x cannot store the two bits, and its torch.load fails on them. */
static bool can_load_bits(const struct target *t)
{
	return strncmp(t->package.version, "1.", 2) != 0;
}

static void more_of(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct capture_source *c = ctx;
	const struct tensor_layout *l = &c->target->layout;
	const struct layout_facts *f = &c->target->ops->facts;
	if (!t->impl || !read_bit(c, t->impl, f->conj_bit, &out->conj) ||
	    !read_bit(c, t->impl, f->neg_bit, &out->neg))
		out->may_be_lazy = may_be_lazy(c, t);
	else if (!can_load_bits(c->target))
		out->may_be_lazy = out->conj || out->neg;
	out->has_storage_bytes =
	    t->storage && !(l->unknown & LAYOUT_NBYTES) &&
	    !mem_read_u64(&c->target->mem, t->storage + l->storage_nbytes, &out->storage_bytes);
}

struct source capture_source(struct capture_source *c)
{
	return (struct source){.ctx = c, .read = read_target, .more = more_of};
}

/* Writes the files of captured calls, and logs each. */

static void give_up(struct capture *c, const struct err *why)
{
	c->over = true;
	c->trouble = *why;
	err_hint(&c->trouble, "%s; the program runs on untouched, and what was saved is whole",
		 why->hint[0] ? why->hint : "free some space, or another folder: --capture=DIR");
}

void capture_log_saved(FILE *log, const struct capture_saved *saved)
{
	char size[32], limits[512], line[sizeof(saved->path) + 600];
	pth_limits_text(limits, sizeof(limits), saved->limits);
	snprintf(line, sizeof(line), "saved %s (%s)%s%s", saved->path,
		 text_bytes(size, sizeof(size), saved->bytes), limits[0] ? "; " : "", limits);
	fputs("ditrace: ", log);
	text_print_words(log, line, 9, 4, (size_t)terminal_of(log).width);
	putc('\n', log);
}

/* Successive refusals of the same op for the same reason are logged once, those with a hint, of
 * memory on a device, once for all ops; the summary has their number. */
static void log_refused(struct capture *c, const struct capture_call *call, int code,
			const struct err *why)
{
	if ((c->refused_code == code && !strcmp(c->refused_op, call->op)) ||
	    (c->hinted && why->hint[0]))
		return;
	c->hinted |= why->hint[0] != '\0';
	c->refused_code = code;
	snprintf(c->refused_op, sizeof(c->refused_op), "%s", call->op);
	fputs("ditrace: not saved: ", c->log);
	text_print_safe(c->log, why->what);
	fprintf(c->log, "%s%s\n", why->hint[0] ? "; " : "", why->hint);
}

/* Whether it was saved. */
static bool has_ended_well(struct capture *c, const struct capture_call *call, int r,
			   const struct capture_saved *saved, const struct err *why)
{
	if (capture_is_over(r))
		give_up(c, why);
	else if (r)
		log_refused(c, call, r, why);
	else
		capture_log_saved(c->log, saved);
	return !r;
}

void capture_save(struct capture *c, struct captured_call *call, enum capture_part part,
		  const struct op_event *ev, const struct source *src)
{
	struct capture_saved saved;
	struct err why = {0};
	if (c->trouble.code)
		return;
	int r = capture_write(&c->files, &call->call, part, ev, src, &saved, &why);
	if (has_ended_well(c, &call->call, r, &saved, &why))
		c->saved += !call->files++;
}

void capture_save_content(struct capture *c, const struct capture_call *call, const char *part,
			  struct pth_content *content, struct capture_about *about,
			  const struct source *src)
{
	struct capture_saved saved;
	struct err why = {0};
	if (c->trouble.code)
		return;
	int r = capture_write_content(&c->files, call, "", part, content, about, src, &saved, &why);
	if (has_ended_well(c, call, r, &saved, &why))
		c->saved += !strcmp(part, "input");
}

void capture_save_live(struct capture *c, struct target *t, struct captured_call *call,
		       enum capture_part part, const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	capture_save(c, call, part, ev, &live);
}
