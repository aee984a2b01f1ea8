#define _GNU_SOURCE
#include "tracer/engine/bpf/links.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/bpf/internal.h"
#include "tracer/proc/spawn.h"

struct links {
	int sock;
	pid_t keeper;
};

/* A request on the socket; n offsets, n cookies and `path_len` bytes of path follow. n = 0: close
 * the owner's links. The answer is an int32_t, 0 or -errno. */
struct request {
	int32_t prog, pid;
	uint32_t n, path_len;
	uint16_t owner;
	bool waits; /* with n = 0: answer when they are closed */
};

struct link {
	struct link *next;
	int fd;
	uint16_t owner;
	bool threaded;
	pthread_t closer;
};

/* What the helper process has. */
struct kept {
	struct link *links, *closing;
};

static void *close_link(void *link)
{
	struct link *l = link;
	close(l->fd);
	return NULL;
}

/* Take the first link of that owner from a list; NULL: there is none. */
static struct link *take_link(struct link **list, uint16_t owner)
{
	while (*list && owner != ENGINE_ALL_PROCS && (*list)->owner != owner)
		list = &(*list)->next;
	struct link *l = *list;
	if (l)
		*list = l->next;
	return l;
}

/* Closing a link waits for an RCU grace period, tens of milliseconds or, on a busy machine,
 * seconds: each has a thread for it. */
static void drop(struct kept *k, uint16_t owner)
{
	for (struct link *l; (l = take_link(&k->links, owner));) {
		l->next = k->closing;
		k->closing = l;
		l->threaded = !pthread_create(&l->closer, NULL, close_link, l);
		if (!l->threaded)
			close_link(l);
	}
}

static void await_closed(struct kept *k, uint16_t owner)
{
	for (struct link *l; (l = take_link(&k->closing, owner)); free(l))
		if (l->threaded)
			pthread_join(l->closer, NULL);
}

static int links_attach(struct kept *k, const struct request *q, const char *payload)
{
	const uint64_t *offsets = (const uint64_t *)(const void *)payload;
	struct link *l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	await_closed(k, q->owner);
	int fd = uprobe_multi_link(q->prog, q->pid, payload + 2 * q->n * sizeof(*offsets), offsets,
				   offsets + q->n, q->n);
	if (fd < 0) {
		free(l);
		return fd;
	}
	*l = (struct link){.next = k->links, .fd = fd, .owner = q->owner};
	k->links = l;
	return 0;
}

static bool serve(int sock, struct kept *k)
{
	struct request q;
	if (!helper_receive(sock, &q, sizeof(q)))
		return false;
	size_t len = 2 * q.n * sizeof(uint64_t) + q.path_len;
	char *payload = malloc(len + 1);
	int32_t r = payload ? 0 : -ENOMEM;
	if (!payload || !helper_receive(sock, payload, len)) {
		free(payload);
		return false;
	}
	if (q.n)
		r = links_attach(k, &q, payload);
	else
		drop(k, q.owner);
	if (q.waits || q.owner == ENGINE_ALL_PROCS)
		await_closed(k, q.owner);
	free(payload);
	return helper_send(sock, &r, sizeof(r));
}

/* It ends when the end of ditrace closes the socket. */
static void links_serve(int sock, void *none)
{
	(void)none;
	struct kept kept = {0};
	helper_begin("ditrace-probes", sock);
	while (serve(sock, &kept))
		;
	drop(&kept, ENGINE_ALL_PROCS);
	await_closed(&kept, ENGINE_ALL_PROCS);
}

int links_open(struct links **out)
{
	struct links *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->keeper = helper_start(links_serve, NULL, &l->sock);
	if (l->keeper < 0) {
		int r = l->keeper;
		free(l);
		return r;
	}
	*out = l;
	return 0;
}

static int answer(struct links *l)
{
	int32_t r;
	return helper_answer(l->sock, l->keeper, &r, sizeof(r)) ? r : -ECHILD;
}

int links_add(struct links *l, const struct link_wanted *w)
{
	const struct request q = {
	    .prog = w->prog,
	    .pid = w->pid,
	    .n = w->n,
	    .path_len = (uint32_t)strlen(w->path) + 1,
	    .owner = w->owner,
	};
	if (!w->n)
		return -EINVAL;
	bool sent = helper_send(l->sock, &q, sizeof(q)) &&
		    helper_send(l->sock, w->offsets, w->n * sizeof(*w->offsets)) &&
		    helper_send(l->sock, w->cookies, w->n * sizeof(*w->cookies)) &&
		    helper_send(l->sock, w->path, q.path_len);
	return sent ? answer(l) : -ECHILD;
}

void links_drop(struct links *l, uint16_t owner)
{
	const struct request q = {.owner = owner};
	if (helper_send(l->sock, &q, sizeof(q)))
		answer(l);
}

void links_await(struct links *l, uint16_t owner)
{
	const struct request q = {.owner = owner, .waits = true};
	if (helper_send(l->sock, &q, sizeof(q)))
		answer(l);
}

bool links_alive(const struct links *l)
{
	char c;
	return recv(l->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

void links_close(struct links *l)
{
	if (!l)
		return;
	close(l->sock);
	kill(l->keeper, SIGCONT); /* somebody may have stopped it */
	while (waitpid(l->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	free(l);
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

int bpf_begin(uint64_t *ns_dev, uint64_t *ns_ino)
{
	struct stat ns;
	if (!getenv("DITRACE_LIBBPF_LOG"))
		libbpf_set_print(quiet);
	if (stat("/proc/self/ns/pid", &ns))
		return -errno;
	*ns_dev = ns.st_dev;
	*ns_ino = ns.st_ino;
	return 0;
}

/* union bpf_attr, link_create.uprobe_multi */
struct link_attr {
	__u32 prog_fd, target_fd, attach_type, flags;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 cnt, multi_flags, pid;
};

int uprobe_multi_link(int prog, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t n)
{
	enum { LINK_CREATE = 28 };
	struct link_attr a = {
	    .prog_fd = (__u32)prog,
	    .attach_type = BPF_ATTACH_UPROBE_MULTI,
	    .path = (uintptr_t)path,
	    .offsets = (uintptr_t)offsets,
	    .cookies = (uintptr_t)cookies,
	    .cnt = n,
	    .pid = (__u32)pid,
	};
	int fd = (int)syscall(SYS_bpf, LINK_CREATE, &a, sizeof(a));
	return fd < 0 ? -errno : fd;
}

enum { TRAP = 0xcc }; /* int3: a probe, of which others may have some here, too */

static bool is_changed(const uint8_t *file, const void *memory)
{
	const uint8_t *now = memory;
	for (unsigned i = 0; i < ARCH_JUMP_LEN; i++)
		if (now[i] != file[i] && now[i] != TRAP)
			return true;
	return false;
}

/* Compare the sites as this mapping of the file has them. `room`: two words for each. */
static int compare(pid_t pid, const struct mapping *m, struct elf_file *f,
		   const struct probe_file *file, uint64_t *room)
{
	const struct mem mem = mem_process(pid);
	uint64_t *addr = room, *word = room + file->nsites, at;
	size_t n = 0;
	for (size_t i = 0; i < file->nsites; i++) {
		uint64_t off = file->sites[i].offset;
		at = elf_address(f, off);
		if (off >= m->offset && off - m->offset < m->end - m->start && at &&
		    elf_bytes(f, at, sizeof(*word)))
			addr[n++] = off - m->offset + m->start;
	}
	int r = mem_read_words(&mem, addr, word, n);
	for (size_t i = 0; i < n && !r; i++) {
		at = elf_address(f, addr[i] - m->start + m->offset);
		r = is_changed(elf_bytes(f, at, sizeof(*word)), &word[i]) ? -EBUSY : 0;
	}
	return r;
}

static int compare_all(pid_t pid, struct elf_file *f, const struct probe_file *file, uint64_t *room)
{
	struct maps maps;
	struct stat st;
	int r = 0;
	if (stat(file->path, &st) || maps_read(pid, &maps, NULL))
		return 0;
	for (const struct mapping *m = NULL; !r && (m = maps_next_exec(&maps, m));)
		if (m->inode == st.st_ino)
			r = compare(pid, m, f, file, room);
	maps_free(&maps);
	return r;
}

int code_check(pid_t pid, const struct probe_file *file, struct err *e)
{
	struct elf_file *f;
	if (!file->nsites || elf_file_open(file->path, &f, NULL))
		return 0;
	uint64_t *room = malloc(2 * file->nsites * sizeof(*room));
	int r = room ? compare_all(pid, f, file, room) : -ENOMEM;
	free(room);
	elf_file_close(f);
	if (r != -EBUSY)
		return r == -ENOMEM ? err_set(e, r, "no memory") : 0;
	err_set(
	    e, r,
	    "the code of process %d is not that of its files: another tool has put jumps into it",
	    pid);
	return err_hint(
	    e,
	    "if that is a ditrace, end it; what a killed one has left is taken over by: "
	    "ditrace attach --engine shim %d",
	    pid);
}

/* Probes at the entries of ops, which are taken out and placed again in turns. */

/* Owners of these links: this, and the number of the process. */
enum { OWNER = 1 << 9 };

struct entries {
	struct entries *next;
	struct link_wanted wanted; /* points into `places` and to `path`, which is owned */
	char *path;
	uint64_t places[]; /* offsets, cookies */
};

static void free_one(struct entries *e)
{
	free(e->path);
	free(e);
}

int entries_add(struct entries **all, struct links *l, const struct link_wanted *w)
{
	const size_t size = w->n * sizeof(*w->offsets);
	struct entries *e = malloc(sizeof(*e) + 2 * size);
	char *path = strdup(w->path);
	if (!e || !path) {
		free(e);
		free(path);
		return -ENOMEM;
	}
	*e = (struct entries){.next = *all, .wanted = *w, .path = path};
	memcpy(e->places, w->offsets, size);
	memcpy(e->places + w->n, w->cookies, size);
	e->wanted.owner = OWNER | w->owner;
	e->wanted.path = path;
	e->wanted.offsets = e->places;
	e->wanted.cookies = e->places + w->n;
	const int r = links_add(l, &e->wanted);
	if (r)
		free_one(e);
	else
		*all = e;
	return r;
}

void entries_drop(struct entries **all, struct links *l, uint16_t proc)
{
	for (struct entries **at = all, *e; (e = *at);) {
		if (proc != ENGINE_ALL_PROCS && e->wanted.owner != (OWNER | proc)) {
			at = &e->next;
			continue;
		}
		if (l && proc != ENGINE_ALL_PROCS)
			links_drop(l, e->wanted.owner);
		*at = e->next;
		free_one(e);
	}
}

void entries_take_out(const struct entries *all, struct links *l)
{
	for (const struct entries *e = all; e; e = e->next)
		links_drop(l, e->wanted.owner);
	for (const struct entries *e = all; e; e = e->next)
		links_await(l, e->wanted.owner);
}

void entries_place(const struct entries *all, struct links *l)
{
	for (const struct entries *e = all; e; e = e->next)
		links_add(l, &e->wanted);
}
