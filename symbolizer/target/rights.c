#define _GNU_SOURCE
#include "symbolizer/target/target_files.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"

enum { STATUS_MOST = 1 << 20, NOBODY = 65534 }; /* room for NGROUPS_MAX groups */

static const uint64_t of_files = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH;

static int parse_groups(const char *p, struct rights *out)
{
	size_t room = 0;
	for (char *end; *p >= '0' && *p <= '9'; p = end + strspn(end, " ")) {
		if (array_grow(&out->groups, &room, out->ngroups + 1, sizeof(gid_t)))
			return -ENOMEM;
		out->groups[out->ngroups++] = (gid_t)strtoul(p, &end, 10);
	}
	return *p == '\n' ? 0 : -EPROTO;
}

int rights_parse(const char *text, struct rights *out)
{
	const char *groups = process_line(text, "Groups"), *caps = process_line(text, "CapEff");
	uint32_t uid[4], gid[4];
	*out = (struct rights){0};
	if (!process_ids(text, "Uid", uid) || !process_ids(text, "Gid", gid) || !groups || !caps)
		return -EPROTO;
	out->uid = uid[3];
	out->gid = gid[3];
	out->caps = strtoull(caps, NULL, 16) & of_files;
	int r = parse_groups(groups, out);
	if (r)
		rights_free(out);
	return r;
}

static bool in_own_user_namespace(pid_t pid)
{
	char path[64];
	struct stat own, its;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return !stat("/proc/self/ns/user", &own) && !stat(path, &its) && own.st_ino == its.st_ino &&
	       own.st_dev == its.st_dev;
}

int rights_of(pid_t pid, struct rights *out)
{
	char *text = malloc(STATUS_MOST);
	*out = (struct rights){0};
	int r = !text ? -ENOMEM : process_file(pid, "status", text, STATUS_MOST) > 0 ? 0 : -ESRCH;
	r = r ? r : rights_parse(text, out);
	free(text);
	if (!r && out->caps && !in_own_user_namespace(pid))
		out->caps = 0;
	return r;
}

/* setfsuid(2): an impossible ID changes nothing, and the present one is returned. */
static uid_t own_uid(void)
{
	return (uid_t)syscall(SYS_setfsuid, -1);
}

void rights_of_anyone(struct rights *out)
{
	uid_t own = own_uid();
	*out = (struct rights){.uid = own ? own : NOBODY, .gid = NOBODY};
}

bool rights_are_high(const struct rights *r)
{
	return !r->uid || r->caps;
}

static bool has_group(const struct rights *r, gid_t group)
{
	bool found = r->gid == group;
	for (size_t i = 0; i < r->ngroups && !found; i++)
		found = r->groups[i] == group;
	return found;
}

bool rights_within(const struct rights *now, const struct rights *before)
{
	bool within = !before->uid || (now->uid == before->uid && has_group(before, now->gid));
	for (size_t i = 0; before->uid && i < now->ngroups && within; i++)
		within = has_group(before, now->groups[i]);
	return within && !(now->caps & ~before->caps);
}

void rights_free(struct rights *r)
{
	free(r->groups);
	*r = (struct rights){0};
}

struct caps {
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

static int caps_get(struct caps *c)
{
	*c = (struct caps){.head.version = _LINUX_CAPABILITY_VERSION_3};
	return syscall(SYS_capget, &c->head, c->data) ? -errno : 0;
}

/* Both capabilities have numbers below 32. */
static int leave_caps(uint64_t caps)
{
	struct caps c;
	int r = caps_get(&c);
	if (r)
		return r;
	c.data[0].effective = (uint32_t)caps & c.data[0].permitted;
	c.data[1].effective = 0;
	return syscall(SYS_capset, &c.head, c.data) ? -errno : 0;
}

static int rights_become(const struct rights *r)
{
	if (syscall(SYS_setgroups, r->ngroups, r->groups))
		return -errno;
	syscall(SYS_setfsgid, r->gid);
	syscall(SYS_setfsuid, r->uid);
	return (gid_t)syscall(SYS_setfsgid, -1) == r->gid && own_uid() == r->uid ? 0 : -EPERM;
}

struct use {
	const struct rights *rights;
	int (*fn)(void *arg);
	void *arg;
	int result;
};

static void *rights_thread_main(void *p)
{
	struct use *u = p;
	u->result = own_uid() == u->rights->uid ? 0 : rights_become(u->rights);
	if (!u->result)
		u->result = leave_caps(u->rights->caps);
	if (!u->result)
		u->result = u->fn(u->arg);
	return NULL;
}

/* In a thread that ends with the rights that it took (the system calls, unlike glibc's functions,
 * change one thread alone), so nothing needs to be given back. Besides, a change would clear the
 * caller's parent-death signal (prctl(2), PR_SET_PDEATHSIG). It makes the process not dumpable:
 * no harm, as only who has the right to trace it can then read its memory. */
static int use_in_thread(struct use *u)
{
	pthread_t thread;
	int r = thread_start(&thread, rights_thread_main, u);
	if (r)
		return r;
	pthread_join(thread, NULL);
	return u->result;
}

int rights_use(const struct rights *r, int (*fn)(void *arg), void *arg)
{
	struct use u = {r, fn, arg, 0};
	struct caps c;
	int code = caps_get(&c);
	if (code)
		return code;
	if (own_uid() == r->uid && !(c.data[0].effective & of_files & ~r->caps))
		return fn(arg);
	return use_in_thread(&u);
}

uint64_t caps_effective(const char *proc)
{
	char path[512], line[512];
	uint64_t mask = 0;
	snprintf(path, sizeof(path), "%s/self/status", proc);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			mask = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return mask;
}

bool caps_has(uint64_t mask, int cap)
{
	bool admin = cap == CAPS_BPF || cap == CAPS_PERFMON || cap == CAPS_CHECKPOINT_RESTORE;
	return mask & 1ULL << cap || (admin && mask & 1ULL << CAPS_SYS_ADMIN);
}

static const char *capability_name(int cap)
{
	switch (cap) {
	case CAPS_SYS_PTRACE:
		return "CAP_SYS_PTRACE";
	case CAPS_SYS_ADMIN:
		return "CAP_SYS_ADMIN";
	case CAPS_PERFMON:
		return "CAP_PERFMON";
	case CAPS_BPF:
		return "CAP_BPF";
	case CAPS_CHECKPOINT_RESTORE:
		return "CAP_CHECKPOINT_RESTORE";
	default:
		return "another capability";
	}
}

const char *caps_missing(uint64_t mask, const int *caps, size_t n, char *out, size_t size)
{
	size_t len = 0;
	*out = '\0';
	for (size_t i = 0; i < n && len < size; i++)
		if (!caps_has(mask, caps[i]))
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
						capability_name(caps[i]));
	return out;
}
