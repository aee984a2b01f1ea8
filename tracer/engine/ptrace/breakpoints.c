#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"
#include "symbolizer/target/process.h"

#define INT3 0xcc

struct breakpoints {
	unsigned refs;
	pid_t pid;
	int mem; /* /proc/PID/mem */
	struct share *share;
	struct trap_page page;
	uint64_t entry; /* the program's entry point, whose code never runs again */
	uint8_t entry_was[EMULATE_MOVED_MAX];
	bool entry_changed;
	struct breakpoint *bp;
	struct map by_addr; /* to the index in `bp` */
	size_t n, room, live;
	struct use *use; /* [0] is none */
	size_t nuse, use_room;
	uint32_t free_use;
	size_t looked_at; /* breakpoints_mend: the last one checked */
};

static int open_mem(pid_t pid, struct err *e)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	return fd >= 0
		   ? fd
		   : err_set(e, -errno, "cannot open %s for writing: %s", path, strerror(errno));
}

int breakpoints_open(pid_t pid, struct share *share, struct breakpoints **out, struct err *e)
{
	struct breakpoints *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	*s = (struct breakpoints){.refs = 1, .pid = pid, .share = share, .nuse = 1};
	s->mem = open_mem(pid, e);
	if (s->mem < 0) {
		int r = s->mem;
		free(s);
		return r;
	}
	s->entry = auxv_read(pid, AT_ENTRY);
	*out = s;
	return 0;
}

struct breakpoints *breakpoints_ref(struct breakpoints *s)
{
	s->refs++;
	return s;
}

static void forget_byte(struct breakpoints *s, const struct breakpoint *b)
{
	s->share->bytes[b->byte].in_use = 0;
}

void breakpoints_put(struct breakpoints *s)
{
	if (!s || --s->refs)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (s->bp[i].live)
			forget_byte(s, &s->bp[i]);
	close(s->mem);
	trap_page_close(&s->page);
	free(s->bp);
	map_free(&s->by_addr);
	free(s->use);
	free(s);
}

pid_t breakpoints_pid(const struct breakpoints *s)
{
	return s->pid;
}

int breakpoints_read(const struct breakpoints *s, uint64_t addr, void *buf, size_t len)
{
	ssize_t n = pread(s->mem, buf, len, (off_t)addr);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EFAULT;
}

int breakpoints_write(const struct breakpoints *s, uint64_t addr, const void *buf, size_t len)
{
	ssize_t n = pwrite(s->mem, buf, len, (off_t)addr);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EFAULT;
}

uint64_t breakpoints_scratch(const struct breakpoints *s)
{
	return s->page.addr ? s->page.slot : s->entry;
}

int breakpoints_put_out_of_line(struct breakpoints *s, uint64_t at, const uint8_t *code, size_t len)
{
	if (!at)
		return -ENOTSUP;
	if (at == s->entry && !s->entry_changed) {
		int r = breakpoints_read(s, at, s->entry_was, sizeof(s->entry_was));
		if (r)
			return r;
		s->entry_changed = true;
	}
	return breakpoints_write(s, at, code, len);
}

static void restore_entry(struct breakpoints *s)
{
	if (s->entry_changed)
		breakpoints_write(s, s->entry, s->entry_was, sizeof(s->entry_was));
	s->entry_changed = false;
}

const struct trap_page *breakpoints_page(const struct breakpoints *s)
{
	return &s->page;
}

static void list_live(struct breakpoints *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->bp[i].live)
			trap_page_list(&s->page, s->mem, s->bp[i].addr, s->bp[i].code[0]);
}

/* What nobody has restored since a tracing process was killed along with its keeper. The page may
 * be found when breakpoints of this process are in place already. */
static void repair_listed(struct breakpoints *s)
{
	for (size_t i = 0; i < s->page.n; i++) {
		uint64_t addr = trap_entry_addr(s->page.entry[i]);
		uint8_t there, was = trap_entry_byte(s->page.entry[i]);
		const struct breakpoint *b = breakpoints_find(s, addr);
		if (!(b && b->live) && !breakpoints_read(s, addr, &there, 1) && there == INT3)
			breakpoints_write(s, addr, &was, 1);
	}
}

int breakpoints_use_page(struct breakpoints *s, uint64_t addr, bool left_behind)
{
	int r = trap_page_open(&s->page, s->mem, addr, left_behind);
	if (r)
		return r;
	if (left_behind)
		repair_listed(s);
	list_live(s);
	return 0;
}

void breakpoints_leave_page(struct breakpoints *s)
{
	trap_page_close(&s->page);
}

bool breakpoints_are_shared(const struct breakpoints *s)
{
	return s->refs > 1;
}

struct breakpoint *breakpoints_find(struct breakpoints *s, uint64_t addr)
{
	int64_t i = map_get(&s->by_addr, addr);
	return i < 0 ? NULL : &s->bp[i];
}

static int enter(struct breakpoints *s, const struct breakpoint *b, struct breakpoint **out)
{
	int r = array_grow(&s->bp, &s->room, s->n + 1, sizeof(*s->bp));
	r = r ? r : map_put(&s->by_addr, b->addr, (uint32_t)s->n);
	if (r)
		return r;
	*out = &s->bp[s->n++];
	**out = *b;
	return 0;
}

static int add_use(struct breakpoints *s, struct breakpoint *b, const struct use *use)
{
	uint32_t at = s->free_use;
	if (at) {
		s->free_use = s->use[at].next;
	} else {
		if (array_grow(&s->use, &s->use_room, s->nuse + 1, sizeof(*s->use)))
			return -ENOMEM;
		at = (uint32_t)s->nuse++;
	}
	s->use[at] = *use;
	s->use[at].next = b->first_use;
	b->first_use = at;
	return 0;
}

const struct use *breakpoints_next_use(const struct breakpoints *s, const struct breakpoint *b,
				       const struct use *u)
{
	uint32_t next = u ? u->next : b->first_use;
	return next ? &s->use[next] : NULL;
}

/* Entries are reused only once the list is full. Each search starts where the last one ended, since
 * forked children take thousands at once. */
static int take_byte(struct share *share, uint32_t *out)
{
	static uint32_t next;
	uint32_t n = atomic_load(&share->nbytes);
	for (uint32_t k = 0; n == SHARE_BYTES && k < n; k++, next = (next + 1) % SHARE_BYTES)
		if (!share->bytes[next].in_use) {
			*out = next;
			return 0;
		}
	if (n == SHARE_BYTES)
		return -E2BIG;
	*out = n;
	atomic_store(&share->nbytes, n + 1);
	return 0;
}

/* Listed before the byte is changed, so that no changed byte is ever unlisted. In the page's list
 * there may be no room. */
static int make_live(struct breakpoints *s, struct breakpoint *b, bool write)
{
	static const uint8_t int3 = INT3;
	if (b->live)
		return 0;
	int r = take_byte(s->share, &b->byte);
	if (r)
		return r;
	struct changed_byte *c = &s->share->bytes[b->byte];
	*c = (struct changed_byte){.addr = b->addr, .pid = s->pid, .was = b->code[0]};
	atomic_signal_fence(memory_order_seq_cst);
	c->in_use = 1;
	trap_page_list(&s->page, s->mem, b->addr, b->code[0]);
	r = write ? breakpoints_write(s, b->addr, &int3, 1) : 0;
	if (r) {
		c->in_use = 0;
		return r;
	}
	b->live = true;
	s->live++;
	return 0;
}

void breakpoints_give_up(struct breakpoints *s, struct breakpoint *b)
{
	if (!b->live)
		return;
	/* Fails only where the memory has been unmapped: nothing to restore. */
	breakpoints_write(s, b->addr, &b->code[0], 1);
	b->live = false;
	s->live--;
	forget_byte(s, b);
}

void breakpoints_restore(struct breakpoints *s)
{
	for (size_t i = 0; i < s->n; i++)
		breakpoints_give_up(s, &s->bp[i]);
	restore_entry(s);
}

static bool is_missing(const struct breakpoints *s, const struct breakpoint *b)
{
	uint8_t there;
	return b->live && !breakpoints_read(s, b->addr, &there, 1) && there == b->code[0] &&
	       there != INT3;
}

static size_t mend_all(struct breakpoints *s)
{
	static const uint8_t int3 = INT3;
	size_t missing = 0;
	for (size_t i = 0; i < s->n; i++)
		if (is_missing(s, &s->bp[i]))
			missing += !breakpoints_write(s, s->bp[i].addr, &int3, 1);
	return missing;
}

size_t breakpoints_mend(struct breakpoints *s, size_t n)
{
	for (size_t i = 0; i < n && i < s->n; i++) {
		s->looked_at = (s->looked_at + 1) % s->n;
		if (is_missing(s, &s->bp[s->looked_at]))
			return mend_all(s);
	}
	return 0;
}

/* 0 if the instruction can be emulated or executed out of line, else -ENOTSUP. An operand relative
 * to rip reaches from libraries to the page, from the program to its entry point. */
static int understand(const struct breakpoints *s, struct breakpoint *b)
{
	uint8_t moved[EMULATE_INSN_MAX];
	const uint64_t places[] = {s->page.slot, s->entry};
	if (!emulate_decode(b->code, CODE_BYTES, &b->insn))
		return 0;
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		b->scratch = places[i];
		if (b->scratch &&
		    emulate_relocate(b->code, CODE_BYTES, b->addr, b->scratch, moved) > 0)
			return 0;
	}
	return -ENOTSUP;
}

static int new_breakpoint(struct breakpoints *s, uint64_t addr, const uint8_t code[CODE_BYTES],
			  struct breakpoint **out)
{
	uint8_t there;
	struct breakpoint b = {.addr = addr};
	memcpy(b.code, code, CODE_BYTES);
	int r = breakpoints_read(s, addr, &there, 1);
	if (!r && there != code[0])
		r = -EBUSY;
	r = r ? r : understand(s, &b);
	return r ? r : enter(s, &b, out);
}

int breakpoints_add(struct breakpoints *s, uint64_t addr, const uint8_t code[CODE_BYTES],
		    const struct use *use)
{
	struct breakpoint *b = breakpoints_find(s, addr);
	int r = b ? 0 : new_breakpoint(s, addr, code, &b);
	r = r ? r : add_use(s, b, use);
	return r ? r : make_live(s, b, true);
}

static void remove_uses(struct breakpoints *s, struct breakpoint *b, uint16_t proc)
{
	for (uint32_t *at = &b->first_use; *at;) {
		uint32_t i = *at;
		bool goes = proc == ENGINE_ALL_PROCS || s->use[i].proc == proc;
		if (!goes || s->use[i].kind == USE_LINKER) {
			at = &s->use[i].next;
			continue;
		}
		*at = s->use[i].next;
		s->use[i].next = s->free_use;
		s->free_use = i;
	}
}

void breakpoints_remove(struct breakpoints *s, uint16_t proc)
{
	for (size_t i = 0; i < s->n; i++) {
		remove_uses(s, &s->bp[i], proc);
		if (!s->bp[i].first_use)
			breakpoints_give_up(s, &s->bp[i]);
	}
}

size_t breakpoints_live(const struct breakpoints *s)
{
	return s->live;
}

/* Bring the child's byte to the parent's present state: the fork may have copied it before the
 * parent changed or restored it. */
static int copy_breakpoint(const struct breakpoints *from, const struct breakpoint *b,
			   struct breakpoints *to)
{
	struct breakpoint *c;
	int r = enter(to, b, &c);
	if (r)
		return r;
	c->live = false;
	c->first_use = 0;
	r = make_live(to, c, b->live);
	if (!b->live)
		breakpoints_give_up(to, c);
	for (const struct use *u = NULL; !r && (u = breakpoints_next_use(from, b, u));)
		if (u->kind == USE_LINKER)
			r = add_use(to, c, u);
	return r;
}

/* Restore all bytes of the child that `from` ever changed, and empty `to`. */
static void take_out(const struct breakpoints *from, struct breakpoints *to)
{
	for (size_t i = 0; i < from->n; i++)
		breakpoints_write(to, from->bp[i].addr, &from->bp[i].code[0], 1);
	for (size_t i = 0; i < to->n; i++)
		if (to->bp[i].live)
			forget_byte(to, &to->bp[i]);
	map_clear(&to->by_addr);
	to->n = to->live = 0;
	restore_entry(to);
}

/* The child has the page as it was when it was forked, which may be before there was one. */
static void copy_places(const struct breakpoints *from, struct breakpoints *to)
{
	if (from->page.addr)
		trap_page_open(&to->page, to->mem, from->page.addr, false);
	to->entry_changed = from->entry_changed;
	memcpy(to->entry_was, from->entry_was, sizeof(to->entry_was));
}

int breakpoints_fork(const struct breakpoints *s, pid_t child, struct breakpoints **out,
		     struct err *e)
{
	*out = NULL;
	int r = breakpoints_open(child, s->share, out, e);
	if (r)
		return r;
	copy_places(s, *out);
	for (size_t i = 0; !r && i < s->n; i++)
		r = copy_breakpoint(s, &s->bp[i], *out);
	if (!r)
		return 0;
	take_out(s, *out);
	return err_set(e, r, "cannot follow process %d: %s", child, strerror(-r));
}
